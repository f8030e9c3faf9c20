"""One replay of the service: what is replayed, what it found so far, and how to end it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from freezeframe_replay.experiments.fork import Edit
from freezeframe_replay.web.replay import Replay
from freezeframe_schemas.fixture import Fixture


@dataclass(slots=True, kw_only=True)
class Job(Replay):
    """A replay that can be waited for, and ended."""

    origin: Fixture
    """The run itself, without a change."""
    edit: Edit | None = None
    runs_changed: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something of this has changed; then another one takes its place."""
