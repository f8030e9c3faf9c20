"""Detectors, one family per table of rules; `ALL` lists every one in a fixed order.

A new detector is one row in its family's table (``rules/*.toml``): triggers, a check, and at least one example, which a test
holds. How to add a class of value: docs/extending/pii-class.md.
"""

from __future__ import annotations

from types import ModuleType

from freezeframe_redaction.detectors import (
    addresses,
    assigned,
    email,
    encoded,
    national,
    network,
    numbers,
    people,
    phone,
    secrets,
    tables,
)
from freezeframe_redaction.detectors.rows import made_of
from freezeframe_redaction.model import Detector, SurrogateClass
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.make import identifier

FAMILIES: tuple[ModuleType | str, ...] = (
    email,
    numbers,
    national,
    "medical",
    "bank",
    "card",
    "documents",
    "dates",
    "iban",
    network,
    "wallets",
    secrets,
    assigned,
    "codes",
    "links",
    addresses,
    "postcodes",
    people,
    tables,
    phone,
    encoded,
)
"""In a fixed order: a module with its own checks, or the name of a table that needs none."""


def _detectors(family: ModuleType | str) -> tuple[Detector, ...]:
    return made_of(Rules(family)) if isinstance(family, str) else family.DETECTORS


ALL: tuple[Detector, ...] = tuple(detector for family in FAMILIES for detector in _detectors(family))
CLASSES: tuple[SurrogateClass, ...] = tuple(
    identifier(**made) for family in FAMILIES if isinstance(family, str) and (made := Rules(family).surrogate())
)
"""Classes that tables add to those of `surrogates`."""
