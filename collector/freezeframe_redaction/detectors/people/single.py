"""A given name alone, if the words around it suggest a person, and lists of given names."""

from __future__ import annotations

from freezeframe_redaction.detectors.lexicon import SURNAMES, phrases
from freezeframe_redaction.detectors.people import names
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.invented import is_invented

_SPEECH = frozenset(phrases("single.speech"))
_DOING = frozenset(phrases("single.doing"))
_BELONGINGS = frozenset(phrases("single.belongings"))
_CLAUSE = frozenset(
    ["", "that", "when", "if", "because", "then", "so", "but", "where", "as", "though", "and", "while", "since"]
)
_PLAIN_PREPOSITIONS = frozenset(phrases("single.prepositions"))
_CLAUSE_END = frozenset(phrases("single.clause_end"))
_ADDRESSED = frozenset(phrases("single.addressed"))
_LEADS_TO = phrases("single.leads_to")
"""Words that come before people."""
_BEGIN_WITH_THEM = tuple("Both Copy Call With Hired Congratulations Tell Ask Is Did Has".split())
"""Those that a sentence begins with."""
_RULES = Rules("people_single", {"leads_to": "|".join((*_LEADS_TO, *_BEGIN_WITH_THEM))})
_FORMS = _RULES.forms
_NAMED_AFTER = Rules("people_pairs").form("named_after")
_TOWARDS = frozenset(_LEADS_TO) | frozenset(phrases("single.towards"))


def _single(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """A given name alone, if the words around it suggest a person."""
    # Most triggers end on the third letter.
    start = at - 3 if at - 3 >= low and text[at - 3].isupper() else _capital_before(text, low, at)
    double = _FORMS.first_half.search(text, max(low, start - 20), start) if text[start - 1 : start] == "-" else None
    if double is not None:
        start = double.start()
    word = names.WORD.match(text, start, min(high, start + 40))
    if word is None or (start > low and (text[start - 1].isalnum() or text[start - 1] in "_./-#$<`")):
        return ()
    if text[start - 1 : start] in ("'", "’") and text[max(low, start - 2) : start - 1].isupper():
        return ()  # "O'Jung's", but "l'Anna"
    name = word.group()
    end = word.end() - (2 if name[-2:] in ("'s", "'S") else 0)
    name = text[start:end]
    # Most words are ordinary ones, so that is checked first.
    mentioned = text[start - 1 : start] == "@"
    if not mentioned and (len(name) < 3 or names.is_ordinary(name) or not all(part[1:].islower() for part in name.split("-"))):
        return ()
    if names.is_brand([*text[max(low, start - 4) : start].split(), *name.split("-")]):
        return ()  # "Dr Pepper", "Viola-Jones"
    if mentioned:
        is_mention = text[end : end + 1] in ("", " ", ",", ":", "\n", "!", "?") and names.is_plainly_given(name)
        return names.accept(text, [(start, end)], "mention") if is_mention else ()
    known = all(map(names.is_plainly_given, name.split("-"))) or names.has_form_of_surname(name)
    if not known and name.lower() in SURNAMES and text[max(low, start - 6) : start - 1].lstrip().lower() in ("says", "said"):
        return names.accept(text, [(start, end)], "alone") if text[end : end + 1] in (".", ",", ":") else ()
    if not known and (len(name) < 4 or name.lower() in names.TECHNICAL or name.lower() in names.NEVER_FIRST):
        return ()
    following = text[end : min(high, end + 24)]
    if _NAMED_AFTER.match(following) or (following[:4] == " of " and following[4:5].isupper()):
        return ()  # "Taylor series", "Hart of Brimstone"
    if following[:1] in ("_", "(", ".", "-", "/", "@", "`", "<", "=", "[") and following[:2] not in (". ", ".", ".\n"):
        return ()
    if following[:1] == " " and following[1:2].isupper():
        return ()
    asked = _FORMS.asked_about.match(following)
    if asked and (known or asked[1]) and text[max(low, start - 4) : start].lower() == "did ":
        return names.accept(text, [(start, end)], "alone")
    if not known:
        # A word that no list knows must do what only people do: "Mehrudin shouted at", "Quionia is from".
        opens = (
            not text[max(low, start - 3) : start].strip(" \t")
            or text[max(low, start - 3) : start].rstrip(" \t")[-1:] in '.!?\n"“'
        )
        return names.accept(text, [(start, end)], "alone") if opens and _FORMS.human.match(following) else ()
    return names.accept(text, [(start, end)], "alone") if _speaks_of_a_person(text, low, start, name, following) else ()


def _speaks_of_a_person(text: str, low: int, start: int, name: str, following: str) -> bool:
    before = text[max(low, start - 24) : start].rstrip(" \t")
    previous = before.rpartition(" ")[2].rpartition("\n")[2].lower().strip("\"'(,>")
    after = following.removeprefix("'s").lstrip(" ,").partition("\n")[0].split(" ", 1)[0].lower().rstrip('.,!?:;"\\')
    opens = not before or before[-1] in '.!?\n"“:>;,'
    if following[:3] == "'s " and (after in names.NAMED_AFTER_NOUNS or _FORMS.owns_a_name.match(following)):
        return False  # "Anderson's Martial Arts"
    if following[:3] == "'s " and (after in _BELONGINGS or previous in _TOWARDS or (len(name) > 5 and after.islower())):
        return True
    if before[-1:] == "(" and following[:1] in (")", ",", " "):
        return names.is_plainly_given(name)
    if _FORMS.speaks.match(following) and (not before or before[-1] in "\n*-;"):
        return True
    if before[-1:] == "," and not names.is_plainly_given(name):
        return False
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
        and (
            following[:1] in ("", ",", "!", "?", "\n", "'", ";", ":", ")")
            or following[:2] in (". ", ".", " ?", " !", " (")
            or after in _CLAUSE_END
        )
    ):
        return True
    return opens and following[:1] in (",", ":", "!") and after in _ADDRESSED


def _capital_before(text: str, low: int, at: int) -> int:
    """Return the start of the last capitalised word that begins before `at`."""
    for position in range(at - 1, max(low, at - 40) - 1, -1):
        if text[position].isupper() and (position == 0 or not text[position - 1].isalpha()):
            return position
    return at - 1


def _list(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Mary, Efimiya, Isabel and Jodi``: if most are given names, so are the others."""
    for match in _FORMS.listed.finditer(text, max(low, at - 200), min(high, at + 20)):
        if match.end() < at:
            continue
        spans = [one.span() for one in names.WORD.finditer(text, match.start(), match.end())]
        spans = [span for span in spans if text[span[0]].isupper() and text[span[0] + 1 : span[1]].islower()]
        words = [text[a:b] for a, b in spans]
        if (
            words
            and not names.is_given(words[0])
            and _FORMS.capital_before.search(text, max(low, spans[0][0] - 24), spans[0][0])
        ):
            spans, words = spans[1:], words[1:]  # "Mexicana Restaurant, Mary & Tito's"
        given = sum(names.is_plainly_given(word) for word in words)
        # "Jones, Smith and Davis" are a company more often than three people.
        if (
            len(words) < 3
            or given * 2 <= len(words)
            or all(word.lower() in SURNAMES or is_invented(word) for word in words)
            or any(names.is_ordinary(word) and not names.is_given(word) for word in words)
        ):
            return ()
        return tuple(found for span in spans for found in names.accept(text, [span], "listed"))
    return ()


DETECTORS = made_of(_RULES, _single, _list)
