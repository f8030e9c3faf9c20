"""Cassette: a function's run, recorded once and played from then on, in the process of the test. For who comes from VCR.

Tools and model calls of the function are answered from the recording. Unlike `reenact` it starts no process, fences no socket
and moves no clock: the test's own assertions say what should hold.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from freezeframe_replay.freeze import freeze
from freezeframe_replay.policy import Policy
from freezeframe_replay.render import report_text
from freezeframe_replay.session import ReplaySession
from freezeframe_schemas.errors import FixtureError, ReplayMiss
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.keys import canonical_json, digest
from freezeframe_schemas.run import build_run

_T = TypeVar("_T")


class Mode(StrEnum):
    """When a run is recorded; VCR's record modes."""

    NONE = "none"
    """Never: a missing recording is an error."""
    ONCE = "once"
    """Where there is no recording yet."""
    AUTO = "auto"
    """Where there is none yet, and anew where the code asks something that the recording does not hold."""
    LIVE = "live"
    """Never, and nothing is played either: the function runs for real."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """A recording that may not exist yet, and when it is made."""

    directory: Path
    mode: Mode = Mode.NONE
    ignore: tuple[str, ...] = ()
    """Components of the request key that do not decide, for example ``body.temperature``."""

    def play(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns, its calls answered from the recording, or recorded, as the mode says.

        A coroutine function is run to its end.

        Raises:
            FixtureError: there is no recording, and the mode makes none.
            AssertionError: the function asks something that the recording does not hold.
        """
        if self.mode is Mode.LIVE:
            return _finish(function(*args, **kwargs))
        if not (self.directory / "manifest.json").exists():
            if self.mode is Mode.NONE:
                raise FixtureError(f"{self.directory}: nothing recorded yet", do="record it once: pytest --freezeframe=once")
            return self._record(function, *args, **kwargs)
        try:
            return self._replay(load_fixture(self.directory), function, *args, **kwargs)
        except AssertionError:
            if self.mode is not Mode.AUTO:
                raise
        return self._record(function, *args, **kwargs)

    def _record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        import freezeframe
        from freezeframe._instrument import active_handle
        from freezeframe.testing import capture

        running = active_handle()
        if running is not None:  # the code under test calls instrument(): in a test it has nowhere to send to
            running.uninstrument()
        with capture() as seen:
            try:
                return _finish(freezeframe.run(function)(*args, **kwargs))
            finally:
                fixture = freeze(build_run(seen.spans))
                name = digest(canonical_json([step.key for step in fixture.steps]))
                write_fixture(replace(fixture, run_id=name), self.directory)

    def _replay(self, fixture: Fixture, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        import freezeframe
        from freezeframe import seams
        from freezeframe._instrument import active_handle

        session = ReplaySession(fixture, policy=Policy(ignore=self.ignore))
        seams.serve(session)
        try:
            return _finish(freezeframe.run(function)(*args, **kwargs))
        except ReplayMiss:
            message = f"the code asks what {self.directory} does not hold\n\n{report_text(session.report())}"
        finally:
            seams.stop_serving()
            if active_handle() is None:
                seams.uninstall()
        raise AssertionError(message)


def _finish(result: Any) -> Any:
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result


async def _await(awaitable: Any) -> Any:
    return await awaitable
