"""`numpy.random`: like `randoms`, for the generator that its functions share, and for generators made without a seed.

A lane that draws after another one notes the state that it found and the number of its calls. States are large, so a run
keeps few of them; beyond that the run has a gap.

Readings: ``random-numpy LANE FILE``, ``STATE:CALLS``; ``random-own LANE FILE``, the seed of a generator that was made without a
seed.
"""

from __future__ import annotations

import _thread
import base64
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import Place, current_place
from freezeframe.context.draws import MAX_STATES, NUMPY, Draws, asker
from freezeframe.seams.draws.randoms import recorded_seed
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.readings import draws_of, feed_of, note, recall
from freezeframe.seams.recorder.responder import Responder

_NO_DRAWS: Final = frozenset({"get_state", "set_state"})


def install(module: ModuleType, patches: Patches) -> None:
    """Watch the functions of ``numpy.random``, and seed the generators that get no seed."""
    numpy_random: Any = module
    shared = numpy_random.mtrand._rand
    # With a seed: without one it would take the recorded seed of a generator that the program makes.
    watch = _Watch(shared, lambda: type(shared)(numpy_random.MT19937(0)))
    for name in numpy_random.__all__:
        function = getattr(numpy_random, name)
        if name == "seed" or (name not in _NO_DRAWS and getattr(function, "__self__", None) is shared):
            patches.replace(numpy_random, name, functools.partial(watch.wrap, name))
    if hasattr(numpy_random.bit_generator, "randbits"):
        patches.replace(numpy_random.bit_generator, "randbits", _wrap_randbits)


class _Watch:
    """The shared generator: its users and its position."""

    def __init__(self, shared: Any, make: Callable[[], Any]) -> None:
        self._shared = shared
        self._make = make
        self._lock = _thread.RLock()
        self._drawer: tuple[Draws, str] | None = None
        self._row: list[str] | None = None
        self._calls = 0
        self._lanes: dict[str, _Lane] = {}
        self._responder: Responder | None = None

    def wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function wrapped so that its calls are noted, or served."""

        @functools.wraps(original)
        def draw(*args: Any, **kwargs: Any) -> Any:
            place, responder = current_place(), switch.serving()
            file = asker(sys._getframe(1), (__file__,))
            with self._lock:
                if responder is None:
                    with guard("numpy_random.come"):
                        self._come(place, file)
                elif not place.inside_call and (lane := self._lane(place, file, responder)) is not None:
                    lane.left -= 1
                    return getattr(lane.generator, name)(*args, **kwargs)
                return original(*args, **kwargs)

        return draw

    def _come(self, place: Place, file: str) -> None:
        draws = draws_of(place)
        drawer = None if draws is None else (draws, feed_of("random-numpy", place, file))
        if drawer != self._drawer:
            if self._row:
                self._row[-1] += f":{self._calls}"
            self._drawer, self._row, self._calls = drawer, None, 0
            if drawer is not None:
                if drawer[0].states >= MAX_STATES:
                    drawer[0].lost[NUMPY] += 1
                else:
                    drawer[0].states += 1
                    self._row = note(place, drawer[1], _to_text(self._shared.get_state(legacy=False)))
        self._calls += 1

    def _lane(self, place: Place, file: str, responder: Responder) -> _Lane | None:
        if responder is not self._responder:
            self._responder = responder
            self._lanes.clear()
        feed = feed_of("random-numpy", place, file)
        lane = self._lanes.setdefault(feed, _Lane())
        if lane.left <= 0 and (reading := recall(feed)) is not None:
            state, _, calls = reading.partition(":")
            lane.generator = self._make()
            lane.generator.set_state(_from_text(state))
            lane.left = int(calls) if calls else sys.maxsize
        return None if lane.generator is None else lane


class _Lane:
    """One lane and file of a replay, and the calls left in a row."""

    __slots__ = ("generator", "left")

    def __init__(self) -> None:
        self.generator: Any = None
        self.left = 0


def _wrap_randbits(original: Callable[[int], int]) -> Callable[[int], int]:
    @functools.wraps(original)
    def randbits(k: int) -> int:
        seed = None
        with guard("numpy_random.own"):
            seed = recorded_seed(asker(sys._getframe(1), (__file__,)))
        return original(k) if seed is None else seed & ((1 << k) - 1)

    return randbits


def _to_text(state: dict[str, Any]) -> str:
    inner = state["state"]
    words = base64.b64encode(inner["key"].astype("<u4").tobytes()).decode()
    return " ".join((words, str(inner["pos"]), str(int(state["has_gauss"])), float(state["gauss"]).hex()))


def _from_text(text: str) -> tuple[Any, ...]:
    import numpy as np

    words, pos, has_gauss, gauss = text.split(" ")
    return "MT19937", np.frombuffer(base64.b64decode(words), dtype="<u4"), int(pos), int(has_gauss), float.fromhex(gauss)
