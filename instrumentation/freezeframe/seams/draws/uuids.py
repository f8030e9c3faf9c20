"""UUIDs: results of `uuid.uuid4` and ``uuid.uuid1`` in a run, or in a script that is one as a whole; a replay repeats them.

The same goes for uuid4 and uuid7 of `uuid_utils.compat`, from which LangChain makes its message ids.

The functions themselves stay unchanged, because programs import them by name; we replace their source of
randomness inside the `uuid` module. Readings are kept by lane and by calling file, so a library that draws more
often than before does not shift those of others. `secrets` and `os.urandom` are left alone: their results are
meant to be secret.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import report
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import current_place
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.readings import feed_of, is_kept_before, is_read_inside, note, note_before, recall

ORIGINAL: Final = "freezeframe_original"
"""The attribute by which our `os.urandom` names Python's: bytes recorded here are not a secret that the program draws."""
_ASKER: Final = 3
"""Frames from `_keep` up to the caller: our stand-in, the function of `uuid`, its caller."""


def install(module: ModuleType, patches: Patches) -> None:
    """Replace the source of randomness of ``uuid``."""
    patches.replace(module, "os", functools.partial(_Os, module))
    if getattr(module, "_generate_time_safe", None) is not None:
        patches.replace(module, "_generate_time_safe", _wrap_time)


def install_compat(module: ModuleType, patches: Patches) -> None:
    """Replace the source of randomness of ``uuid_utils.compat``, if this version uses it for `uuid4` and ``uuid7``."""
    for name in ("_uuid4_int", "_uuid7_int"):
        if getattr(module, name, None) is not None:
            patches.replace(module, name, _wrap_number)


def _wrap_number(original: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(original)
    def number(*args: Any) -> int:
        return int.from_bytes(_keep(16, lambda size: original(*args).to_bytes(size)))

    return number


class _Os:
    """``os`` as `uuid` sees it."""

    def __init__(self, module: ModuleType, original: Any) -> None:
        self._module = module
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def urandom(self, size: int) -> bytes:
        if not ACTIVITY.on and not is_kept_before():
            ACTIVITY.put_aside(self._module, "os", self, self._original)
            return os.urandom(size)
        return _keep(size, getattr(os.urandom, ORIGINAL, os.urandom))


def _wrap_time(original: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    @functools.wraps(original)
    def generate_time_safe() -> tuple[bytes, Any]:
        safely: list[Any] = [None]

        def draw(size: int) -> bytes:
            del size
            drawn, safely[0] = original()
            return drawn

        return _keep(16, draw), safely[0]

    return generate_time_safe


def _keep(size: int, draw: Callable[[int], bytes]) -> bytes:
    """Return the recorded bytes in a replay; else newly drawn ones, noted if a run is recorded."""
    place = current_place()
    feed, file = "", sys._getframe(_ASKER).f_code.co_filename
    try:
        if place.inside_call and not is_read_inside(place, file):
            return draw(size)
        feed = feed_of("uuid", place, file)
    except Exception as error:
        report("uuids.feed", error)
    recorded = recall(feed)
    if recorded is None and place.run_anew and (responder := switch.serving()) is not None:
        responder.unserved("draws a UUID")
    drawn = draw(size) if recorded is None else bytes.fromhex(recorded)
    try:
        note(place, feed, drawn.hex())
        if place.run is None:
            note_before(place, file, feed, drawn.hex())
    except Exception as error:
        report("uuids.note", error)
    return drawn
