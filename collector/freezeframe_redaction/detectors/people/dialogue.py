"""Names in dialogues: the speakers of a transcript, the author of what a mail quotes, and the answer to "your name?"."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import COMMON, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.people.classes import by_words
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("people_dialogue")
_FORMS = _RULES.forms


def _writer(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The author of what a mail quotes: ``On Tuesday, Ann Lee wrote:``."""
    for match in _FORMS.wrote.finditer(text, max(low, at - 140), min(high, at)):
        spans = [one.span() for one in names.WORD.finditer(text, *match.span(1))]
        while spans and not names.may_be_name(text[slice(*spans[0])]):
            spans = spans[1:]
        words = [text[a:b] for a, b in spans]
        if len(words) >= 2 and all(names.may_be_name(word) or word in names.PARTICLES for word in words):
            return names.accept(text, spans, "writer")
    return ()


_ROLES = frozenset(phrases("dialogue.roles"))


def _mailbox(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The two words before an address in angle brackets, if they are known, or the address has one of them."""
    for match in _FORMS.mailbox.finditer(text, max(low, at - 140), min(high, at)):
        if match.end() < at:
            continue
        spans = [one.span() for one in names.WORD.finditer(text, *match.span(1))]
        while spans and not names.may_be_name(text[slice(*spans[0])]):
            spans = spans[1:]
        words = [text[a:b] for a, b in spans]
        real = [word for word in words if len(word) > 1 and word not in names.PARTICLES]
        mailbox = match[2].lower()
        if len(words) == 1 and names.is_plainly_given(words[0]) and len(words[0]) > 3:
            return names.accept(text, spans, "mailbox")
        if (
            len(real) > 1
            and all(map(names.may_be_name, real))
            and not names.is_brand(words)
            and any(names.is_known(word) or not word.isascii() or word.lower() in mailbox for word in real)
        ):
            return names.accept(text, spans, "mailbox")
    return ()


def _speaker(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The speaker in a transcript: ``Speaker 1 (Ana-Maria): ``, ``[00:01:12] RAJESWARI: ``."""
    start = at - 1
    tokens = names.tokens_at(text, start, high, 4)
    if len(tokens) > 1 and text[slice(*tokens[0])].lower() in _ROLES:
        tokens = tokens[1:]  # "Agent Lena: let me check"
    words = [text[a:b] for a, b in tokens]
    opening = text[start - 1] if start > low else ""
    end = tokens[-1][1] if tokens else start
    if end > start and text[end - 2] == " " and text[end : end + 1] == ".":
        end += 1  # "Siddharth R.:"
    closing = {"(": "):", "[": "]:", "<": ">"}.get(opening, ":")
    if not text.startswith(closing, end) or text[end + len(closing) : end + len(closing) + 1] not in ("", " ", "\n", "\t"):
        return ()
    lowered = [word.lower() for word in words]
    if any(word in names.NOT_NAMES or word in names.OFFICES or word in names.TECHNICAL or word in COMMON for word in lowered):
        return ()
    if opening not in ("(", "[") and not any(map(names.is_known, words)) and not any(map(names.has_form_of_surname, words)):
        return ()
    return names.accept(text, tokens, "speaker")


DETECTORS = made_of(_RULES, _writer, _mailbox, _speaker, by_words)
