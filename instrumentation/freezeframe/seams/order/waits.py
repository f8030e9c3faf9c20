"""The clock of a replay for programs that wait: event loops take their time from it; a thread's frame shows that it sleeps.

Only a replay installs it. A recorded program waits as usual.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches


def install(patches: Patches) -> None:
    """Replace the clock of asyncio's own event loops, and ``time.sleep``."""
    patches.around(asyncio.BaseEventLoop, "time", _loop_time)
    patches.replace(time, "sleep", lambda original: _sleep)


def _loop_time(original: Callable[[Any], float], loop: Any) -> float:
    responder = switch.serving()
    recorded = None if responder is None else responder.loop_time(loop)
    return original(loop) if recorded is None else recorded


real_sleep: Final = time.sleep


def _sleep(seconds: float, /) -> None:
    real_sleep(seconds)


SLEEP: Final[CodeType] = _sleep.__code__
"""The code in which a thread sleeps while a replay is served."""
