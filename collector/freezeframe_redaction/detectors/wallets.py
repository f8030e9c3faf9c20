"""Crypto wallets: Bitcoin (Base58Check, Bech32), Litecoin, Dogecoin, Tron, Ethereum, Ripple by their checks."""

from __future__ import annotations

from freezeframe_redaction.detectors.rows import by_name, made_of, reaching, value
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rules import checksums
from freezeframe_redaction.rules.read import Rules
from freezeframe_redaction.surrogates.marks import IN_WALLETS

CLASS = "CRYPTO"
_RULES = Rules("wallets")
_BASE58, _BECH32 = map(_RULES.form, ("base58", "bech32"))


def _base58(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = reaching(_BASE58, text, low, high, at, 36, 12)
    if match is None:
        return ()
    payload = checksums.base58check_payload(match.group())
    if payload is None:
        return (Candidate(match.start(), match.end(), ""),)
    return (Candidate(match.start(), match.end(), "*" if payload[1:5] == IN_WALLETS else CLASS, "base58"),)


def _bech32(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _BECH32.search(text, max(low, at - 32), min(high, at + 70))
    return value(match, CLASS, "bech32", 0) if match and checksums.bech32(match.group().lower()) else ()


def _is_varied(value: str) -> bool:
    return len(set(value[2:].lower())) > 4


DETECTORS = made_of(_RULES, by_name(_base58, _bech32), {"is_varied": _is_varied})
