"""One call of a function at a seam: a tool, a retriever, an MCP request; sync or async, answering once or yielding.

Adapters describe the call; this module carries it out. While a replay is served, the function itself is never called.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType, MappingProxyType
from typing import Any, Final, Self, TypeVar

from freezeframe._drive import Watcher
from freezeframe._guard import guard
from freezeframe.context.accesses import UnrecordedAccess, UnrecordedAccesses, shown_path
from freezeframe.context.current import PLACE, current_place, leave
from freezeframe.seams.functions.code_digest import code_of
from freezeframe.seams.functions.given import Changes, held_functions, watch_held
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.body import Body
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.recording import EXCHANGE_SEQUENCE, Recorder, Recording, lane_of_call
from freezeframe.seams.recorder.responder import Call, Responder
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response
from freezeframe_schemas.gaps import NOT_WHOLE, GapKind
from freezeframe_schemas.rebuilding import is_plain, lost_in_rebuilding, lost_of_exception

_T = TypeVar("_T")

_COUNTED: Final = frozenset({Kind.DATABASE, Kind.FILE})
"""Maximum number of these that are recorded inside a tool."""
_MAX_LOOKS: Final = 20
"""Results of one function in a run that are checked for whether they can be rebuilt. Plain data needs no check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """An adapter's description of a call before it happens."""

    kind: Kind
    name: str
    seam: str
    body: str
    """The arguments as tagged JSON."""
    call_id: str | None = None
    functions: tuple[FunctionType, ...] = ()
    """The application's functions that answer the call."""
    holder: type | None = None
    """The class of a method's object."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Attributes of its span that are not part of the call itself."""
    changed: Changes | None = None
    """Reports, after the call, effects that a replay lacks because it does not run the function."""

    @classmethod
    def of(
        cls,
        kind: Kind,
        seam: str,
        name: object,
        *args: object,
        kwargs: Mapping[str, Any],
        call_id: object = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """Return a call with these arguments and settings. An id that is not text is dropped."""
        arguments = {"args": list(args), "kwargs": dict(kwargs)}
        body = values.encode({**arguments, "settings": dict(settings)} if settings else arguments)
        return cls(kind=kind, seam=seam, name=str(name), body=body, call_id=call_id if isinstance(call_id, str) else None)

    def by(self, tool: Any, *names: str, functions: Iterable[Any] = (), context: object = None) -> Self:
        """Return the call, with the effects of the application's functions in a framework's tool (`given.watch_held`)."""
        with guard("functions.held"):
            held = held_functions(tool, names, functions)
            owner = next((owner for _, owner in held if owner is not None), None)
            kind = None if owner is None else type(owner)
            known = replace(self, functions=tuple(function for function, _ in held), holder=kind)
            if switch.recorder() is None:
                return known
            return replace(known, changed=watch_held(held, context))
        return self


Describe = Callable[[], FunctionCall]
DescribeMethod = Callable[[Any, tuple[Any, ...], dict[str, Any]], FunctionCall]
"""For a method: its object and its arguments."""
Dump = Callable[[Any], str]
Load = Callable[[str], Any]


def is_on() -> bool:
    """Return whether a seam has anything to do."""
    return switch.serving() is not None or switch.recorder() is not None


def run(describe: Describe, invoke: Callable[[], _T], *, dump: Dump = values.encode, load: Load = values.decode) -> _T:
    """Return the call's result: from the recording in a replay, else from `invoke`."""
    if not is_on():
        return invoke()
    responder = switch.serving()
    if responder is not None:
        call = _call_of(describe())
        answer = switch.respond(responder, call)
        if answer is not None and responder.runs(answer):
            anew = RunAnew(responder, answer, call)
            try:
                with anew.inside():
                    result = invoke()
            except BaseException as error:
                anew.raised(error)
                raise
            anew.returned(dump(result))
            responder.turn_in_thread(answer)
            return result
        if answer is not None:
            if switch.is_real_time():
                time.sleep(switch.time_to_take_s(answer))
            responder.turn_in_thread(answer)
            return load(_result(answer))
    recording = _start(describe)
    if recording is None:
        with _unrecorded():
            return invoke()
    try:
        with recording.inside():
            result = invoke()
    except BaseException as error:
        recording.finish(Completion.NONE, error)
        raise
    _succeed(recording, result, dump)
    return result


async def run_async(
    describe: Describe, invoke: Callable[[], Awaitable[_T]], *, dump: Dump = values.encode, load: Load = values.decode
) -> _T:
    """Like `run`, for an awaited call."""
    if not is_on():
        return await invoke()
    responder = switch.serving()
    if responder is not None:
        call = _call_of(describe())
        answer = switch.respond(responder, call)
        if answer is not None and responder.runs(answer):
            anew = RunAnew(responder, answer, call)
            try:
                with anew.inside():
                    result = await invoke()
            except BaseException as error:
                anew.raised(error)
                raise
            anew.returned(dump(result))
            await switch.take_turn(responder, answer)
            return result
        if answer is not None:
            await switch.take_turn(responder, answer)
            return load(_result(answer))
    recording = _start(describe)
    if recording is None:
        with _unrecorded():
            return await invoke()
    try:
        with recording.inside():
            result = await invoke()
    except BaseException as error:
        recording.finish(Completion.NONE, error)
        raise
    _succeed(recording, result, dump)
    return result


def begin(
    describe: Describe, invoke: Callable[[], object], started: Callable[[Recording], None] = lambda _: None
) -> Recording | None:
    """Make a call whose result the program takes bit by bit. The caller ends the recording; it is None if nothing records."""
    recording = _start(describe)
    if recording is None:
        with _unrecorded():
            invoke()
        return None
    started(recording)
    try:
        with recording.inside():
            invoke()
    except BaseException as error:
        recording.finish(Completion.NONE, error)
        raise
    return recording


def begin_generator(
    describe: Describe, invoke: Callable[[], Generator[Any, Any, Any]]
) -> tuple[Generator[Any, Any, Any], Watcher]:
    """Return the generator of the call, and the watcher for it.

    Its items are the chunks of the response, ``{"yields": [...], "return": ...}`` in all.
    """
    responder = switch.serving()
    if responder is not None:
        call = _call_of(describe())
        answer = _recorded(responder, call)
        if responder.runs(answer):
            return invoke(), ItemsAnew(RunAnew(responder, answer, call))
        responder.turn_in_thread(answer)
        return _replay(answer), UNWATCHED
    recording = _start(describe)
    return invoke(), UNWATCHED if recording is None else _Items(recording)


def begin_async_generator(
    describe: Describe, invoke: Callable[[], AsyncGenerator[Any, Any]]
) -> tuple[AsyncGenerator[Any, Any], Watcher]:
    """Like `begin_generator`, for an asynchronous generator."""
    responder = switch.serving()
    if responder is not None:
        call = _call_of(describe())
        answer = _recorded(responder, call)
        if responder.runs(answer):
            return invoke(), ItemsAnew(RunAnew(responder, answer, call))
        return _replay_async(responder, answer), UNWATCHED
    recording = _start(describe)
    return invoke(), UNWATCHED if recording is None else _Items(recording)


class _Unwatched:
    """Watches a generator that is not recorded."""

    def inside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def add(self, item: object) -> None:
        """Do nothing: no one needs it."""

    def sent(self) -> None:
        """Do nothing: no one needs it."""

    def end(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        """Do nothing: no one needs it."""


UNWATCHED: Final = _Unwatched()


class _Items:
    """Writes yielded items as pieces of one JSON text, so that each keeps its time."""

    __slots__ = ("_first", "_recording")

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._first = True

    def inside(self) -> AbstractContextManager[None]:
        return self._recording.inside()

    def add(self, item: object) -> None:
        with guard("calls.item"):
            self._recording.chunk((self._lead() + values.encode(item)).encode())

    def sent(self) -> None:
        with guard("calls.sent"):
            if self._recording.losses is not None:
                self._recording.losses.sent()

    def end(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        with guard("calls.end"):
            lead = '{"yields": [' if self._first else ""
            self._recording.chunk(f'{lead}], "return": {values.encode(result)}}}'.encode())
        self._recording.finish(completion, error)

    def _lead(self) -> str:
        first, self._first = self._first, False
        return '{"yields": [' if first else ", "


def _replay(answer: Exchange) -> Generator[Any, Any, Any]:
    recorded = values.decode(_result(answer))
    yield from recorded["yields"]
    from freezeframe.seams.http import adapter

    end = adapter.end_of_stream(answer)
    if end is not None:
        raise end
    return recorded["return"]


async def _replay_async(responder: Responder, answer: Exchange) -> AsyncGenerator[Any, Any]:
    await switch.take_turn(responder, answer)
    for item in _replay(answer):
        yield item


def _start(describe: Describe) -> Recording | None:
    recorder: Recorder | None = switch.recorder()
    if recorder is None:
        return None
    with guard("calls.start"):
        call = describe()
        inside = current_place().inside
        if inside is not None and call.kind in _COUNTED:
            inside.left -= 1
        recording = recorder.start(
            kind=call.kind,
            name=call.name,
            seam=call.seam,
            request=Request(),
            request_body=Body(recorder.settings.max_body_bytes, call.body.encode()),
            call_id=call.call_id,
            facts=call.facts,
            code=partial(code_of, call.functions, call.holder) if call.functions else None,
        )
        run = current_place().run
        accesses = recorder.root.accesses() if run is None else run.accesses
        if recording is not None and accesses is not None and not current_place().inside_call:
            recording.losses = _Losses(call, accesses)
        return recording
    return None


class _Losses:
    """Notes the effects of one call that a replay lacks, and parts of its result that it returns changed.

    Must not be nested.
    """

    __slots__ = ("_accesses", "_call")

    def __init__(self, call: FunctionCall, accesses: UnrecordedAccesses) -> None:
        self._call = call
        self._accesses = accesses

    def sent(self) -> None:
        self._note(GapKind.TOOL_CHANGES, "is answered by", "send()")

    def ended(self, result: object, error: BaseException | None) -> None:
        name, looked = self._call.name, self._accesses.looked
        for verb, what in () if self._call.changed is None else self._call.changed(result):
            if verb == "keeps":
                access = self._access(GapKind.TOOL_CHANGES, "returns", f"what {what} holds, and it changes later")
                self._accesses.keep(result, access)
            else:
                self._note(GapKind.TOOL_CHANGES, verb, what)
        if (error is None and is_plain(result)) or looked[name] >= _MAX_LOOKS:
            return
        looked[name] += 1
        verb, what = ("returns", _lost_of_result(result)) if error is None else ("raises", _lost_of_error(error))
        if what:
            self._note(GapKind.RESULT_CHANGED, verb, what)

    def _note(self, kind: GapKind, verb: str, what: str) -> None:
        if self._accesses.is_new(kind, f"{self._call.name} {verb} {what}"):
            self._accesses.note(self._access(kind, verb, what))

    def _access(self, kind: GapKind, verb: str, what: str) -> UnrecordedAccess:
        code = self._call.functions[0].__code__ if self._call.functions else None
        where = f"{shown_path(code.co_filename)}:{code.co_firstlineno}" if code else ""
        return UnrecordedAccess(kind=kind, verb=verb, what=what, by=self._call.name, where=where)


def _lost_of_result(result: object) -> str:
    """Name the parts of a result that are lost. The span itself shows those that cannot be rebuilt at all."""
    lost = next((each for each in lost_in_rebuilding(result) if not each.opaque), None)
    return "" if lost is None else f"a {lost.class_name}, {NOT_WHOLE} (only plain data and fields)"


def _lost_of_error(error: BaseException) -> str:
    lost = lost_of_exception(error)
    return f"a {values.class_path(type(error))}, {NOT_WHOLE} (without {lost})" if lost else ""


def _succeed(recording: Recording, result: object, dump: Dump) -> None:
    with guard("calls.result"):
        recording.chunk(dump(result).encode())
    recording.finish(Completion.COMPLETE, result=result if dump is values.encode else None)


def watch(patches: Patches, owner: Any, name: str, describe: DescribeMethod) -> None:
    """Route each call of a method through a seam."""

    def method(original: Callable[..., Any], self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return run(partial(describe, self, args, kwargs), partial(original, self, *args, **kwargs))

    patches.around(owner, name, method)


def watch_async(patches: Patches, owner: Any, name: str, describe: DescribeMethod) -> None:
    """Like the above, for an asynchronous method."""

    async def method(original: Callable[..., Any], self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await run_async(partial(describe, self, args, kwargs), partial(original, self, *args, **kwargs))

    patches.around(owner, name, method)


def watch_both(patches: Patches, owner: Any, name: str, describe: DescribeMethod) -> None:
    """Do it for ``run`` and ``arun``, if the class itself defines them."""
    for defined, do_watch in ((name, watch), (f"a{name}", watch_async)):
        if defined in vars(owner):
            do_watch(patches, owner, defined, describe)


@contextmanager
def _unrecorded() -> Generator[None]:
    """Make a call that is not recorded; in a replay, mark the code so that the responder recognises its nested calls."""
    if switch.serving() is None:
        yield
        return
    token = PLACE.set(current_place().aside())
    try:
        yield
    finally:
        PLACE.reset(token)


def miss(describe: Describe) -> None:
    """Report to the replay a request that the recorded run did not make.

    Raises:
        ReplayMiss: always, in a replay.
    """
    if (responder := switch.serving()) is not None:
        switch.respond(responder, _call_of(describe()))


def _recorded(responder: Responder, call: Call) -> Exchange:
    """Return the answer to a call that yields. Such calls are served or missed, never made for real."""
    answer = switch.respond(responder, call)
    if answer is None:
        raise ReplayMiss(f"{call.name}: a replay does not run a generator live")
    return answer


def _call_of(call: FunctionCall) -> Call:
    return Call(
        kind=call.kind,
        name=call.name,
        seam=call.seam,
        request=Request(body=call.body.encode()),
        lane=lane_of_call(),
        sequence=next(EXCHANGE_SEQUENCE),
        call_id=call.call_id,
        code=partial(code_of, call.functions, call.holder) if call.functions else None,
    )


def _result(answer: Exchange) -> str:
    """Return the recorded result as tagged JSON, or raise the recorded exception."""
    if answer.response.completion is Completion.NONE:
        from freezeframe.seams.http import adapter

        raise adapter.recorded_error(answer) or RuntimeError(f"{answer.name}: recorded as failed, without its error")
    return answer.response.body.decode()


# -- A function that a replay runs, by request, although the recording has its result, to test its new code ------------
# Its calls are answered like any others, from the steps recorded inside this call. Its result or exception goes
# to the replay, which compares it, and to the program.


class RunAnew:
    """One such call."""

    __slots__ = ("_answer", "_call", "_responder")

    def __init__(self, responder: Responder, answer: Exchange, call: Call) -> None:
        self._responder = responder
        self._answer = answer
        self._call = call

    @contextmanager
    def inside(self) -> Generator[None]:
        """Run the function's own code in this block."""
        place = current_place()
        inner = replace(place, lane=place.lane.aside(), inside_call=True, run_anew=True, call_span_id=self._answer.span_id)
        token = PLACE.set(inner)
        try:
            yield
        finally:
            leave(token)

    def returned(self, text: str) -> None:
        """Report its result, as tagged JSON."""
        self._report(text, None, Completion.COMPLETE)

    def raised(self, error: BaseException, text: str | None = None) -> None:
        """Report its exception, after its items. A miss is not the function's exception: the replay ends there."""
        if not isinstance(error, ReplayMiss):
            completion = Completion.NONE if text is None else Completion.BROKEN
            self._report(text, values.encode_exception(error), completion)

    def closed_early(self, text: str) -> None:
        """Report the items up to the program's closing of it."""
        self._report(text, None, Completion.CLOSED_EARLY)

    def _report(self, text: str | None, error: str | None, completion: Completion) -> None:
        self._responder.ran(self._answer, text, error)
        kept_by = None if current_place().run_anew else switch.recorder()
        if kept_by is not None:
            chunks = () if text is None else (Chunk(data=text.encode()),)
            with guard("run_anew.code"):
                code = None if self._call.code is None else self._call.code()
                response = Response(chunks=chunks, completion=completion)
                kept_by.keep(self._call, replace(self._answer, response=response, error=error, code=code))


class ItemsAnew:
    """Watches a generator that runs anew, and joins its items as a recording does."""

    __slots__ = ("_anew", "_items")

    def __init__(self, anew: RunAnew) -> None:
        self._anew = anew
        self._items: list[str] = []

    @contextmanager
    def inside(self) -> Generator[None]:
        with self._anew.inside():
            yield

    def add(self, item: object) -> None:
        self._items.append(values.encode(item))

    def sent(self) -> None:
        """Do nothing: it runs, and gets what is sent."""

    def end(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        text = f'{{"yields": [{", ".join(self._items)}], "return": {values.encode(result)}}}'
        if error is not None:
            self._anew.raised(error, text)
        elif completion is Completion.CLOSED_EARLY:
            self._anew.closed_early(text)
        else:
            self._anew.returned(text)
