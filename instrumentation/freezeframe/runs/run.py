"""`freezeframe.run`: marks the beginning of a run, and its input. Also flags, and the current run.

    @freezeframe.run
    def handle(message: str) -> str: ...

    @freezeframe.run(user=lambda message, customer: customer.id, tenant="acme")
    async def handle(message, customer): ...

    with freezeframe.run("nightly", input={"day": "2026-11-21"}) as run:
        run.output = do_it()

Without it there are still runs: a request to a web application is one (`freezeframe.hosts.applications`), and so is a script
(`freezeframe.runs.process_root.ProcessRoot`). If another instrumentation has a span open, the calls are part of that trace.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MethodType, TracebackType
from typing import Any, Final, TypeVar, overload

from freezeframe._drive import watched_async_generator, watched_generator
from freezeframe._guard import guard
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import RunContext, current_place
from freezeframe.context.draws import is_of_program
from freezeframe.context.program import relative_path
from freezeframe.runs.entry import EntryScope, carried_into, command_entry
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe.runs.reach import Reach, input_gaps, left_open, lost_of_outcome
from freezeframe.seams.functions import calls
from freezeframe.seams.functions.marked import Binder, named
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.responder import Feed
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Completion
from freezeframe_schemas.gaps import NOT_REPEATED, Gap, GapKind
from freezeframe_schemas.run import EntryKind

_F = TypeVar("_F", bound=Callable[..., Any])
_V = TypeVar("_V")

Given = str | Callable[..., Any] | None
"""A value, or a function of the entry point's arguments that returns it."""

_MARK: Final = "_freezeframe_entry"
"""Attribute of a marked function, which `functools.wraps` hands on to the wrappers of other decorators."""
_MAX_WRAPPERS: Final = 50


