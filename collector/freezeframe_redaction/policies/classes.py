"""Every built-in class of value, by name: those of `surrogates.make`, and those that a family of detectors adds."""

from __future__ import annotations

from freezeframe_redaction import detectors
from freezeframe_redaction.model import SurrogateClass
from freezeframe_redaction.surrogates import make

CLASSES: dict[str, SurrogateClass] = {entry.name: entry for entry in (*make.CLASSES, *detectors.CLASSES)}
