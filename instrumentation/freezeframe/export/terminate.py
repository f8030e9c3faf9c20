"""SIGTERM and ``os._exit``: deliver what is queued, within a time limit, and then let them do what they would have done.

We install a handler only if there is none: if SIGTERM has its default action when `instrument()` is called. A handler of the
application is never replaced, wrapped or called, whether it was there before or comes later; if it ends the process in an
orderly way, what is queued is delivered at exit. If a later handler calls the one that it found, ours delivers and returns, as
if there had been none.

Like every handler in Python it runs in the main thread, between two instructions. So SIGTERM during a long native call
waits for the call to return.

``os._exit`` is how a forked child ends, and what libraries for processes call. It skips every `atexit`.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from typing import TYPE_CHECKING, NoReturn

from freezeframe._guard import guard

if TYPE_CHECKING:
    from collections.abc import Callable


def flush_before_termination(flush: Callable[[], object]) -> Callable[[], None]:
    """Call `flush` before SIGTERM ends the process; return a function that undoes that."""

    def deliver(number: int, frame: object) -> None:
        del frame
        own = signal.getsignal(number) is deliver  # else a later handler calls the one that it found
        with guard("terminate"):
            flush()
        if own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def take_back() -> None:
        with guard("terminate.take_back"):
            if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is deliver:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    with guard("terminate.begin"):
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, deliver)
    return take_back


def flush_before_exit(flush: Callable[[], object]) -> Callable[[], None]:
    """Call `flush` before ``os._exit`` ends the process; return a function that undoes that."""
    original = os._exit

    @functools.wraps(original)
    def leave(status: int) -> NoReturn:
        with guard("exit"):
            flush()
        original(status)

    def take_back() -> None:
        if os._exit is leave:
            os._exit = original

    os._exit = leave
    return take_back
