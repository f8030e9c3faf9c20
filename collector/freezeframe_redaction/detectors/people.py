"""Names of people: the cheap tier.

A name is accepted on evidence: the word before it (``Dear``, ``my name is``, ``Herr``), the key of its JSON value
(``customer_name``), or its own words (a given name of the lexicon followed by a word that is no ordinary word). Single given
names without evidence are left to the model tier.

It is long because it is word lists of many languages for the most part.
"""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import COMMON, GIVEN, SURNAMES
from freezeframe_redaction.invented import holds_invented
from freezeframe_redaction.model import Candidate, Detector, Example

CLASS = "PERSON"

_L = r"[^\W\d_]"
_TOKEN = rf"(?:'t|{_L}+(?:['-]{_L}+)*)"
_PARTICLE = r"(?:'t|de|van|von|der|den|la|di|da|dos|das|do|del|della|le|bin|ibn|al|el|ter|ten|zu|zur|af|av|y|e)"
PARTICLES = frozenset(
    [
        "'t",
        "d",
        "de",
        "van",
        "von",
        "der",
        "den",
        "la",
        "di",
        "da",
        "dos",
        "das",
        "do",
        "del",
        "della",
        "le",
        "bin",
        "ibn",
        "al",
        "el",
        "ter",
        "ten",
        "zu",
        "zur",
        "af",
        "av",
        "y",
        "e",
        "jr",
        "sr",
        "ii",
        "iii",
    ]
)
_NEXT = re.compile(rf"(?:[ \t]|-|, ?(?=(?:Jr|Sr)\b))({_TOKEN})(\.?)")
_WORD = re.compile(_TOKEN)

_TITLES = (
    r"(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Doctor|Sir|Dame|Lord|Lady|Rev|Hon|Capt|Sgt|Herr|Frau|Hr|Fr|Mme|Mlle|Monsieur|Madame|Mademoiselle|Me|Se\xf1or|Se\xf1ora|Se\xf1orita|Sra|Sr|Srta"
    r"|Don|Do\xf1a|Signor|Signora|Sig|Sig\.ra|Senhor|Senhora|Dhr|Mevr|Mevrouw|Meneer|Pan|Pani|Herra|Rouva|Fru|Say\u0131n|Bay|Bayan|Doktor|Dott|Ing)"
).replace("\\u0131", "\xe9")
_STRONG_WORDS = (
    r"(?:my name is|name is|name's|named|I am called|call me|this is|signed by|signed,|mein Name ist|ich hei\xdfe|ich heisse|ich bin|je m'appelle|mon nom est|me llamo|mi nombre es|soy|mi chiamo|il mio nome \xe8"
    r"|meu nome \xe9|me chamo|mijn naam is|ik heet|jag heter|mitt namn \xe4r|nazywam si.|mam na imi.|benim ad.m|ad.m|minun nimeni on|jeg hedder|jeg heter|menovite|je suis|I'm|I am|Im"
    r"|Patient|patient|Customer|customer|client|Client|passenger|Passenger|attendee|employee|applicant|Applicant|tenant|resident|cardholder|beneficiary|spoke (?:with|to)|met with|talked to|assigned to|Assigned to|Attn|attn|c/o|Contact|contact"
    r"|Dear|Hi|Hello|Hey|Hallo|Liebe|Lieber|Sehr geehrter?|Cher|Ch\xe8re|Bonjour|Estimado|Estimada|Querido|Querida|Hola|Caro|Cara|Gentile|Prezado|Prezada|Ol\xe1|Beste|Geachte|K\xe4ra|Hej|Szanowny|Szanowna"
    r"|[Rr]egards|[Ss]incerely|[Cc]heers|[Tt]hanks|[Bb]est wishes|[Yy]ours truly|[Yy]ours faithfully|Thank you|[Gg]r\xfc\xdfen|Gru\xdf|Cordialement|[Ss]aludos|[Cc]ordialmente|[Aa]tenciosamente|[Ss]aluti|[Gg]roet(?:en)?|h\xe4lsningar|wife|husband|son|daughter|mother|father|brother|sister|boss|colleague|manager|friend)"
)
_STRONG = re.compile(
    r"(?:name is|name's|call me|signed by|signed,|Name ist|heiße|heisse|m'appelle|nom est|llamo|nombre es|chiamo|nome è|nome é|me chamo|naam is|ik heet|heter|hedder|nazywam się|mam na imię|nimeni on)[\s:,*_\"']*$",
    re.IGNORECASE,
)
_TITLE_BEFORE = re.compile(
    r"(?:^|[^\w])(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Doctor|Sir|Dame|Lord|Lady|Rev|Hon|Herr|Frau|Hr|Mme|Mlle|Monsieur|Madame|Mademoiselle|Señor|Señora|Señorita|Sra|Sr|Srta|Don|Doña|Signor|Signora|Sig|Sig\.ra|Senhor|Senhora|Dhr|Mevr|Mevrouw|Meneer|Pan|Pani|Fru|Sayın|Bay|Bayan|Doktor|Dott|Ing)[.]?[\s]+$"
)
_TITLE_WORDS = frozenset(
    "Mr Mrs Ms Miss Mx Dr Prof Professor Doctor Sir Dame Lord Lady Rev Herr Herrn Frau Hr Mme Mlle Monsieur Madame Mademoiselle Señor Señora Señorita Sra Sr Srta"
    " Signor Signora Senhor Senhora Dhr Mevr Mevrouw Meneer Pan Pani Fru Doktor Dott".split()
)
_TITLES_BEFORE = re.compile(
    r"(?<!\w)((?:(?:Mr|Mrs|Ms|Miss|Mx|Dr|Prof|Professor|Doctor|Sir|Dame|Herrn?|Frau|Mme|Mlle|Monsieur|Madame|Señora?|Sra?|Signora?|Sig|Senhora?|Dott|Ing)\.?[ ]{1,2}){1,2})$",
    re.IGNORECASE,
)
_DEGREES_BEHIND = re.compile(r"(?:,? (?:Jr|Sr|PhD|Ph\.D|MD|M\.D|DDS|DVM|Esq|MBA|II|III)\b\.?){1,2}")
_OPENING = re.compile(r"[\s:,.*_\"'()\[\]#>-]{1,6}")

