"""Check digits of cards, accounts, wallets and identity numbers: pure functions of the bare characters.

Each returns False for input of another length or alphabet and never raises. python-stdnum (LGPL, slow)
served as the oracle when they were written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from freezeframe_redaction.rules.read import Rules

_LUHN_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_LUHN_TEXT = {str(digit): doubled for digit, doubled in enumerate(_LUHN_DOUBLED)}

IBAN_LENGTHS: dict[str, int] = {
    country: int(length) for length, countries in Rules("iban").entries("lengths").items() for country in countries.split()
}
"""Characters of an IBAN by country."""


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1 annex B."""
    backwards = digits[::-1]
    total = sum(map(int, backwards[::2])) + sum(map(_LUHN_TEXT.__getitem__, backwards[1::2]))
    return total % 10 == 0


def luhn_digit(body: str) -> str:
    """Return the digit that makes ``body + digit`` pass `luhn`."""
    total = 0
    for position, char in enumerate(reversed(body)):
        digit = ord(char) - 48
        total += digit if position & 1 else _LUHN_DOUBLED[digit]
    return str(-total % 10)


def mod97(text: str) -> int:
    """Return ISO 7064 MOD 97-10 of letters (A=10) and digits."""
    return int("".join(str(int(char, 36)) for char in text)) % 97


def iban(bare: str) -> bool:
    """Return whether upper-case `bare` is an IBAN: country, length and ISO 7064 MOD 97-10."""
    return IBAN_LENGTHS.get(bare[:2]) == len(bare) and mod97(bare[4:] + bare[:4]) == 1


def weighted(digits: str, weights: Sequence[int]) -> int:
    """Return the sum of digit times weight, over the shorter of the two."""
    return sum((ord(char) - 48) * weight for char, weight in zip(digits, weights, strict=False))


_VERHOEFF_D = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678", "5987604321", "6598710432", "7659821043",
    "8765932104",
    "9876543210",
)  # fmt: skip
_VERHOEFF_P = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def verhoeff(digits: str) -> bool:
    """Verhoeff's dihedral check (Aadhaar)."""
    check = 0
    for position, char in enumerate(reversed(digits)):
        check = int(_VERHOEFF_D[check][int(_VERHOEFF_P[position % 8][int(char)])])
    return check == 0


def mod11_10(digits: str) -> bool:
    """ISO 7064 MOD 11,10 (German tax id, Croatian OIB)."""
    check = 10
    for char in digits[:-1]:
        check = (check + int(char)) % 10 or 10
        check = check * 2 % 11
    return (11 - check) % 10 == int(digits[-1])


BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_INDEX = {char: index for index, char in enumerate(BASE58)}
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def base58check_payload(text: str) -> bytes | None:
    """Return the 21 bytes of a Base58Check address, or None if its check bytes are wrong."""
    number = 0
    for char in text:
        index = _BASE58_INDEX.get(char)
        if index is None:
            return None
        number = number * 58 + index
    if number.bit_length() > 200:
        return None
    raw = number.to_bytes(25, "big")
    return raw[:21] if _double_sha(raw[:21]) == raw[21:] else None


def base58check(payload: bytes) -> str:
    """Return the Base58Check text of a payload."""
    raw = payload + _double_sha(payload)
    number = int.from_bytes(raw, "big")
    out = ""
    while number:
        number, index = divmod(number, 58)
        out = BASE58[index] + out
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + out


def _double_sha(data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()[:4]


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            if top >> bit & 1:
                check ^= generator
    return check


def _expand(prefix: str) -> list[int]:
    return [ord(char) >> 5 for char in prefix] + [0] + [ord(char) & 31 for char in prefix]


def bech32(text: str) -> bool:
    """BIP-173 and BIP-350 (bech32, bech32m)."""
    prefix, _, data = text.rpartition("1")
    values = [BECH32.find(char) for char in data]
    return bool(prefix) and -1 not in values and _polymod(_expand(prefix) + values) in (1, 0x2BC830A3)


def bech32_encode(prefix: str, values: list[int]) -> str:
    """Return the BIP-173 text of five-bit values."""
    check = _polymod(_expand(prefix) + values + [0] * 6) ^ 1
    return prefix + "1" + "".join(BECH32[v] for v in values) + "".join(BECH32[check >> 5 * (5 - i) & 31] for i in range(6))
