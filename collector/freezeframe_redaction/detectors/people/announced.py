"""Names behind words that announce one: ``Dear``, ``my name is``, ``Herr``."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import COMMON, SURNAMES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate, Detector, Example

_TITLES = "|".join(
    sorted(title.replace("ı", "\xe9") for title in names.TITLES | {"Fr", "Me", "dhr", "mevr", "mw", "hr", "sig", "sra"})
)
"""As the trigger engine reads them; the two that are ordinary words too announce no more than ``Dear`` does."""
_STRONG_WORDS = (
    r"(?:my name is|name is|name's|named|I am called|call me|this is|signed by|signed,|mein Name ist|ich hei\xdfe|ich heisse|ich bin|je m'appelle|mon nom est|me llamo|mi nombre es|soy|mi chiamo|il mio nome \xe8"
    r"|meu nome \xe9|me chamo|mijn naam is|ik heet|jag heter|mitt namn \xe4r|nazywam si.|mam na imi.|benim ad.m|ad.m|minun nimeni on|jeg hedder|jeg heter|menovite|je suis|I'm|I am|Im"
    r"|Patient|patient|Customer|customer|client|Client|passenger|Passenger|attendee|employee|applicant|Applicant|tenant|resident|cardholder|beneficiary|spoke (?:with|to)|met with|talked to|assigned to|Assigned to|Attn|attn|c/o|Contact|contact"
    r"|Dear|Hi|Hello|Hey|Hallo|Liebe|Lieber|Sehr geehrter?|Cher|Ch\xe8re|Bonjour|Estimado|Estimada|Querido|Querida|Hola|Caro|Cara|Gentile|Prezado|Prezada|Ol\xe1|Beste|Geachte|K\xe4ra|Hej|Szanowny|Szanowna"
    r"|[Rr]egards|Best|Warmly|Yours|Love|[Ss]incerely|[Cc]heers|[Tt]hanks|[Bb]est wishes|[Yy]ours truly|[Yy]ours faithfully|Thank you|[Gg]r\xfc(?:\xdf|ss)en?|Gru(?:\xdf|ss)|MfG|LG|VG|Mvh|Bisous|[Aa]bra\xe7os?|[Aa]brazos?|Pozdrawiam|Groetjes|Cordialement|[Ss]aludos|[Cc]ordialmente|[Aa]tenciosamente|[Ss]aluti|[Gg]roet(?:en)?|h\xe4lsningar|wife|husband|son|daughter|mother|father|brother|sister|boss|colleague|manager|friend)"
)
STRONG = tuple(
    "name is|name's|call me|signed by|signed,|signed|name ist|heiße|heisse|m'appelle|nom est|llamo|nombre es|chiamo|nome è|nome é|me chamo|naam is"
    "|ik heet|heter|hedder|nazywam się|mam na imię|nimeni on".split("|")
)
"""Behind these a word is a name, whatever it looks like."""


def _context(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the first letter behind a word that announces a name."""
    start = at - 1
    tokens = names.tokens_at(text, start, high)
    for _ in range(2):
        # "Sehr geehrte Frau Dr. Weiß": the name begins behind the titles.
        if not tokens or text[slice(*tokens[0])] not in names.TITLES:
            break
        following = names.WORD.search(text, tokens[0][1], min(high, tokens[0][1] + 4))
        tokens = names.tokens_at(text, following.start(), high) if following else []
    if not tokens:
        return ()
    words = [text[a:b] for a, b in tokens]
    first = words[0]
    if first.lower() in names.NOT_NAMES or not first[0].isupper() or (len(first) == 1 and len(words) == 1 and first.isascii()):
        return ()
    before = text[max(low, start - 32) : start]
    strong = before.rstrip(" \t\r\n:,*_\"'").lower().endswith(STRONG)
    titled = names.title_start(text, low, start) < start
    if strong or titled:
        if (
            first.lower() in COMMON
            and len(words) == 1
            and not names.is_given(first)
            and not (titled and first.lower() in SURNAMES)
        ):
            return ()
        if (
            strong
            and len(words) == 1
            and not names.is_known(first)
            and text[tokens[0][1] : tokens[0][1] + 1] in ("_", "(", "/")
        ):
            return ()
        return names.accept(text, names.trimmed(text, tokens), "context")
    kept = names.trimmed(text, tokens)
    words = [text[a:b] for a, b in kept]
    if len(words) == 1:
        return (
            names.accept(text, kept, "context")
            if names.is_given(words[0]) and not names.is_ordinary(words[0]) and len(words[0]) > 2
            else ()
        )
    real = [word for word in words if len(word) > 1 and word not in names.PARTICLES]
    if not real or all(map(names.is_ordinary, real)) or (names.is_ordinary(real[0]) and not names.is_given(real[0])):
        return ()
    if any(map(names.is_known, real)) and not (names.is_ordinary(real[-1]) and real[-1].lower() not in SURNAMES):
        return names.accept(text, kept, "context")
    return ()


DETECTORS = (
    Detector(
        name="name: announced",
        class_=names.CLASS,
        triggers=(
            rf"\b(?:(?:{_TITLES}|mevrouw|meneer|dott|domnule|doamna|se\xf1ora?|senhora?|monsieur|madame|signora?)\.?|{_STRONG_WORDS})[.,:!*\"]{{0,2}}[ \t\r\n]{{1,3}}{names.CAPITAL}",
        ),
        find=_context,
        examples=(
            Example(text="My name is Will Page and I need help", value="Will Page", near_miss="Dear Customer, thanks"),
            Example(text="Kind regards,\nSara Lindqvist", value="Sara Lindqvist", near_miss="This is Python"),
            Example(text="Herr Müller hat angerufen", value="Müller"),
        ),
    ),
)
