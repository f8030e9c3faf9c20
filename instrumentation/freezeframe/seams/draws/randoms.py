"""`random`: the draws of each task and thread from the generator that the whole program shares; a replay repeats them.

The program's numbers are the same as without freezeframe. We record places, not numbers: a generator yields a
row of words that follows from its state, and a reading holds the word at which a lane continued after another
one had drawn. So a loop of
a million draws is one reading. In a replay each lane draws its own words, whatever the scheduler does.

An *epoch* is a row of words from one state. A new one begins when the program seeds, and when something drew unseen (by a
name that was imported before capture began, or from C).

Readings are kept by lane and by calling file, as for `uuids`:

- ``random LANE FILE``: ``EPOCH+WORD:WORDS``, the last one of a lane has no length while it draws; and results of `gauss`.
- ``random-epoch N``: the state that an epoch began with.
- ``random-seed LANE FILE``: a digest of the state that a seed led to. If a replay reaches a different one, the program draws
  for itself from there on.
- ``random-own LANE FILE``: the seed of a generator that the program made without one, in the run or before it.

Results of `secrets`, `os.urandom` and ``SystemRandom`` are meant to be secret. Using them is a gap of the run.
"""

from __future__ import annotations

import _thread
import functools
import hashlib
import os
import random
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, Final

from freezeframe._guard import guard, report
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import PLACE, current_place
from freezeframe.context.draws import UNRECORDED, asker, is_of_program
from freezeframe.seams.draws.drawn import WORD_BITS
from freezeframe.seams.draws.shared_random import FILES, SHARED
from freezeframe.seams.draws.uuids import ORIGINAL
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.readings import draws_of, feed_of, note, recall

_SEED_BYTES: Final = 32
_MAX_SEED: Final = 1 << 64
_system_random: Final = os.urandom
_MADE_KEPT: Final = 100
MADE_BEFORE: Final[list[tuple[str, str]]] = []
"""Readings of the generators that the program made outside any run: each run may draw from them, so each has these readings."""
_WORD: Final = WORD_BITS
_TURNED_OFF: Final = ("random", "getrandbits")
"""All other methods draw through these two, which programs rarely call themselves."""


def install(module: ModuleType, patches: Patches) -> None:
    """Watch the generator that the functions of ``random`` share, in whatever modules imported them, and seed the others."""
    shared: Any = vars(module)["_inst"]
    SHARED.watch(shared)
    wraps: dict[str, Callable[[Any], Any]] = {
        "random": _wrap_random,
        "getrandbits": _wrap_getrandbits,
        "gauss": _wrap_gauss,
        "seed": _wrap_seed,
        "setstate": _wrap_seed,
        "getstate": _wrap_getstate,
    }
    originals = {name: getattr(module, name) for name in wraps}
    ours = {name: wrap(originals[name]) for name, wrap in wraps.items()}
    for name, mine in ours.items():
        patches.replace(shared, name, lambda _, mine=mine: mine)
    patches.everywhere(module, ours | {name: SHARED.turnable(name, ours[name], originals[name]) for name in _TURNED_OFF})
    patches.replace(module.Random, "seed", _wrap_seed_of_own)
    for owner, name in ((module, "_urandom"), (os, "urandom"), (os, "getrandom")):
        if hasattr(owner, name):
            patches.replace(owner, name, functools.partial(_wrap_urandom, owner, name))


# -- the functions ------------------------------------------------------------------------------------------------------


def _wrap_random(original: Callable[[], float]) -> Callable[[], float]:
    shared, activity, frame_of, place_of, thread_of = SHARED, ACTIVITY, sys._getframe, PLACE.get, _thread.get_ident

    def drawn_random() -> float:
        with shared.lock:
            if not activity.is_replay:
                depth = shared.depth
                try:  # as `shared.come` does, in a tenth of the time
                    is_known = (
                        place_of(None) is shared.raw_place
                        and frame_of(depth + 1).f_code is shared.code
                        and (not depth or frame_of(depth).f_code is shared.last)
                        and thread_of() == shared.thread
                    )
                except ValueError:  # fewer frames
                    is_known = False
                if not is_known:
                    shared.come(frame_of(1))
            elif (lane := shared.served.lane(sys._getframe(1), FILES)) is not None:
                lane.drew(2)
                return lane.generator.random()
            shared.words += 2
            return original()

    return drawn_random


