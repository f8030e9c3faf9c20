"""Whether two requests are the same request but for names that redaction saw in one of them and not in the other.

Redaction looks at one value at a time. "Patel" alone is a word; beside ``"last_name": "Patel"`` it is somebody. So the answer
of a model that had the record before it is stored with a surrogate, and the tool that was called with a part of that answer
with the word (or the other way round). A replay serves the surrogate, and the program passes it on: the recording holds the
word.

Only single capitalised words stand for a name here, and each name throughout for one word, and for one name of the other
side: a text may hold both, the customer's own words and a surrogate that was served. Pure.
"""

from __future__ import annotations

import re
from typing import Any, Final

_TOKEN: Final = re.compile(r"<PERSON#\d+>|\w+|\s+|[^\w\s]")
_NAME: Final = re.compile(r"<PERSON#\d+>")
_WORD: Final = re.compile(r"[^\W\d_][\w'-]*")


def same_but_for_names(recorded: Any, live: Any) -> bool:
    """Tell whether two aliased JSON values differ only where one has a person's name as ``<PERSON#n>`` and the other a word.

    Shape: texts as `Aliases.alias` makes them; numbers of the same person may differ between the two.
    """
    return _Names().agree(recorded, live)


class _Names:
    """What each name of either side has stood for so far on the other."""

    def __init__(self) -> None:
        self._recorded: dict[tuple[str, bool], str] = {}
        self._live: dict[tuple[str, bool], str] = {}

    def agree(self, recorded: Any, live: Any) -> bool:
        if isinstance(recorded, str) and isinstance(live, str):
            return self._texts(recorded, live)
        if isinstance(recorded, list) and isinstance(live, list):
            return len(recorded) == len(live) and all(self.agree(*pair) for pair in zip(recorded, live, strict=True))
        if isinstance(recorded, dict) and isinstance(live, dict):
            return recorded.keys() == live.keys() and all(self.agree(recorded[name], live[name]) for name in recorded)
        return type(recorded) is type(live) and repr(recorded) == repr(live)  # not ==: 0.0 is not -0.0

    def _texts(self, recorded: str, live: str) -> bool:
        if "<PERSON#" not in recorded and "<PERSON#" not in live:
            return recorded == live
        was, now = _TOKEN.findall(recorded), _TOKEN.findall(live)
        if len(was) != len(now):
            return False
        return all(self._tokens(*pair) for pair in zip(was, now, strict=True))

    def _tokens(self, was: str, now: str) -> bool:
        if not _NAME.fullmatch(was) and not _NAME.fullmatch(now):
            return was == now
        return self._stands_for(self._recorded, was, now) and self._stands_for(self._live, now, was)

    @staticmethod
    def _stands_for(known: dict[tuple[str, bool], str], name: str, other: str) -> bool:
        """Tell whether the name stands for the word, and for the name, that it stood for before."""
        if not _NAME.fullmatch(name):
            return bool(_WORD.fullmatch(name)) and name[0].isupper()
        return known.setdefault((name, bool(_NAME.fullmatch(other))), other) == other
