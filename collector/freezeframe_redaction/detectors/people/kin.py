"""Names after words for relatives: ``my wife Ana``, ``his brother-in-law, Joaquim``, ``ma sœur Apolline``."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import phrases
from freezeframe_redaction.detectors.people import announced, names
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import row

_ENGLISH = phrases("kin.english")
_OTHERS = {
    "meine?": "frau mann sohn tochter mutter vater bruder schwester",
    "mi": "esposa esposo marido mujer hijo hija madre padre hermano hermana",
    "ma|mon": "femme mari fils fille mère père frère soeur sœur",
    "mia|mio": "moglie marito figlio figlia",
    "minha|meu": "esposa marido filho filha",
    "mijn": "vrouw man zoon dochter",
    "moja|mój": "żona mąż syn córka",
    "benim": "eşim kızım oğlum",
}
"""What may come before -> who it is."""
_WHOSE = r"w/|with|and|my|his|her|our|their|your|[^\W\d_]{2,}'s"
_AGE = "late |ex-|ex |eldest |youngest |older |younger |little "
_BEFORE = re.compile(
    rf"(?:^|\W)(?:(?:{_WHOSE}) (?:{_AGE})?(?:{'|'.join(_ENGLISH)})(?:-in-law)?[ ,(]{{1,2}}"
    + "".join(rf"|(?:{whose}) (?:{words.replace(' ', '|')}) " for whose, words in _OTHERS.items())
    + rf"|(?:{_OTHERS['benim'].replace(' ', '|')}) )\Z",
    re.IGNORECASE,
)
_OTHER_WORDS = {word for words in _OTHERS.values() for word in words.split()}


def _kin(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """After ``my wife`` a word is a name if it looks like one; after ``wife`` alone, if a list has it."""
    start = at - 1
    if _BEFORE.search(text, max(low, start - 48), start) is not None:
        tokens = names.tokens_at(text, start, high)
        words = [text[a:b] for a, b in tokens]
        if words and words[0].lower() not in names.NOT_NAMES and (names.may_be_name(words[0]) or names.is_given(words[0])):
            return names.accept(text, tokens if all(map(names.may_be_name, words)) else tokens[:1], "kin")
    return announced.find(text, low, high, at)


DETECTORS = (
    row("name: kin", names.CLASS, _kin,
        rf"\b(?i:{announced.as_alternatives([*_ENGLISH, 'in-law'])})[ ,(]{{1,2}}{names.CAPITAL}",
        rf"{names.START}(?i:{announced.as_alternatives(_OTHER_WORDS)}) {names.CAPITAL}",
        shows=("my daughter ⟦Xiadanira⟧ is allergic", "the parent process Is", "ma sœur ⟦Xiadanira⟧ arrive",
               "ma femme est là")),
)  # fmt: skip
