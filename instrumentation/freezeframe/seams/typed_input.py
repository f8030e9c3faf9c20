"""Input that a run reads: `input()`, typed by a person, and `sys.stdin`, each read recorded as a call of a tool of that name.

A replay answers them. Of a script that is a run as a whole, input that is not typed at a terminal is a part of the entry
point's input (`runs.streams`); a marked run has no other record of it. Debuggers and consoles ask for commands: those are not
recorded. Reads of a marked run after the first `_MAX_READS` are a gap.
"""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from freezeframe._guard import guard, report
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import current_place
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.unmarked import accesses
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import GapKind

if TYPE_CHECKING:
    from freezeframe.seams.recorder.patching import Patches

SEAM: Final = "input"
_CONSOLES: Final = frozenset({"cmd", "code", "pdb"})
_ASKER: Final = 3
"""Frames from `_is_of_run` up to the caller of `input`, or of a method of `sys.stdin`."""
_MAX_READS: Final = 200
"""Of one marked run: each is a step."""
_STDIN: Final = "standard input"


def install(patches: Patches) -> None:
    """Replace `input`, and `sys.stdin` wherever a module holds it."""
    patches.around(builtins, "input", _ask)
    if (stdin := _watched(sys.stdin)) is not sys.stdin:  # it may be None, or another tool's
        if sys.__stdin__ is sys.stdin:
            patches.replace(sys, "__stdin__", lambda _: stdin)
        patches.everywhere(sys, {"stdin": stdin})


def _ask(original: Any, prompt: object = "", /) -> str:
    if not _is_of_run():
        return original(prompt)
    shown = False

    def ask() -> str:
        nonlocal shown
        shown = True
        with guard("input.prompt"):
            recorder = switch.recorder()
            if recorder is not None and _is_terminal() and sys.stdout.isatty():  # else Python prints it on `sys.stdout`
                recorder.root.note_prompt(str(prompt))
        return original(prompt)

    typed = calls.run(lambda: calls.FunctionCall.of(Kind.TOOL, SEAM, "input", str(prompt), kwargs={}), ask)
    if not shown:
        print(prompt, end="", flush=True)
    return typed


def _is_of_run() -> bool:
    with guard("input"):
        if sys._getframe(_ASKER).f_globals.get("__name__") in _CONSOLES:
            return False
        is_marked = current_place().run is not None
        if switch.serving() is not None:
            return switch.typed() == "everywhere" or (is_marked and switch.typed() == "in runs")
        return is_marked or (ACTIVITY.is_process and _is_terminal())
    return False


def _is_terminal() -> bool:
    with suppress(ValueError, AttributeError):  # closed, as by Python's `exit`; detached; none
        return sys.stdin.isatty()
    return False


def watch(receive: Callable[[bytes], None] | None) -> bool:
    """Call `receive` with all data that the program reads from standard input; return False if that is a terminal, or none."""
    is_watched = receive is not None and isinstance(sys.stdin, io.TextIOWrapper) and not _is_terminal()
    _Stream.receive = staticmethod(receive) if is_watched and receive is not None else None
    return is_watched


def _read(reader: Any, name: str, *size: Any) -> Any:
    """Return what a method of standard input reads; in a replay, what it read. For `_ASKER`, called by that method itself."""
    stream = object.__getattribute__(reader, "_stream")
    sizes = [number for number in size if number is not None and not (isinstance(number, int) and number < 0)]

    def read() -> Any:
        return getattr(stream, name)(*sizes)

    if not _is_of_run() or current_place().inside_call or not _may_be_step():
        _note_import()
        data = read()
    else:
        data = calls.run(lambda: calls.FunctionCall.of(Kind.TOOL, SEAM, f"stdin.{name}", *sizes, kwargs={}), read)
    if _Stream.receive is not None:
        with guard("stdin.watch"):
            for piece in data if isinstance(data, list) else [data]:
                _Stream.receive(piece.encode(stream.encoding, stream.errors) if isinstance(piece, str) else piece or b"")
    return data


def _received(stream: Any) -> Iterator[Any]:
    """Yield the lines that a loop outside of runs reads: it may be over millions, so nothing else is looked at for each."""
    for line in stream:
        receive = _Stream.receive
        if receive is not None:
            try:
                receive(line.encode(stream.encoding, stream.errors) if type(line) is str else line)
            except Exception as error:
                report("stdin.watch", error)
        yield line


def _note_import() -> None:
    with guard("stdin.import"):
        accesses.note_import(GapKind.INPUT_CHANGED, "reads from", _STDIN)


def _may_be_step() -> bool:
    run = current_place().run
    if run is None:
        return True
    run.accesses.looked[_STDIN] += 1
    if run.accesses.looked[_STDIN] <= _MAX_READS:
        return True
    accesses.note(GapKind.INPUT_CHANGED, f"reads over {_MAX_READS} times", f"from {_STDIN}")
    return False


class _Stream:
    """Another stream, with its reads recorded.

    Never initialised as a stream of its own: the other one may have read ahead, and the program may hold it.
    """

    receive: ClassVar[Callable[[bytes], None] | None] = None
    """Receiver of the data that the program reads."""

    def __init__(self, stream: Any) -> None:
        object.__setattr__(self, "_stream", stream)

    def __getattribute__(self, name: str) -> Any:
        if name in (_OWN_OF_BYTES if type(self) is _Bytes else _OWN):
            return object.__getattribute__(self, name)
        return _watched(getattr(object.__getattribute__(self, "_stream"), name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_stream"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "_stream"), name)

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_stream"))

    def __iter__(self) -> Any:
        stream = object.__getattribute__(self, "_stream")
        if current_place().run is not None or switch.serving() is not None or stream.isatty():
            return self
        _note_import()
        return _received(stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        object.__getattribute__(self, "_stream").close()

    def __del__(self) -> None:
        """Do nothing: the stream is not ours to close."""

    def __next__(self) -> Any:
        line = _read(self, "readline")
        if not line:
            raise StopIteration
        return line

    def read(self, size: int | None = -1, /) -> Any:
        return _read(self, "read", size)

    def readline(self, size: int | None = -1, /) -> Any:
        return _read(self, "readline", size)

    def readlines(self, hint: int | None = -1, /) -> Any:
        return _read(self, "readlines", hint)

    def detach(self) -> Any:
        return _watched(object.__getattribute__(self, "_stream").detach())


class _Text(_Stream, io.TextIOWrapper):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """A text stream."""


class _Bytes(_Stream, io.BufferedReader):  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """The buffer of one."""

    def read1(self, size: int = -1, /) -> Any:
        return _read(self, "read1", size)

    def readinto(self, buffer: Any, /) -> int:
        return _put(buffer, _read(self, "read", memoryview(buffer).nbytes))

    def readinto1(self, buffer: Any, /) -> int:
        return _put(buffer, _read(self, "read1", memoryview(buffer).nbytes))


def _watched(found: Any) -> Any:
    kind = _KINDS.get(type(found))
    return found if kind is None else kind(found)


def _put(buffer: Any, data: bytes) -> int:
    memoryview(buffer).cast("B")[: len(data)] = data
    return len(data)


_KINDS: Final = {io.TextIOWrapper: _Text, io.BufferedReader: _Bytes}
_OWN: Final = frozenset(
    {"__class__", "__enter__", "__exit__", "__iter__", "__next__", "detach", "read", "readline", "readlines"}
)
_OWN_OF_BYTES: Final = _OWN | {"read1", "readinto", "readinto1"}
