"""Detectors, one family per module; `ALL` lists every one in a fixed order.

A new detector is one row in its family's ``DETECTORS``: triggers, a check, and at least one example, which a test holds.
How to add a class of value: docs/extending/pii-class.md.
"""

from __future__ import annotations

from freezeframe_redaction import encoded
from freezeframe_redaction.detectors import (
    addresses,
    assigned,
    bank,
    card,
    codes,
    dates,
    documents,
    email,
    iban,
    links,
    logins,
    medical,
    national,
    network,
    numbers,
    people,
    postcodes,
    secrets,
    segments,
    spelled,
    tables,
    wallets,
)
from freezeframe_redaction.model import Detector

FAMILIES = (
    email,
    numbers,
    national,
    medical,
    bank,
    card,
    documents,
    dates,
    iban,
    network,
    wallets,
    secrets,
    assigned,
    logins,
    codes,
    links,
    addresses,
    postcodes,
    people,
    tables,
    segments,
    spelled,
    encoded,
)
"""One module each, in a fixed order: its ``DETECTORS``, and its ``CLASSES`` if it adds classes of value."""
ALL: tuple[Detector, ...] = tuple(detector for family in FAMILIES for detector in family.DETECTORS)
