"""Protect a spooled batch: encrypt it with a key of this machine, or redact it as the collector would.

**encrypt** (AES-256-GCM). The key is a file of 32 random bytes, created on first use if it is missing, readable by its
owner only; by default in the user's configuration directory, away from the spool, so a copy of the spool alone is worth
nothing. If the spool outlives the machine (a volume of a container), the key must, too: mount it as a secret, and name it with
`spool_key`. That is a path and never the key itself: environment variables are read by every child process and end up in
crash reports. A batch names its key by a fingerprint, so one with another key is left alone, not called damaged. To change the
key, drain the spool, then replace the file.

**redact**. The same policy and code as the collector's; `spool_key` names its directory of tenant keys, or surrogates would
differ from those of the spans that were sent. It needs no secret to read, costs a scan of each batch, and nothing can be
un-redacted.

Both fail closed: content that cannot be protected is not written.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, Protocol

from freezeframe.export.otlp import encode_request
from freezeframe.export.spool import Claim, Header, SpoolFileError
from freezeframe_schemas.data_directory import make_private
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.span import SpanRecord

Protection = Literal["encrypt", "redact"]

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MAC_BYTES: Final = 32


class DamagedBatch(SpoolFileError):
    """The content has changed since it was written."""


class SpoolSeal(Protocol):
    """Turns spans into bytes that may be stored on a disk, and those into an OTLP request."""

    def seal(self, records: Sequence[SpanRecord]) -> tuple[Header, bytes]:
        """Return a batch's header and its protected content."""
        ...

    def open(self, claim: Claim) -> bytes:
        """Return the request that the batch holds.

        Raises:
            SpoolFileError: this seal did not write it.
            DamagedBatch: this seal wrote it, and it has changed.
        """
        ...


def make_seal(protection: Protection, key: str | None) -> SpoolSeal:
    """Return the protection that the settings ask for.

    Raises:
        ConfigError: a required library is not installed, or the key is missing, open to others, or not valid.
    """
    if protection == "redact":
        return RedactedSeal(key)
    return Encrypted(default_key_file() if key is None else Path(key))


def default_key_file() -> Path:
    """Return the place of the key if no other is named.

    Source: XDG Base Directory Specification.
    """
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "freezeframe" / "spool.key"


class Encrypted:
    """AES-256-GCM; the header is authenticated with the content."""

    def __init__(self, key_file: Path) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigError(
                "spool: cryptography is not installed, and the spool never holds clear text",
                do=install_command("spool"),
            ) from None
        key = _load_or_create_key(key_file)
        self._cipher = AESGCM(key)
        self._key_file = key_file
        self._key_id = hashlib.sha256(b"freezeframe spool key\0" + key).hexdigest()[:8]

    def seal(self, records: Sequence[SpanRecord]) -> tuple[Header, bytes]:
        """Encode, compress, encrypt."""
        header = Header(protection="encrypt", key=self._key_id, spans=len(records))
        nonce = os.urandom(_NONCE_BYTES)
        packed = zlib.compress(encode_request(records), level=1)
        return header, nonce + self._cipher.encrypt(nonce, packed, header.to_line())

    def open(self, claim: Claim) -> bytes:
        """Decrypt and decompress."""
        from cryptography.exceptions import InvalidTag

        header = claim.header
        if (header.protection, header.key) != ("encrypt", self._key_id):
            found = f"{claim.path}: found a batch of key {header.key} ({header.protection})"
            raise SpoolFileError(
                f"{found}, expected {self._key_id}, the key in {self._key_file}",
                do="name the key that it was written with: spool_key (FREEZEFRAME_SPOOL_KEY)",
            )
        nonce, sealed = claim.sealed[:_NONCE_BYTES], claim.sealed[_NONCE_BYTES:]
        try:
            return zlib.decompress(self._cipher.decrypt(nonce, sealed, header.to_line()))
        except (InvalidTag, ValueError, zlib.error):
            raise DamagedBatch(f"{claim.path}: damaged: it does not decrypt, although this is its key") from None


class RedactedSeal:
    """Redacted by policy ``strict``, with a hash against damage."""

    def __init__(self, key_directory: str | None) -> None:
        if key_directory is None:
            raise ConfigError(
                "spool_protection redact: spool_key is required: the directory of the collector's tenant keys",
                do="copy it from the collector's data directory (keys), or use spool_protection encrypt",
            )
        try:
            from freezeframe_redaction import Redactor, load_or_create_keys, load_policy
        except ImportError:
            found = "spool_protection redact: the redactor is not installed"
            raise ConfigError(found, do=install_command("redaction")) from None
        key = load_or_create_keys(Path(key_directory)).current()
        self._redactor = Redactor(load_policy("strict"), key)
        self._key_id = key.id

    def seal(self, records: Sequence[SpanRecord]) -> tuple[Header, bytes]:
        """Redact, encode, compress."""
        redacted = [self._redactor.redact_span(record) for record in records]
        packed = zlib.compress(encode_request(redacted), level=1)
        header = Header(protection="redact", key=self._key_id, spans=len(records))
        return header, hashlib.sha256(packed).digest() + packed

    def open(self, claim: Claim) -> bytes:
        """Check and decompress; the key is not needed."""
        if claim.header.protection != "redact":
            raise SpoolFileError(
                f"{claim.path}: found protection {claim.header.protection!r}, expected 'redact'",
                do="drain it with the spool_protection that it was written with",
            )
        digest, packed = claim.sealed[:_MAC_BYTES], claim.sealed[_MAC_BYTES:]
        if hashlib.sha256(packed).digest() != digest:
            raise DamagedBatch(f"{claim.path}: damaged: the content does not match its hash")
        return zlib.decompress(packed)


def _load_or_create_key(path: Path) -> bytes:
    if not path.exists():
        try:
            _create_key(path)
        except OSError as error:
            raise ConfigError(f"spool_key: {path}: {error.strerror}", do="name a writable path") from None
    return _read_key(path)


def _create_key(path: Path) -> None:
    """Write a new key. If two processes start together, one writes it, and the other never reads half a key."""
    make_private(path.parent)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()


def _read_key(path: Path) -> bytes:
    do = "name a file of 32 random bytes: head -c 32 /dev/urandom > spool.key; chmod 600 spool.key"
    try:
        key = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"spool_key: {path}: {error.strerror}", do=do) from None
    if len(key) != _KEY_BYTES:
        raise ConfigError(f"spool_key: {path}: found {len(key)} bytes, expected {_KEY_BYTES}", do=do)
    if mode & 0o077:
        raise ConfigError(f"spool_key: {path}: other users can read it", do=f"chmod 600 {path}")
    return key
