"""The generator that the functions of `random` share: its users, its position, and its state at the beginning of runs.

`randoms` describes the recorded form.
"""

from __future__ import annotations

import _thread
import functools
import os
import random
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import PLACE, Place, current_place
from freezeframe.context.draws import Draws
from freezeframe.seams.draws.drawn import GIVEN, GONE, ServedDraws, state_to_text
from freezeframe.seams.recorder.readings import draws_of, feed_of, note
from freezeframe.seams.unmarked.accesses import note_import
from freezeframe_schemas.gaps import GapKind

FILES: Final = (random.__file__, os.path.join(os.path.dirname(__file__), "randoms.py"))
"""Files that draw on the program's behalf: their caller is the one that draws."""
_STATE_WORDS: Final = 624
_NOWHERE: Final = object()
"""No place was read yet; None is a place that was read."""


class _Shared:
    """The shared generator: its users and its position."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant: a signal's handler may draw, too
        self.generator: Any = None
        self.getstate: Callable[[], Any] = random.getstate
        self.words = 0
        self._epoch = 0
        self._epoch_state: tuple[int, ...] = ()
        self._epoch_text = ""
        self._began_at = 0
        """The index into the state's words that the epoch began with."""
        self._place: Place | None = None
        self.code: CodeType | None = None
        """The last drawing frame."""
        self.last: CodeType | None = None
        self.depth = 0
        """The function of `random` that it called, and how many frames of that module there were, up to ours."""
        self.raw_place: object = _NOWHERE
        self.thread = 0
        self._file = ""
        self._drawer: tuple[Draws, str] | None = None
        self._row: list[str] | None = None
        self._row_from = 0
        self._made_gauss: tuple[Place, tuple[Draws, str] | None] | None = None
        """The place that made the number that `gauss` will return next."""
        self.served = ServedDraws()
        self._is_off = False
        """Draws are not counted, because no run is open."""
        self._is_behind = False
        """Some were not counted, so the epoch's state is not known yet."""
        self._turnable: dict[str, tuple[Any, Any, Any]] = {}
        """Name -> what modules hold, our function, the original."""

    def watch(self, generator: Any) -> None:
        """Watch a generator from its present state on."""
        self.generator, self.getstate = generator, generator.getstate
        self._turnable, self._is_off = {}, False
        self.begin_epoch()
        self.served = ServedDraws()

    def unwatch(self) -> None:
        """Stop counting: the originals are back."""
        with self.lock:
            self._go_on_elsewhere()
            self._turnable, self._is_off = {}, True

    def after_fork(self) -> None:
        """Make it usable in a newly forked process; `random` seeds it there."""
        self.lock = threading.RLock()

    def turnable(self, name: str, ours: Any, original: Any) -> Any:
        """Return a function that calls `ours`; while draws are not counted, `original` without a Python frame in between."""
        wrapper = functools.update_wrapper(functools.partial(ours), original)
        self._turnable[name] = wrapper, ours, original
        return wrapper

    def _turn(self, *, off: bool) -> None:
        """Turn counting off or on: also in modules that hold the functions, and in the places where most find them."""
        self._go_on_elsewhere()
        self._is_off = off
        own = vars(self.generator)
        for name, (given, ours, original) in self._turnable.items():
            given.__setstate__((original if off else ours, (), {}, vars(given)))
            if off and own.get(name) is ours:
                del own[name]
            elif not off and name not in own:
                own[name] = ours
            if getattr(random, name) is (given if off else original):
                setattr(random, name, original if off else given)

    def turn_on(self) -> None:
        """Count draws again."""
        with self.lock:
            if self._is_off:
                self._turn(off=False)
                self._epoch, self.words, self._is_behind = self._epoch + 1, 0, True

    def begin(self) -> None:
        """Begin a run."""
        ACTIVITY.begin()
        if self._is_off:
            self.turn_on()

    def end(self, draws: Draws | None) -> None:
        """End a run that has begun; `draws` is None if it has none."""
        ACTIVITY.end()
        with self.lock:
            # its row ends with it; and if no run is left, the next draw finds nothing to count for
            if not ACTIVITY.on or (self._drawer is not None and self._drawer[0] is draws):
                self._go_on_elsewhere()

    def mark(self, draws: Draws) -> Any:
        """Return the generator's state before the first draw or call of a run: the present one, the first time."""
        with self.lock:
            if draws.base is None:
                self._settle()
                self._go_on_elsewhere()
                self._verify()
                draws.base, draws.state = (self._epoch, self.words), self.getstate()
            return draws.state

    def _settle(self) -> None:
        """Take the state of an epoch that began while draws were not counted, before it changes."""
        if self._is_behind:
            self._epoch -= 1  # it has a number already
            self.begin_epoch()

    def is_changed(self, state: Any) -> bool:
        """Return whether the generator is in another state."""
        with self.lock:
            return self.getstate() != state

    def begin_epoch(self, text: str = "") -> None:
        """Count from the generator's present state; `text` describes it, if there is a shorter form."""
        self._go_on_elsewhere()
        state = self.getstate()[1]
        self._epoch += 1
        self._epoch_state, self._epoch_text = state, text
        self._began_at, self.words, self._is_behind = state[-1], 0, False

    def come(self, frame: FrameType) -> None:
        """Called when a frame is about to draw: the same place in the code as last time, or another."""
        raw, thread = PLACE.get(None), _thread.get_ident()
        caller: FrameType | None = frame
        depth, last = 0, None
        while caller is not None and (last_code := caller.f_code).co_filename in FILES:
            caller, depth, last = caller.f_back, depth + 1, last_code
        file = "" if caller is None else caller.f_code.co_filename
        code = None if caller is None else caller.f_code
        if raw is self.raw_place and thread == self.thread and file is self._file:
            self.code, self.last, self.depth = code, last, depth
            return
        self._settle()
        place = current_place()
        draws = draws_of(place)
        if draws is not None and draws.base is None:
            self.mark(draws)
        if place.run is None and not self._epoch_text:  # after `seed` an import draws the same again
            with guard("randoms.import"):
                note_import(GapKind.RANDOM_UNRECORDED, "draws from", "random")
        self.code, self.last, self.depth = code, last, depth
        self.raw_place, self.thread = raw, thread
        if place is self._place and file is self._file:
            return
        if draws is None and not ACTIVITY.on:
            self._turn(off=True)
            return
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
        """Begin a new row at a frame, even if the same code drew before."""
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
            text = self._epoch_text or state_to_text(self._epoch_state)
            note(place, f"random-epoch {self._epoch - base_epoch}", text)
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

    def restore(self, state: Any) -> None:
        """Put `random` into the state that the replayed run began with."""
        with self.lock:
            if self.generator is None:
                random.setstate(state)
                return
            self.turn_on()
            type(self.generator).setstate(self.generator, state)
            self.begin_epoch()
            self.served.restore(state)


SHARED: Final = _Shared()
os.register_at_fork(after_in_child=SHARED.after_fork)


def _note_gauss(place: Place | None, drawer: tuple[Draws, str] | None, value: str) -> None:
    if place is not None and drawer is not None and drawer[0].take():
        note(place, drawer[1], value)
