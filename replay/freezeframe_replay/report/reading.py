"""Views of a run, computed once for all pages: its outline, its transcript, its scores, and the costs of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from freezeframe_replay.report.outline import Outline, outline_run
from freezeframe_replay.report.transcript import Transcript, make_transcript
from freezeframe_replay.sources.scores import RunScore
from freezeframe_schemas.run import Run


class Reading:
    """A run with its outline and its transcript, each made on first use."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.costs: Mapping[str, float | None] | None = None
        """Span id -> US dollars, None for a call with an unknown cost; None until the store was queried."""
        self.scores: Sequence[RunScore] | None = None
        """Scores as the store had them; None until it was queried."""

    @cached_property
    def outline(self) -> Outline:
        """Return the run's outline, without bodies."""
        return outline_run(self.run)

    @cached_property
    def transcript(self) -> Transcript:
        """Return the run's transcript."""
        return make_transcript(self.run, self.outline)


class LastReading:
    """The reading of the last viewed run: for a run of 10,000 steps it takes most of a second."""

    def __init__(self) -> None:
        self._last: Reading | None = None

    def of(self, run: Run) -> Reading:
        """Return the kept reading if it is of this very object, else a new one."""
        last = self._last
        if last is None or last.run is not run:
            self._last = last = Reading(run)
        return last
