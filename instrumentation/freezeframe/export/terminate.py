"""SIGTERM, ``os._exit`` and ``os.exec*``: deliver queued spans, within a time limit, and then let them end the process.

We install a handler only if SIGTERM has its default action when `instrument()` is called. A handler of the
application is never replaced, wrapped or called, whether it was there before or comes later; if it ends the
process in an orderly way, queued spans are delivered at exit. If a later handler calls the previous one, ours
delivers and returns.

Like every handler in Python it runs in the main thread, between two instructions. So SIGTERM during a long native call
waits for the call to return, and one that comes right before the main thread waits for a lock is seen when that is over, or
at the next signal. If the main thread is importing a module, it goes on while another thread delivers, for the
delivery may need that module: as if the signal had come that much later. Forked children and libraries for
processes end by ``os._exit``. Like ``os.exec*``, by which a program replaces
itself, it skips every `atexit`.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from freezeframe._guard import guard
from freezeframe.export.export_queue import is_importing

if TYPE_CHECKING:
    from collections.abc import Callable


_AGAIN_S: Final = 0.1
"""Seconds between the signals that end a process whose spans another thread has delivered."""


def flush_before_termination(flush: Callable[[], object]) -> Callable[[], None]:
    """Call `flush` before SIGTERM ends the process; return a function that undoes that."""

    delivered = False

    def deliver(number: int, frame: object) -> None:
        del frame
        own = signal.getsignal(number) is deliver  # else a later handler calls the one that it found
        if own and not delivered and (is_importing(threading.current_thread()) or not flushed()):
            with guard("terminate.aside"):
                _thread.start_new_thread(deliver_aside, (number,))  # takes no lock that the main thread may hold
                return
        if not own and not delivered:
            with guard("terminate"):
                flush()
        if own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def flushed() -> bool:
        try:
            flush()
        except Exception:  # gevent runs handlers in its event loop, which must not block
            return False
        return True

    def deliver_aside(number: int) -> None:
        nonlocal delivered
        try:
            with guard("terminate"):
                flush()
        finally:
            delivered = True
            os.kill(os.getpid(), number)
            while signal.getsignal(number) is deliver:
                time.sleep(_AGAIN_S)
                os.kill(os.getpid(), number)  # one that came right before the main thread waits for a lock did not wake it

    def handle(former: object, handler: Any) -> None:
        """Set a handler if `former` is the present one. With eventlet, only `signal` knows whether this is the main thread."""
        with guard("terminate.handle"), contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) is former:
                signal.signal(signal.SIGTERM, handler)

    handle(signal.SIG_DFL, deliver)
    return lambda: handle(deliver, signal.SIG_DFL)


def flush_before_exit(flush: Callable[[], object]) -> Callable[[], None]:
    """Call `flush` before ``os._exit`` or ``os.exec*`` ends the program; return a function that undoes that."""
    originals = {name: getattr(os, name) for name in ("_exit", "execv", "execve")}  # the others call one of these
    ours = {name: _flushed(original, flush) for name, original in originals.items()}

    def take_back() -> None:
        for name, original in originals.items():
            if getattr(os, name) is ours[name]:
                setattr(os, name, original)

    for name, leave in ours.items():
        setattr(os, name, leave)
    return take_back


def _flushed(original: Callable[..., NoReturn], flush: Callable[[], object]) -> Callable[..., NoReturn]:
    @functools.wraps(original)
    def leave(*args: Any, **kwargs: Any) -> NoReturn:
        with guard("exit"):
            flush()
        original(*args, **kwargs)

    return leave
