"""Draws from `random` by the tasks and threads of a replay, by the readings of `randoms`: each gets its own words."""

from __future__ import annotations

import base64
import random
from types import FrameType
from typing import Any, Final

from freezeframe.context.current import Place, current_place
from freezeframe.context.draws import asker
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.readings import feed_of, recall

WORD_BITS: Final = 32
GIVEN: Final = "gauss "
"""Prefix of a reading of `gauss`: a number that it had made for another lane."""
GONE: Final = "gauss"
"""The same number, for the lane that it was made for."""
_STRIDE: Final = 8192
"""Words between two remembered states of an epoch, so that a word is found without drawing all those before it."""


class ServedDraws:
    """Random values that the lanes of a replay draw."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._last: tuple[Place, str, _Lane] | None = None
        self._epochs: dict[int, list[Any]] = {}
        """Epoch -> a state for each `_STRIDE` words."""
        self.is_left = False
        """True if the program seeded differently than the run did."""

    def restore(self, state: Any) -> None:
        """Start from the state at the beginning of the run."""
        self._lanes.clear()
        self._last = None
        self._epochs = {0: [state]}
        self.is_left = False

    def lane(self, frame: FrameType, files: tuple[str, ...], *, for_gauss: bool = False, anew: bool = False) -> _Lane | None:
        """Return the lane whose words a frame draws; None if nothing was recorded for it, or its work is done for real."""
        place = current_place()
        responder = switch.serving()
        if responder is not None and place.run_anew:
            responder.unserved("draws random numbers")
        if self.is_left or responder is None or place.inside_call:
            return None
        file = asker(frame, files)
        if self._last is not None and self._last[0] is place and self._last[1] is file:
            found = self._last[2]
        else:
            feed = feed_of("random", place, file)
            found = self._lanes.setdefault(feed, _Lane(feed))
            self._last = place, file, found
        if anew:
            found.left = 0
        return found if found.is_ready(self, for_gauss=for_gauss) else None

    def generator_at(self, epoch: int, word: int) -> Any:
        """Return a generator that yields the words of an epoch from `word` on."""
        if epoch not in self._epochs:
            text = recall(f"random-epoch {epoch}")
            if text is None:
                return None
            self._epochs[epoch] = [_state_from_text(text)]
        states = self._epochs[epoch]
        generator = random.Random(0)  # noqa: S311 - it replaces the program's own
        while len(states) <= word // _STRIDE:
            generator.setstate(states[-1])
            generator.getrandbits(_STRIDE * WORD_BITS)
            states.append(generator.getstate())
        generator.setstate(states[word // _STRIDE])
        generator.getrandbits(word % _STRIDE * WORD_BITS)
        return generator


class _Lane:
    """One lane and file of a replay, and the rest of its current row of words."""

    __slots__ = ("_feed", "_next", "gauss_next", "generator", "left")

    def __init__(self, feed: str) -> None:
        self._feed = feed
        self.generator: Any = None
        self.left: int | None = 0
        """None: all the following words."""
        self.gauss_next: float | None = None
        self._next = ""
        """A reading that is not due yet."""

    def is_ready(self, served: ServedDraws, *, for_gauss: bool) -> bool:
        """Return whether there is a generator; move on to the next one if this one's words are used up."""
        while self.left is not None and self.left <= 0:
            reading = self._next or recall(self._feed)
            self._next = ""
            if reading is None:
                break
            if reading == GONE:
                self.gauss_next = None
            elif reading.startswith(GIVEN):
                self.gauss_next = float.fromhex(reading.removeprefix(GIVEN))
                if for_gauss:
                    return True
            else:
                if for_gauss and self.gauss_next is not None:
                    self._next = reading  # the number exists already and needs no words
                    return True
                where, _, count = reading.partition(":")
                epoch, _, word = where.partition("+")
                found = served.generator_at(int(epoch), int(word))
                if found is None:
                    break
                self.generator, self.left = found, int(count) if count else None
        return self.generator is not None or (for_gauss and self.gauss_next is not None)

    def drew(self, words: int) -> None:
        """Count the drawn words."""
        if self.left is not None:
            self.left -= words


def state_to_text(state: tuple[int, ...]) -> str:
    words = b"".join(word.to_bytes(4, "little") for word in state)
    return f"state {base64.b64encode(words).decode()}"


def _state_from_text(text: str) -> Any:
    kind, _, value = text.partition(" ")
    if kind == "seed":
        return random.Random(int(value)).getstate()  # noqa: S311 - the program's own choice
    words = base64.b64decode(value)
    return 3, tuple(int.from_bytes(words[at : at + 4], "little") for at in range(0, len(words), 4)), None
