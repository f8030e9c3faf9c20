"""SIGTERM: deliver what is queued, within a time limit, and then let it do what it would have done.

We install a handler only if there is none: if SIGTERM has its default action when `instrument()` is called. A handler of the
application is never replaced, wrapped or called, whether it was there before or comes later; if it ends the process in an
orderly way, what is queued is delivered at exit. If a later handler calls the one that it found, ours delivers and returns, as
if there had been none.

Like every handler in Python it runs in the main thread, between two instructions. So SIGTERM during a long native call
waits for the call to return.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

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
