"""Group similar failures of the store, each group with one of its runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.render import ID_DIGITS, WIDE, moment, short, table_text
from freezeframe_replay.sources.failures import FailureGroup, list_failures


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailuresParameters:
    limit: int = 20
    """Maximum number of groups, those of most runs first."""
    since: dt.datetime | None = None
    where: str = ""
    """A condition in SQL over the view ``errors``."""


def failures(source: RunSource, parameters: FailuresParameters) -> Sequence[FailureGroup]:
    """Return the groups.

    Raises:
        StoreError: the store does not answer, or refuses the condition.
    """
    return source.use(
        lambda store: list_failures(store, limit=parameters.limit, since=parameters.since, where=parameters.where)
    )


def _to_json(groups: Sequence[FailureGroup]) -> Any:
    return [dataclasses.asdict(group) for group in groups]


FAILURES: Final = Operation(
    name="failures",
    parameters=FailuresParameters,
    compute=failures,
    to_json=_to_json,
    to_text=lambda groups, width: failures_text(groups, {}, width=width),
)


# -- Groups of failures as a table. Pure -------------------------------------------------------------------------------


_FEW_DIGITS: Final = 8
"""Digits of a run's id that suffice to name it."""


def failures_text(groups: Sequence[FailureGroup], verdicts: Mapping[str, str], *, width: int) -> str:
    """Return the groups as a table; with verdicts, each with the findings of its newest run's replay."""
    if not groups:
        return "no failures"
    if width < WIDE:
        return _narrow(groups, verdicts, width)
    header = ["runs", "last", "what", "error", "message", "where", "newest", *(["replay"] if verdicts else [])]
    rows = [
        [
            str(group.runs),
            moment(group.last),
            what(group),
            group.type,
            group.message,
            group.frame,
            group.newest[:ID_DIGITS],
            *([verdicts[group.newest]] if verdicts else []),
        ]
        for group in groups
    ]
    cut = [header.index(name) for name in ("message", "where", "replay", "error", "what") if name in header]
    return table_text(header, rows, right=(0,), cell_width=60, cut=cut, width=width)


def what(group: FailureGroup) -> str:
    """Return ``answer`` for runs of an entry point that failed, ``tool price, handled`` for calls after which runs went on."""
    return f"{group.kind} {group.subject}, handled" if group.handled else group.subject


def _narrow(groups: Sequence[FailureGroup], verdicts: Mapping[str, str], width: int) -> str:
    """Return the table for a terminal of 80 columns; stderr has the reasons why runs could not be replayed."""
    rows = [
        [
            str(group.runs),
            verdicts[group.newest].partition(":")[0] if verdicts else moment(group.last)[5:16],
            short(what(group), 12),
            short(re.split("[.:]", group.type)[-1], 15),
            group.newest[:_FEW_DIGITS],
            group.message,
        ]
        for group in groups
    ]
    header = ["runs", "replay" if verdicts else "last", "what", "error", "newest", "message"]
    return table_text(header, rows, right=(0,), cell_width=60, cut=(5,), width=width)
