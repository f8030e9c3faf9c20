"""Where in the program a piece of work belongs: its run, its lane, and whether it is inside a recorded call.

Kept in one private `ContextVar`. Never in OTel baggage: baggage travels to every provider on the wire.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from freezeframe.context.draws import Draws
from freezeframe.context.sights import Sights
from freezeframe_schemas import exchange, genai, values

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_READINGS: Final = 10_000
"""Readings kept per feed; later ones are dropped."""


class Lane:
    """A task's or thread's place in the program: spawn ordinals from the entry point down.

    Ordinals are handed out in the parent, in program order, so they are the same whatever the scheduler does.
    """

    __slots__ = ("_lock", "_spawned", "apart", "path")

    def __init__(self, path: exchange.Lane = (), *, apart: bool = False) -> None:
        self.path = path
        self.apart = apart
        """True if a replay does not run the code here: the inside of a tool, the real network call."""
        self._spawned = 0
        self._lock = threading.Lock()

    def child(self) -> Lane:
        """Return the lane of the next task or thread that is started here."""
        with self._lock:
            ordinal = self._spawned
            self._spawned += 1
        return Lane((*self.path, ordinal), apart=self.apart)

    def aside(self) -> Lane:
        """Return a lane at the same place with separate ordinals.

        For work that a replay does not repeat (a connection's name look-up, the inside of a recorded tool): what it spawns must
        not shift the ordinals of what the replay does spawn.
        """
        return Lane(self.path, apart=True)


@dataclass(slots=True, kw_only=True, eq=False)
class RunContext:
    """The run in progress. All tasks and threads of the run share `flags`, `readings`, `unrecorded` and `span`.

    Not frozen, and without the types of what it begins with: one is made for each request to a server, and takes a fifth of the
    time.
    """

    name: str
    id: str | None = None
    user: str | None = None
    tenant: str | None = None
    session: str | None = None
    flags: dict[str, object] = field(default_factory=lambda: {})
    readings: dict[str, list[str]] = field(default_factory=lambda: {})
    """Feed -> its values, in order (see `genai.CLOCK_READINGS`)."""
    unrecorded: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Host -> the number of HTTP calls to it that were not recorded (see `genai.UNRECORDED_HTTP`)."""
    sights: Sights = field(default_factory=Sights)
    """What its unmarked code reached outside the process."""
    draws: Draws = field(default_factory=Draws)
    """What it drew from shared random generators."""
    is_implied: bool = False
    """It is a run only if a call is made in it: a request that an application answers. A marked run inside is its own."""
    tracers: set[str] = field(default_factory=lambda: set())
    """Other instrumentations that began spans in it."""
    begins: list[Callable[[RunContext], None]] = field(default_factory=lambda: [])
    """Called once, when the first call is about to be made, to report that the run has begun; empty from then on."""
    at_first_call: list[Callable[[], None]] = field(default_factory=lambda: [])
    """Called once after that."""
    span: Span | None = None
    payload: Any = None
    """The `EntryPayload` that is kept for its span, once it has begun."""

    def shared(self) -> dict[str, Any]:
        """Return the fields that a run inside this one shares with it."""
        shared = {"flags": self.flags, "readings": self.readings, "unrecorded": self.unrecorded}
        return {**shared, "sights": self.sights, "draws": self.draws}

    def calls(self) -> None:
        """Note that a call is about to be made."""
        with suppress(IndexError):  # another thread was first
            while self.begins:
                self.begins.pop()(self)
            while self.at_first_call:
                self.at_first_call.pop(0)()

    def note_reading(self, feed: str, value: str) -> list[str] | None:
        """Keep a feed's value; return the list that now ends with it, None if that is full."""
        row = self.readings.setdefault(feed, [])
        if len(row) >= MAX_READINGS:
            return None
        row.append(value)
        return row

    def note_flag(self, key: str, value: object, **details: str | None) -> None:
        """Keep the value of a feature flag, and put the conventions' event on the run's span.

        Args:
            key: the flag's key.
            value: what the run was given.
            **details: attribute name -> text, for example ``genai.FLAG_VARIANT``; None is left out.
        """
        self.flags[key] = value
        if self.span is not None:
            kept = {name: text for name, text in details.items() if text is not None}
            self.span.add_event(genai.FLAG_EVENT, {genai.FLAG_KEY: key, genai.FLAG_VALUE: values.encode(value), **kept})

    def join(self, session: str) -> None:
        """Note the conversation on the run's own span, after the run has begun."""
        if self.span is not None:
            self.span.set_attributes({genai.SESSION_ID: session, genai.CONVERSATION_ID: session})

    def is_joined(self) -> bool:
        """Return whether the conversation is known."""
        return self.session is not None or genai.SESSION_ID in (getattr(self.span, "attributes", None) or {})

    def attributes(self) -> Mapping[str, str]:
        """Return the attributes that every span of the run carries."""
        named = {
            genai.RUN_ID: self.id,
            genai.USER_ID: self.user,
            genai.TENANT: self.tenant,
            genai.SESSION_ID: self.session,
            genai.CONVERSATION_ID: self.session,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """What the context variable holds. It is never changed; a frozen one takes three times as long to make."""

    lane: Lane
    run: RunContext | None = None
    inside_call: bool = False
    """True inside a recorded tool or retriever: plain HTTP is recorded there, and a replay never gets there."""
    call_span_id: str = ""
    """Span id of that call, if it is recorded."""
    sending: bool = False
    """True while a seam makes the real request: if a transport sends it through another HTTP client, that is the same call."""

    @property
    def takes_run(self) -> bool:
        """Return whether a run that begins here is a separate one, not a part of another."""
        return self.run is None or self.run.is_implied


PLACE: Final[ContextVar[Place]] = ContextVar("freezeframe_place")

_PROCESS: Final = Place(lane=Lane())


class _Work(threading.local):
    """The work item that this thread runs: the place that it was given, and the lanes of the items that handed it on."""

    handed_over_by: tuple[Lane, ...] = ()
    place: Place | None = None


WORK: Final = _Work()


def current_place() -> Place:
    """Return the place of the running code; outside any run, that is the process itself.

    A work item may run in a context that was copied before the item was handed to its thread (LangChain's executors keep such
    copies). That context still holds the lane of the submitter, or of whoever submitted that one (a graph's node in a pool that
    calls its tools in a second pool); the thread's own place is the right one.
    """
    place = PLACE.get(_PROCESS)
    if WORK.place is not None and any(place.lane is lane for lane in WORK.handed_over_by):
        return WORK.place
    return place


def leave(token: Token[Place]) -> None:
    """Go back to the place before `token`; do nothing if that was in another context (a fixture, a generator's end)."""
    with suppress(ValueError):
        PLACE.reset(token)
