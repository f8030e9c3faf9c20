"""Names by their place: values of keys and labels that hold, or may hold, a person's name; speakers, writers, mailboxes."""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import Final

from freezeframe_redaction.detectors.lexicon import GIVEN, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import by_words, test_of
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_HEADINGS = phrases("keyed.peoples_labels")
"""Labels used only for people: the words after one need not be on any list. Alone on a line they are headings, too."""
_LABELS = frozenset(label.replace("-", " ") for label in (*_HEADINGS, *phrases("keyed.more_labels"))) | {
    "first",
    "middle",
    "last",
}
_ENDS = frozenset(label.split()[-1][-4:] for label in _LABELS)
"""Pattern that quickly excludes most text before a colon from being a label."""
_RULES = Rules(
    "people_keyed", {"heading_ends": "|".join(sorted({one.split()[-1][-4:] for one in _HEADINGS if one[-1].isascii()}))}
)
_FORMS = _RULES.forms


def _keyed(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The value of a key that holds a person's name, whatever it looks like."""
    start = at - 1
    match = _FORMS.value.match(text, start, min(high, start + 80))
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
    if any(map(_IS_NO_NAME, words)) or all(map(_IS_PROSE, words)):
        return ()
    is_thing = _FORMS.thing.search(value) or (not value[0].isupper() and value.isascii())
    if is_thing and not any(map(names.is_known, words)):
        return ()  # "fullName: Virtual Reality"
    # A sentence after the name belongs to the text: stop at the first lower-case word that is not a particle.
    tokens = (
        names.tokens_at(text, start, high) if value[0].isupper() else [m.span() for m in names.WORD.finditer(text, start, end)]
    )
    if tokens and words[0].lower() in _PREPOSITIONS and _GOES_ON.match(text, tokens[-1][1]):
        return ()  # "Last Names: In Roman characters"
    return names.accept(text, _with_given_names(text, tokens, high)[:5], "key") if tokens else ()


_PREPOSITIONS = frozenset(["in", "on", "at", "of", "for", "from", "with"])
_GOES_ON = re.compile(" [a-z]")


def _with_given_names(text: str, tokens: list[tuple[int, int]], high: int) -> list[tuple[int, int]]:
    """Return the words with the given names that follow a comma: ``OKONKWO, Chidinma``."""
    if not tokens or len(tokens) > 3 or text[tokens[-1][1] : tokens[-1][1] + 2] != ", ":
        return tokens
    behind = names.tokens_at(text, tokens[-1][1] + 2, high, 2)
    behind = [token for token in behind if text[slice(*token)] not in names.DEGREES]
    word = text[slice(*behind[0])] if behind else ""
    if not _MAY_BE_GIVEN(word):
        return tokens
    # Two people in a list have two names each; a surname in capitals, or a given name of the lists, makes it one.
    if (
        names.is_given_name(word)
        or (len(word) == 1 and text[behind[0][1] : behind[0][1] + 1] == ".")
        or (text[slice(*tokens[-1])].isupper() and not word.isupper())
    ):
        return [*tokens, *behind]
    return tokens


def _loose(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The value of a key that may hold a name: it must look like one."""
    start = at - 1
    if not text[start].isupper():
        return _in_small_letters(text, start, high)
    tokens = names.tokens_at(text, start, high, 4)
    words = [text[a:b] for a, b in tokens]
    real = names.real(text, tokens)
    if len(words) == 2 and len(words[0]) == 1 and text[start + 1] == "." and len(real) == 1 and names.may_be_name(real[0]):
        return names.accept(text, tokens, "key")  # "From: L. PETROSYAN"
    if len(real) < 2 or names.is_brand(words):
        return ()
    if text[tokens[-1][1] : tokens[-1][1] + 1] in ("_", "(", "@"):
        return ()
    named = any(map(names.is_known, real)) and all(map(_GIVEN_OR_NO_WORD, real))
    return names.accept(text, tokens, "key") if named and (names.is_given_name(real[0]) or _IS_SURNAME(real[-1])) else ()


_IS_NO_NAME, _IS_PROSE, _MAY_BE_GIVEN = map(test_of, ("not_name", "common !known", "capital !common !title"))
_GIVEN_OR_NO_WORD, _IS_SURNAME = map(test_of, ("!common | given", "surname !common"))
_ALONE_BEHIND_LABEL = test_of("known | ending")


def _in_small_letters(text: str, start: int, high: int) -> tuple[Candidate, ...]:
    """``name: giulia bonaventura``: the whole field is a given name and a word that is not ordinary prose."""
    match = _FORMS.small_field.match(text, start, min(high, start + 60))
    if match is None:
        return ()
    given, surname = match.group(1, 2)
    good = _IS_SMALL_GIVEN(given) and _IS_SMALL_SURNAME(surname)
    return names.accept(text, [match.span(1), match.span(2)], "key") if good else ()


_IS_SMALL_GIVEN, _IS_SMALL_SURNAME = map(test_of, ("plain >2", "!common !office"))


def _labelled(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """Find the person after a label of people; none if one of the words cannot be part of a name."""
    start = at - 1
    signed = _FORMS.signed.search(text, max(low, start - 8), start)
    end = signed.start() if signed else text.rfind("\n", low, start)
    # Most text before a colon is not a label, so that is checked first.
    if not text[start].isupper() or not any(text[max(low, end - size) : end].lower() in _ENDS for size in (4, 3, 2)):
        return ()
    if signed is None and not _FORMS.heading.fullmatch(text, max(low, text.rfind("\n", low, end) + 1), end):
        return ()
    if not _is_label_of_people(text, low, end):
        return ()
    tokens = names.tokens_at(text, start, high, 5)
    while len(tokens) > 1 and names.is_title(text[slice(*tokens[0])]):
        tokens = tokens[1:]
    tokens = _with_given_names(text, tokens, high)
    if not tokens or not _FORMS.field_ends.match(text, tokens[-1][1], min(high, tokens[-1][1] + 24)):
        return _loose(text, low, high, start + 1)
    words = [text[a:b] for a, b in tokens]
    real = names.real(text, tokens)
    if not real or names.is_brand(words) or any(not names.may_be_name(word) for word in real):
        return _loose(text, low, high, start + 1)
    if len(words) == 1 and not _ALONE_BEHIND_LABEL(real[0]) and not _FORMS.last.search(text, max(low, end - 5), end):
        return ()
    return (*names.accept(text, tokens, "key"), *_others(text, tokens[-1][1], high))


_MAX_OTHERS = 40


def _others(text: str, end: int, high: int) -> tuple[Candidate, ...]:
    """Return the people listed after the first person of a label: ``Attendees: Aiko, Cíntia (chair), J. Hargreaves``."""
    out: list[Candidate] = []
    for _ in range(_MAX_OTHERS):
        gap = _FORMS.next_person.match(text, end, min(high, end + 32))
        tokens = names.tokens_at(text, gap.end(), high, 5) if gap else []
        real = names.real(text, tokens)
        if not real or not all(map(names.may_be_name, real)) or not _FORMS.field_ends.match(text, tokens[-1][1], high):
            break
        out.extend(names.accept(text, tokens, "key"))
        end = tokens[-1][1]
    return tuple(out)


def _is_label_of_people(text: str, low: int, end: int) -> bool:
    """Return whether the text that ends here, except for quotes and a colon, is a label of people."""
    stem = text[max(low, end - 40) : end].rstrip(" \t\r\n\"'*:=-")
    behind = _FORMS.label_behind.search(stem)
    if behind is None:
        return False
    words = [word.lower() for word in _FORMS.joint.split(behind.group()) if word]
    return any(" ".join(words[-count:]) in _LABELS for count in range(1, min(4, len(words)) + 1))


def _is_login(login: str) -> bool:
    """Return whether a login is made of a name: with an initial, of any that is not an ordinary word (``brannigan.t``)."""
    words = [word for word in re.split("[._]", login) if len(word) > 1]
    return all(map(_IN_LOGIN, words)) and (any(map(_GIVEN_IN_LOGIN, words)) if len(words) > 1 else _ALONE_IN_LOGIN(words[0]))


def _is_nick(nick: str) -> bool:
    """Return whether a nick is made of a name: ``siobhan_w``, or an initial and a surname of the lists."""
    return _is_login(nick) if "_" in nick or "." in nick else nick in GIVEN or _SURNAME_IN_NICK(nick[1:])


def _is_home(folder: str) -> bool:
    """Return whether a home directory is named after a person: a login, a name with a dash, or two names in one word."""
    login = folder.lower().replace("-", "_").strip("._")
    if "_" in login or "." in login:
        return _is_login(login)
    glued = any(_GIVEN_ALONE(login[:cut]) and _SURNAME_IN_HOME(login[cut:]) for cut in range(3, len(login) - 4))
    return glued or _GIVEN_ALONE(login) or _SURNAME_IN_HOME(login[1:])


_NOT_OWN: Final = frozenset(phrases("keyed.nobodys_homes"))


def _is_own_home(folder: str) -> bool:
    """Return whether a home directory of a personal machine may identify its owner."""
    words = {folder.lower(), *re.split("[._-]", folder.lower())}
    return _NOT_OWN.isdisjoint(words) and not any(map(names.is_ordinary, words))


_IN_LOGIN, _ALONE_IN_LOGIN, _GIVEN_IN_LOGIN = map(test_of, ("!common !technical !not_name !office", ">4 | known", "known"))
_GIVEN_ALONE = test_of(">2 plain !ordinary_name")
_SURNAME_IN_NICK, _SURNAME_IN_HOME = test_of(">4 surname !common"), test_of(">4 surname !common | >6 ending !common")

# -- in dialogues and mails: the speakers of a transcript, the author of what a mail quotes, mailboxes ----------------------


def _names_in(text: str, start: int, end: int) -> tuple[list[tuple[int, int]], list[str]]:
    """Return the places of the words there, from the first that may be a name, and their texts."""
    spans = (one.span() for one in names.WORD.finditer(text, start, end))
    tokens = list(dropwhile(lambda span: not names.may_be_name(text[slice(*span)]), spans))
    return tokens, [text[a:b] for a, b in tokens]


def _writer(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """The author of a mail's quotation: ``On Tuesday, Ann Lee wrote:``."""
    tokens, words = _names_in(match.string, *match.span(1))
    are_names = len(words) > 1 and all(names.may_be_name(word) or word in names.PARTICLES for word in words)
    return names.accept(match.string, tokens, "writer") if are_names else ()


def _mailbox(match: re.Match[str], low: int, high: int) -> tuple[Candidate, ...]:
    """The two words before an address in angle brackets, if they are known, or the address has one of them."""
    tokens, words = _names_in(match.string, *match.span(1))
    real = names.real(match.string, tokens)
    is_given_name = len(words) == 1 and names.is_plain_given_name(words[0]) and len(words[0]) > 3
    is_confirmed = any(names.is_known(word) or not word.isascii() or word.lower() in match[2].lower() for word in real)
    if is_given_name or (len(real) > 1 and is_confirmed and all(map(names.may_be_name, real)) and not names.is_brand(words)):
        return names.accept(match.string, tokens, "mailbox")
    return ()


_SPEAKS_AS = frozenset(phrases("dialogue.roles"))


def _speaker(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The speaker in a transcript: ``Speaker 1 (Ana-Maria): ``, ``[00:01:12] RAJESWARI: ``."""
    start = at - 1
    tokens = names.tokens_at(text, start, high, 4)
    if len(tokens) > 1 and text[slice(*tokens[0])].lower() in _SPEAKS_AS:
        tokens = tokens[1:]  # "Agent Lena: let me check"
    words = [text[a:b] for a, b in tokens]
    opening = text[start - 1] if start > low else ""
    end = tokens[-1][1] if tokens else start
    if end > start and text[end - 2] == " " and text[end : end + 1] == ".":
        end += 1  # "Siddharth R.:"
    closing = {"(": "):", "[": "]:", "<": ">"}.get(opening, ":")
    if not text.startswith(closing, end) or text[end + len(closing) : end + len(closing) + 1] not in ("", " ", "\n", "\t"):
        return ()
    if not all(map(_IN_LOGIN, words)):
        return ()
    if opening not in ("(", "[") and not any(map(names.is_known, words)) and not any(map(names.has_form_of_surname, words)):
        return ()
    return names.accept(text, tokens, "speaker")


KEYED = made_of(_RULES, _keyed, _loose, _labelled, _is_login, _is_nick, _is_home, _is_own_home, by_words)
DIALOGUE = made_of(Rules("people_dialogue"), _writer, _mailbox, _speaker, by_words)
