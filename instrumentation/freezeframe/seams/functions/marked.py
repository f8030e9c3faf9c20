"""`@freezeframe.tool` and `@freezeframe.retriever`: plain functions, methods, coroutines and generators as recorded calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import PurePath
from types import FunctionType
from typing import Any, TypeVar, overload

from freezeframe._drive import watched_async_generator, watched_generator
from freezeframe._guard import guard
from freezeframe.seams.functions import calls
from freezeframe.seams.functions.given import watch_call
from freezeframe.seams.functions.left_behind import RECORDED, LeftBehind
from freezeframe.seams.functions.settings import with_settings
from freezeframe.seams.recorder import switch
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

_F = TypeVar("_F", bound=Callable[..., Any])

SEAM = "decorator"


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(*, name: str | None = None) -> Callable[[_F], _F]: ...
def tool(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a function as a tool: its arguments and its result or exception are recorded, and served in a replay.

    Works on functions, methods, coroutine functions, generators and asynchronous generators. Costs one
    comparison while recording is off. Put it next to the function, below a framework's own decorator.

        @freezeframe.tool
        def get_order(order_id: str) -> dict: ...
    """
    return _decorate(function, Kind.TOOL, name)


@overload
def retriever(function: _F, /) -> _F: ...
@overload
def retriever(*, name: str | None = None) -> Callable[[_F], _F]: ...
def retriever(function: Any = None, /, *, name: str | None = None) -> Any:
    """Mark a function that looks something up for the model: like `tool`, with the query and the resulting documents.

    Documents are recognised as dicts or objects with an id, a score and content (or text, page_content), also as
    ``(document, score)`` pairs.
    """
    return _decorate(function, Kind.RETRIEVAL, name)


def _decorate(function: Any, kind: Kind, name: str | None) -> Any:
    if function is None:
        return functools.partial(_wrap, kind=kind, name=name)
    return _wrap(function, kind=kind, name=name)


def _wrap(function: Any, *, kind: Kind, name: str | None) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_wrap(function.__func__, kind=kind, name=name))
    call_name = name or named(function).__name__
    bind = Binder(function)
    plain = _function_behind(function)
    functions = () if plain is None else (plain,)
    left = LeftBehind(function)

    def describe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> calls.FunctionCall:
        arguments = body = bind(args, kwargs)
        if kind is Kind.RETRIEVAL and bind.drops_self and args:
            with guard("functions.settings"):
                arguments = with_settings(body, args[0])
        changed = None
        if plain is not None and switch.recorder() is not None:
            with guard("functions.given"):
                changed = watch_call(bind, left, args, kwargs, body, has_object=bind.drops_self)
        return calls.FunctionCall(
            kind=kind,
            name=call_name,
            seam=SEAM,
            body=arguments,
            functions=functions,
            holder=type(args[0]) if bind.drops_self and args else None,
            changed=changed,
        )

    return watch(function, describe)


Describe = Callable[[tuple[Any, ...], dict[str, Any]], calls.FunctionCall]
"""Describes a call, from its arguments."""


def watch(
    function: Any, describe: Describe, *, dump: calls.Dump = values.encode, load: calls.Load = values.decode
) -> Callable[..., Any]:
    """Return the function wrapped in the seam, of the same kind: coroutine function, generator, or plain.

    Args:
        function: the function that does the work.
        describe: describes a call.
        dump: writes a result; generators write each item separately.
        load: reads it.
    """
    watched = _watched(function, describe, dump, load)
    setattr(watched, RECORDED, True)
    return watched


def _watched(function: Any, describe: Describe, dump: calls.Dump, load: calls.Load) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(function):
        return watched_async_generator(
            function,
            lambda *args, **kwargs: calls.begin_async_generator(
                functools.partial(describe, args, kwargs), functools.partial(function, *args, **kwargs)
            ),
        )
    if inspect.isgeneratorfunction(function):
        return watched_generator(
            function,
            lambda *args, **kwargs: calls.begin_generator(
                functools.partial(describe, args, kwargs), functools.partial(function, *args, **kwargs)
            ),
        )
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            if not calls.is_on():
                return await function(*args, **kwargs)
            return await calls.run_async(
                functools.partial(describe, args, kwargs), functools.partial(function, *args, **kwargs), dump=dump, load=load
            )

        return async_wrapper

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not calls.is_on():
            return function(*args, **kwargs)
        return calls.run(
            functools.partial(describe, args, kwargs), functools.partial(function, *args, **kwargs), dump=dump, load=load
        )

    return wrapper


def _function_behind(function: Any) -> FunctionType | None:
    """Return the plain function behind decorators, a partial or a callable object, if there is one."""
    if isinstance(function, functools.partial):
        return _function_behind(function.func)
    if not hasattr(function, "__qualname__"):
        function = vars(type(function)).get("__call__")
    found = inspect.unwrap(getattr(function, "__func__", function))
    return found if isinstance(found, FunctionType) else None


def named(function: Any) -> Any:
    """Return the object that names a callable: the function of a partial, the class of a callable object, else itself."""
    if isinstance(function, functools.partial):
        return named(function.func)
    return function if hasattr(function, "__qualname__") else type(function)


class Binder:
    """Writes arguments by name, so that ``f(1)`` and ``f(order_id=1)`` are the same call. ``self`` and ``cls`` are left out.

    Defaults that a call leaves to the function are written apart, since no one asked for them, but they are compared like
    arguments (`keys.with_defaults`). Those that are objects (clients, paths, sentinels) are left out: they have no value.
    """

    __slots__ = ("_defaults", "_drop", "_signature")

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._signature = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None
        first = next(iter(self._signature.parameters), "") if self._signature else ""
        self._drop = first if first in ("self", "cls") and "." in named(function).__qualname__ else None
        self._defaults = {
            name: each.default
            for name, each in (self._signature.parameters if self._signature else {}).items()
            if each.default is not each.empty and not isinstance(each.default, PurePath)
            if not values.is_opaque(values.encode(each.default))
        }

    @property
    def drops_self(self) -> bool:
        """Return whether the function is called on an object, which is left out."""
        return self._drop is not None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        positional, named, unsaid = self._split(args, kwargs)
        defaults = {"defaults": unsaid} if unsaid else {}
        return values.encode({"args": positional, "kwargs": named, **defaults})

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the named arguments."""
        return self._split(args, kwargs)[:2]

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """Return the positional and the named arguments, and the defaults of those that were left out."""
        if self._signature is None:
            return list(args), dict(kwargs), {}
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # the call itself is wrong and will raise
            return list(args), dict(kwargs), {}
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if name == self._drop:
                continue
            match self._signature.parameters[name].kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    positional.extend(value)
                case inspect.Parameter.VAR_KEYWORD:
                    named.update(value)
                case inspect.Parameter.POSITIONAL_ONLY:
                    positional.append(value)
                case _:
                    named[name] = value
        return positional, named, {name: value for name, value in self._defaults.items() if name not in bound.arguments}