_PERSON_KEY = (
    r"(?:full|first|last|given|family|sur|middle|maiden|fore|nick|legal|preferred|customer|client|patient|contact|account[_ ]?holder|card[_ ]?holder|holder|employee|owner|author|assignee|sender|recipient|passenger|guest"
    r"|billing|shipping|applicant|student|member|doctor|physician|nurse|agent|driver|tenant|beneficiary|emergency[_ ]contact|insured|caller|attendee|buyer|seller|signer|payer|payee|manager|parent|spouse|visitor|reporter)"
)
_PERSON_KEYS = (
    rf"(?i)(?:^|[^A-Za-z])(?:{_PERSON_KEY}[_ \-.]?name|firstname|lastname|fullname|surname|cardholder|vorname|nachname|pr\xe9nom|nom de famille|nombre(?: completo)?|apellidos?|nome completo|cognome|sobrenome|voornaam|achternaam|imi\xea|nazwisko|f\xf6rnamn|efternamn|etunimi|sukunimi)"
    r"[\"'*]{0,3}\s?[:=]\s?[\"'*]{0,3}[A-Za-z\xc0-\xff]"
)
_LOOSE_KEYS = (
    r"(?i)(?:^|[^A-Za-z_])(?:name|customer|patient|passenger|assignee|sender|recipient|author|owner|contact|client|guest|user|attn|from|to|by|reviewer|approver|reported by|created by|signed|employee|driver|doctor|physician|kunde|nom|naam|namn)"
    r"[\"'*]{0,3}\s?[:=]\s?[\"'*]{0,3}[A-Za-z\xc0-\xff]"
)
_NOT_NAMES = frozenset(
    [
        "customer",
        "sir",
        "madam",
        "team",
        "all",
        "the",
        "this",
        "support",
        "user",
        "everyone",
        "there",
        "friend",
        "guest",
        "unknown",
        "none",
        "null",
        "anonymous",
        "admin",
        "test",
        "n/a",
        "na",
        "client",
        "colleague",
        "colleagues",
        "folks",
        "guys",
    ]
)


def _tokens(text: str, start: int, high: int, limit: int = 6) -> list[tuple[int, int]]:
    """Return the spans of the words that may belong to a name that begins at `start`."""
    first = _WORD.match(text, start, min(high, start + 40))
    if first is None:
        return []
    out = [first.span()]
    position = first.end()
    # An initial carries its dot.
    if first.end() - first.start() == 1 and text[position : position + 1] == ".":
        position += 1
    while len(out) < limit:
        match = _NEXT.match(text, position, min(high, position + 42))
        if match is None:
            break
        word = match.group(1)
        if not (word[0].isupper() or word in PARTICLES):
            break
        out.append(match.span(1))
        position = match.end() if len(word) == 1 or word in ("Jr", "Sr") else match.end(1)
        if match.group(2) and len(word) > 1:
            break
    while out and text[out[-1][0] : out[-1][1]] in PARTICLES:
        out.pop()
    return out


def _known(word: str) -> bool:
    lowered = word.lower()
    return (
        lowered in GIVEN
        or lowered in SURNAMES
        or any(part in GIVEN or part in SURNAMES for part in lowered.split("-") if "-" in lowered)
    )


def _given(word: str) -> bool:
    lowered = word.lower()
    return lowered in GIVEN or ("-" in lowered and lowered.split("-")[0] in GIVEN)


def _ordinary(word: str) -> bool:
    return word.lower() in COMMON


def _accept(text: str, tokens: list[tuple[int, int]], kind: str) -> tuple[Candidate, ...]:
    start, end = tokens[0][0], tokens[-1][1]
    if text[end - 2 : end] in ("'s", "'S"):
        end -= 2
    if holds_invented(text[start:end]):
        return (Candidate(start, end, "*"),)
    # "Mr." and "PhD" identify nobody and stay, but they belong to the name that is reported.
    titles = _TITLES_BEFORE.search(text, max(0, start - 24), start)
    degrees = _DEGREES_BEHIND.match(text, end)
    shown = (titles.start(1) if titles else start, degrees.end() if degrees else end)
    return (Candidate(start, end, CLASS, kind, None if shown == (start, end) else shown),)


