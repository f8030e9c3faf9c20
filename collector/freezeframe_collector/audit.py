"""The audit: every span received is stored, a duplicate, set aside, lost to damage, or in the log; none is unaccounted for.

Counts live where the spans live. A log record carries the counts of its request, a segment adds up its records, and the
ledger adds up the segments that the store has. So the sum survives a kill -9: nothing is counted only in memory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Outcome of the spans of a request, of a segment, or of everything up to one."""

    received: int = 0
    duplicate: int = 0
    rejected: int = 0
    stored: int = 0
    lost: int = 0
    """Acked, and lost with a part of the log that the disk damaged."""
    damaged: int = 0
    """Segments that lost spans, or may have lost some."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            received=self.received + other.received,
            duplicate=self.duplicate + other.duplicate,
            rejected=self.rejected + other.rejected,
            stored=self.stored + other.stored,
            lost=self.lost + other.lost,
            damaged=self.damaged + other.damaged,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The books at one moment."""

    counts: Counts
    in_log: int

    @property
    def missing(self) -> int:
        """Return how many spans are unaccounted for; anything but 0 is our bug."""
        counts = self.counts
        return counts.received - counts.stored - counts.duplicate - counts.rejected - counts.lost - self.in_log

    @property
    def balanced(self) -> bool:
        """Return whether every acked span is where the books say, and none was lost to damage."""
        return not self.missing and not self.counts.lost and not self.counts.damaged
