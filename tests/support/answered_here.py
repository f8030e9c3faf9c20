"""A replay in the test's own process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import freezeframe
from freezeframe import seams
from freezeframe.seams import serve, stop_serving
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run


@contextlib.contextmanager
def answering(session: ReplaySession, **how: Any) -> Generator[None]:
    """Answer this process's calls from the session; `how` is what `serve` takes."""
    serve(session, **how)
    try:
        yield
    finally:
        stop_serving()
        seams.uninstall()


def record(agent: Callable[[], Any]) -> tuple[Fixture, Any]:
    """Return the fixture of a run of the agent, and what came out."""
    with capture() as captured:
        outcome = freezeframe.run(name="agent")(agent)()
        return freeze(build_run(captured.spans)), outcome


def replay(agent: Callable[[], Any], session: ReplaySession, **how: Any) -> tuple[Report, Any]:
    """Run the agent again, answered by the session; what comes out is None if it asked for what is not there."""
    outcome: Any = None
    with answering(session, **how), contextlib.suppress(ReplayMiss, BaseExceptionGroup):  # a task group wraps the miss
        outcome = freezeframe.run(name="agent")(agent)()
    return session.report(), outcome
