"""Crypto wallets: Bitcoin (Base58Check, Bech32), Litecoin, Dogecoin, Tron, Ethereum, Ripple by their checks."""

from __future__ import annotations

from freezeframe_redaction.detectors.rows import by_name, made_of, reaching, value
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules import checksums
from freezeframe_redaction.rules.read import Rules

CLASS = "CRYPTO"
_RULES = Rules("wallets")
_BASE58, _BECH32 = map(_RULES.form, ("base58", "bech32"))
MARK = b"\xfa\xca\xde\x00"
"""Begins the payload of each wallet surrogate."""
HEX_MARK = "facadefacade"


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


def _is_varied(value: str) -> bool:
    return len(set(value[2:].lower())) > 4


def _is_marked_ethereum(value: str) -> bool:
    return value[2:14].lower() == HEX_MARK


DETECTORS = made_of(_RULES, by_name(_base58, _bech32), {"is_varied": _is_varied}, is_marked=_is_marked_ethereum)
