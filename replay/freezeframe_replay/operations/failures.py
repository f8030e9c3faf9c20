"""Group similar failures of the store, each group with one of its runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.failures_text import failures_text
from freezeframe_replay.sources.failures import FailureGroup, list_failures


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailuresParameters:
    """Selection of failures."""

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
