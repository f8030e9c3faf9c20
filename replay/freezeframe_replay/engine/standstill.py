"""The place at which a replay stops a program: the next call, and the program's frames with their variables."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
import linecache
import pathlib
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

import freezeframe
import freezeframe_replay
import freezeframe_schemas
from freezeframe.seams import Call
from freezeframe_schemas.divergence import StackFrame, Stopped
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.fixture import Step

_FRAMES: Final = 8
MAX_KEPT: Final = 2000
"""Maximum number of calls whose frames a replay keeps."""
_MAX_LENGTH: Final = 160
_FOREIGN: Final = tuple(
    dict.fromkeys(
        [
            *(str(Path(package.__file__ or "").parent) for package in (freezeframe, freezeframe_replay, freezeframe_schemas)),
            *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            "<",
        ]
    )
)
"""Places of code that is not the program's: ours, installed packages, the standard library, and code without a file."""


def stop_before(step: Step, call: Call) -> Stopped:
    """Return the program's place in the call that the step answers. Called within that call."""
    exchange = step.exchange
    return Stopped(
        step=step.number,
        call_kind=call.kind.value,
        name=call.name,
        request=_body(call.request),
        recorded=_body(exchange.request),
        answer=exchange.error or exchange.response.body.decode(errors="replace"),
        address=_address(call.request),
        recorded_address=_address(exchange.request),
        frames=frames_of_program(),
    )


def _body(request: Request) -> str:
    return request.body.decode(errors="replace")


def _address(request: Request) -> str:
    return f"{request.method} {request.url}" if request.method else ""


def frames_of_program() -> tuple[StackFrame, ...]:
    """Return the running thread's frames that are the program's own code."""
    found: list[StackFrame] = []
    frame: FrameType | None = sys._getframe()
    while frame is not None and len(found) < _FRAMES:
        if is_of_program(frame):
            file = frame.f_code.co_filename
            place = f"{file}:{frame.f_lineno} in {frame.f_code.co_qualname}"
            line = linecache.getline(file, frame.f_lineno, frame.f_globals).strip()[:_MAX_LENGTH]
            found.append(StackFrame(place=place, variables=_variables(frame), line=line))
        frame = frame.f_back
    return tuple(found)


def is_of_program(frame: FrameType) -> bool:
    """Return whether a frame is the program's own code."""
    return not frame.f_code.co_filename.startswith(_FOREIGN)


def _variables(frame: FrameType) -> dict[str, str]:
    found = frame.f_locals
    if type(found) is not dict and not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return {}  # of a class that keeps its body in its own mapping
    named = [(name, value) for name, value in dict(found).items() if type(name) is str and not name.startswith("__")]
    return {name: safe_repr(value, longest=_MAX_LENGTH) for name, value in named}


# -- Show a value of the program without running any of its code -------------------------------------------------------
# A `__repr__` may raise, hang, print, or call the model. Values are read by the code of the builtin types,
# fields directly from `__dict__` and `__slots__`. The cost is bounded by the length of the text, not by the
# size of the value. Classes are compared by identity: `==` may be the program's.


_MAX_DEPTH: Final = 4
_MAX_BITS: Final = 1000
"""Maximum length of an int that is written: the cost grows with its square."""
_WRITTEN: Final = frozenset(
    id(kind)
    for kind in (
        *(float, complex, bool, type(None), type(...), FunctionType, BuiltinFunctionType),
        *(dt.date, dt.timedelta, decimal.Decimal, uuid.UUID, pathlib.PosixPath, pathlib.WindowsPath),
    )
)
"""Types whose `repr` calls no other code; subclasses may override it."""
_TEXTS: Final = (str, bytes, bytearray)
_BRACKETS: Final = {
    dict: ("{", "}"),
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}
# What no class of the program overrides.
_MRO: Final[Any] = type.__dict__["__mro__"].__get__
_NAMESPACE: Final[Any] = type.__dict__["__dict__"].__get__
_NAME: Final[Any] = type.__dict__["__name__"].__get__
_ARGUMENTS: Final[Any] = BaseException.__dict__["args"].__get__


def safe_repr(value: object, *, longest: int) -> str:
    """Return the value in Python's notation, without running the program's code, in at most `longest` characters."""
    text = ""
    try:
        for piece in _pieces(value, longest, _MAX_DEPTH):
            text += piece
            if len(text) > longest:
                break
        else:
            return text
    except RuntimeError:  # another thread changes the value meanwhile
        pass
    return f"{text[: longest - 4]} ..."


def _pieces(value: Any, most: int, deep: int) -> Iterator[str]:
    kind = type(value)
    bases: tuple[type, ...] = _MRO(kind)
    ids = {id(base) for base in bases}
    known: Any = next((base for base in (*_TEXTS, int, *_BRACKETS) if id(base) in ids), None)
    if id(kind) in _WRITTEN or (kind is dt.datetime and (value.tzinfo is None or type(value.tzinfo) is dt.timezone)):
        yield repr(value)
    elif known in _TEXTS:
        start: Any = known.__getitem__(value, slice(most))
        yield known.__repr__(start)
    elif known is int:
        bits = int.bit_length(value)
        yield int.__repr__(value) if bits <= _MAX_BITS else f"<int of {bits} bits>"
    elif id(type) in ids:
        yield f"<class '{_NAME(value)}'>"
    elif deep == 0:
        yield "..."
    elif known is not None:
        opened, closed = _BRACKETS[known]
        yield opened
        yield from _joined(_items(value, known), most, deep)
        yield f",{closed}" if known is tuple and tuple.__len__(value) == 1 else closed
    elif id(BaseException) in ids:
        yield f"{_NAME(kind)}("
        yield from _joined(_items(_ARGUMENTS(value), tuple), most, deep)
        yield ")"
    elif id(ModuleType) in ids:
        yield "<module>"
    else:
        yield f"{_NAME(kind)}("
        yield from _joined(_fields(value, bases), most, deep)
        yield ")"


def _joined(items: Iterable[tuple[tuple[Any, ...], str, Any]], most: int, deep: int) -> Iterator[str]:
    """Yield items: what is before each, a sign, and the value itself."""
    for number, (before, sign, item) in enumerate(islice(items, most)):
        if number:
            yield ", "
        for name in before:
            yield name if sign == "=" else "".join(_short(name, most, deep))
        yield sign
        yield from _pieces(item, most, deep - 1)


def _short(value: Any, most: int, deep: int) -> Iterator[str]:
    return islice(_pieces(value, most, deep - 1), most)


def _items(value: Any, known: Any) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    if known is dict:
        for key, item in dict.items(value):
            yield (key,), ": ", item
    else:
        for item in known.__iter__(value):
            yield (), "", item


def _fields(value: Any, bases: tuple[type, ...]) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield the fields of an object, of `__slots__` and of `__dict__`; properties are not read."""
    for base in reversed(bases):
        for name, found in _NAMESPACE(base).items():
            try:
                if type(found) is MemberDescriptorType and not str.startswith(name, "__"):
                    yield (name,), "=", found.__get__(value)
                elif name == "__dict__" and type(found) is GetSetDescriptorType:
                    for field, item in dict.items(found.__get__(value)):
                        if type(field) is str and not field.startswith("__"):
                            yield (field,), "=", item
            except (AttributeError, TypeError):  # a slot without a value; a descriptor of another class
                continue
