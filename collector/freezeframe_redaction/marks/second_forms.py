"""Second forms: a live text with the forms of the program's own values replaced, as the cast of a run replaces them.

The collector reads a whole run: *jonas-brandt* is replaced in it because *Jonas Brandt* is, perhaps in another text. A replay
has one live text at a time, so it looks for forms of the values that it has met in any text of the replay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from freezeframe_redaction.casts.book import NOTHING, Cast, Member
from freezeframe_redaction.casts.casting import Indexes, MakesSurrogates
from freezeframe_redaction.casts.forms import NAME

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_NAME_OF_SEVERAL: Final = re.compile(r"[^\W\d_]{2,}(?: [^\W\d_]{2,})+")


class Paired:
    """The surrogates that a replay without the key has paired with values, each with its class and text."""

    def __init__(self, surrogates: Mapping[tuple[str, str], str]) -> None:
        self._surrogates = surrogates

    def make(self, class_: str, kind: str, value: str) -> str:
        del kind
        return self._surrogates.get((class_, value), value)


class SecondForms:
    """Replaces forms of the values that it was given, each by the same form of the value's surrogate."""

    def __init__(self, maker: MakesSurrogates, *, by_key: frozenset[str] = frozenset()) -> None:
        """`by_key` are words of the run's surrogates, in small letters, if the maker has the key."""
        self._maker = maker
        self._by_key = by_key
        self._indexes = Indexes(maker)
        self._names = self._values = NOTHING

    def learn(self, names: Iterable[tuple[str, ...]], members: Iterable[Member] = ()) -> None:
        """Add values, and names as their words."""
        held = tuple(names)
        words = (Member(class_=NAME, spelling=word) for words in held for word in words)
        pairs = tuple(words for words in held if len(words) > 1)
        self._names = self._names.joined(Cast(pairs=pairs))
        self._values = self._values.joined(Cast(members=(*members, *words)))

    def replaced(self, live: str, recorded: str) -> str:
        """Return the live text with each form replaced whose surrogate's form is in the recorded one."""
        if self._by_key:
            self._learn_by_key(live)
        for cast in (self._names, self._values):  # *jbrandt* may be taken for its own name, too
            live = self._with_forms_of(cast, live, recorded)
        return live

    def _with_forms_of(self, cast: Cast, live: str, recorded: str) -> str:
        made: list[str] = []
        past = 0
        for _, hits in self._indexes.of(cast).find([live], lambda _: ()):
            for hit in hits:
                if hit.made in recorded:
                    made += live[past : hit.start], hit.made
                    past = hit.end
        return "".join([*made, live[past:]])

    def _learn_by_key(self, text: str) -> None:
        """Add the words of the text that the key makes words of the run's surrogates: only another text says they are names."""
        words = {word: self._maker.make(NAME, "", word).lower() in self._by_key for word in set(_WORD.findall(text))}
        names = (tuple(name.group().split()) for name in _NAME_OF_SEVERAL.finditer(text))
        self.learn(
            [
                *((word,) for word, is_name in words.items() if is_name),
                *(name for name in names if all(words.get(word, False) for word in name)),
            ]
        )
