"""The values that a batch found in one run, logged with the batch: sealed, so that no value in clear touches a disk."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

RunKey = tuple[str, str]
"""Tenant by the sender's token, empty without one, and trace id."""
_SIZE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Values that a batch found in a run, and the number known before. Each batch has one per run, even if empty."""

    tenant: str
    trace_id: str
    based_on: int
    """The batch's spans were redacted with this many of the run's first findings, plus this one."""
    sealed: bytes = b""
    """Values that are new to the run, if there are any: see `sealing`."""
    ended: bool = False
    """True if the run's entry span, or its root, has arrived and has ended."""
    waits: bool = False
    """True if a name in the cast cannot be judged before the whole run is known."""

    @property
    def run(self) -> RunKey:
        return self.tenant, self.trace_id


def found_to_json(found: Iterable[Found]) -> list[list[object]]:
    """Return the findings as JSON."""
    return [
        [item.tenant, item.trace_id, item.based_on, base64.b64encode(item.sealed).decode(), item.ended, item.waits]
        for item in found
    ]


def found_from_json(rows: Sequence[Sequence[Any]]) -> tuple[Found, ...]:
    """Return the findings of `found_to_json`."""
    return tuple(
        Found(tenant=tenant, trace_id=trace_id, based_on=based_on, sealed=base64.b64decode(sealed), ended=ended, waits=waits)
        for tenant, trace_id, based_on, sealed, ended, waits in rows
    )


def join_sealed(sealed: Iterable[bytes]) -> bytes:
    """Return several findings as one byte string."""
    return b"".join(len(item).to_bytes(_SIZE, "little") + item for item in sealed)


def split_sealed(joined: bytes) -> list[bytes]:
    """Return the findings of `join_sealed`."""
    found: list[bytes] = []
    at = 0
    while at < len(joined):
        size = int.from_bytes(joined[at : at + _SIZE], "little")
        found.append(joined[at + _SIZE : at + _SIZE + size])
        at += _SIZE + size
    return found


def ends_run(span: SpanRecord) -> bool:
    """Return whether the span (entry span or root) ends its run. A pending span only shows that the run began."""
    is_entry = not span.parent_span_id or genai.ENTRY_KIND in span.attributes
    return is_entry and genai.ENTRY_BEGUN not in span.attributes
