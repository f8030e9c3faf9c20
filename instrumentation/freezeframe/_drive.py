"""Watched generators, sync and async: wrappers of the same kind, and one loop that drives the wrapped generator.

``yield from`` cannot be watched, and asynchronous generators do not have it. Everything that the consumer sends
or throws reaches the generator, and so does its close; every exception of the generator reaches the consumer.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from freezeframe_schemas.exchange import Completion


class Watcher(Protocol):
    """Watches a generator."""

    def inside(self) -> AbstractContextManager[None]:
        """Return the context in which the generator's own code runs."""
        ...

    def add(self, item: object) -> None:
        """Called with each item, before the consumer gets it."""
        ...

    def sent(self) -> None:
        """Called when the consumer sends a value into the generator."""
        ...

    def end(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        """Called once at the end: it returned (with its result), raised, or was closed by the consumer."""
        ...


def watched_generator(function: Any, begin: Callable[..., tuple[Generator[Any, Any, Any], Watcher]]) -> Any:
    """Return a generator function like `function`; `begin` is called with its arguments at the first step."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        source, watcher = begin(*args, **kwargs)
        step: Callable[[], Any] = partial(next, source)
        while True:
            try:
                with watcher.inside():
                    item = step()
            except StopIteration as stop:
                watcher.end(Completion.COMPLETE, result=stop.value)
                return stop.value
            except BaseException as error:
                watcher.end(Completion.BROKEN, error)
                raise
            watcher.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                try:
                    with watcher.inside():
                        source.close()
                finally:
                    watcher.end(Completion.CLOSED_EARLY)
                raise
            except BaseException as error:
                step = partial(source.throw, error)
            else:
                step = partial(source.send, sent)
                if sent is not None:
                    watcher.sent()

    return wrapper


def watched_async_generator(function: Any, begin: Callable[..., tuple[AsyncGenerator[Any, Any], Watcher]]) -> Any:
    """As `watched_generator`, for an asynchronous generator function."""

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        source, watcher = begin(*args, **kwargs)
        step: Callable[[], Awaitable[Any]] = partial(anext, source)
        while True:
            try:
                with watcher.inside():
                    item = await step()
            except StopAsyncIteration:
                watcher.end(Completion.COMPLETE)
                return
            except BaseException as error:
                watcher.end(Completion.BROKEN, error)
                raise
            watcher.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                try:
                    with watcher.inside():
                        await source.aclose()
                finally:
                    watcher.end(Completion.CLOSED_EARLY)
                raise
            except BaseException as error:
                step = partial(source.athrow, error)
            else:
                step = partial(source.asend, sent)
                if sent is not None:
                    watcher.sent()

    return wrapper
