"""Crypto wallets: Bitcoin (Base58Check, Bech32), Litecoin, Dogecoin, Tron, Ethereum, Ripple by their checks."""

from __future__ import annotations

import re

from freezeframe_redaction import checksums
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import around, reaching, row, value

CLASS = "CRYPTO"
MARK = b"\xfa\xca\xde\x00"
"""Begins the payload of each wallet surrogate."""
HEX_MARK = "facadefacade"

_BASE58 = re.compile(r"(?<![0-9A-Za-z])[13LMDT][1-9A-HJ-NP-Za-km-z]{25,34}(?![0-9A-Za-z])")
_BECH32 = re.compile(r"(?<![0-9A-Za-z])(?:bc|tb|ltc)1[ac-hj-np-z02-9]{25,87}(?![0-9A-Za-z])", re.IGNORECASE)
_ETHEREUM = re.compile(r"(?<![0-9A-Za-z])0x[0-9a-fA-F]{40}(?![0-9A-Za-z])")


def _base58(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = reaching(_BASE58, text, low, high, at, 36, 12)
    if match is None:
        return ()
    payload = checksums.base58check_payload(match.group())
    if payload is None:
        return (Candidate(match.start(), match.end(), ""),)
    return (Candidate(match.start(), match.end(), "*" if payload[1:5] == MARK else CLASS, "base58"),)


def _bech32(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _BECH32.search(text, max(low, at - 32), min(high, at + 70))
    return value(match, CLASS, "bech32", 0, is_marked_bech32) if match and checksums.bech32(match.group().lower()) else ()


def is_marked_bech32(value: str) -> bool:
    """Whether the witness program begins with the mark."""
    data = value.lower()[value.rfind("1") + 2 : -6]
    bits = "".join(f"{checksums.BECH32.find(char):05b}" for char in data[:7])
    return bits[:32] == "".join(f"{byte:08b}" for byte in MARK)


_ethereum = around(
    _ETHEREUM,
    CLASS,
    42,
    1,
    "ethereum",
    group=0,
    where=lambda value: len(set(value[2:].lower())) > 4,
    is_marked=lambda value: value[2:14].lower() == HEX_MARK,
)


DETECTORS = (
    row("wallet: base58", CLASS, _base58, r"(?#base58)\b[13LMDT][1-9A-HJ-NP-Za-km-z]{25,34}\b",
        shows=("send to ⟦1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa⟧", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb")),
    row("wallet: bech32", CLASS, _bech32, r"(?i)\b(?:bc1|tb1|ltc1)[ac-hj-np-z02-9]{25}",
        shows=("⟦bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4⟧",)),
    row("wallet: ethereum", CLASS, _ethereum, r"(?#digits)\b0x[0-9a-fA-F]{40}\b",
        shows=("⟦0x52908400098527886E0F7030069857D2E4169EE7⟧ paid", "0x0b34612f")),
)  # fmt: skip
