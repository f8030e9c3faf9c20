"""Names in small letters, after words that announce one."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN, SURNAMES
from freezeframe_redaction.detectors.people import announced, names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import row

_SMALL_WORDS = re.compile(
    rf"{names.LETTER}{{2,20}}(?:'s)?(?: {names.LETTER}\.?(?= ))?(?: (?:van |de |von |da |del |der )*{names.LETTER}+(?:['-]{names.LETTER}+)*)?"
)

_CALLS = re.compile(r"(?: (?:from|here|again|calling|speaking)\b|[.,!]?$)")
"""After people who say ``its pooja``; the possessive in ``its grace period`` goes on differently."""


def _small(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``my name is anna kowalska``: written in small letters, so the words themselves must be names."""
    start = at - 1
    word = names.WORD.match(text, start, min(high, start + 24))
    if word is None or ((plain := word.group().removesuffix("'s")) not in GIVEN and plain not in SURNAMES):
        return ()
    reach = _SMALL_WORDS.match(text, start, min(high, start + 60))
    if reach is None:
        return ()
    spans = [one.span() for one in names.WORD.finditer(text, start, reach.end())]
    words = [text[a:b] for a, b in spans]
    if not words or not words[0].islower():
        return ()
    first = words[0].removesuffix("'s")
    pair = len(words) > 1 and words[-1].islower()
    surname = words[-1].removesuffix("'s") if pair else ""
    if text[max(low, start - 4) : start].lower() == "its " and not _CALLS.match(text, spans[0][1]):
        return ()
    strong = text[max(low, start - 24) : start].rstrip(" \n").lower().endswith(announced.STRONG)
    titled = names.title_start(text, low, start) < start
    if (
        pair
        and first in GIVEN
        and len(first) > 2
        and surname not in COMMON
        and (surname in SURNAMES or names.SURNAME_ENDING.search(surname) or (strong and len(surname) > 3))
        and first not in names.SHORT_WORDS
    ):
        return names.accept(text, spans, "small")
    if len(first) > 2 and (names.is_plainly_given(first) or (titled and first in SURNAMES and first not in COMMON)):
        return names.accept(text, spans[:1], "small")
    return ()


DETECTORS = (
    row("name: in small letters", names.CLASS, _small,
        r"(?i:\b(?:mi chiamo|je m'appelle|mon nom est|me llamo|mi nombre es|meu nome é|me chamo|ich hei(?:ß|ss)e|mein name ist|ik heet|mijn naam is"
        r"|jag heter|jeg hedder|nazywam się|mam na imię|ben(?:im)? adım|soy|ich bin|je suis|name is|name's|i am|i'm|im|sister|brother|wife|husband|mother"
        r"|father|mum|mom|dad|son|daughter|friend|colleague|boss|neighbou?r|it's|this is|dear|hi|hello|hey|regards,?|sincerely,?|thanks,?|cheers,|named"
        r"|called|says|said|told|met with|spoke with|spoke to|assistant to|follow up with"
        r"|directed by|starring|written by|signed by|assigned to|contact|customer|patient|mr\.?|mrs\.?|ms\.?|dr\.?|miss))[ \n][a-z\xdf-\xff]",
        r"(?i:\b(?:hi|hey|heya|hello|yo)[,!.]{0,2} (?:there[,!.]? )?its )[a-z]",
        shows=("hi, my name is ⟦katarzyna nowak⟧ and i need help", "i am will and able", "thanks, ⟦zbigniew⟧",
               "this is python")),
)  # fmt: skip
