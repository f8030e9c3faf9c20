"""Runs a trial three times: without freezeframe, captured, and from its fixture with the provider gone; and compares.

*Captured byte-exact*: the application got what it gets without freezeframe, and each HTTP exchange on the spans has the request
bytes that reached the server and the response bytes that left it (of an abandoned stream, as much as the application took).
*Replayed equal*: spans -> run -> fixture on disk -> replay gives the application the same again, with no divergence, nothing
asked of the network and no tool called.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from answered_here import answering
from clients.client import Column, Trial, World
from clients.provider import Crossed, Provider

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import Run, build_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a trial."""

    not_captured: tuple[str, ...] = ()
    """Faults of the capture, one line each; empty if it is byte-exact."""
    not_replayed: tuple[str, ...] = ()
    seams: frozenset[str] = frozenset()
    """The recording seams."""

    def merged(self, other: Outcome) -> Outcome:
        """Return both as one."""
        return Outcome(
            not_captured=self.not_captured + other.not_captured,
            not_replayed=self.not_replayed + other.not_replayed,
            seams=self.seams | other.seams,
        )


_OF_THE_TRIAL: Final = frozenset(
    {GapKind.ENTRY_UNREACHABLE, GapKind.INPUT_OPAQUE, GapKind.INPUT_CHANGED, GapKind.OUTCOME_PARTLY, GapKind.TOOL_CHANGES}
)
"""The entry point and its input are made up for the trial, and its tools write down in it that they ran."""


def run_trial(trial: Trial, column: Column) -> Outcome:
    """Capture a trial, replay it, and compare."""
    with Provider(trial.script) as provider, _world(trial, provider) as world, own_loop():
        bare = finished(trial.use(world))
    with Provider(trial.script) as provider, _world(trial, provider) as world, capture() as captured, own_loop():
        live = finished(freezeframe.run(name=trial.name)(trial.use)(world))
    run = build_run(captured.spans)
    fixture = on_disk(freeze(run))
    # The world is what the entry point was given, and not part of the recording.
    fixture = replace(fixture, entry=replace(fixture.entry, input=None))
    faults = [] if bare == live else [f"{trial.name}: without us the application gets {bare!r:.600}, with us {live!r:.600}"]
    faults += [f"{trial.name}: {fault}" for fault in not_captured(run, provider.crossed, column)]
    faults += [f"{trial.name}: {gap}" for gap in run.gaps if gap.kind not in _OF_THE_TRIAL | trial.gaps]
    again = World(provider.port)
    again.server = world.server
    return Outcome(
        not_captured=tuple(faults),
        not_replayed=tuple(f"{trial.name}: {fault}" for fault in not_replayed(fixture, trial.use, again, live)),
        seams=frozenset(exchange.seam for exchange in run.exchanges),
    )


@contextmanager
def _world(trial: Trial, provider: Provider) -> Generator[World]:
    world = World(provider.port)
    if trial.server is None:
        yield world
        return
    with trial.server(world) as world.server:
        yield world


@contextmanager
def own_loop() -> Generator[None]:
    """Give the thread an event loop for once. Synchronous calls of some libraries leave open connections on the one they find.

    A replay runs in its own process otherwise, and has a new one.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def finished(result: Any) -> Any:
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def on_disk(fixture: Fixture) -> Fixture:
    with tempfile.TemporaryDirectory() as folder:
        write_fixture(fixture, Path(folder) / "fixture")
        return load_fixture(Path(folder) / "fixture")


def not_captured(run: Run, crossed: Sequence[Crossed], column: Column) -> list[str]:
    http = [exchange for exchange in run.exchanges if exchange.request.method and exchange.span_id not in run.enclosing]
    faults = [] if run.exchanges else ["nothing was recorded"]
    if len(http) != len(crossed):
        paths = [item.path for item in crossed]
        faults.append(f"{len(crossed)} requests were made {paths}, {len(http)} recorded {[item.name for item in http]}")
    for exchange, item in zip(http, crossed, strict=False):
        completion = exchange.response.completion
        # A reader that is cancelled while it waits for more has stopped reading too.
        early = completion is Completion.CLOSED_EARLY or (
            completion is Completion.BROKEN and column is Column.ABANDONED and "CancelledError" in (exchange.error or "")
        )
        body = exchange.response.body
        if exchange.request.body != item.request:
            faults.append(f"{exchange.name}: the request has other bytes")
        is_captured = item.sent.startswith(body) and (body or column is not Column.ABANDONED)
        if not (is_captured if early else body == item.sent):
            faults.append(f"{exchange.name}: {len(item.sent)} bytes were sent, {len(body)} recorded, {completion}")
        if exchange.response.status != item.status:
            faults.append(f"{exchange.name}: the status was {item.status}, {exchange.response.status} is recorded")
        if exchange.kind is not Kind.MODEL:
            faults.append(f"{exchange.name}: recorded as {exchange.kind}, not as a model call")
    if column is Column.TOOLS and not any(exchange.kind in (Kind.TOOL, Kind.MCP) for exchange in run.exchanges):
        faults.append("no tool call was recorded")
    return faults


def not_replayed(fixture: Fixture, use: Callable[[World], Any], world: World, live: Any) -> list[str]:
    session = ReplaySession(fixture)
    try:
        with answering(session), own_loop():
            again = finished(freezeframe.run(name=fixture.entry.name)(use)(world))
    except ReplayMiss as miss:
        return [f"missed: {miss}"]
    report = session.report()
    faults = [f"{found.kind.value}: {found.name} {found.path or ''}".strip() for found in report.divergences]
    faults += [] if again == live else [f"the application got {live!r:.600}, in the replay {again!r:.600}"]
    faults += [f"a tool was called: {effect}" for effect in world.effects]
    return faults
