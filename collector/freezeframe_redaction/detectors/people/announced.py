"""Names behind words that announce one: ``Dear``, ``my name is``, ``Herr``, ``Kind regards``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from freezeframe_redaction.detectors.lexicon import COMMON, SURNAMES
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import row

SAYS_NAME = tuple(
    "my name is|name is|name's|called me|call me|I am called|I go by|signed by|signed|under the name|under the name of|in the name of|lady called|lady named|man called|man named|guy called|guy named|woman called|woman named|girl called|girl named|boy called|boy named|booking is under|reservation is under|account is under|order is under|booked under|booking under|reservation under|name on the card is|name on card is|name on the account is|the undersigned|de M.|par M.|avec M.|et M.|pour M.|chez M.|à M.|mein Name ist|ich heiße|ich heisse|mon nom est|je m'appelle|me llamo|mi nombre es|mi chiamo"
    "|il mio nome è|meu nome é|me chamo|mijn naam is|ik heet|jag heter|jeg heter|jeg hedder|mitt namn är|navnet mitt er|mit navn er|nazywam się|mam na imię|benim adım|adım|minun nimeni on|nimeni on"
    "|mă numesc|mă cheamă|numele meu este|jmenuji se|jmenuju se|volám sa|a nevem|zovem se|ime mi je|kalbėti su|mano vardas|mani sauc|minu nimi on|nama saya|nama saya adalah|jina langu ni|naitwa|ako po si|ako si|ang pangalan ko ay"
    "|tên tôi là|tên em là|mình tên là|igama lami ngu|oruko mi ni|aha m bu|sunana|ég heiti|is mise|fy enw i yw|nire izena|em dic|el meu nom és|chamo-me|quedo a nombre de"
    "|меня зовут|моё имя|мое имя|мене звати|моє ім'я|казвам се|зовем се|се викам|менің атым|με λένε|ονομάζομαι|λέγομαι|իմ անունը".split(
        "|"
    )
)
"""Behind these a word is a name, whatever it looks like."""
STRONG = (*(phrase.lower().rstrip(",") for phrase in SAYS_NAME),)
_ANNOUNCERS = (
    "named|the deceased|the plaintiff|the defendant|the claimant|the applicant|the patient|the victim|Grandma|Grandpa|Granny|Auntie|Uncle|Aunt|Chancellor|Mayor|Governor|Judge|Nurse|ben|spelled|spelt|this is|it's|It's|its|Its|ich bin|soy|je suis|I'm|I am|Im|menovite|Patient|patient|Customer|customer|client|Client|passenger|Passenger|attendee|employee|applicant|Applicant|tenant|resident|cardholder|beneficiary"
    "|spoke with|spoke to|met with|talked to|assigned to|Assigned to|reassigned to|escalated to|Escalated to|reference for|Reference for|on behalf of|Attn|attn|c/o|Contact|contact"
    "|Dear|Hi|Hello|Hey|Hallo|Liebe|Lieber|Sehr geehrte|Sehr geehrter|Cher|Chère|Bonjour|Estimado|Estimada|Querido|Querida|Hola|Salut|Coucou|Ciao|Servus|Moin|Ahoj|Szia|Merhaba|Selam|Namaste|Good morning|Good afternoon|Good evening|Buongiorno|Bonsoir|Caro|Cara|Gentile|Egregio|Spettabile|Prezado|Prezada|Olá|Beste|Geachte|Kära|Hej"
    "|Szanowny|Szanowna|Vážený|Vážená|Vážený pane|Milý pane|Milá paní|Tisztelt|Kedves|Stimate|Stimată|Draga|Dragi|Poštovani|Poštovana|Sayın|Hyvä|Arvoisa|Kære|Kjære|Kính gửi|Yth.|Mahal na|Ndugu"
    "|Уважаемый|Уважаемая|Дорогой|Дорогая|Шановний|Шановна|Уважаеми|Уважаема|Поштовани|Поштована|Αγαπητέ|Αγαπητή|Αξιότιμε|Αξιότιμη|передайте|Передайте|позвоните|сообщите"
    "|wife|husband|son|daughter|mother|father|brother|sister|boss|colleague|manager|friend"
).split("|")
"""Behind these a word is a name where it looks like one."""
_BEYOND_LATIN = tuple(title for title in (*names.TITLES, *names.INFLECTED_TITLES, *_ANNOUNCERS) if not title[0].isascii())
"""The engine knows borders of ASCII words only."""
_CLOSINGS = (
    "regards|rgds|br|thx|tks|ty|sent from my iphone|sent from my phone|best|best wishes|warmly|yours|love|sincerely|cheers|thanks|thank you|thanks so much|thank you so much|thanks a lot|thank you very much|thanks again|thank you again|many thanks|yours truly|yours faithfully|respectfully|respectfully yours|take care|all the best|xoxo|grüßen|grüssen|grüße|grüsse|gruß|gruss|mfg|lg|vg|hochachtungsvoll"
    "|cordialement|merci|merci d'avance|danke|vielen dank|gracias|muchas gracias|grazie|grazie mille|obrigado|obrigada|bedankt|tack|takk|dzięki|dziękuję|děkuji|köszönöm|teşekkürler|kiitos|mulțumesc|hvala|bien à vous|bien à toi|salutations|amicalement|bisous|saludos|abrazo|abrazos|atentamente|cordialmente|atenciosamente|cumprimentos|abraço|abraços|saluti|groet|groeten|groetjes|hälsning|hälsningar|mvh|hilsen|terveisin|ystävällisesti"
    "|pozdrawiam|poważaniem|pozdravem|pozdravom|pozdrav|pozdravom|üdvözlettel|tisztelettel|stimă|respect|saygılarımla|saygılarımızla|sevgiler|kveðja|kveðju|trân trọng|hormat saya|salam|wassalam|kind regards"
    "|с уважением|спасибо|дякую|с уважение|с поштовањем|з повагою|всего доброго|με εκτίμηση|φιλικά"
).split("|")
"""Ends of letters; the name stands behind them, on a line of its own or not."""


def as_alternatives(phrases: Iterable[str]) -> str:
    """Return phrases as a trigger has them."""
    return "|".join(re.escape(phrase).replace(r"\ ", " ") for phrase in sorted(set(phrases)))


ANNOUNCING = frozenset(word.lower() for phrase in (*SAYS_NAME, *_ANNOUNCERS, *_CLOSINGS) for word in phrase.split())
"""Words that stand before a name and are no part of it."""


def _either_case(phrases: tuple[str, ...]) -> tuple[str, ...]:
    """Return the phrases with a small and with a capital first letter."""
    return tuple(dict.fromkeys(made for one in phrases for made in (one, one[0].upper() + one[1:], one[0].lower() + one[1:])))


_SAID = _either_case(SAYS_NAME)
_TITLES = as_alternatives([*(one for one in (*names.TITLES, *names.INFLECTED_TITLES) if one[0].isascii()), "Fr", "Me", "dhr", "mevr", "mw", "hr", "sig", "sra", "mevrouw", "meneer", "dott", "domnule", "doamna", "señor", "señora", "senhor", "senhora", "monsieur", "madame", "signor", "signora"])  # fmt: skip
"""The two that are ordinary words too announce no more than ``Dear`` does."""
_END_OF_LETTER = re.compile(
    rf"(?:(?<!\w)(?:{'|'.join(map(re.escape, _CLOSINGS))}),?[.! ]*\s*\n|\n ?--)[\s>*_-]*(?:(?:\(signed\)|i\. ?[AV]\.|pp|p\.p\.|ppa\.?|/s/) ?)?\Z",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"[ \t]*(?:$|[\n\r|/,(\x1f]|[-–—•·] )")


_PRESENTS_SELF = re.compile(
    r"(?:^|\W)(?:i am|i'm|im|this is|ich bin|je suis|soy|sono|eu sou|ik ben|ben|tôi là|ja jestem|já jsem|eu sunt|én vagyok) \Z",
    re.IGNORECASE,
)
_AND_TELLS = re.compile(r", (?:an? |the |your |from |[0-9]|and I|mother|father)")
"""Behind who presents himself: ``I'm Calliope, a nurse``."""
_GREETED = re.compile(r"(?:\A|[\n\x1f\"] ?)(?:[^\W\d_]+ ){0,2}[^\W\d_]+ \Z")
_GREETING_ENDS = re.compile(r"[,!][ \t]|[,!.:]?[ \t]*\r?\n|,$")


