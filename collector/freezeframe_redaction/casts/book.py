"""The cast of a run: the private values found in it so far, so that their forms are replaced wherever they occur in the run.

It holds originals and nothing made of them: a stored cast is private data, and must be sealed. Forms and surrogates are made
when they are needed (`forms`, `casting`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, cast

import orjson

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import AttributeValue, SpanRecord

VERSION: Final = 1
MOST: Final = 2_000
"""Values of one run; what is found beyond them is replaced where it was found and nowhere else."""
LONGEST: Final = 512
"""Characters of a value that is kept: programs derive nothing from a private key but its hash."""
_LETTERS: Final = re.compile(r"[^\W_]+")
_SMALL: Final = re.compile(r"(?<![\w.@/+'-])[^\W\d_A-Z]{2,}(?![\w@/+'-])")
"""A lower-case word on its own: not a part of an address, a path or a slug."""
_LEAST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One private value: what a detector found, as it was written. Its `repr` is an original: it is never printed."""

    class_: str
    spelling: str
    kind: str = ""
    """The form that the detector saw, as surrogates need it (``nanp``, ``jwt``)."""
    spreads: bool = True
    """It is replaced in other spans. A word of a name without further evidence waits for `Cast.weighed`."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """The private values of one run. A value: nothing in it changes, and equal content is equal."""

    members: tuple[Member, ...] = ()
    """In the order in which they were found; there is one for each class and spelling."""
    pairs: tuple[tuple[str, ...], ...] = ()
    """Words that were found as one name: ``("Maria", "Keller")``. Each word is a member as well."""

    def __bool__(self) -> bool:
        return bool(self.members)

    @cached_property
    def key(self) -> bytes:
        """What tells this cast from any other one."""
        return blake2b(self.to_bytes(), digest_size=16).digest()

    def joined(self, other: Cast) -> Cast:
        """Return this cast with what another one of the same run holds (another worker's, a later span's), up to `MOST`."""
        if not other.members:
            return self
        held = {(one.class_, one.spelling): one for one in self.members}
        before = len(held), len(self.pairs), sum(one.spreads for one in self.members)
        for one in other.members:
            place = (one.class_, one.spelling)
            known = held.get(place)
            if known is None:
                if len(held) < MOST:
                    held[place] = one
            elif one.spreads and not known.spreads:
                held[place] = one
        pairs = tuple(dict.fromkeys((*self.pairs, *other.pairs)))[:MOST]
        if before == (len(held), len(pairs), sum(one.spreads for one in held.values())):
            return self
        return Cast(members=tuple(held.values()), pairs=pairs)

    def beyond(self, other: Cast) -> Cast:
        """Return what this cast holds and the other one does not; of a name that is new, its words as well."""
        if self is other:
            return Cast()
        held, known = frozenset(other.members), frozenset(other.pairs)
        pairs = tuple(pair for pair in self.pairs if pair not in known)
        words = {word for pair in pairs for word in pair}
        return Cast(members=tuple(one for one in self.members if one not in held or one.spelling in words), pairs=pairs)

    def weighed(self, texts: Iterable[str]) -> Cast:
        """Return the cast once the whole run is known: before its earlier spans are rewritten.

        A word of a name that was found without a pair and without a key for names spreads if the run never writes it in small
        letters by itself. `texts` are all texts of the run (`texts_of` each span).
        """
        waiting = {one.spelling.lower() for one in self.members if not one.spreads}
        for text in texts if waiting else ():
            waiting.difference_update(_SMALL.findall(text))
        members = tuple(
            replace(one, spreads=True) if one.spelling.lower() in waiting and len(one.spelling) >= _LEAST else one
            for one in self.members
        )
        return self if members == self.members else replace(self, members=members)

    def to_bytes(self) -> bytes:
        """Return the cast as bytes, in clear: seal them."""
        members = [[one.class_, one.spelling, one.kind, one.spreads] for one in self.members]
        return orjson.dumps({"version": VERSION, "members": members, "pairs": self.pairs})

    @classmethod
    def from_bytes(cls, held: bytes) -> Cast:
        """Return the cast of the bytes.

        Raises:
            WireError: they are not a cast, or one of a version that this library does not know.
        """
        try:
            found: Any = orjson.loads(held)
            if found["version"] != VERSION:
                raise WireError(f"the cast of a run has version {found['version']!r:.20}, expected {VERSION}")
            return cls(
                members=tuple(
                    Member(class_=str(class_), spelling=str(spelling), kind=str(kind), spreads=bool(spreads))
                    for class_, spelling, kind, spreads in found["members"]
                ),
                pairs=tuple(tuple(map(str, pair)) for pair in found["pairs"]),
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise WireError("the cast of a run: expected the bytes of Cast.to_bytes") from None  # the cause holds values


NOTHING: Final = Cast()


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
    elif isinstance(value, int) and not isinstance(value, bool) and value > 999:
        yield str(value)


def letters_of(text: str) -> str:
    """Return the letters and digits of the text, in small letters."""
    return "".join(_LETTERS.findall(text)).lower()
