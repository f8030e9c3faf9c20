"""Names of people: the cheap tier, one kind of evidence per module.

A name is accepted on evidence: the word before it (``Dear``, ``my name is``, ``Herr``), the key or label of its value
(``customer_name``, ``Reporter:``), its place in a letter or a dialogue, or its own words (a given name of the lexicon followed
by a word that is not an ordinary one). Given names without evidence are left to the model tier.
"""

from __future__ import annotations

from freezeframe_redaction.detectors.people import alone, announced, keyed, pairs, scripts
from freezeframe_redaction.detectors.people.classes import by_words
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Detector
from freezeframe_redaction.rules.read import Rules

DETECTORS: tuple[Detector, ...] = (
    *announced.ANNOUNCED,
    *keyed.DIALOGUE,
    *pairs.DETECTORS,
    *made_of(Rules("people_described"), by_words),
    *alone.DETECTORS,
    *announced.IN_SMALL_LETTERS,
    *keyed.KEYED,
    *scripts.DETECTORS,
)
