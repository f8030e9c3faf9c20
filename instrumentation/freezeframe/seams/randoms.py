"""`random`: what each task and thread drew from the generator that the whole program shares; in a replay each draws the same.

The program's numbers are the same as without freezeframe. We record where a lane drew, not what: a generator yields a row of
words that follows from its state, and a reading says at which word a lane continued after another one had drawn. So a loop of
a million draws is one reading. In a replay each lane draws its own words, whatever the scheduler does.

An *epoch* is a row of words from one state. A new one begins when the program seeds, and when something drew unseen (by a
name that was imported before capture began, or from C).

Readings are kept by lane and by calling file, as for `uuids`:

- ``random LANE FILE``: ``EPOCH+WORD:WORDS``, the last one of a lane has no length while it draws; and what `gauss` returned.
- ``random-epoch N``: the state that an epoch began with.
- ``random-seed LANE FILE``: a digest of the state that a seed led to. If a replay reaches a different one, the program draws
  for itself from there on.
- ``random-own LANE FILE``: the seed of a generator that the program made without one, in the run or before it.

What `secrets`, `os.urandom` and ``SystemRandom`` return is meant to be secret. Using them is a gap of
the run.
"""

from __future__ import annotations

import _thread
import functools
import hashlib
import os
import random
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

from freezeframe._context import PLACE, Place, current_place
from freezeframe._draws import UNRECORDED, Draws, asker, is_of_program
from freezeframe._guard import guard
from freezeframe.seams import _port
from freezeframe.seams.drawn import GIVEN, GONE, WORD_BITS, Served, state_to_text
from freezeframe.seams.patching import Patches, importers
from freezeframe.seams.readings import draws_of, feed_of, note, recall

_STATE_WORDS: Final = 624
_FILES: Final = (random.__file__, __file__)
_SEED_BYTES: Final = 32
_LARGEST_SEED: Final = 1 << 64
_NOWHERE: Final = object()
"""Means that no place was read yet, not even None."""
_system_random: Final = os.urandom
_MADE_KEPT: Final = 100
MADE_BEFORE: Final[list[tuple[str, str]]] = []
"""Readings of the generators that the program made outside any run: each run may draw from them, so each has these."""


def install(module: ModuleType, patches: Patches) -> None:
    """Watch the generator that the functions of ``random`` share, wherever they were imported to, and seed the others."""
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
    for importer, alias, name in list(importers(originals)):
        patches.replace(importer, alias, lambda _, mine=ours[name]: mine)
    patches.replace(module.Random, "seed", _wrap_seed_of_own)
    patches.replace(module, "_urandom", _wrap_urandom)
    patches.replace(os, "urandom", _wrap_urandom)