def _wrap_getrandbits(original: Callable[[int], int]) -> Callable[[int], int]:
    shared, activity, frame_of, place_of, thread_of = SHARED, ACTIVITY, sys._getframe, PLACE.get, _thread.get_ident

    def getrandbits(k: int, /) -> int:
        with shared.lock:
            if not activity.is_replay:
                depth = shared.depth
                try:
                    is_known = (
                        place_of(None) is shared.raw_place
                        and frame_of(depth + 1).f_code is shared.code
                        and (not depth or frame_of(depth).f_code is shared.last)
                        and thread_of() == shared.thread
                    )
                except ValueError:
                    is_known = False
                if not is_known:
                    shared.come(frame_of(1))
            elif (lane := shared.served.lane(sys._getframe(1), FILES)) is not None:
                lane.drew((k + _WORD - 1) // _WORD)
                return lane.generator.getrandbits(k)
            bits = original(k)
            shared.words += (k + _WORD - 1) // _WORD
            return bits

    return getrandbits


def _wrap_gauss(original: Callable[..., float]) -> Callable[..., float]:
    """Every second number of ``gauss`` is made together with the one before."""
    shared = SHARED

    @functools.wraps(original)
    def gauss(*args: Any, **kwargs: Any) -> float:
        with shared.lock:
            generator = shared.generator
            if switch.serving() is None:
                shared.come(sys._getframe(1))
                shared.take_gauss()
            elif (lane := shared.served.lane(sys._getframe(1), FILES, for_gauss=True)) is not None:
                generator.gauss_next, kept = lane.gauss_next, generator.gauss_next
                try:
                    return original(*args, **kwargs)
                finally:
                    lane.gauss_next, generator.gauss_next = generator.gauss_next, kept
            return original(*args, **kwargs)

    return gauss


def _wrap_seed(original: Callable[..., None]) -> Callable[..., None]:
    """Both ``seed`` and ``setstate``."""
    shared = SHARED

    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> None:
        place = current_place()
        draws = draws_of(place)
        with shared.lock:
            if draws is not None:
                shared.mark(draws)
            original(*args, **kwargs)
            number = args[0] if len(args) == 1 and not kwargs and original.__name__ == "seed" else None
            is_short = type(number) is int and abs(number) < _MAX_SEED
            shared.begin_epoch(f"seed {number}" if is_short else "")
            if place.inside_call:
                return
            with guard("randoms.seed"):
                from_outside = original.__name__ == "seed" and (args or (kwargs.get("a"),))[0] is None
                feed = feed_of("random-seed", place, asker(sys._getframe(1), FILES))
                now = "" if from_outside else hashlib.sha256(repr(shared.getstate()).encode()).hexdigest()[:16]
                if switch.serving() is not None and recall(feed) != now:
                    shared.served.is_left = True
                if draws is not None and draws.take():
                    note(place, feed, now)

    return seed


def _wrap_getstate(original: Callable[[], Any]) -> Callable[[], Any]:
    """Record a state as a separate reading: it belongs to the whole program, not only to its lane."""
    shared = SHARED

    @functools.wraps(original)
    def getstate() -> Any:
        with shared.lock:
            if switch.serving() is None:
                shared.come_anew(sys._getframe(1))
            elif (lane := shared.served.lane(sys._getframe(1), FILES, anew=True)) is not None:
                version, words, _ = lane.generator.getstate()
                return version, words, lane.gauss_next
            return original()

    return getstate


def _wrap_seed_of_own(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None and self is not SHARED.generator:
            with guard("randoms.own"):
                a = recorded_seed(asker(sys._getframe(1), FILES))
        original(self, a, version)

    return seed


def recorded_seed(file: str) -> int | None:
    """Return a seed for a generator that a file made without one, the recorded one in a replay; None if nothing is recorded."""
    place = current_place()
    draws = draws_of(place)
    is_before = place.run is None and switch.recorder() is not None and len(MADE_BEFORE) < _MADE_KEPT and is_of_program(file)
    if place.inside_call or (switch.serving() is None and draws is None and not is_before):
        return None
    feed = feed_of("random-own", place, file)
    seed = recall(feed) or _system_random(_SEED_BYTES).hex()
    if draws is not None and draws.take():
        note(place, feed, seed)
    if is_before:
        MADE_BEFORE.append((feed, seed))
    return int(seed, 16)


def _wrap_urandom(owner: Any, name: str, original: Callable[..., bytes]) -> Callable[..., bytes]:
    """Note that the program draws secrets, once per run; then put the original back until the next run begins."""

    @functools.wraps(original)
    def urandom(*size: Any, **flags: Any) -> bytes:
        is_known = not ACTIVITY.on
        if not is_known:
            frame = sys._getframe(1)
            if frame.f_code.co_filename in _FOREIGN:
                return original(*size, **flags)
            try:
                is_known = _notes_secret(frame)
            except Exception as error:
                report("randoms.urandom", error)
        if is_known:
            ACTIVITY.put_aside(owner, name, urandom, original, most=1)
        return original(*size, **flags)

    ours: Any = urandom
    setattr(ours, ORIGINAL, original)
    return urandom


def _notes_secret(frame: FrameType) -> bool:
    """Note that a frame of the program draws unrecorded secrets; return whether its run has that note already."""
    place = current_place()
    draws = None if place.inside_call else draws_of(place)
    if draws is None:
        return False
    if UNRECORDED not in draws.lost:
        if is_of_program(asker(frame, _SECRET_FILES)):
            draws.lost[UNRECORDED] += 1
        elif (file := frame.f_code.co_filename) not in _SECRET_FILES and len(_FOREIGN) < _MAX_FOREIGN:
            _FOREIGN.add(file)
    return UNRECORDED in draws.lost


_FOREIGN: Final[set[str]] = set()
"""Files that are not the program's and draw secrets for themselves."""
_MAX_FOREIGN: Final = 1_000
_SECRET_FILES: Final = (random.__file__, os.path.join(os.path.dirname(random.__file__), "secrets.py"), __file__)
