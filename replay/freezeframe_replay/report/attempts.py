"""Attempts of one call: requests that a client sent again after an answer that it could not use. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from freezeframe_schemas.exchange import Completion, Exchange

_TRIED_AGAIN: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which clients send a request again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One of several attempts."""

    number: int
    """From 1."""
    of: int
    before: str
    """Span id of the attempt before it; empty for the first."""

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.of}"


def attempts_of(calls: Iterable[tuple[Exchange, int]]) -> Mapping[str, Attempt]:
    """Return span id -> attempt, of calls that were made more than once.

    Args:
        calls: in their order, each with how often its client says that it was sent before: ``(exchange, 1)``. Where a client
            says nothing, an equal request in the same task or thread, right after one that failed, is another attempt.
    """
    found: dict[str, Attempt] = {}
    open_ones: dict[object, list[tuple[Exchange, int]]] = {}
    for exchange, sent_before in calls:
        if not exchange.request.method:
            continue
        place = (exchange.lane, exchange.request.url)
        row = open_ones.get(place, [])
        if row and (sent_before or _is_repeated(row[-1][0], exchange)):
            row.append((exchange, max(sent_before, row[-1][1]) + 1))
            numbered = enumerate(row)
            found |= {
                item.span_id: Attempt(number=number, of=row[-1][1], before=row[at - 1][0].span_id if at else "")
                for at, (item, number) in numbered
            }
        else:
            open_ones[place] = [(exchange, 1)]
    return found


def _is_repeated(one: Exchange, other: Exchange) -> bool:
    status = one.response.status
    failed = one.error is not None or one.response.completion in (Completion.BROKEN, Completion.NONE)
    is_tried_again = failed or (status is not None and (status >= 500 or status in _TRIED_AGAIN))
    return is_tried_again and one.request.method == other.request.method and one.request.body == other.request.body
