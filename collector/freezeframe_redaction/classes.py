"""Every built-in class of value, by name: those of `surrogates`, and those that a family of detectors adds."""

from __future__ import annotations

from freezeframe_redaction import detectors, surrogates
from freezeframe_redaction.model import SurrogateClass

CLASSES: dict[str, SurrogateClass] = {entry.name: entry for entry in (*surrogates.CLASSES, *detectors.CLASSES)}
