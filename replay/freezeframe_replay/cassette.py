"""Cassette: a function's run, recorded once and played back from then on, in the test's process. For VCR users.

Tools and model calls of the function are answered from the recording. Unlike `reenact`, it starts no process, fences no socket
and does not change the clock: the test has its own assertions.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas.errors import FixtureError, ReplayMiss
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.keys import canonical_json, digest
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

_T = TypeVar("_T")


class Mode(StrEnum):
    """When a run is recorded; VCR's record modes."""

    NONE = "none"
    """Never: a missing recording is an error."""
    ONCE = "once"
    """Record if no recording exists yet."""
    AUTO = "auto"
    """Record if no recording exists yet, and again if the code makes a request that is not in it."""
    LIVE = "live"
    """Never, and nothing is played back: the function runs for real."""


class _NotHeld(AssertionError):
    """The function made a request that is not in the recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """A recording that may not exist yet, and the mode for making it."""

    directory: Path
    mode: Mode = Mode.NONE
    ignore: tuple[str, ...] = ()
    """Components of the request key to ignore, for example ``body.temperature``."""
    redact: str | None = None
    """Name of the policy that redacts a recording before it is written; None writes it as recorded."""

    may_be_empty: bool = False
    """True if a function may make no calls: a judge may need none, but a test without any proves nothing."""

    def play(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns, its calls answered from the recording, or recorded, depending on the mode.

        A coroutine function is run to its end; inside a running event loop the result is a coroutine to await.

        Raises:
            FixtureError: no recording exists, and the mode does not record one.
            AssertionError: the function makes a request that is not in the recording.
        """
        if inspect.iscoroutinefunction(function) and asyncio._get_running_loop() is not None:
            return self._play_async(function, *args, **kwargs)
        *first, last = self._tapes()
        for tape in first:
            with contextlib.suppress(_NotHeld), tape:
                return _finish(self._marked(function)(*args, **kwargs))
        with last:
            return _finish(self._marked(function)(*args, **kwargs))

    async def _play_async(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        *first, last = self._tapes()
        for tape in first:
            with contextlib.suppress(_NotHeld), tape:
                return await self._marked(function)(*args, **kwargs)
        with last:
            return await self._marked(function)(*args, **kwargs)

    def _marked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import freezeframe

        return function if self.mode is Mode.LIVE else freezeframe.run(function)

    def _tapes(self) -> list[AbstractContextManager[None]]:
        """Return the contexts to run the function in; each is used only if the one before does not fit."""
        if self.mode is Mode.LIVE:
            return [contextlib.nullcontext()]
        if not (self.directory / "manifest.json").exists():
            if self.mode is Mode.NONE:
                raise FixtureError(f"{self.directory}: nothing recorded yet", do="record it once: pytest --freezeframe=once")
            return [self._recording()]
        again = [self._recording()] if self.mode is Mode.AUTO else []
        return [self._replaying(load_fixture(self.directory)), *again]

    @contextlib.contextmanager
    def _recording(self) -> Generator[None]:
        from freezeframe._instrument import active_handle
        from freezeframe.testing import capture

        running = active_handle()
        if running is not None:  # the code under test calls instrument(): in a test it has nowhere to send
            running.uninstrument()
        with capture() as seen:
            try:
                yield
            finally:
                spans = seen.spans if self.redact is None else _redacted(seen.spans, self.redact)
                fixture = freeze(build_run(spans))
                name = digest(canonical_json([step.key for step in fixture.steps]))
                if fixture.askable:
                    write_fixture(replace(fixture, run_id=name), self.directory)
        if not fixture.askable and not self.may_be_empty:
            raise self._holds_nothing()

    def _holds_nothing(self) -> FixtureError:
        return FixtureError(
            f"{self.directory}: the function made no captured call, so playing it would prove nothing",
            do="see which clients are captured with `freezeframe doctor`, or test the function without a cassette",
        )

    @contextlib.contextmanager
    def _replaying(self, fixture: Fixture) -> Generator[None]:
        from freezeframe import seams
        from freezeframe._instrument import active_handle

        if not fixture.askable and not self.may_be_empty:
            raise self._holds_nothing()
        session = ReplaySession(fixture, policy=ReplayPolicy(ignore=self.ignore))
        seams.serve(session)
        try:
            yield
        except (ReplayMiss, BaseExceptionGroup) as error:
            if isinstance(error, BaseExceptionGroup) and error.subgroup(ReplayMiss) is None:
                raise
        else:
            if not any(call.how == "missed" for call in session.report().made):  # a miss may have been swallowed
                return
        finally:
            seams.stop_serving()
            if active_handle() is None:
                seams.uninstall()
        raise _NotHeld(f"the code asks something that {self.directory} does not hold\n\n{report_text(session.report())}")


def _redacted(spans: Sequence[SpanRecord], policy: str) -> list[SpanRecord]:
    """Return the spans redacted as by a collector with the policy, under a temporary key."""
    from freezeframe_redaction import Redactor, TenantKey, load_policy

    redactor = Redactor(load_policy(policy), TenantKey(id="cassette", secret=os.urandom(32)))
    return [redactor.redact_span(span) for span in spans]


def _finish(result: Any) -> Any:
    return asyncio.run(_await(result)) if inspect.isawaitable(result) else result


async def _await(awaitable: Any) -> Any:
    return await awaitable