def _is_greeted(text: str, low: int, high: int, tokens: list[tuple[int, int]]) -> bool:
    """Whether a line begins with a greeting and these words, and ends, or goes on behind a comma: ``Hi Ndapewa, please``."""
    start, end = tokens[0][0], tokens[-1][1]
    return (
        len(tokens) <= 3
        and _GREETING_ENDS.match(text, end, min(high, end + 8)) is not None
        and _GREETED.search(text, max(low, start - 32), start) is not None
        and text[max(low, start - 24) : start].lower().rstrip().endswith(_GREETINGS)
        and all(names.may_be_name(text[a:b]) or text[a:b] in names.PARTICLES for a, b in tokens)
    )


_GREETINGS = tuple(
    "dear hi hello hey hallo hej liebe lieber cher chère bonjour estimado estimada querido querida hola caro cara gentile prezado prezada olá beste geachte kära szanowny szanowna moin ciao salut oi ola"
    " kære kjære hyvä draga dragi kedves merhaba selam coucou servus ahoj szia namaste morning afternoon evening buongiorno bonsoir".split()
)


def _is_signature(text: str, low: int, high: int, tokens: list[tuple[int, int]]) -> bool:
    """Whether the words are a line of their own below ``Kind regards`` or the two dashes of a signature."""
    start, end = tokens[0][0], tokens[-1][1]
    before = text[max(low, start - 48) : start]
    ending = _END_OF_LETTER.search(before) if "\n" in before[-16:] else None
    if ending is None or not _SIGNED.match(text, end, min(high, end + 8)):
        return False
    words = [text[a:b] for a, b in tokens]
    return len(words) <= 4 and all(
        word in names.PARTICLES
        or (
            (len(word) == 1 or all(part[1:].islower() for part in re.split(r"['-]", word) if len(part) > 1) or word.isupper())
            and (not names.is_ordinary(word) or names.is_given(word) or word.lower() in SURNAMES)
            and word.lower() not in names.NOT_NAMES
            and word.lower() not in names.OFFICES
        )
        for word in words
    )


