"""Judge: a function of the user's decides whether two outcomes mean the same: ``package.module:function``.

A judge that asks a model does so with the user's own client. Its requests and the answers are recorded next to the dataset, so
the verdict can be repeated offline, years later; it asks for real only with consent.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cassette import Cassette, Mode
from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.keys import canonical_json, digest
from freezeframe_schemas.run import Entry

_PASSING: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Input of a judge. Texts are as recorded: redacted, and tagged JSON if the program's values are not text."""

    run: str
    input: str
    recorded: str
    """The recorded outcome."""
    candidate: str
    """The outcome now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judge's answer. A judge may also return a bool, or a score from 0 to 1 (0.5 and above passes)."""

    passed: bool
    score: float | None = None
    reason: str = ""


Judge = Callable[[Case], Any]


def load_judge(name: str) -> Judge:
    """Return the function that ``module:function`` names; modules in the working directory can be imported.

    Raises:
        ConfigError: no such module or function.
    """
    module_name, colon, function_name = name.partition(":")
    if not (colon and module_name and function_name):
        raise ConfigError(f"--judge: found {name!r}, expected module:function")
    root = str(Path.cwd().resolve())
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"--judge: {module_name} cannot be imported: {error}") from error
    for part in function_name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigError(f"--judge: {module_name} has no function {function_name}")
    return found


def ask_judge(judge: Judge, case: Case, *, records: Path, live: bool) -> Judgement:
    """Return the judgement of the case: from its recording if there is one.

    Args:
        judge: the function.
        case: the case to judge.
        records: folder for recordings of its calls, one folder per case.
        live: whether an unrecorded case may be judged for real.

    Raises:
        ReplayError: it calls a model without permission, or its return value is not a judgement.
    """
    name = digest(canonical_json([_name_of(judge), case.run, case.input, case.recorded, case.candidate]))[:16]
    directory = records / name
    recorded = (directory / "manifest.json").exists()
    try:
        if recorded or live:
            reply = Cassette(directory=directory, mode=Mode.ONCE, may_be_empty=True).play(judge, case)
        else:
            reply = _ask_unrecorded(judge, case)
    except AssertionError as error:
        raise ReplayError(
            f"judge {_name_of(judge)}: {str(error).splitlines()[0]}",
            do="let it ask for real with --judge-live; the answers are recorded for the next time",
        ) from error
    return _judgement(reply, _name_of(judge))


def _ask_unrecorded(judge: Judge, case: Case) -> Any:
    """Run the judge with every seam closed: one that makes no calls needs no recording."""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        nothing = Path(scratch) / "nothing-recorded-for-this-case"
        write_fixture(Fixture(run_id="0" * 32, entry=Entry(), steps=()), nothing)
        return Cassette(directory=nothing, may_be_empty=True).play(judge, case)


def _judgement(said: Any, name: str) -> Judgement:
    if isinstance(said, Judgement):
        return said
    if isinstance(said, bool):
        return Judgement(passed=said)
    if isinstance(said, int | float) and 0 <= said <= 1:
        return Judgement(passed=said >= _PASSING, score=float(said))
    raise ReplayError(f"judge {name}: returned {type(said).__name__}, expected a bool, a score from 0 to 1, or a Judgement")


def _name_of(judge: Judge) -> str:
    return f"{getattr(judge, '__module__', '')}:{getattr(judge, '__qualname__', '')}"
