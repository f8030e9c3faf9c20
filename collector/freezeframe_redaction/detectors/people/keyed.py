"""The values of keys that hold, or may hold, a person's name."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import SURNAMES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate, Detector, Example

_PERSON_KEY = (
    r"(?:full|first|last|given|family|sur|middle|maiden|fore|nick|legal|preferred|customer|client|patient|contact|account[_ ]?holder|card[_ ]?holder|holder|employee|owner|author|assignee|sender|recipient|passenger|guest"
    r"|billing|shipping|applicant|student|member|doctor|physician|nurse|agent|driver|tenant|beneficiary|emergency[_ ]contact|insured|caller|attendee|buyer|seller|signer|payer|payee|manager|parent|spouse|visitor|reporter)"
)
_PERSON_KEYS = (
    rf"(?i)(?:^|[^A-Za-z])(?:{_PERSON_KEY}[_ \-.]?name|name on (?:the )?(?:card|acct|account)|firstname|lastname|fullname|surname|cardholder|vorname|nachname|pr\xe9nom|nom de famille|nombre(?: completo)?|apellidos?|nome completo|cognome|sobrenome|voornaam|achternaam|imi\xea|nazwisko|f\xf6rnamn|efternamn|etunimi|sukunimi)"
    r"[\"'*]{0,3}\s?[:=]\s?[\"'*]{0,3}[A-Za-z\xc0-\xff]"
)
_LOOSE_KEYS = (
    r"(?i)(?:^|[^A-Za-z_])(?:name|customer|patient|passenger|assignee|sender|recipient|author|owner|contact|client|guest|user|attn|pt|from|to|by|reviewer|approver|reported by|created by|signed|employee|driver|doctor|physician|kunde|nom|naam|namn)"
    r"[\"'*]{0,3}\s?[:=]\s?[\"'*]{0,3}[A-Za-z\xc0-\xff]"
)

_VALUE = re.compile(rf"{names.TOKEN}\.?(?:[ ,]{{1,2}}{names.TOKEN}\.?){{0,4}}")


def _keyed(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The value of a key that holds a person's name, whatever it looks like."""
    start = at - 1
    match = _VALUE.match(text, start, min(high, start + 80))
    if match is None:
        return ()
    end = match.end()
    following = text[end : end + 1]
    value = match.group()
    if following in ("_", "(", "@", "/", "\\") or (following and following.isdigit()):
        return ()
    if not value[0].isupper() and "\x1f" not in text[max(0, low - 1) : low + 1] and low > 0 and not value.islower():
        return ()
    words = [word for word in re.split(r"[ ,.]+", value) if word]
    if any(word.lower() in names.NOT_NAMES for word in words) or all(
        names.is_ordinary(word) and not names.is_known(word) for word in words
    ):
        return ()
    if not value[0].isupper() and value.isascii() and not any(map(names.is_known, words)):
        return ()
    # A sentence after the name belongs to the text: stop at the first lower-case word that is no particle.
    tokens = (
        names.tokens_at(text, start, high) if value[0].isupper() else [m.span() for m in names.WORD.finditer(text, start, end)]
    )
    if value[0].isupper() and ", " in value and len(tokens) == 1:
        parts = [m.span() for m in names.WORD.finditer(text, start, end)][:2]
        if len(parts) == 2 and names.is_given(text[slice(*parts[1])]):
            tokens = parts
    return names.accept(text, tokens[:5], "key") if tokens else ()


def _loose(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The value of a key that may hold a name: it must look like one."""
    start = at - 1
    if not text[start].isupper():
        return ()
    tokens = names.tokens_at(text, start, high, 4)
    words = [text[a:b] for a, b in tokens]
    real = [word for word in words if len(word) > 1 and word not in names.PARTICLES]
    if len(real) < 2:
        return ()
    if text[tokens[-1][1] : tokens[-1][1] + 1] in ("_", "(", "@"):
        return ()
    if (
        sum(map(names.is_known, real)) >= 1
        and not any(names.is_ordinary(word) and not names.is_given(word) for word in real)
        and (names.is_given(real[0]) or not names.is_ordinary(real[-1]))
    ) and (names.is_given(real[0]) or real[-1].lower() in SURNAMES):
        return names.accept(text, tokens, "key")
    return ()


DETECTORS = (
    Detector(
        name="name: key of a person's name",
        class_=names.CLASS,
        # Behind a separator of leaves stands the key of a JSON value.
        triggers=(
            _PERSON_KEYS,
            r"(?i)(?:^|\x1f)(?:family|given): [A-Za-z\xc0-\xff]",
            r"(?i)(?:[?&](?:first|last|[fl]name)=| (?:first|last|[fl]name)=[\"'])[A-Za-z\xc0-\xff]",
        ),
        find=_keyed,
        examples=(Example(text="first_name: Will", value="Will", near_miss="file_name: Report"),),
    ),
    Detector(
        name="name: key that may hold a name",
        class_=names.CLASS,
        triggers=(_LOOSE_KEYS,),
        find=_loose,
        examples=(Example(text="Customer: Lena Vogelsang", value="Lena Vogelsang", near_miss="name: Search Flights"),),
    ),
)
