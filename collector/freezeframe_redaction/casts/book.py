"""The cast of a run: the private values found in it so far, so that their forms are replaced wherever they occur in the run.

It holds originals and nothing derived from them: a stored cast is private data, and must be sealed. Forms and
surrogates are made
when they are needed (`forms`, `casting`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar, cast

import orjson

from freezeframe_redaction.casts.spreading import is_name, spreads_alone
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, SpanRecord

VERSION: Final = 2
MAX_VALUES: Final = 2_000
"""Values of one run; further ones are replaced only in the place of the finding."""
MAX_VALUE_LENGTH: Final = 512
"""Characters of a value that is kept: programs derive only a hash from a private key."""
_SMALL: Final = re.compile(r"(?<![\w.@/+'-])[^\W\d_A-Z]{2,}(?![\w@/+'-])")
"""A lower-case word on its own: not a part of an address, a path or a slug."""
_T = TypeVar("_T", bound=Hashable)


class Member(NamedTuple):
    """One private value: a detector's finding, in its spelling.

    Its `repr` is an original: it is never printed. A tuple, because it is used as a key many times for each
    span.
    """

    class_: str
    spelling: str
    kind: str = ""
    """The form that the detector saw, as surrogates need it (``nanp``, ``jwt``)."""
    spreads: bool = True
    """It is replaced in other spans. If False, it waits for `Cast.weighed`: a word of a name without any other evidence."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """The private values of one run. Immutable, and equal by content."""

    members: tuple[Member, ...] = ()
    """In the order of their findings; one for each class and spelling."""
    pairs: tuple[tuple[str, ...], ...] = ()
    """Words found as one name: ``("Maria", "Keller")``. Words that spread on their own are members as well."""
    unsure: tuple[tuple[str, ...], ...] = ()
    """The same for names that wait for `Cast.weighed`."""

    def __bool__(self) -> bool:
        return bool(self.members or self.pairs or self.unsure)

    @cached_property
    def key(self) -> bytes:
        return blake2b(self.to_bytes(), digest_size=16).digest()

    @cached_property
    def _known(self) -> tuple[frozenset[Member], frozenset[tuple[str, ...]], frozenset[tuple[str, ...]]]:
        return frozenset(self.members), frozenset(self.pairs), frozenset(self.unsure)

    def joined(self, other: Cast) -> Cast:
        """Add the values of another cast of the same run (from another worker or a later span), up to `MAX_VALUES`."""
        if not other:
            return self
        members, pairs, unsure = self._known
        if members.issuperset(other.members) and pairs.issuperset(other.pairs) and unsure.issuperset(other.unsure):
            return self
        held = {(one.class_, one.spelling): one for one in self.members}
        before = len(held), len(self.pairs), len(self.unsure), sum(one.spreads for one in self.members)
        for one in other.members:
            place = (one.class_, one.spelling)
            known = held.get(place)
            if known is None:
                if len(held) < MAX_VALUES:
                    held[place] = one
            elif one.spreads and not known.spreads:
                held[place] = one
        pairs = tuple(dict.fromkeys((*self.pairs, *other.pairs)))[:MAX_VALUES]
        unsure = tuple(dict.fromkeys((*self.unsure, *other.unsure)))[:MAX_VALUES]
        if before == (len(held), len(pairs), len(unsure), sum(one.spreads for one in held.values())):
            return self
        return Cast(members=tuple(held.values()), pairs=pairs, unsure=unsure)

    def beyond(self, other: Cast) -> Cast:
        """Return the values of this cast that the other one lacks."""
        if self is other:
            return NOTHING
        return Cast(
            members=_beyond(self.members, other.members),
            pairs=_beyond(self.pairs, other.pairs),
            unsure=_beyond(self.unsure, other.unsure),
        )

    @property
    def waits(self) -> bool:
        """True if `weighed` may let more of it spread."""
        return bool(self.unsure) or any(not one.spreads for one in self.members)

    def weighed(self, texts: Iterable[str]) -> Cast:
        """Return the cast once the whole run is known: before its earlier spans are rewritten.

        Names without other evidence are judged by the run's lower-case words (`spreading.is_name`), and their
        words one by one (`spreading.spreads_alone`). `texts` are all texts of the run (`texts_of` each span).
        """
        waiting = {one.spelling.lower() for one in self.members if not one.spreads}
        waiting.update(word.lower() for words in self.unsure for word in words)
        small = set[str]()
        for text in texts if waiting else ():
            small.update(waiting.intersection(_SMALL.findall(text)))
        names = tuple(words for words in self.unsure if is_name(words, small))
        doubtful = {word for words in self.unsure for word in words}.difference(chain.from_iterable((*names, *self.pairs)))
        members = tuple(
            one._replace(spreads=True)
            if not one.spreads and one.spelling not in doubtful and spreads_alone(one.spelling, small)
            else one
            for one in self.members
        )
        made = Cast(members=members, pairs=(*self.pairs, *names))
        return self if (made.members, made.pairs) == (self.members, self.pairs) else made

    def to_bytes(self) -> bytes:
        """Return the cast as bytes, in clear: seal them."""
        members = [[one.class_, one.spelling, one.kind, one.spreads] for one in self.members]
        return orjson.dumps({"version": VERSION, "members": members, "pairs": self.pairs, "unsure": self.unsure})

    @classmethod
    def from_bytes(cls, held: bytes) -> Cast:
        """Return the cast of the bytes.

        Raises:
            WireError: they are not a cast, or one of a version that this library does not know.
        """
        try:
            found: Any = orjson.loads(held)
            if found["version"] not in (1, VERSION):
                raise WireError(f"the cast of a run has version {found['version']!r:.20}, expected {VERSION}")
            return cls(
                members=tuple(
                    Member(class_=str(class_), spelling=str(spelling), kind=str(kind), spreads=bool(spreads))
                    for class_, spelling, kind, spreads in found["members"]
                ),
                pairs=tuple(tuple(map(str, pair)) for pair in found["pairs"]),
                unsure=tuple(tuple(map(str, pair)) for pair in found.get("unsure", ())),  # version 1 had none
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise WireError("the cast of a run: expected the bytes of Cast.to_bytes") from None  # the cause holds values


NOTHING: Final = Cast()


def _beyond(held: tuple[_T, ...], known: tuple[_T, ...]) -> tuple[_T, ...]:
    """Return the held values that are not known; the held ones mostly begin with the known ones."""
    if held[: len(known)] == known:
        return held[len(known) :]
    without = frozenset(known)
    return tuple(one for one in held if one not in without)


def texts_of(span: SpanRecord) -> Iterator[str]:
    """Yield every text of a span: its name, attributes, events, links and bodies."""
    yield from (span.name, span.status_message, span.trace_state)
    for attributes in (
        span.attributes,
        *(event.attributes for event in span.events),
        *(link.attributes for link in span.links),
    ):
        yield from texts_in(attributes)
    yield from (event.name for event in span.events)


def texts_in(value: AttributeValue | Mapping[str, AttributeValue]) -> Iterator[str]:
    """Yield every text of an attribute, or of all."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, AttributeValue]", value).items():
            yield name
            yield from texts_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 999 < value < math.inf:
        yield str(int(value))