class _Shared:
    """The shared generator: who draws from it, and how far."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant: a signal's handler may draw, too
        self.generator: Any = None
        self.getstate: Callable[[], Any] = random.getstate
        self.words = 0
        self._epoch = 0
        self._epoch_text = ""
        self._began_at = 0
        """The index into the state's words that the epoch began with."""
        self._place: Place | None = None
        self.code: CodeType | None = None
        self.raw_place: object = _NOWHERE
        self.thread = 0
        self._file = ""
        self._drawer: tuple[Draws, str] | None = None
        self._row: list[str] | None = None
        self._row_from = 0
        self._made_gauss: tuple[Place, tuple[Draws, str] | None] | None = None
        """The place that made the number that `gauss` will return next."""
        self.served = Served()

    def watch(self, generator: Any) -> None:
        """Watch a generator from its present state on."""
        self.generator, self.getstate = generator, generator.getstate
        self.begin_epoch()
        self.served = Served()

    def after_fork(self) -> None:
        """Make it usable in a newly forked process; `random` seeds it there."""
        self.lock = threading.RLock()

    def mark(self, draws: Draws) -> Any:
        """Begin a run; return the state that it begins with, None if nothing is watched."""
        with self.lock:
            self._go_on_elsewhere()
            self._verify()
            draws.base = (self._epoch, self.words)
            draws.state = self.getstate()
            return draws.state

    def is_changed(self, state: Any) -> bool:
        """Return whether the generator is in another state."""
        with self.lock:
            return self.getstate() != state

    def begin_epoch(self, text: str = "") -> None:
        """Count from the generator's present state; `text` describes it, if there is a shorter form."""
        self._go_on_elsewhere()
        state = self.getstate()[1]
        self._epoch += 1
        self._epoch_text = text or state_to_text(state)
        self._began_at, self.words = state[-1], 0

    def come(self, frame: FrameType) -> None:
        """Called when a frame is about to draw: the same code in the same place as last time, or another."""
        raw, thread = PLACE.get(None), _thread.get_ident()
        file = asker(frame, _FILES)
        if raw is self.raw_place and thread == self.thread and file is self._file:
            return
        place = current_place()
        # Any code may call code in `random` itself.
        self.code = None if frame.f_code.co_filename == _FILES[0] else frame.f_code
        self.raw_place, self.thread = raw, thread
        if place is self._place and file is self._file:
            return
        draws = draws_of(place)
        drawer = None if draws is None else (draws, feed_of("random", place, file))
        self._place, self._file = place, file
        if drawer == self._drawer:
            return
        self._close_row()
        self._drawer = drawer
        if drawer is not None:
            with guard("randoms.row"):
                self._open_row(place, *drawer)

    def come_anew(self, frame: FrameType) -> None:
        """Begin a row with a frame, whatever drew before."""
        self._go_on_elsewhere()
        self.come(frame)

    def take_gauss(self) -> None:
        """Called when the current frame calls `gauss`, which returns the number made with the last one, for any lane."""
        made, made_by = self.generator.gauss_next, self._made_gauss
        if made is None:
            self._made_gauss = None if self._place is None else (self._place, self._drawer)
        elif made_by is None or made_by[1] != self._drawer:
            self._close_row()
            maker_place, maker = made_by or (None, None)
            _note_gauss(self._place, self._drawer, f"{GIVEN}{made.hex()}")
            _note_gauss(maker_place, maker, GONE)
            self._go_on_elsewhere()

    def _open_row(self, place: Place, draws: Draws, feed: str) -> None:
        draws.is_drawn = True
        self._verify()
        if not draws.take():
            return
        base_epoch, base_words = draws.base or (self._epoch, 0)
        if self._epoch != base_epoch and self._epoch not in draws.epochs:
            draws.epochs.add(self._epoch)
            note(place, f"random-epoch {self._epoch - base_epoch}", self._epoch_text)
        start = self.words - (base_words if self._epoch == base_epoch else 0)
        self._row = note(place, feed, f"{self._epoch - base_epoch}+{start}")
        self._row_from = self.words

    def _close_row(self) -> None:
        if self._row:
            self._row[-1] += f":{self.words - self._row_from}"
        self._row = None

    def _go_on_elsewhere(self) -> None:
        self._close_row()
        self._place = self.code = self._drawer = None
        self.raw_place = _NOWHERE

    def _verify(self) -> None:
        """Begin an epoch if the generator is not where our count puts it."""
        expected = self._began_at if not self.words else (self._began_at + self.words - 1) % _STATE_WORDS + 1
        if self.getstate()[1][-1] != expected:
            drawer, place, code = self._drawer, self._place, self.code
            self.begin_epoch()
            self._drawer, self._place, self.code = drawer, place, code


SHARED: Final = _Shared()
os.register_at_fork(after_in_child=SHARED.after_fork)


def restore(state: Any) -> None:
    """Put `random` into the state that the replayed run began with."""
    with SHARED.lock:
        if SHARED.generator is None:
            random.setstate(state)
            return
        type(SHARED.generator).setstate(SHARED.generator, state)
        SHARED.begin_epoch()
        SHARED.served.restore(state)


def is_changed(state: Any) -> bool:
    """Return whether anything drew from `random` since it was in a state."""
    return SHARED.is_changed(state)


def mark(draws: Draws) -> Any:
    """Begin a recorded run; return the state of `random`."""
    return SHARED.mark(draws)


# -- the functions ------------------------------------------------------------------------------------------------------


def _wrap_random(original: Callable[[], float]) -> Callable[[], float]:
    shared, serving, frame_of, place_of, thread_of = SHARED, _port.serving, sys._getframe, PLACE.get, _thread.get_ident

    def drawn_random() -> float:
        with shared.lock:
            if serving() is None:
                if (
                    place_of(None) is not shared.raw_place
                    or frame_of(1).f_code is not shared.code
                    or thread_of() != shared.thread
                ):
                    shared.come(frame_of(1))
            elif (lane := shared.served.lane(sys._getframe(1), _FILES)) is not None:
                lane.drew(2)
                return lane.generator.random()
            shared.words += 2
            return original()

    return drawn_random