def _behind_certain(text: str, low: int, tokens: list[tuple[int, int]], before: str, *, strong: bool) -> tuple[Candidate, ...]:
    """Behind a title or ``my name is`` a word is a name, unless it is plainly something else."""
    words = [text[a:b] for a, b in tokens]
    first, start = words[0], tokens[0][0]
    if names.is_brand(words) or names.is_brand([*text[max(low, start - 4) : start].split(), *words]):
        return ()
    if first.lower() in COMMON and len(words) == 1 and not names.is_given(first) and (strong or first.lower() not in SURNAMES):
        return ()
    if strong and len(words) == 1 and not names.is_known(first) and text[tokens[0][1] : tokens[0][1] + 1] in ("_", "(", "/"):
        return ()
    kept = names.trimmed(text, names.before_common(text, tokens))
    words = [text[a:b] for a, b in kept]
    if all(names.is_ordinary(word) and not names.is_known(word) for word in words):
        return ()
    dotted = before.rstrip()[-1:] == "."
    shouted = before.rstrip(" .")[-2:].isupper() or (first.isupper() and len(first) > 1)
    if shouted and not (strong or dotted) and (names.is_ordinary(first) or not any(map(names.is_known, words))):
        return ()  # "MS EXCEL"
    return names.accept(text, kept, "context")


_PARTICLES_BEFORE = re.compile(rf"(?<!\w)(?:{names.PARTICLE} ){{1,3}}\Z")


