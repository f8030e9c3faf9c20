"""Find a person in redacted runs, by their values: in clear, or as the surrogates that stand for them, in any form of either.

A surrogate is made of class, value and key, so whoever has the values and the keys can make it again. What the keys no longer
make, as after a lost key, is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

import orjson

from freezeframe_redaction.casts.book import NOTHING, Cast, Member, texts_of
from freezeframe_redaction.casts.forms import NAME
from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.redactor import Redactor
from freezeframe_redaction.surrogates.invented import holds_invented
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_redaction.surrogates.shapes import bare
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

_KEYS: Final = (
    "text", "name", "first_name", "last_name", "email", "phone", "address", "street", "postal_code", "date_of_birth", "ssn",
    "national_id", "tax_id", "passport_number", "driving_licence", "iban", "bank_account", "card_number", "ip_address",
    "mac_address", "medical_record_number", "username", "password",
)  # fmt: skip
"""Keys under which a value is read, to see as what the collector may have taken it."""
_MIN_FORM_LENGTH: Final = 5
"""Letters and digits of a surrogate's form that is looked for in a span's list."""
_OTHER_NAME: Final = re.compile(r"(?<!\w)[A-Z][a-z]+(?!\w)")
_WORDS: Final = re.compile(r"[^\W\d_]{2,}(?:['’-][^\W\d_]+)*")
_GAP: Final = 40
"""Characters between the words of a name in one text: ``"first": "Anna", "last": "Keller"``."""
APART: Final = "words of the name, apart"
CLEAR: Final = "in clear"


class _Name:
    """The words of a name, each in clear or as a surrogate."""

    def __init__(self, words: Sequence[str], made: Sequence[Set[str]]) -> None:
        self._bares = [frozenset(map(bare, one)) for one in made]
        spelled = [[word, *sorted(one)] for word, one in zip(words, made, strict=True)]
        self._words = [re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, one))})(?!\w)") for one in spelled]
        ends = [f"(?<!\\w)(?:{'|'.join(map(re.escape, one))})(?!\\w)" for one in (spelled[0], spelled[-1])]
        self._near = re.compile("|".join(f"{one}(.{{1,{_GAP}}}?){other}" for one, other in (ends, ends[::-1])), re.DOTALL)

    def parts_in(self, bares: Container[str], texts: Sequence[str]) -> Iterator[int]:
        """Yield which of the words a span lists or holds."""
        for number, (made, word) in enumerate(zip(self._bares, self._words, strict=True)):
            if any(one in bares for one in made) or any(map(word.search, texts)):
                yield number

    def is_in(self, texts: Iterable[str]) -> bool:
        """Return whether the first and the last word are near each other in a text, with no other name between them."""
        return any(
            not holds_invented(between := match[1] or match[2]) and not _OTHER_NAME.search(between)
            for text in texts
            for match in self._near.finditer(text)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sought:
    """One value, with what stands for it."""

    cast: Cast
    """It and its surrogates as a whole."""
    blanks: Cast
    """The same, and the words of a name by themselves: what is replaced where the run stays."""
    listed: Mapping[str, str]
    """Letters and digits of each form of the value and its surrogates -> class, empty for any."""
    surrogates: Mapping[str, str]
    """Surrogate -> class."""
    words: tuple[str, ...]
    """Words of a name."""
    parts: tuple[frozenset[str], ...]
    """Surrogates of each word."""
    name: _Name | None


class Person:
    """A person's values, and where they are. Holds originals: nothing of it is written."""

    def __init__(self, values: Sequence[str], redactors: Sequence[Redactor]) -> None:
        """`redactors` are those of each policy and key that the runs may have been redacted with."""
        self._redactors = redactors
        self._blank = Redactor(redactors[0].policy, TenantKey.generate("blank/1"), cache_characters=0)
        self._sought = [self._seek(value.strip()) for value in values]

    @property
    def surrogates(self) -> list[dict[str, str]]:
        """Return the surrogates of each value, with their classes."""
        return [dict(one.surrogates) for one in self._sought]

    def forms(self) -> list[str]:
        """Return texts in small letters of which one is in the text of each run that mentions the person in clear."""
        indexes = self._blank.indexes
        found: set[str] = set()
        for one in self._sought:
            for forms in indexes.forms_of_all(one.cast):
                found.update(old.lower() for old, form in forms.held.items() if not form.is_part)
                found.update(old for old, _ in forms.hashes())
            if one.words:
                found.add(max(one.words, key=len).lower())
        spelled = {json.dumps(text, ensure_ascii=escaped)[1:-1].lower() for text in found for escaped in (True, False)}
        return sorted(found | spelled | {text.replace("/", "\\/") for text in spelled})

    def listed(self) -> list[str]:
        """Return letters and digits of which some are in the list of each span that mentions the person by surrogates."""
        last = (max(zip(map(len, one.words), one.parts, strict=True), default=(0, ()))[1] for one in self._sought)
        return sorted(
            {text.lower() for one in self._sought for text in one.listed} | {part.lower() for word in last for part in word}
        )

    def mentions(self, spans: Iterable[SpanRecord]) -> dict[int, set[str]]:
        """Return which values the spans of one run mention, by number from 1, and as what: classes, or `APART`."""
        found: dict[int, set[str]] = {}
        parts: dict[int, set[int]] = {}
        for span in spans:
            listed = surrogates_of([span])
            bares = {bare(surrogate): class_ for surrogate, class_ in listed.items()}
            plain = self._without(span, listed)
            before = set(surrogates_of([plain]).values())
            texts = list(texts_of(plain))
            for number, one in enumerate(self._sought, 1):
                whole = {
                    bares[text] for text, class_ in one.listed.items() if class_ in ("", bares.get(text)) and text in bares
                }
                if not whole and (made := self._blank.rewrite(plain, one.cast)) is not plain:
                    whole = {class_ or CLEAR for class_ in set(surrogates_of([made]).values()) - before} or {CLEAR}
                if not whole and one.name is not None:
                    parts.setdefault(number, set()).update(one.name.parts_in(bares, texts))
                    whole = {NAME} if one.name.is_in(texts) else whole
                if whole:
                    found.setdefault(number, set()).update(whole)
        for number, one in enumerate(self._sought, 1):
            if one.name is not None and number not in found and len(parts.get(number, ())) == len(one.words):
                found[number] = {APART}
        return found

    def blanked(self, spans: Sequence[SpanRecord]) -> list[SpanRecord]:
        """Return the spans of a run with other surrogates for the person, of a discarded key: they no longer lead to them."""
        made: list[SpanRecord] = []
        for span in spans:
            plain = self._without(span, surrogates_of([span]))
            for one in self._sought:
                plain = self._blank.rewrite(plain, one.blanks)
            made.append(plain)
        return made

    def vault_forms(self) -> Iterator[tuple[list[str], ...]]:
        """Yield groups of surrogates: who has one of each group mentions the person."""
        for one in self._sought:
            yield ([*one.surrogates],)
            if one.words:
                yield tuple(sorted(part) for part in one.parts)

    def is_in(self, text: str) -> bool:
        """Return whether a text, as a file has it, holds a value or a surrogate as a whole."""
        return any(
            any(True for _ in self._blank.indexes.of(one.cast).find([text], lambda _: ()))
            or (one.name is not None and one.name.is_in([text]))
            for one in self._sought
        )

    def _without(self, span: SpanRecord, listed: Mapping[str, str]) -> SpanRecord:
        """Return the span without the person's surrogates in its list, so that they are looked for as any value."""
        hers = {text for one in self._sought for text in (*one.listed, *map(bare, frozenset().union(*one.parts)))}
        kept = {made: class_ for made, class_ in listed.items() if bare(made) not in hers}
        if len(kept) == len(listed):
            return span
        text = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()
        return replace(span, attributes={**span.attributes, genai.REDACTION_SURROGATES: text})

    def _seek(self, value: str) -> _Sought:
        words = _WORDS.findall(value)
        members: dict[tuple[str, str], Member] = {("", value): Member("", value)}
        surrogates: dict[str, str] = {}
        pairs: set[tuple[str, ...]] = set()
        parts = [set[str]() for _ in words]
        is_name = False
        for redactor in self._redactors:
            seen = _seen(redactor, value)
            names = {one.spelling for one in seen.members if one.class_ == NAME}
            if len(words) > 1 and names and all(word in names or len(word) < 4 for word in words):
                made = tuple(redactor.surrogate_of(Member(NAME, word)) for word in words)
                is_name = True
                for part, text in zip(parts, made, strict=True):
                    part.update([text] if made != tuple(words) else [])
                pairs.add(made)
            for one in seen.members:
                made_one = redactor.surrogate_of(one)
                is_whole = 2 * len(bare(one.spelling)) >= len(bare(value)) and (one.class_ != NAME or len(words) == 1)
                if is_whole and made_one != one.spelling:
                    members[one.class_, one.spelling] = one
                    members[one.class_, made_one] = one._replace(spelling=made_one)
                    surrogates[made_one] = one.class_
        if is_name:
            pairs.add(tuple(words))
            surrogates.update(dict.fromkeys((" ".join(made) for made in pairs if made != tuple(words)), NAME))
        cast = Cast(members=tuple(one._replace(spreads=True) for one in members.values()), pairs=tuple(sorted(pairs)))
        by_word = (Member(NAME, made) for part in parts for made in sorted(part)) if is_name else ()
        return _Sought(
            cast=cast,
            blanks=cast.joined(Cast(members=tuple(by_word))),
            listed=dict(self._forms(members.values(), surrogates)),
            surrogates=surrogates,
            words=tuple(words) if is_name else (),
            parts=tuple(map(frozenset, parts)) if is_name else (),
            name=_Name(words, parts) if is_name else None,
        )

    def _forms(self, members: Iterable[Member], surrogates: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the letters and digits of each form of a surrogate, with its class."""
        for one in members:
            if one.class_ and one.spelling not in surrogates:
                continue
            for form in self._blank.indexes.forms_of(one).held:
                if len(text := bare(form)) >= _MIN_FORM_LENGTH:
                    yield text, one.class_


def _seen(redactor: Redactor, value: str) -> Cast:
    """Return what the redactor takes a value for, under any key."""
    found = NOTHING
    for key in _KEYS:
        span = SpanRecord(
            trace_id="1" * 32,
            span_id="1" * 16,
            name="",
            start_time_unix_nano=0,
            end_time_unix_nano=0,
            attributes={key: value},
        )
        found = found.joined(redactor.redact_in_run(span, NOTHING)[1])
    return found
