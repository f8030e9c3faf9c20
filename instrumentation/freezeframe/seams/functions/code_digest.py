"""Digests of the application's code behind a call: a tool, a retriever. A replay does not run it, and compares its digest.

It never raises, and a function is read once. At a recording this happens where spans are exported, off the caller's path.
"""

from __future__ import annotations

import dis
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.accesses import shown_path
from freezeframe.seams.functions.left_behind import enclosed
from freezeframe.seams.functions.source_reach import digest_of, read_source
from freezeframe.seams.unmarked.accesses import is_applications
from freezeframe_schemas.exchange import FunctionCode
from freezeframe_schemas.rebuilding import FIXED

_SOURCE: Final = "source"
_MAX_KEPT: Final = 2_000
_MAX_WRAPPED: Final = 20
_CALLED: Final = (FunctionType, partial)
_TABLES: Final = (dict, list, tuple)
_BEGUN_NS: Final = time.time_ns()
_KNOWN: dict[tuple[str, CodeType, tuple[str, ...]], FunctionCode] = {}
"""A function's file (code of two files may be equal), its code and the values it holds -> its digest.

Servers create tools from the same code for each request.
"""


def code_of(functions: Iterable[FunctionType], holder: type | None = None) -> FunctionCode | None:
    """Return the code of the functions that answer a call, or None. `holder` is the class of a method's object."""
    with guard("functions.code"):
        found = [_code_of(function, holder) for function in functions]
        if found:
            first = found[0]
            digests = sorted({each.digest for each in found})
            joint = digests[0] if len(digests) == 1 else "" if "" in digests else _joint(digests)
            return FunctionCode(digest=joint, file=first.file, line=first.line)
    return None


def _joint(digests: Iterable[str]) -> str:
    text = ",".join(digests)
    return f"{text.partition(':')[0]}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _code_of(function: FunctionType, holder: type | None = None, around: frozenset[CodeType] = frozenset()) -> FunctionCode:
    code = function.__code__
    held = tuple(_held(function, around | {code}))
    inherits = holder is not None and not code.co_qualname.startswith(f"{holder.__qualname__}.")
    of = holder.__qualname__ if holder is not None and inherits else ""
    key = code.co_filename, code, (*held, of)
    known = _KNOWN.get(key)
    if known is None:
        if len(_KNOWN) >= _MAX_KEPT:
            _KNOWN.clear()
        known = FunctionCode(
            digest=_digest(function, held, None if not of else holder),
            file=shown_path(code.co_filename),
            line=code.co_firstlineno,
        )
        _KNOWN[key] = known
    return known


def _digest(function: FunctionType, held: tuple[str, ...], holder: type | None) -> str:
    """Return the digest of a function's source, else of its byte code; empty if the file has changed since it was loaded."""
    code = function.__code__
    file = code.co_filename
    source = read_source(file)
    if source is not None:
        if Path(file).stat().st_mtime_ns > _BEGUN_NS and not _is_loaded_from(code, file):
            return ""
        its_file = holder and (getattr(sys.modules.get(holder.__module__), "__file__", None) or file)
        of = read_source(its_file) if holder and its_file and is_applications(its_file, holder.__module__) else None
        digest = digest_of(
            source,
            code.co_qualname,
            code.co_firstlineno,
            ",".join(held),
            names=_names_of(function),
            of=(of, holder.__qualname__) if of and holder else None,
        )
        if digest is not None:
            return f"{_SOURCE}:{digest}"
    text = "\n".join([*held, *_byte_code(code)])
    return f"{sys.implementation.cache_tag}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _is_loaded_from(code: CodeType, file: str) -> bool:
    """Return whether a file written after the process started still has the loaded version of the function."""
    whole = compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
    return list(_byte_code(code)) in [list(_byte_code(each)) for each in _inner(whole) if each.co_qualname == code.co_qualname]


def _inner(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner(constant)


def _byte_code(code: CodeType) -> Iterator[str]:
    """Yield the significant parts of byte code, which differs between versions of Python."""
    yield code.co_code.hex()
    yield from (f"{name!a}" for name in (*code.co_names, *code.co_varnames, *code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _byte_code(constant)
        elif isinstance(constant, frozenset):
            yield from sorted(map(ascii, constant))
        else:
            yield f"{constant!a}"


def _held(function: FunctionType, around: frozenset[CodeType]) -> Iterator[str]:
    """Yield the plain values that the factory of a module's function passed to it, and the code of the functions.

    Values of a request do not count, nor do those that the function itself sets: they are state.
    """
    if not function.__closure__:
        return
    state = {step.argval for step in dis.get_instructions(function) if step.opname in ("STORE_DEREF", "DELETE_DEREF")}
    is_modules = bool(_names_of(function))
    for name, value in zip(function.__code__.co_freevars, enclosed(function), strict=False):
        if type(value) in FIXED and name not in state and is_modules:
            yield f"{name}={value!a}"
        inner = _behind(value)
        if inner is not None and inner.__code__ not in around and is_applications(inner.__code__.co_filename, inner.__module__):
            yield f"{name}={_code_of(inner, None, around).digest}"


def _behind(value: object) -> FunctionType | None:
    """Return the function behind wrappers, partial applications and methods."""
    for _ in range(_MAX_WRAPPED):
        if isinstance(value, partial):
            value = value.func
        elif isinstance(value, MethodType):
            value = value.__func__
        elif isinstance(value, FunctionType) and "__wrapped__" in value.__dict__:
            value = value.__dict__["__wrapped__"]
    return value if isinstance(value, FunctionType) else None


def _names_of(function: FunctionType) -> list[str]:
    """Return the names by which a function's own module calls it."""
    own: dict[str, Any] = dict(function.__globals__)
    names = [name for name, value in own.items() if type(value) in _CALLED and _behind(value) is function]
    if names or function.__name__ == function.__qualname__ != "<lambda>":
        return names
    tables = {name: value.values() if type(value) is dict else value for name, value in own.items() if type(value) in _TABLES}
    return [name for name, table in tables.items() if any(_behind(each) is function for each in table if type(each) in _CALLED)]
