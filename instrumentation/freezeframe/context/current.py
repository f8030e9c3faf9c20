"""The place of a piece of work in the program: its run, its lane, and whether it is inside a recorded call.

Kept in one private `ContextVar`. Never in OTel baggage: baggage travels to every provider on the wire.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from freezeframe.context.accesses import UnrecordedAccesses
from freezeframe.context.answers import Answers
from freezeframe.context.draws import Draws
from freezeframe_schemas import exchange, genai, values

if TYPE_CHECKING:
    from opentelemetry.trace import Span

MAX_READINGS: Final = 10_000
"""Readings kept per feed; later ones are dropped."""


class Lane:
    """A task's or thread's place in the program: spawn ordinals from the entry point down.

    Ordinals are handed out in the parent, in program order, so they are the same whatever the scheduler does.
    """

    __slots__ = ("_spawned", "apart", "path")

    def __init__(self, path: exchange.Lane = (), *, apart: bool = False) -> None:
        self.path = path
        self.apart = apart
        """True if a replay does not run the code here: the inside of a tool, the real network call."""
        self._spawned = count()

    def child(self) -> Lane:
        """Return the lane of the next task or thread that is started here."""
        lane = Lane((*self.path, next(self._spawned)))
        lane.apart = self.apart  # by keyword it would take half as long again
        return lane

    def aside(self) -> Lane:
        """Return a lane at the same place with separate ordinals.

        For work that a replay does not repeat (a connection's name look-up, the inside of a recorded tool): its
        tasks and threads must not shift the ordinals of those that the replay does spawn.
        """
        return Lane(self.path, apart=True)


_SHARED: Final[Mapping[str, Callable[[], Any]]] = {
    "flags": dict,
    "readings": dict,
    "unrecorded": partial(defaultdict[str, int], int),
    "accesses": UnrecordedAccesses,
    "answers": Answers,
    "draws": Draws,
}
"""Parts of a run that a nested run shares -> their factories."""
_PARTS: Final = {**_SHARED, "tracers": set, "begins": list, "at_first_call": list}


class RunContext:
    """The run in progress.

    All tasks and threads of the run share its parts, which are created on first use: every request to a server
    has a context, and most make no call.
    """

    name: str
    id: str | None
    session: str | None
    flags: dict[str, object]
    readings: dict[str, list[str]]
    """Feed -> its values, in order (see `genai.CLOCK_READINGS`)."""
    unrecorded: defaultdict[str, int]
    """Host -> the number of HTTP calls to it that were not recorded (see `genai.UNRECORDED_HTTP`)."""
    accesses: UnrecordedAccesses
    """Accesses of its unmarked code outside the process."""
    answers: Answers
    """Answers of its models, and answers kept from earlier runs."""
    draws: Draws
    """Its draws from shared random generators."""
    tracers: set[str]
    """Other instrumentations that began spans in it."""
    begins: list[Callable[[RunContext], None]]
    """Functions called once, before the first call, to report that the run has begun; empty from then on."""
    at_first_call: list[Callable[[], None]]
    """Called once after that."""
    user: str | None = None
    tenant: str | None = None
    span: Span | None = None
    payload: Any = None
    """The `EntryPayload` that is kept for its span, once it has begun."""

    def __init__(
        self, named: Callable[[], Mapping[str, str | None]] | None = None, /, *, is_implied: bool = False, **given: Any
    ) -> None:
        """Begin.

        Args:
            named: returns name, id and session, if they are not given.
            is_implied: it is a run only if a call is made in it: a request that an application answers. A marked run inside is
                its own.
            **given: fields.
        """
        self.is_implied = is_implied
        if named is None:
            given = {"id": None, "session": None, **given}
            vars(self).update(given)
        self.named = named or (lambda: given)

    def __getattr__(self, name: str) -> Any:
        own = vars(self)
        if name in _PARTS:
            return own.setdefault(name, _PARTS[name]())  # in one step: another thread may ask, too
        if name not in ("name", "id", "session") or "named" not in own:
            raise AttributeError(name)
        own.update(self.named())
        return own[name]

    def share(self, outer: RunContext) -> None:
        """Share the parts of the run around this one."""
        vars(self).update({name: getattr(outer, name) for name in _SHARED})

    @property
    def is_over(self) -> bool:
        """Return whether its span has ended."""
        return self.span is not None and not vars(self).get("begins") and not self.span.is_recording()

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
            value: the value that the run got.
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


MAX_INSIDE: Final = 200
"""Calls of databases, and reads of files, that are recorded inside one call of a tool."""


class Inside:
    """The inside of a recorded tool. What it asks of databases and files is recorded, up to a number of calls."""

    __slots__ = ("accesses", "left")

    def __init__(self) -> None:
        self.accesses: UnrecordedAccesses | None = None
        """Files that it wrote, of which the run knows nothing: a replay does not write them."""
        self.left = MAX_INSIDE
        """Number of calls that are still recorded."""


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """Value of the context variable. It is never changed; a frozen one takes three times as long to make."""

    lane: Lane
    run: RunContext | None = None
    inside_call: bool = False
    """True inside a recorded call: plain HTTP is recorded there, and a replay gets there only in a tool that it runs anew."""
    inside: Inside | None = None
    """Set inside a tool or retriever that is recorded."""
    call_span_id: str = ""
    """Span id of that call, if it is recorded."""
    run_anew: bool = False
    """True inside a tool whose code a replay runs: its calls are answered, too. `call_span_id` is then the recorded call's."""
    sending: bool = False
    """True while a seam makes the real request: if a transport sends it through another HTTP client, that is the same call."""

    def to_send(self) -> Place:
        """Return the place of the real call. Built by hand: `dataclasses.replace` takes three times as long."""
        return Place(
            lane=self.lane.aside(), run=self.run, inside_call=self.inside_call, call_span_id=self.call_span_id, sending=True
        )

    def aside(self) -> Place:
        """Return the place of work that is neither recorded nor, in a replay, answered."""
        return Place(lane=self.lane.aside(), run=self.run, inside_call=True, call_span_id=self.call_span_id)

    @property
    def is_followed(self) -> bool:
        """Return whether calls made here are recorded, or answered in a replay, one by one: not those inside another call."""
        return not self.inside_call or self.run_anew or (self.inside is not None and self.inside.left > 0)

    @property
    def is_real(self) -> bool:
        """Return whether the code here works for real in a replay: no call of it is answered, and no fence stops it."""
        return self.inside_call and not self.run_anew

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
    try:  # noqa: SIM105 - `suppress` takes five times as long, and this runs in each request
        PLACE.reset(token)
    except ValueError:
        pass
