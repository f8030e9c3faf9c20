"""Write a fixture of a run with one thing changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.writing import write_to
from freezeframe_schemas.errors import ConfigError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ForkParameters:
    """The run, the change, and the fixture's directory."""

    run: str
    edits: Sequence[Edit]
    output: Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    run: str
    forked_from: str
    fixture: str
    """Its directory."""
    edits: Sequence[str]
    at_commit: bool
    """True if a replay has to check another commit out."""
    warnings: Sequence[str] = ()


def write_fork(source: RunSource, parameters: ForkParameters) -> Forked:
    """Write the fork.

    Raises:
        ConfigError: nothing is changed, or no step is named.
        FixtureError: the change does not fit the run, or the directory cannot be written.
        FreezeframeError: the run cannot be read.
    """
    if not parameters.edits:
        raise ConfigError(
            "no change given; use --step N with --result, --response or --set, or --input, --flag, --clock, --commit"
        )
    if any(edit.target in _OF_A_STEP and edit.step is None for edit in parameters.edits):
        raise ConfigError("--step is required: the number of the step whose answer to change")
    made = fork(source.fixture(parameters.run), parameters.edits)
    return Forked(
        run=made.run_id,
        forked_from=made.forked_from,
        fixture=str(parameters.output),
        edits=made.edits,
        at_commit=any(edit.target is Target.COMMIT for edit in parameters.edits),
        warnings=write_to(parameters.output, made),
    )


_OF_A_STEP: Final = (Target.RESULT, Target.RESPONSE, Target.BODY)


def edit_at(target: Target, text: str, step: int | None = None) -> Edit:
    """Return the edit that ``PATH=JSON`` describes.

    Raises:
        ConfigError: the text has another form.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"found {text!r}, expected PATH=JSON")
    return Edit(target=target, step=step, path=path, value=json_of(value, path))


def json_of(text: str, where: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ConfigError: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(f"{where}: found {text[:80]!r}, expected JSON (text goes in double quotes)") from None


def _to_json(made: Forked) -> Mapping[str, Any]:
    names = ("run", "forked_from", "fixture", "edits")
    return {name: getattr(made, name) for name in names}


def _to_text(made: Forked, width: int) -> str:
    del width
    return "\n".join([f"wrote {made.fixture}: run {made.forked_from} with", *(f"  {edit}" for edit in made.edits)])


FORK: Final = Operation(name="fork", parameters=ForkParameters, compute=write_fork, to_json=_to_json, to_text=_to_text)
