"""Show a value of the program without running any of its code: a `__repr__` may raise, hang, print, or call the model.

Values are read by the code of the builtin types, fields from where `__dict__` and `__slots__` keep them. What it costs is
bounded by the length of the text, not by the size of the value. Classes are compared by identity: `==` may be the program's.
"""

from __future__ import annotations

import datetime as dt
import decimal
import pathlib
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final

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
"""Types whose own code writes them and calls no other; their subclasses may have their own."""
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
    """Return the value as Python writes it, as far as that runs no code of the program, in at most `longest` characters."""
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
    """Yield the fields of an object, of `__slots__` and of `__dict__`; properties are not asked."""
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
