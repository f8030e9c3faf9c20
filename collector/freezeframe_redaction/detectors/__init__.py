"""Detectors, one family a module; `ALL` lists every one in a fixed order.

A new detector is one entry in its family's ``DETECTORS``: triggers, a check, and at least one example, which a test holds.
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

ALL: tuple[Detector, ...] = (
    *email.DETECTORS,
    *numbers.DETECTORS,
    *national.DETECTORS,
    *medical.DETECTORS,
    *bank.DETECTORS,
    *card.DETECTORS,
    *documents.DETECTORS,
    *dates.DETECTORS,
    *iban.DETECTORS,
    *network.DETECTORS,
    *wallets.DETECTORS,
    *secrets.DETECTORS,
    *assigned.DETECTORS,
    *logins.DETECTORS,
    *codes.DETECTORS,
    *links.DETECTORS,
    *addresses.DETECTORS,
    *postcodes.DETECTORS,
    *people.DETECTORS,
    *tables.DETECTORS,
    *segments.DETECTORS,
    *spelled.DETECTORS,
    *encoded.DETECTORS,
)
