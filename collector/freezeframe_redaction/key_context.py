"""What the key of a value says about it: ``{"phone": "4155550100"}`` is a phone number because its key says so.

A key that does not look like an identifier may hold somebody's data itself, and is then read like a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_SENSITIVE = re.compile(
    r"name|phone|tel\b|mobil|cell|fax|mail|ssn|social|nation|passport|licen[cs]e|birth|dob\b|born|mrn|medic|patient|npi|mbi|dea\b|card|\bcc\b|pan\b|iban|account|acct|routing|token|secret|passw|pwd|api|auth|cred"
    r"|address|addr|street|customer|contact|assignee|author|owner|holder|cpf|nhs|bsn|tax|ssn|aadhaar|identi|\bid_?(?:no|num)|id_?number|nin\b|nir\b|dni|nie\b|nif|rut\b|pesel|tfn|sin\b|cpr|personn|member|insur|sender|recipient"
    r"|passenger|guest|employee|user|client|vorname|nachname|nombre|apellido|adresse|direcci|telef|geburt|naissance|nacimiento|nascimento|cookie|signature|key$|_key|cvv|cvc|security_?code|pin$|pin_?code|otp|line_?[123]$|uid$|^family$|^given$|^first$|^middle$|^last$|prenom|imie|jmeno|soyad|spouse|husband|wife|mother|father|kin$|\bnok\b|emergency|attend|doctor|physician|nurse|surgeon|consultant|reporter|requester|submitter|applicant|claimant|tenant|landlord|benefici|signator"
    r"|witness|candidate|interviewer|supervisor|manager|maintainer|teacher|student|guardian|buyer|seller|payee|reviewer|approver|participant|_?[bB]y$|kunde|kundin|klient|pacjent|pacient|cliente|paciente|titular|ansprechpartner|ip$|mac$|[^\x00-\x7f]",
    re.IGNORECASE,
)
_GENERIC = frozenset(["name", "number", "no", "num", "value", "id", "code", "nr", "type", "text", "content", "#"])
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.\-/:$ ]{0,40}$")
_PII_IN_KEY = re.compile(r"@|[0-9][0-9 .\-]{7}|[A-Z][a-z]+ [A-Z]|-----|eyJ|\.[0-9]{1,3}\.")
_MOST_KEYS: Final = 20_000


class KeyContext(NamedTuple):
    """What one key says."""

    prefix: str
    """How it stands before its value as context, ``"phone: "``; empty where it says nothing."""
    defers: bool
    """The key around it may say more: ``{"phone": {"number": ...}}``."""
    plain: bool
    """It is an identifier, which names a field and holds nobody's data."""


class KeyContexts(dict[str, KeyContext]):
    """Key -> what it says, filled as keys are met, and emptied when it has grown too long."""

    def __init__(self, telling: frozenset[str] = frozenset()) -> None:
        """`telling` are keys of a policy's own that say what their value is."""
        super().__init__()
        self._telling = telling

    def __missing__(self, key: str) -> KeyContext:
        if len(self) >= _MOST_KEYS:
            self.clear()
        made = self[key] = self._read(key)
        return made

    def _read(self, key: str) -> KeyContext:
        plain = _is_plain(key)
        if key in self._telling:
            return KeyContext(f"{key}: ", False, plain)
        if len(key) > 64 or "\n" in key:
            return KeyContext("", False, plain)
        return KeyContext(f"{key}: " if _SENSITIVE.search(key) else "", key.lower() in _GENERIC, plain)

    def prefix(self, key: str, parent: str) -> str:
        """Return how the key and the key around it stand before a value as context."""
        prefix, defers, _ = self[key]
        return f"{parent} {key}: " if defers and parent and self[parent].prefix else prefix


def _is_plain(key: str) -> bool:
    return (
        (len(key) <= 4 and '"' not in key)
        or (key.isidentifier() and key.isascii())
        or (_PII_IN_KEY.search(key) is None and _IDENTIFIER.match(key) is not None)
    )


def field_name(value: Mapping[str, Any], key: str) -> str:
    """Return what a ``{"name": "email", "value": ...}`` field calls its value."""
    for name in ("name", "key", "field", "label"):
        held = value.get(name)
        if type(held) is str and len(held) < 40:
            return held
    return key
