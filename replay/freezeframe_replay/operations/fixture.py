"""Save a run as a fixture, and as a regression test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.writing import cannot_write, frozen, write_to
from freezeframe_replay.report.regression import Expect, regression_test, slug
from freezeframe_replay.report.render import counted
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.gaps import KEPT_ANSWER


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FixtureParameters:
    """The run, the target directory, and the kind of test."""

    run: str
    output: Path
    expect: Expect | None = None
    """The claim that the test checks; None to write no test."""
    command: Sequence[str] = ()
    """The program that the test starts in place of the recorded entry point."""
    force: bool = False
    """Overwrite a test that was edited."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFixture:
    run: str
    fixture: str
    """Its directory."""
    steps: int
    test: str | None
    warnings: Sequence[str] = ()


def write(source: RunSource, parameters: FixtureParameters) -> WrittenFixture:
    """Write the fixture and the test.

    Raises:
        RunError: the run has nothing to replay.
        FixtureError: the directory cannot be written.
        FreezeframeError: the run cannot be read.
    """
    fixture, cold = frozen(source.load(parameters.run))
    bare = write_to(parameters.output, fixture)
    try:
        test, kept = (None, ()) if parameters.expect is None else _write_test(parameters, parameters.expect, fixture)
    except OSError as error:
        raise cannot_write(parameters.output, error) from error
    return WrittenFixture(
        run=fixture.run_id,
        fixture=str(parameters.output),
        steps=len(fixture.steps),
        test=None if test is None else str(test),
        warnings=(*cold, *bare, *kept, *(_never_green(fixture) if parameters.expect is Expect.CHANGED else ())),
    )


def _never_green(fixture: Fixture) -> tuple[str, ...]:
    """Return the reason why the test of a fix can never pass."""
    return tuple(f"no replay of this run shows a fix, and its test fails: {gap}" for gap in fixture.gaps if KEPT_ANSWER in gap)


def _write_test(parameters: FixtureParameters, expect: Expect, fixture: Fixture) -> tuple[Path, tuple[str, ...]]:
    """Write the test next to the fixture; an edited one is kept, with a warning."""
    name = parameters.output.resolve().name
    path = parameters.output / f"test_{slug(name)}.py"
    text = regression_test(fixture, name, expect=expect, command=parameters.command or None)
    if path.exists() and path.read_text(encoding="utf-8") != text and not parameters.force:
        return path, (f"kept {path}: it differs from what would be written (--force overwrites it)",)
    path.write_text(text, encoding="utf-8")
    return path, ()


def _to_json(made: WrittenFixture) -> Mapping[str, Any]:
    return {name: getattr(made, name) for name in ("run", "fixture", "steps", "test")}


def _to_text(made: WrittenFixture, width: int) -> str:
    del width
    return f"wrote {made.fixture}: {counted(made.steps, 'step')} of run {made.run}"


FIXTURE: Final = Operation(name="fixture", parameters=FixtureParameters, compute=write, to_json=_to_json, to_text=_to_text)
