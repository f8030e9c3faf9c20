"""The seal on a run's findings: AES-SIV under a key derived from the tenant's surrogate key, kept apart from the data.

**Shape** of a sealed finding: ``key id UTF-8 | 0 | ciphertext``. It is bound to its run and opens for no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from freezeframe_collector.casts.found import RunKey
from freezeframe_redaction.casts.book import Cast
from freezeframe_redaction.keyring.keys import KeyRing, TenantKey
from freezeframe_schemas.errors import StoreError

_PURPOSE: Final = b"freezeframe cast"
_KEY_BYTES: Final = 64
"""AES-256-SIV takes two 256-bit keys. Source: RFC 5297."""
_DEFAULT: Final = "default"


class Seal:
    """Seals and opens findings with the keys of a ring. Safe to share between threads."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys
        self._ciphers: dict[str, AESSIV] = {}

    def close(self, run: RunKey, cast: Cast) -> bytes:
        """Return the values, sealed under the tenant's newest key."""
        key = self._keys.current(run[0] or _DEFAULT)
        return key.id.encode() + b"\0" + self._cipher(key).encrypt(cast.to_bytes(), _context(run))

    def open(self, run: RunKey, sealed: Iterable[bytes]) -> Cast:
        """Return all values of the findings.

        Raises:
            StoreError: the key that sealed one is gone, or it is another run's.
        """
        cast = Cast()
        for item in sealed:
            key_id, _, ciphertext = item.partition(b"\0")
            cipher = self._cipher_of(key_id.decode())
            try:
                cast = cast.joined(Cast.from_bytes(cipher.decrypt(ciphertext, _context(run))))
            except InvalidTag:
                raise StoreError(
                    f"run {run[1]}: its cast was not sealed by the key {key_id.decode()}, or was changed"
                ) from None
        return cast

    def _cipher_of(self, key_id: str) -> AESSIV:
        cipher = self._ciphers.get(key_id)
        if cipher is not None:
            return cipher
        key = self._keys.by_id(key_id)
        if key is None:
            tenant = key_id.rpartition("/")[0]
            key = self._keys.current(tenant)  # the key was made after the ring was read
            if key.id != key_id:
                raise StoreError(f"the key {key_id}, which sealed the cast of a run, is missing", do="restore it from a backup")
        return self._cipher(key)

    def _cipher(self, key: TenantKey) -> AESSIV:
        cipher = self._ciphers.get(key.id)
        if cipher is None:
            cipher = AESSIV(hashlib.blake2b(_PURPOSE, key=key.secret, digest_size=_KEY_BYTES).digest())
            self._ciphers[key.id] = cipher
        return cipher


def _context(run: RunKey) -> list[bytes]:
    return [b"cast", run[0].encode(), run[1].encode()]