def _trim(text: str, tokens: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop words from the end that are no part of a name."""
    while len(tokens) > 1 and _ordinary(text[slice(*tokens[-1])]) and text[slice(*tokens[-1])].lower() not in SURNAMES:
        tokens = tokens[:-1]
    return tokens


def _context(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the first letter behind a word that announces a name."""
    start = at - 1
    before = text[max(low, start - 32) : start]
    tokens = _tokens(text, start, high)
    for _ in range(2):
        # "Sehr geehrte Frau Dr. Weiß": the name begins behind the titles.
        if not tokens or text[slice(*tokens[0])] not in _TITLE_WORDS:
            break
        following = _WORD.search(text, tokens[0][1], min(high, tokens[0][1] + 4))
        tokens = _tokens(text, following.start(), high) if following else []
    if not tokens:
        return ()
    words = [text[a:b] for a, b in tokens]
    first = words[0]
    if first.lower() in _NOT_NAMES or not first[0].isupper() or (len(first) == 1 and len(words) == 1 and first.isascii()):
        return ()
    strong = bool(_STRONG.search(before))
    titled = bool(_TITLE_BEFORE.search(before))
    if strong or titled:
        if first.lower() in COMMON and len(words) == 1 and not _given(first) and not (titled and first.lower() in SURNAMES):
            return ()
        if strong and len(words) == 1 and not _known(first) and text[tokens[0][1] : tokens[0][1] + 1] in ("_", "(", "/"):
            return ()
        return _accept(text, _trim(text, tokens), "context")
    kept = _trim(text, tokens)
    words = [text[a:b] for a, b in kept]
    if len(words) == 1:
        return _accept(text, kept, "context") if _given(words[0]) and not _ordinary(words[0]) and len(words[0]) > 2 else ()
    real = [word for word in words if len(word) > 1 and word not in PARTICLES]
    if not real or all(map(_ordinary, real)) or (_ordinary(real[0]) and not _given(real[0])):
        return ()
    if any(map(_known, real)) and not (_ordinary(real[-1]) and real[-1].lower() not in SURNAMES):
        return _accept(text, kept, "context")
    return ()


def _pair(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Two capitalised words in a row; the trigger ended in the second one."""
    # The trigger ends on the second letter of the last word; most pairs fail on the word before it.
    start = at - 2
    floor = max(low, at - 64)
    if start <= floor:
        return ()
    previous = _last_word(text, floor, start - 1)
    if previous.lower() in COMMON and not (len(previous) < 4 or _given(previous)):
        return ()
    first = _first_word(text, floor, start)
    if first is None:
        return ()
    tokens = _tokens(text, first, high)
    if len(tokens) < 2:
        return ()
    words = [text[a:b] for a, b in tokens]
    index = 0
    # "When Maria Lopez": ordinary words in front are not part of the name.
    while index < len(words) - 1 and not _pairs(words, index):
        index += 1
    if index >= len(words) - 1:
        if _stands_alone(text, low, high, tokens, words):
            return _accept(text, tokens, "line of its own")
        return (Candidate(tokens[0][0], tokens[-1][0], ""),)
    kept = _trim(text, tokens[index : index + 5])
    if len(kept) < 2:
        return ()
    return _accept(text, kept, "lexicon")


def _stands_alone(text: str, low: int, high: int, tokens: list[tuple[int, int]], words: list[str]) -> bool:
    """Whether words that end in a surname fill a line or follow a word that leads to a person, as in an address block."""
    last = words[-1].lower()
    if (
        not 2 <= len(words) <= 4
        or len(last) < 4
        or any(_ordinary(word) for word in words if len(word) > 1 and word not in PARTICLES)
        or words[0].lower() in _NEVER_FIRST
        or words[0].lower() in _TECHNICAL
        or not (last in SURNAMES or _SURNAME_ENDING.search(last))
    ):
        return False
    before = text[max(low, tokens[0][0] - 16) : tokens[0][0]]
    behind = text[tokens[-1][1] : min(high, tokens[-1][1] + 1)]
    if behind in ("", "\n") and (not before.strip("> ?\t") or before.rstrip("> ?\t")[-1:] == "\n"):
        return True
    return before.rstrip().rpartition(" ")[2].lower() in _LEADING


_LEADING = frozenset(
    "says said told by starring named called with actor actress producer director commenter singer writer author assistant".split()
)


def _last_word(text: str, floor: int, end: int) -> str:
    """Return the word that ends at `end`, without the marks around it."""
    begin = max(text.rfind(" ", floor, end), text.rfind("\n", floor, end), floor - 1) + 1
    return text[begin:end].strip("(\"'*_[.,:;>#-/`")


def _pairs(words: list[str], index: int) -> bool:
    """Whether the word and the next one that is neither initial nor particle look like given name and surname."""
    first = words[index]
    if index and words[index - 1] in _PLACE_PREFIXES:
        return False
    last = next((word for word in words[index + 1 :] if len(word) > 1 and word not in PARTICLES), None)
    if last is not None and _is_foreign_pair(first, last):
        return True
    if last is None or not _given(first) or len(first) < 2 or first.lower() in ("princess", "prince", "queen", "royal"):
        return False
    if _ordinary(last):
        return False
    if _ordinary(first):
        return last.lower() in SURNAMES and first.lower() not in _SHORT_WORDS
    if last.lower() in SURNAMES or last.lower() in GIVEN:
        return True
    # An unknown word behind a good given name is a surname more often than not; camel case and acronyms are not.
    return len(first) > 2 and len(last) > 3 and last[1:].islower()


_SURNAME_ENDING = re.compile(
    r"(?:[sc]k[iy]|[sc]ka|[sc]ký|[sc]ká|[aeiouy]v|[eoi]va|yev|ович|enko|czyk|wicz|vich|vić|ović|ević|[^\W\d_]ić|čić|ssons?|d[oó]tt?ir|sdatter|qvist|quist|lund|ström"
    r"|strøm|gård|gaard|escu|eanu|oğlu|oglu|poulos|idis|ides|akis|yan|ian|adze|shvili|švili|nen|mäki|szky|ényi|ázi|áth[yi]|ová|čová|ez|úñez|inho|ães|[^\W\d_]{2}sen)$"
)
_NEVER_FIRST = frozenset(
    "the a an in on at of to for from by with and or but not if when while where this that these those my your our his her its their all any each every no new"
    " north south east west northern southern eastern western saint san santa los las el la le de von van port fort mount lake river cape greater lower upper central".split()
)


def _is_foreign_pair(first: str, last: str) -> bool:
    """Whether two capitalised words that no list may know look like a person: ``Zargan Vedzizhev``, ``Dreux Joly``."""
    first_lower, last_lower = first.lower(), last.lower()
    if (
        len(first) < 3
        or len(last) < 4
        or not (first[1:].islower() and last[1:].islower())
        or first_lower in COMMON
        or last_lower in COMMON
        or first_lower in _NEVER_FIRST
        or first_lower in _TECHNICAL
    ):
        return False
    surname = last_lower in SURNAMES
    if not first.isascii() or not last.isascii():
        # Letters with marks stand in names and places; a place has no surname.
        return surname or first_lower in GIVEN or first_lower in SURNAMES or bool(_SURNAME_ENDING.search(last_lower))
    return (surname and (first_lower in SURNAMES or first_lower[-1] in "aeio")) or (
        bool(_SURNAME_ENDING.search(last_lower))
        and (surname or first_lower in GIVEN or first_lower in SURNAMES or len(last) > 6)
    )


_PLACE_PREFIXES = frozenset(["San", "Santa", "Saint", "São", "Fort", "Port", "New", "Los", "Las"])
"""Before a given name they make a place of it: San Francisco Bay."""
_SHORT_WORDS = frozenset(word for word in COMMON if len(word) < 4) | frozenset(
    [
        "will",
        "may",
        "mark",
        "see",
        "new",
        "can",
        "case",
        "long",
        "link",
        "early",
        "general",
        "major",
        "grant",
        "green",
        "line",
        "little",
        "many",
        "author",
        "edit",
        "branch",
        "server",
        "true",
        "valid",
        "manual",
        "alpha",
        "beta",
        "delta",
        "media",
        "meta",
        "page",
        "unknown",
        "unique",
        "trace",
        "reason",
        "numbers",
    ]
)


def _first_word(text: str, floor: int, start: int) -> int | None:
    """Return where the run of capitalised words and particles that reaches `start` begins."""
    position = start
    for _ in range(4):
        if position <= floor or text[position - 1] not in " -\t":
            break
        left = position - 1
        if left - 1 > floor and text[left - 1] == "." and not text[left - 2 - (left - 2 > floor)].isalpha():
            left -= 1  # an initial; a longer word with a dot ends a sentence
        begin = left
        while begin > floor and (text[begin - 1].isalpha() or text[begin - 1] in "'-"):
            begin -= 1
        word = text[begin:left]
        if not word or not (word[0].isupper() or word in PARTICLES):
            break
        position = begin
    while position < start and not text[position].isupper():
        position = text.find(" ", position) + 1
        if position == 0:
            return None
    return position if position < start or start == floor else None


_AND_ANOTHER = re.compile(r",? (?:and|&|or) [A-Z]")


def _last_first(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Smith, John``."""
    comma = text.rfind(",", max(low, at - 24), at)
    if comma < 0:
        return ()
    begin = comma
    while begin > low and comma - begin < 24 and (text[begin - 1].isalpha() or text[begin - 1] in "'-"):
        begin -= 1
    second = _WORD.match(text, comma + 2, min(high, comma + 30))
    surname = text[begin:comma]
    if second is None or surname.lower() not in SURNAMES or _ordinary(surname):
        return ()
    given = second.group()
    if _AND_ANOTHER.match(text, second.end(), min(high, second.end() + 12)):
        return ()  # "Jones, Mitchell and Williams" are three, of a company more often than not
    if not _given(given) or _ordinary(given) or (given.lower() in SURNAMES and given.lower() not in GIVEN):
        return ()
    return _accept(text, [(begin, comma), second.span()], "last, first")


_LISTED = re.compile(rf"(?<!\w)({_L}{{3,20}}(?:, {_L}{{3,20}}){{1,11}},? (?:and|or|&|und|et|y|e|og|och|i) {_L}{{3,20}})(?!\w)")


def _list(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Mary, Efimiya, Isabel and Jodi``: where most are given names, so are the others."""
    for match in _LISTED.finditer(text, max(low, at - 200), min(high, at + 20)):
        if match.end() < at:
            continue
        spans = [one.span() for one in _WORD.finditer(text, match.start(), match.end())]
        spans = [span for span in spans if text[span[0]].isupper() and text[span[0] + 1 : span[1]].islower()]
        words = [text[a:b] for a, b in spans]
        given = sum(_is_plainly_given(word) for word in words)
        # "Jones, Smith and Davis" are a company more often than three people.
        if (
            len(words) < 3
            or given * 2 <= len(words)
            or all(word.lower() in SURNAMES for word in words)
            or any(_ordinary(word) and not _given(word) for word in words)
        ):
            return ()
        return tuple(found for span in spans for found in _accept(text, [span], "listed"))
    return ()


_SMALL_WORDS = re.compile(rf"{_L}{{2,20}}(?:'s)?(?: {_L}\.?(?= ))?(?: (?:van |de |von |da |del |der )*{_L}+(?:['-]{_L}+)*)?")


def _small(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``my name is anna kowalska``: written in small letters, so the words themselves must be names."""
    start = at - 1
    reach = _SMALL_WORDS.match(text, start, min(high, start + 60))
    if reach is None:
        return ()
    spans = [one.span() for one in _WORD.finditer(text, start, reach.end())]
    words = [text[a:b] for a, b in spans]
    if not words or not words[0].islower():
        return ()
    first = words[0].removesuffix("'s")
    pair = len(words) > 1 and words[-1].islower()
    surname = words[-1].removesuffix("'s") if pair else ""
    titled = bool(_TITLES_BEFORE.search(text, max(low, start - 16), start))
    if (
        pair
        and first in GIVEN
        and len(first) > 2
        and surname not in COMMON
        and (surname in SURNAMES or _SURNAME_ENDING.search(surname))
        and first not in _SHORT_WORDS
    ):
        return _accept(text, spans, "small")
    if len(first) > 2 and (_is_plainly_given(first) or (titled and first in SURNAMES and first not in COMMON)):
        return _accept(text, spans[:1], "small")
    return ()


def _capitals(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``JOHN SMITH``: both words in the lexicons, neither ordinary."""
    for match in re.finditer(
        rf"(?<!\w)({_TOKEN}) (?:{_L}\.? )?({_TOKEN})(?![\w])", text[max(low, at - 34) : min(high, at + 20)]
    ):
        offset = max(low, at - 34)
        first, last = match.group(1), match.group(2)
        if match.end() + offset < at or not (first.isupper() and last.isupper() and len(first) > 2 and len(last) > 2):
            continue
        if holds_invented(match.group()):
            return (Candidate(offset + match.start(), offset + match.end(), "*"),)
        if first.lower() in GIVEN and last.lower() in SURNAMES and not _ordinary(first) and not _ordinary(last):
            return (Candidate(offset + match.start(), offset + match.end(), CLASS, "capitals"),)
        return ()
    return ()


_DESCRIBED = re.compile(
    rf"(?<!\w)({_TOKEN}) ({_TOKEN}),? (?:is|was|will be|has been) (?:my|our|his|her|their|the|a|an|your) (?:\w+ )?(?:boss|wife|husband|son|daughter|mother|father|brother|sister|manager"
    r"|colleague|friend|neighbou?r|doctor|physician|nurse|lawyer|patient|customer|client|tenant|landlord|teacher|partner|assistant|uncle|aunt|cousin|employee|contact|accountant|applicant)"
)


def _described(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``May June is my boss``."""
    for match in _DESCRIBED.finditer(text, max(low, at - 90), min(high, at + 14)):
        if match.end() < at - 1:
            continue
        first, last = match.group(1), match.group(2)
        if (
            first[0].isupper()
            and last[0].isupper()
            and first.lower() not in _NOT_NAMES
            and first.lower() not in ("the", "this", "that", "my", "our")
        ):
            return _accept(text, [match.span(1), match.span(2)], "described")
    return ()


_TECHNICAL = frozenset(
    "julia jasmine django jupyter flora sage carmen delphi clojure dart ada pascal erlang haskell scala elixir crystal nim rust swift ruby perl basic eiffel prolog mercury jenkins travis apollo athena hermes"
    " kibana loki tempo alice bob eve mallory trent peggy victor carol dave sun moon venus mars jupiter saturn lisp maven gradle ant ivy cassandra aurora iris titan vega princess prince queen king royal unix"
    " china india georgia jordan chad israel kenya asia florence sydney milan vienna paris london orlando phoenix dallas carolina virginia dakota savannah brooklyn chelsea santiago san santa lourdes".split()
)
"""Given names that are more often software, places or the cast of cryptography."""
_SPEECH = frozenset(
    "is was has had said says asked asks told tells lives lived works worked wants wanted will would can could did does shouted called calls arrived likes liked loves loved went came got just"
    " needs needed thinks thought knows knew replied answered wrote writes bought paid ordered moved left met who whose doesn't didn't won't isn't wasn't".split()
)
_DOING = frozenset(
    "began spent listed shouted wrote runs ran gave given had has is was lives lived moved asked said says likes loves works worked wants wanted needs needed called calls joined quit started stopped"
    " booked cancelled canceled flew drives drove owes paid plays played studied studies teaches taught sent sends signed submitted complained reported requested returned visited whispered laughed smiled"
    " reminded emailed phoned texted agreed refused died married divorced grew turned thinks".split()
)
_BELONGINGS = frozenset(
    "address addresses phone email e-mail number account accounts card order orders birthday house home car wife husband son daughter kid kids child children mother father mom dad brother sister family"
    " friend boss manager doctor lawyer name surname appointment booking flight ticket tickets passport license licence salary bank password contact desk office team story song book novel music voice"
    " life death killers killer wedding party dog cat insurance policy claim invoice room reservation".split()
)
_CLAUSE = frozenset(
    ["", "that", "when", "if", "because", "then", "so", "but", "where", "as", "though", "and", "while", "since"]
)
_PLAIN_PREPOSITIONS = frozenset(["is", "to", "from", "for", "by", "about", "and", "with", "has", "was", "did", "does"])
_CLAUSE_END = frozenset(["in", "at", "on", "about", "and", "from", "today", "tomorrow", "by", "so"])
_ADDRESSED = frozenset("what who can could please i you we how why where when thanks thank are do did is have your my".split())
_TOWARDS = frozenset(
    "with by but under early producer kid him her given named heard starring featuring between commenter mr. mrs. ms. dr. miss told tell ask asked asks met meet saw calls called friend friends love loves thank thanks hi hello hey dear said says sister brother mother father wife husband son daughter aunt uncle"
    " cousin boss colleague mr mrs ms dr and including invited invite visit visited emailed email to from for about remind reminded inform informed contact is why did does has was me".split()
)


def _single(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """A given name alone, where the words around it speak of a person."""
    start = _capital_before(text, low, at)
    word = _WORD.match(text, start, min(high, start + 24))
    if word is None or (start > low and (text[start - 1].isalnum() or text[start - 1] in "_./-@#$<`")):
        return ()
    name = word.group()
    end = word.end() - (2 if name[-2:] in ("'s", "'S") else 0)
    name = text[start:end]
    if len(name) < 3 or not name[1:].islower():
        return ()
    known = _is_plainly_given(name) or _has_form_of_surname(name)
    if not known and (len(name) < 4 or _ordinary(name) or name.lower() in _TECHNICAL or name.lower() in _NEVER_FIRST):
        return ()
    following = text[end : min(high, end + 24)]
    if following[:1] in ("_", "(", ".", "-", "/", "@", "`", "<", "=", "[") and following[:2] not in (". ", ".", ".\n"):
        return ()
    if following[:1] == " " and following[1:2].isupper():
        return ()
    if not known:
        # A word that no list knows must do what only people do: "Mehrudin shouted at", "Quionia is from".
        opens = (
            not text[max(low, start - 3) : start].strip(" \t")
            or text[max(low, start - 3) : start].rstrip(" \t")[-1:] in '.!?\n"“'
        )
        return _accept(text, [(start, end)], "alone") if opens and _HUMAN.match(following) else ()
    return _accept(text, [(start, end)], "alone") if _speaks_of_a_person(text, low, start, name, following) else ()


_HUMAN = re.compile(
    r" (?:shouted|whispered|laughed|smiled|married|divorced|is from|was born|lives (?:in|at|on)|lived (?:in|at|on)|began (?:writing|working|studying|teaching)|has a (?:headache|fever|daughter|son)"
    r"|asked (?:me|him|her|us)|told (?:me|him|her|us)|called (?:me|him|her|us)|spent a (?:year|month|week)|wants to (?:cancel|book|return|speak|know)|listed (?:his|her)|had given|paid (?:his|her))\b|, can (?:I|you|we)\b"
)


def _has_form_of_surname(word: str) -> bool:
    """Whether the word ends as surnames do and is one, or is written with foreign letters."""
    lowered = word.lower()
    return (
        len(word) > 5
        and lowered not in COMMON
        and _SURNAME_ENDING.search(lowered) is not None
        and (lowered in SURNAMES or not word.isascii() or len(word) > 8)
    )


def _is_plainly_given(word: str) -> bool:
    """Whether the word is a given name, and neither an ordinary word nor better known as software or a place."""
    lowered = word.lower()
    return lowered in GIVEN and lowered not in COMMON and lowered not in _TECHNICAL


def _speaks_of_a_person(text: str, low: int, start: int, name: str, following: str) -> bool:
    before = text[max(low, start - 24) : start].rstrip(" \t")
    previous = before.rpartition(" ")[2].rpartition("\n")[2].lower().strip("\"'(,>")
    after = following.removeprefix("'s").lstrip(" ,").split(" ", 1)[0].lower().rstrip('.,!?:;"\\')
    opens = not before or before[-1] in '.!?\n"“:>'
    if following[:3] == "'s " and (after in _BELONGINGS or previous in _TOWARDS):
        return True
    if after in _SPEECH and (opens or previous in _TOWARDS or previous in _CLAUSE):
        return True
    if opens and len(name) > 3 and after in _DOING and following[:1] == " ":
        return True
    if before[-1:] == "," and following[:1] in ("?", "!") and not before[-2:-1].isupper():
        # "Remember me, Alexander?"
        return True
    if opens and following[:1] == ":" and following[1:3].lstrip(" \\")[:1] in ('"', "“", "'") and following[1:3].strip():
        # One speaker of a dialogue.
        return True
    if (previous in _TOWARDS and previous not in _PLAIN_PREPOSITIONS) or before.endswith("shouted at"):
        return True
    # After a plain preposition the name must end its clause, and be long enough not to be an acronym in small letters.
    if (
        previous in _TOWARDS
        and len(name) > 3
        and (following[:1] in ("", ",", "!", "?", "\n", "'", ";") or following[:2] in (". ", ".") or after in _CLAUSE_END)
    ):
        return True
    return opens and following[:1] in (",", ":", "!") and after in _ADDRESSED


def _capital_before(text: str, low: int, at: int) -> int:
    """Return where the last capitalised word that begins before `at` begins."""
    for position in range(at - 1, max(low, at - 40) - 1, -1):
        if text[position].isupper() and (position == 0 or not text[position - 1].isalpha()):
            return position
    return at - 1


_VALUE = re.compile(rf"{_TOKEN}\.?(?:[ ,]{{1,2}}{_TOKEN}\.?){{0,4}}")


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
    if any(word.lower() in _NOT_NAMES for word in words) or all(_ordinary(word) and not _known(word) for word in words):
        return ()
    if not value[0].isupper() and value.isascii() and not any(map(_known, words)):
        return ()
    # A sentence after the name belongs to the text: stop at the first lower-case word that is no particle.
    tokens = _tokens(text, start, high) if value[0].isupper() else [m.span() for m in _WORD.finditer(text, start, end)]
    if value[0].isupper() and ", " in value and len(tokens) == 1:
        parts = [m.span() for m in _WORD.finditer(text, start, end)][:2]
        if len(parts) == 2 and _given(text[slice(*parts[1])]):
            tokens = parts
    return _accept(text, tokens[:5], "key") if tokens else ()


def _loose(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The value of a key that may hold a name: it must look like one."""
    start = at - 1
    if not text[start].isupper():
        return ()
    tokens = _tokens(text, start, high, 4)
    words = [text[a:b] for a, b in tokens]
    real = [word for word in words if len(word) > 1 and word not in PARTICLES]
    if len(real) < 2:
        return ()
    if text[tokens[-1][1] : tokens[-1][1] + 1] in ("_", "(", "@"):
        return ()
    if (
        sum(map(_known, real)) >= 1
        and not any(_ordinary(word) and not _given(word) for word in real)
        and (_given(real[0]) or not _ordinary(real[-1]))
    ) and (_given(real[0]) or real[-1].lower() in SURNAMES):
        return _accept(text, tokens, "key")
    return ()


_START = r"(?:^|[^A-Za-z0-9_\xc0-\xff])"
_U, _LO = r"[A-Z\xc0-\xd6\xd8-\xde]", r"[a-z'\xdf-\xff]"

DETECTORS = (
    Detector(
        name="name: announced",
        class_=CLASS,
        triggers=(rf"{_START}(?:{_TITLES}\.?|{_STRONG_WORDS})[.,:!*\"]{{0,2}}[ \t\r\n]+{_U}",),
        find=_context,
        examples=(
            Example(text="My name is Will Page and I need help", value="Will Page", near_miss="Dear Customer, thanks"),
            Example(text="Kind regards,\nSara Lindqvist", value="Sara Lindqvist", near_miss="This is Python"),
            Example(text="Herr Müller hat angerufen", value="Müller"),
        ),
    ),
    Detector(
        name="name: given name and surname",
        class_=CLASS,
        triggers=(rf"{_START}{_U}{_LO}+[ \-](?:(?:{_U}\.?|{_PARTICLE}) )*{_U}{_LO}",),
        find=_pair,
        examples=(
            Example(text="approved by Adrian Clayton today", value="Adrian Clayton", near_miss="Kafka Topic and Hilbert Space"),
        ),
    ),
    Detector(
        name="name: described",
        class_=CLASS,
        triggers=(rf"{_START}{_U}{_LO}+ {_U}{_LO}+,? (?:is|was) (?:my|our|his|her|their|the|a|an|your) [a-z]{{3}}",),
        find=_described,
        examples=(Example(text="May June is my boss", value="May June", near_miss="Data Lake is the answer"),),
    ),
    Detector(
        name="name: given name alone",
        class_=CLASS,
        triggers=(
            r"\b(?:with|by|told|tell|ask|asked|met|meet|saw|calls|called|friend|love|loves|thank|thanks|and|including|visit|visited|to|from|for|about|is|why|did|does|has|said|says|me|sister|brother|wife|husband|mother|father|kid|son|daughter|aunt|uncle|him|her|given|named|heard|starring|between|commenter|but|under|early|shouted at|producer|ex-[A-Z][a-z]+) [A-Z\xc0-\xde][a-z\xdf-\xff]{2}",
            r"(?i:\b(?:mr|mrs|ms|dr|miss)\.? )[A-Za-z\xc0-\xff]",
            r", [A-Z\xc0-\xde][a-z\xdf-\xff]{2,}[?!]",
            r"[A-Z\xc0-\xde][a-z\xdf-\xff]{2,}'s (?:address|phone|e-?mail|number|account|card|order|birthday|house|home|car|wife|husband|son|daughter|kid|child|mother|father|mom|dad|brother|sister|family|friend|boss|manager|doctor|lawyer|name|appointment|booking|flight|ticket|passport|salary|bank|password|contact|office|story|song|book|novel|music|voice|life|death|killer|wedding|party|dog|cat|insurance|policy|claim|invoice|room|reservation)",
            r"(?:^|\n|\x1f)[A-Z\xc0-\xde][a-z\xdf-\xff]{2,}: ?\\?[\"']",
            r"(?:^|[.!?\n\"] ?|\x1f)[A-Z\xc0-\xde][a-z\xdf-\xff]{2,}(?: (?:said|says|asked|asks|told|tells|lives?|lived|works|worked|wants|wanted|shouted|called|calls|likes|liked|loves|went|got|needs|thinks|knows|replied|answered|wrote|bought|paid|ordered|moved|left|met|is from|was born|began|spent|listed|joined|started|booked|cancelled|canceled|sent|signed|reported|requested|returned|complained|runs|ran|gave|had|has|is|was|teaches|studied|plays|played)\b|[,:!] (?:what|who|can|could|please|how|why|where|when|thanks|are|do|did|have|your) )",
        ),
        find=_single,
        examples=(
            Example(text="please tell Katarzyna that I called", value="Katarzyna", near_miss="written with Django and Julia"),
            Example(text="Mathilde, can I please have it back?", value="Mathilde", near_miss="Finally, can I have it?"),
        ),
    ),
    Detector(
        name="name: list of given names",
        class_=CLASS,
        triggers=(rf"{_U}{_LO}+, (?:{_U}{_LO}+, )*{_U}{_LO}+,? (?:and|or|&|und|et|y|e|og|och|i) {_U}{_LO}{{2}}",),
        find=_list,
        examples=(
            Example(
                text="They invited Katarzyna, Zbigniew and Olek.",
                value="Zbigniew",
                near_miss="Tuesday, Wednesday and Thursday; Kafka, Redis and Postgres",
            ),
        ),
    ),
    Detector(
        name="name: in small letters",
        class_=CLASS,
        triggers=(
            r"(?i:\b(?:name is|name's|i am|i'm|this is|dear|hi|hello|hey|regards,?|sincerely,?|thanks,|cheers,|named|called|says|said|told|met with|spoke with|spoke to|assistant to|follow up with"
            r"|directed by|starring|written by|signed by|assigned to|contact|customer|patient|mr\.?|mrs\.?|ms\.?|dr\.?|miss))[ \n][a-z\xdf-\xff]",
        ),
        find=_small,
        examples=(
            Example(
                text="hi, my name is katarzyna nowak and i need help", value="katarzyna nowak", near_miss="i am will and able"
            ),
            Example(text="thanks, zbigniew", value="zbigniew", near_miss="this is python"),
        ),
    ),
    Detector(
        name="name: surname, given name",
        class_=CLASS,
        triggers=(rf"{_START}{_U}{_LO}+, {_U}{_LO}{{2}}",),
        find=_last_first,
        examples=(Example(text="reviewed by: Thompson, Maria", value="Thompson, Maria", near_miss="Paris, France"),),
    ),
    Detector(
        name="name: capitals",
        class_=CLASS,
        triggers=(rf"{_START}{_U}{{3,}} (?:{_U}\.? )?{_U}{{3}}",),
        find=_capitals,
        examples=(Example(text="PASSENGER: JENNIFER THOMPSON", value="JENNIFER THOMPSON", near_miss="HTTP ERROR CODES"),),
    ),
    Detector(
        name="name: key of a person's name",
        class_=CLASS,
        triggers=(_PERSON_KEYS,),
        find=_keyed,
        examples=(Example(text="first_name: Will", value="Will", near_miss="file_name: Report"),),
    ),
    Detector(
        name="name: key that may hold a name",
        class_=CLASS,
        triggers=(_LOOSE_KEYS,),
        find=_loose,
        examples=(Example(text="Customer: Lena Vogelsang", value="Lena Vogelsang", near_miss="name: Search Flights"),),
    ),
)