def _wrap_getrandbits(original: Callable[[int], int]) -> Callable[[int], int]:
    shared = SHARED

    def getrandbits(k: int, /) -> int:
        with shared.lock:
            words = (k + WORD_BITS - 1) // WORD_BITS if k > 0 else 0
            if _port.serving() is None:
                shared.come(sys._getframe(1))
            elif (lane := shared.served.lane(sys._getframe(1), _FILES)) is not None:
                lane.drew(words)
                return lane.generator.getrandbits(k)
            given = original(k)
            shared.words += words
            return given

    return getrandbits


def _wrap_gauss(original: Callable[..., float]) -> Callable[..., float]:
    """Every second number of ``gauss`` is made together with the one before."""
    shared = SHARED

    @functools.wraps(original)
    def gauss(*args: Any, **kwargs: Any) -> float:
        with shared.lock:
            generator = shared.generator
            if _port.serving() is None:
                shared.come(sys._getframe(1))
                shared.take_gauss()
            elif (lane := shared.served.lane(sys._getframe(1), _FILES, for_gauss=True)) is not None:
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
        with shared.lock:
            original(*args, **kwargs)
            number = args[0] if len(args) == 1 and not kwargs and original.__name__ == "seed" else None
            is_short = type(number) is int and abs(number) < _LARGEST_SEED
            shared.begin_epoch(f"seed {number}" if is_short else "")
            if place.inside_call:
                return
            with guard("randoms.seed"):
                from_outside = original.__name__ == "seed" and (args or (kwargs.get("a"),))[0] is None
                feed = feed_of("random-seed", place, asker(sys._getframe(1), _FILES))
                now = "" if from_outside else hashlib.sha256(repr(shared.getstate()).encode()).hexdigest()[:16]
                if _port.serving() is not None and recall(feed) != now:
                    shared.served.is_left = True
                draws = draws_of(place)
                if draws is not None and draws.take():
                    note(place, feed, now)

    return seed


def _wrap_getstate(original: Callable[[], Any]) -> Callable[[], Any]:
    """Get a separate reading: a state is that of the whole program, not only of its lane."""
    shared = SHARED

    @functools.wraps(original)
    def getstate() -> Any:
        with shared.lock:
            if _port.serving() is None:
                shared.come_anew(sys._getframe(1))
            elif (lane := shared.served.lane(sys._getframe(1), _FILES, anew=True)) is not None:
                version, words, _ = lane.generator.getstate()
                return version, words, lane.gauss_next
            return original()

    return getstate


def _wrap_seed_of_own(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None and self is not SHARED.generator:
            with guard("randoms.own"):
                a = recorded_seed(asker(sys._getframe(1), _FILES))
        original(self, a, version)

    return seed


def recorded_seed(file: str) -> int | None:
    """Return a seed for a generator that a file made without one, the recorded one in a replay; None if nothing is recorded."""
    place = current_place()
    draws = draws_of(place)
    is_before = place.run is None and _port.recorder() is not None and len(MADE_BEFORE) < _MADE_KEPT and is_of_program(file)
    if place.inside_call or (_port.serving() is None and draws is None and not is_before):
        return None
    feed = feed_of("random-own", place, file)
    given = recall(feed) or _system_random(_SEED_BYTES).hex()
    if draws is not None and draws.take():
        note(place, feed, given)
    if is_before:
        MADE_BEFORE.append((feed, given))
    return int(given, 16)


def _wrap_urandom(original: Callable[[int], bytes]) -> Callable[[int], bytes]:
    @functools.wraps(original)
    def urandom(size: int, /) -> bytes:
        with guard("randoms.urandom"):
            place = current_place()
            draws = None if place.inside_call else draws_of(place)
            if draws is not None and is_of_program(asker(sys._getframe(1), _SECRET_FILES)):
                draws.lost[UNRECORDED] += 1
        return original(size)

    return urandom


_SECRET_FILES: Final = (random.__file__, os.path.join(os.path.dirname(random.__file__), "secrets.py"), __file__)


# -- readings -----------------------------------------------------------------------------------------------------------


def _note_gauss(place: Place | None, drawer: tuple[Draws, str] | None, value: str) -> None:
    if place is not None and drawer is not None and drawer[0].take():
        note(place, drawer[1], value)