class CurrentRun:
    """The current run, as the application sees it."""

    __slots__ = ("_context", "output")

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.output: Any = None
        """The result of the run; set it in a ``with`` block."""

    @property
    def trace_id(self) -> str:
        """The run's identity, as `freezeframe show` and `replay` accept it. Empty if recording is off."""
        span = self._context.span
        return "" if span is None else format(span.get_span_context().trace_id, "032x")

    @property
    def id(self) -> str | None:
        """The application's own id for the run."""
        return self._context.id

    def join(self, session: str) -> None:
        """Note the conversation that the run belongs to: like `run(session=...)`, for a program that learns it later."""
        with guard("run.join"):
            self._context.join(session)

    def flag(self, key: str, value: _V) -> _V:
        """Note the value of a feature flag, as this run saw it, and return it; in a replay return the recorded one."""
        return _note_flag(self._context, key, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    name: str | None
    id: Given
    user: Given
    tenant: Given
    session: Given
    flags: Mapping[str, object] | Callable[..., Mapping[str, object]] | None
    agent: bool
    input: Any

    def context(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RunContext:
        flags = _call(self.flags, args, kwargs) if callable(self.flags) else self.flags
        return RunContext(
            name=name,
            flags=dict(flags or {}),
            id=_resolve(self.id, args, kwargs),
            user=_resolve(self.user, args, kwargs),
            tenant=_resolve(self.tenant, args, kwargs),
            session=_resolve(self.session, args, kwargs),
        )


@overload
def run(function: _F, /) -> _F: ...
@overload
def run(
    function: str | None = None,
    /,
    *,
    name: str | None = None,
    id: Given = None,
    user: Given = None,
    tenant: Given = None,
    session: Given = None,
    flags: Mapping[str, object] | Callable[..., Mapping[str, object]] | None = None,
    agent: bool = False,
    input: Any = None,
) -> RunScope: ...
def run(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    id: Given = None,  # noqa: A002 - the word that users expect
    user: Given = None,
    tenant: Given = None,
    session: Given = None,
    flags: Mapping[str, object] | Callable[..., Mapping[str, object]] | None = None,
    agent: bool = False,
    input: Any = None,  # noqa: A002 - the word that users expect
) -> Any:
    """Mark a run's entry point: as a decorator, a decorator with options, or a context manager (also ``async with``).

    Exceptions are recorded and propagate unchanged. Inside another run, it is a plain span of that run.

    Args:
        function: the function to mark; or the name, for ``with run("name")``.
        name: the run's name, by default the function's.
        id: the application's own id for the run. Each of `id`, `user`, `tenant`, `session` is a text, or a function of the
            entry point's arguments that returns one.
        user: the user for whom it ran.
        tenant: the tenant on whose behalf it ran.
        session: the conversation.
        flags: feature flags and their values; more can be added with `freezeframe.flag`.
        agent: the entry point is an agent (``invoke_agent``) rather than a workflow.
        input: for ``with``: the run's input.
    """
    if isinstance(function, str):
        function, name = None, function
    scope = RunScope(
        _Options(name=name, id=id, user=user, tenant=tenant, session=session, flags=flags, agent=agent, input=input)
    )
    return scope if function is None else scope(function)


class RunScope:
    """Result of `run(...)`: a decorator and a context manager."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._open: list[tuple[EntryScope, Any, CurrentRun]] = []

    # -- with -----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> CurrentRun:
        name = self._options.name or "run"
        point = command_entry(values.encode(self._options.input), name)
        if switch.recorder() is not None:
            with guard("run.input"):
                point = replace(point, gaps=tuple(input_gaps({"input": self._options.input}, is_passed=False)))
        scope = EntryScope(point, self._options.context(name, (), {}))
        scope.look = lost_of_outcome
        inside = scope.inside()
        inside.__enter__()
        current = CurrentRun(scope.run)
        self._open.append((scope, inside, current))
        return current

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        scope, inside, current = self._open.pop()
        inside.__exit__(None, None, None)
        output = None if error is not None else values.encode(current.output)
        scope.finish(output=output, result=current.output, error=error)

    async def __aenter__(self) -> CurrentRun:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # -- decorator ------------------------------------------------------------------------------------------------------

    def __call__(self, function: _F) -> _F:
        return _wrap(function, self._options)


def _wrap(function: Any, options: _Options) -> Any:
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_wrap(function.__func__, options))
    if is_of_program(file_of(function) or ""):
        ACTIVITY.mark()
    entry = _MarkedFunction(function, options)
    entry.reach.marked = marked = _marked(function, entry)
    setattr(marked, _MARK, entry)
    return marked


def is_marked(found: Any) -> bool:
    """Return whether a function was marked with `run`, below whatever decorators.

    Reads no attribute that an object computes.
    """
    for _ in range(_MAX_WRAPPERS):
        found = found.__func__ if isinstance(found, MethodType) else found
        if isinstance(inspect.getattr_static(found, _MARK, None), _MarkedFunction):
            return True
        found = inspect.getattr_static(found, "__wrapped__", None)
        if found is None:
            return False
    return False


def _marked(function: Any, entry: _MarkedFunction) -> Any:
    """Return a wrapper of the same kind as the function, each call of which is a run."""
    if inspect.isasyncgenfunction(function):
        return watched_async_generator(function, entry.watched)
    if inspect.isgeneratorfunction(function):
        return watched_generator(function, entry.watched)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            if not calls.is_on():
                return await function(*args, **kwargs)
            scope = entry.begin(args, kwargs)
            try:
                with scope.inside():
                    result = await function(*args, **kwargs)
            except BaseException as error:
                scope.finish(error=error)
                raise
            scope.finish(output=values.encode(result), result=result)
            return result

        return async_wrapper

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not calls.is_on():
            return function(*args, **kwargs)
        scope = entry.begin(args, kwargs)
        try:
            with scope.inside():
                result = function(*args, **kwargs)
        except BaseException as error:
            scope.finish(error=error)
            raise
        scope.finish(output=values.encode(result), result=result)
        return result

    return wrapper


class _MarkedFunction:
    """A function marked as an entry point: begins a run for a call of it."""

    def __init__(self, function: Any, options: _Options) -> None:
        self._function = function
        self._options = options
        self._bind = Binder(function)
        self._name = options.name or named(function).__name__
        self.reach = Reach(function, takes_self=self._bind.drops_self)

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> EntryScope:
        positional, named = self._bind.bound(args, kwargs)
        point = EntryPoint(
            kind=EntryKind.FUNCTION,
            name=self._name,
            target=target_of(self._function),
            file=file_of(self._function),
            input=values.encode({"args": positional, "kwargs": named}),
            operation=genai.OP_INVOKE_AGENT if self._options.agent else genai.OP_INVOKE_WORKFLOW,
            argv=_arguments_of_its_script(self._function),
            gaps=self._gaps_of(positional, named),
            reach=self.reach.gaps,
        )
        context = self._options.context(self._name, args, kwargs)
        if self.reach.in_trio:
            context.note_reading(genai.TRIO_FEED, "")
        scope = EntryScope(point, context)
        scope.look = functools.partial(left_open, positional, named, point.input)
        return scope

    def _gaps_of(self, positional: list[Any], named: dict[str, Any]) -> tuple[Gap, ...]:
        with guard("run.input"):
            if switch.recorder() is not None and current_place().takes_run:
                self.reach.look()
                arguments = {str(number): value for number, value in enumerate(positional, 1)} | named
                return (*carried_into(self._function), *input_gaps(arguments))
        return ()

    def watched(self, *args: Any, **kwargs: Any) -> tuple[Any, _Yields]:
        return self._function(*args, **kwargs), _Yields(self.begin(args, kwargs))


class _Yields:
    """Watches an entry point that is a generator: its output is ``{"yields": [...], "return": ...}``."""

    __slots__ = ("_items", "_items_answered", "_scope")

    def __init__(self, scope: EntryScope) -> None:
        self._scope = scope
        self._items_answered = False
        self._items: list[Any] = []

    def inside(self) -> AbstractContextManager[None]:
        return self._scope.inside()

    def add(self, item: object) -> None:
        self._items.append(item)

    def sent(self) -> None:
        with guard("run.sent"):
            if self._scope.payload is not None and not self._items_answered:
                self._items_answered = True
                self._scope.payload.add_gap(
                    Gap(
                        kind=GapKind.CALLER_LEFT,
                        text=f"the caller sends values into the generator, {NOT_REPEATED}",
                        do="mark the function that sends them",
                    )
                )

    def end(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        if error is not None:
            self._scope.finish(error=error, yields=self._items)
            return
        output: dict[str, Any] = {"yields": self._items}
        if completion is Completion.COMPLETE:
            output["return"] = result
        self._scope.finish(output=values.encode(output), result=self._items)


def flag(key: str, value: _V) -> _V:
    """Note the value of a feature flag as the current run saw it, and return it. Outside a run, only return it.

    In a replay it returns the recorded value, so code that uses the returned value takes the recorded path:

        if freezeframe.flag("new-prices", flags.is_on("new-prices")): ...
    """
    context = current_place().run
    return value if context is None else _note_flag(context, key, value)


def _note_flag(context: RunContext, key: str, value: Any) -> Any:
    responder = switch.serving()
    if responder is not None:
        recorded = responder.recall(Feed.FLAG, key)
        value = value if recorded is None else values.decode(recorded)
    with guard("flag"):
        context.note_flag(key, value)
    return value


def current_run() -> CurrentRun | None:
    """Return the current run, also in its tasks and threads."""
    context = current_place().run
    return None if context is None else CurrentRun(context)


def _resolve(given: Given, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    value = _call(given, args, kwargs) if callable(given) else given
    return None if value is None else str(value)


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the user's function with the entry point's arguments that it names. The run does not fail if it fails."""
    with guard("run option"):
        parameters = inspect.signature(function).parameters.values()
        if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            return function(*args, **kwargs)
        names = [parameter.name for parameter in parameters]
        return function(*args[: len(names)], **{name: value for name, value in kwargs.items() if name in names})
    return None


def target_of(function: Any) -> str:
    """Return ``module:qualname``; for ``python -m package.module`` the module's real name."""
    function = named(function)
    module = getattr(function, "__module__", None) or "builtins"
    if module == "__main__":
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        module = spec.name if spec is not None else module
    return f"{module}:{function.__qualname__}"


def _arguments_of_its_script(function: Any) -> tuple[str, ...]:
    if getattr(named(function), "__module__", None) != "__main__":
        return ()
    return tuple(word for word in getattr(sys, "argv", ())[1:] if isinstance(word, str))


def file_of(function: Any) -> str | None:
    """Return the source file of a function, relative to the working directory if it is below; None for a notebook's."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return None
    if path is None or path.startswith("<") or "/ipykernel_" in path:  # IPython's and Jupyter's names for a cell
        return None
    return relative_path(path)
