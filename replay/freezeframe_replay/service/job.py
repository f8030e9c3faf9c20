"""One replay of the service: its fixture, its findings so far, and the way to end it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Final

from freezeframe_replay.experiments.fork import Edit
from freezeframe_replay.web.replay import Replay
from freezeframe_schemas.fixture import Fixture


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """The tools whose own code a replay runs."""

    names: frozenset[str] = frozenset()
    changed: bool = False
    """True for each whose code changed since the recording, too."""

    def __bool__(self) -> bool:
        return bool(self.names) or self.changed


NO_TOOLS: Final = RunTools()


@dataclass(slots=True, kw_only=True)
class Job(Replay):
    """A replay that can be waited for, and ended."""

    origin: Fixture
    """The run itself, without a change."""
    edit: Edit | None = None
    runs_tools: RunTools = NO_TOOLS
    cancelled: threading.Event = field(default_factory=threading.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the job has changed; then another event takes its place."""