def find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the first letter behind a word that announces a name."""
    start = at - 1
    tokens = names.tokens_at(text, start, high)
    for _ in range(3):
        # "Sehr geehrte Frau Dr. Weiß": the name begins behind the titles.
        if not tokens or not names.is_title(text[slice(*tokens[0])]):
            break
        following = names.WORD.search(text, tokens[0][1], min(high, tokens[0][1] + 4))
        tokens = names.tokens_at(text, following.start(), high) if following else []
    if not tokens:
        return ()
    start = tokens[0][0]
    words = [text[a:b] for a, b in tokens]
    first = words[0]
    if first.lower() in names.NOT_NAMES or not first[0].isupper() or (len(first) == 1 and len(words) == 1 and first.isascii()):
        return ()
    if _is_signature(text, low, high, tokens) and (len(words) > 1 or len(first) > 2):
        return names.accept(text, tokens, "signature")
    if _is_greeted(text, low, high, tokens):
        return names.accept(text, tokens, "greeted")
    particles = _PARTICLES_BEFORE.search(text, max(low, start - 16), start)
    whole = particles.start() if particles else start
    before = text[max(low, whole - 48) : whole]
    strong = before.rstrip(" \t\r\n:,*_)\"'").lower().endswith(STRONG)
    titled = names.title_start(text, low, whole) < whole
    if strong or titled:
        return _behind_certain(text, low, tokens, before, strong=strong)
    kept = names.trimmed(text, tokens)
    words = [text[a:b] for a, b in kept]
    if len(words) == 1:
        return (
            names.accept(text, kept, "context")
            if (names.is_given(words[0]) and not names.is_ordinary(words[0]) and len(words[0]) > 2)
            or names.has_form_of_surname(words[0])
            or (_PRESENTS_SELF.search(before) and names.may_be_name(words[0]) and _AND_TELLS.match(text, kept[-1][1]))
            else ()
        )
    real = [word for word in words if len(word) > 1 and word not in names.PARTICLES]
    if (
        2 <= len(real) <= 4
        and _PRESENTS_SELF.search(before)
        and all(map(names.may_be_name, real))
        and not names.is_brand(words)
    ):
        return names.accept(text, kept, "context")
    if not real or all(map(names.is_ordinary, real)) or (names.is_ordinary(real[0]) and not names.is_given(real[0])):
        return ()
    if any(map(names.is_known, real)) and not (names.is_ordinary(real[-1]) and real[-1].lower() not in SURNAMES):
        return names.accept(text, kept, "context")
    return ()


_SIGN_OFF = rf"(?i:{as_alternatives(_CLOSINGS)})(?:[.,:!*\"]{{0,2}}[ \t]{{1,3}}(?:- )?|[.,!*]{{0,2}}[ \t]{{0,2}}(?:\r?\n[ \t>]{{0,3}}){{1,3}}(?:-- ?\r?\n|-)?)"
_CAPITALS = "(?:MR|MRS|MS|MISS|DR|PROF|MME|HERR|FRAU|SRA|SEÑORA?|REV|CAPT)"

DETECTORS = (
    # Compiled ten times quicker with the border than with a class before it.
    row("name: announced", names.CLASS, find,
        rf"\b(?:(?:{_TITLES})\.?|{as_alternatives([one for one in _ANNOUNCERS if one[0].isascii()])})[.,:!*\"]{{0,2}}[ \t\r\n]{{1,3}}{names.CAPITAL}",
        rf"{names.START}(?:{as_alternatives(_BEYOND_LATIN)})[.,:!*\"]{{0,2}}[ \t\r\n]{{1,3}}{names.CAPITAL}",
        rf"\b(?:{as_alternatives([one for one in _SAID if one[0].isascii()])})[.,:!*\")]{{0,2}}[ \t\r\n]{{1,3}}{names.CAPITAL}",
        rf"{names.START}(?:{as_alternatives([one for one in _SAID if not one[0].isascii()])})[.,:!*\")]{{0,2}}[ \t\r\n]{{1,3}}{names.CAPITAL}",
        rf"{names.START}{_SIGN_OFF}(?:(?:i\. ?[AV]\.|pp|p\.p\.|ppa\.?|/s/) )?{names.CAPITAL}",
        rf"\n ?-- ?\r?\n{{1,2}}{names.CAPITAL}", rf"\b{_CAPITALS}\.? {names.CAPITAL}",
        rf"\b(?:Dr|Mr|Mrs|Ms|Mx|Prof|Herr|Frau|Mme|Sr|Sra|[Dd]hr|[Mm]evr|[Mm]evrouw|[Mm]eneer)\.? (?:van|von|de|del|di|da|du|der|ter|bin|al)(?: [a-z']{{2,3}})? {names.CAPITAL}",
        shows=("My name is ⟦Will Page⟧ and I need help", "Dear Customer, thanks", "whether Dr. van den ⟦Heuvel⟧ signed",
               "Dr. of the University", "Kind regards,\n⟦Sara Lindqvist⟧", "This is Python",
               "Bien cordialement,\n⟦Wolverine Oyelaran⟧\nRH", "Regards,\nThe Support Team",
               "Hi ⟦Ndapewandja⟧, please call back", "Hello World, again", "Herr ⟦Müller⟧ hat angerufen")),
)  # fmt: skip
