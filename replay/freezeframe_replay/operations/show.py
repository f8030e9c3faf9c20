"""Outline a run or a fixture: its tree, its replay kit, and how far it can be re-enacted."""

from __future__ import annotations

import dataclasses
from typing import Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.failure import failure_lines, find_failure
from freezeframe_replay.report.outline import Outline, outline_fixture, outline_run
from freezeframe_replay.report.render import outline_text
from freezeframe_schemas.fixture import Fixture


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShowParameters:
    """Selection of a run."""

    run: str
    full: bool = False
    """True to include requests and responses of every step."""


def show(source: RunSource, parameters: ShowParameters) -> Outline:
    """Return the outline.

    Raises:
        FreezeframeError: the run cannot be read.
    """
    found = source.load(parameters.run)
    if isinstance(found, Fixture):
        return outline_fixture(found, full=parameters.full)
    outline = with_scores(outline_run(found, full=parameters.full), source, parameters.run)
    failure = find_failure(found, outline)
    return outline if failure is None else dataclasses.replace(outline, failure=tuple(failure_lines(failure)))


def with_scores(outline: Outline, source: RunSource, name: str) -> Outline:
    """Return the outline of the run of that name with its scores, if it is in a store.

    Raises:
        StoreError: the store does not answer.
    """
    if not source.is_stored(name):
        return outline
    return dataclasses.replace(outline, scores=tuple(source.use(lambda store: store.scores(outline.run_id))))


SHOW: Final = Operation(
    name="show",
    parameters=ShowParameters,
    compute=show,
    to_json=dataclasses.asdict,
    to_text=lambda outline, width: outline_text(outline, width=width),
)
