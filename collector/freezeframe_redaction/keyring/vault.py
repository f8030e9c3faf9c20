"""The vault: the originals of surrogates, for the few who may see them. Off by default.

Next to the store, never in it: a table of (tenant, data key, surrogate, ciphertext). Each subject (for a collector, a run) has
its own data key, wrapped by the tenant's vault key, so forgetting one subject means destroying one key: its
sealed values are noise from then on. Vault keys are not the surrogate keys, and are versioned. Every reveal is
written to the log before the value is
handed out.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from freezeframe_schemas.errors import PermanentStoreError, RunError

_VERSION = 1
_KEY_BITS = 512
"""AES-256-SIV takes two 256-bit keys. Source: RFC 5297."""
_WAIT_S = 60.0
_DDL = """
CREATE TABLE IF NOT EXISTS meta (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS data_key (
    tenant TEXT NOT NULL, subject TEXT NOT NULL, vault_key TEXT NOT NULL, wrapped BLOB, shredded_at INTEGER,
    PRIMARY KEY (tenant, subject)
);
CREATE TABLE IF NOT EXISTS sealed (
    tenant TEXT NOT NULL, subject TEXT NOT NULL, surrogate TEXT NOT NULL, class TEXT NOT NULL, ciphertext BLOB NOT NULL,
    PRIMARY KEY (tenant, subject, surrogate)
);
CREATE INDEX IF NOT EXISTS sealed_by_surrogate ON sealed (tenant, surrogate);
CREATE TABLE IF NOT EXISTS reveal_log (
    at_unix_nano INTEGER NOT NULL, tenant TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL,
    surrogate TEXT NOT NULL, found INTEGER NOT NULL
);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reveal:
    """One line of the reveal log. Holds the surrogate, never the value."""

    at_unix_nano: int
    tenant: str
    who: str
    reason: str
    surrogate: str
    found: bool


class Vault:
    """Sealed originals in one SQLite file (0600), readable only with the tenant's vault key."""

    def __init__(self, path: Path, keys: Mapping[str, bytes], current: str) -> None:
        """Open or create the vault.

        `keys` maps vault key ids (``acme/1``) to 64 secret bytes each; `current` names the one that wraps new data keys.

        Raises:
            PermanentStoreError: the file is another version's, or `current` is not among the keys.
        """
        if current not in keys or any(len(secret) * 8 != _KEY_BITS for secret in keys.values()):
            raise PermanentStoreError(
                f"vault {path}: the current key {current!r} must be among the keys, and each have {_KEY_BITS // 8} bytes",
                do="make vault keys with Vault.generate_key(), and keep them apart from the surrogate keys",
            )
        self._path = path
        self._keys = {name: AESSIV(secret) for name, secret in keys.items()}
        self.current = current
        """Id of the key that wraps new data keys."""
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        with self._connect() as connection:
            connection.executescript(_DDL)
            row = connection.execute("SELECT version FROM meta").fetchone()
            if row is None:
                connection.execute("INSERT INTO meta VALUES (?)", (_VERSION,))
            elif row[0] != _VERSION:
                raise PermanentStoreError(f"vault {path}: found version {row[0]}, expected {_VERSION}")

    @staticmethod
    def generate_key() -> bytes:
        """Return a fresh vault key."""
        return AESSIV.generate_key(_KEY_BITS)

    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_WAIT_S)
        # Freed pages are overwritten: a shredded key must not be found in the file's slack.
        connection.execute("PRAGMA secure_delete = ON")
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def seal(self, tenant: str, subject: str, originals: Mapping[str, tuple[str, str]]) -> None:
        """Keep originals for their surrogates.

        Shape: `originals` maps a surrogate to (class, original).

        Raises:
            RunError: the subject was forgotten; no value is kept again under the same name.
        """
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")  # if two processes seal for one subject, one makes its key
            cipher = self._data_cipher(connection, tenant, subject, create=True)
            assert cipher is not None  # made if it was missing
            rows = [
                (
                    tenant,
                    subject,
                    surrogate,
                    class_,
                    cipher.encrypt(original.encode(), _context(tenant, subject, class_, surrogate)),
                )
                for surrogate, (class_, original) in originals.items()
            ]
            connection.executemany("INSERT OR IGNORE INTO sealed VALUES (?, ?, ?, ?, ?)", rows)

    def seal_again(self, tenant: str, subject: str, surrogates: Iterable[str]) -> None:
        """Keep values sealed for another subject of the tenant for this one, too; unsealed ones are left out.

        Raises:
            RunError: the subject was forgotten.
        """
        found: dict[str, tuple[str, str]] = {}
        with self._connect() as connection:
            for surrogate in surrogates:
                if (original := self._open(connection, tenant, surrogate)) is not None:
                    found[surrogate] = original
        if found:
            self.seal(tenant, subject, found)

    def reveal(self, tenant: str, surrogate: str, *, who: str, reason: str, subject: str | None = None) -> str | None:
        """Return the original of a surrogate, or None if it is gone. Logged before it is returned.

        `subject` limits the search to its own values.

        Raises:
            PermanentStoreError: the ciphertext or its key was tampered with.
        """
        with self._connect() as connection:
            original = self._open(connection, tenant, surrogate, subject)
            connection.execute(
                "INSERT INTO reveal_log VALUES (?, ?, ?, ?, ?, ?)",
                (time.time_ns(), tenant, who, reason, surrogate, original is not None),
            )
        return None if original is None else original[1]

    def forget(self, tenant: str, subject: str) -> int:
        """Destroy the subject's data key, and with it every original sealed under it; return how many there were."""
        with self._connect() as connection:
            count = connection.execute(
                "SELECT count(*) FROM sealed WHERE tenant = ? AND subject = ?", (tenant, subject)
            ).fetchone()[0]
            connection.execute(
                "INSERT INTO data_key VALUES (?, ?, '', NULL, ?)"
                " ON CONFLICT DO UPDATE SET wrapped = NULL, shredded_at = excluded.shredded_at",
                (tenant, subject, time.time_ns()),
            )
            connection.execute("DELETE FROM sealed WHERE tenant = ? AND subject = ?", (tenant, subject))
        return int(count)

    def subjects_with(self, tenant: str, groups: Iterable[Sequence[str]]) -> set[str]:
        """Return the subjects for which at least one surrogate of each group is sealed."""
        found: set[str] | None = None
        with self._connect() as connection:
            for group in groups:
                held: set[str] = set()
                for surrogate in group:
                    rows = connection.execute(
                        "SELECT DISTINCT subject FROM sealed WHERE tenant = ? AND surrogate = ?", (tenant, surrogate)
                    )
                    held.update(subject for (subject,) in rows)
                found = held if found is None else found & held
        return found or set()

    def rotate(self, tenant: str) -> int:
        """Wrap the tenant's data keys with the current vault key; return how many were wrapped anew."""
        with self._connect() as connection:
            rows = connection.execute(
                "SELECT subject, vault_key, wrapped FROM data_key WHERE tenant = ? AND wrapped IS NOT NULL AND vault_key != ?",
                (tenant, self.current),
            ).fetchall()
            for subject, vault_key, wrapped in rows:
                plain = self._unwrap(tenant, subject, vault_key, wrapped)
                connection.execute(
                    "UPDATE data_key SET vault_key = ?, wrapped = ? WHERE tenant = ? AND subject = ?",
                    (
                        self.current,
                        self._keys[self.current].encrypt(plain, [tenant.encode(), subject.encode()]),
                        tenant,
                        subject,
                    ),
                )
        return len(rows)

    def forgotten(self) -> tuple[tuple[int, str, str], ...]:
        """Return when each subject of each tenant was forgotten, oldest first: (Unix time in nanoseconds, tenant, subject)."""
        with self._connect() as connection:
            return tuple(
                connection.execute(
                    "SELECT shredded_at, tenant, subject FROM data_key WHERE shredded_at IS NOT NULL ORDER BY shredded_at"
                ).fetchall()
            )

    def tenants(self) -> tuple[str, ...]:
        """Return the tenants with kept originals."""
        with self._connect() as connection:
            return tuple(name for (name,) in connection.execute("SELECT DISTINCT tenant FROM data_key ORDER BY tenant"))

    def log(self) -> tuple[Reveal, ...]:
        """Return every reveal, oldest first."""
        with self._connect() as connection:
            rows = connection.execute("SELECT * FROM reveal_log ORDER BY at_unix_nano, rowid").fetchall()
        return tuple(
            Reveal(at_unix_nano=at, tenant=tenant, who=who, reason=reason, surrogate=surrogate, found=bool(found))
            for at, tenant, who, reason, surrogate, found in rows
        )

    def _open(
        self, connection: sqlite3.Connection, tenant: str, surrogate: str, subject: str | None = None
    ) -> tuple[str, str] | None:
        """Return class and original of a surrogate, from any subject that still has a key."""
        rows = connection.execute(
            "SELECT subject, class, ciphertext FROM sealed WHERE tenant = ? AND surrogate = ? AND subject = ifnull(?, subject)",
            (tenant, surrogate, subject),
        )
        for owner, class_, ciphertext in rows.fetchall():
            cipher = self._data_cipher(connection, tenant, owner, create=False)
            if cipher is None:
                continue
            try:
                return class_, cipher.decrypt(ciphertext, _context(tenant, owner, class_, surrogate)).decode()
            except InvalidTag:
                raise PermanentStoreError(
                    f"vault {self._path}: the entry of a {class_} does not belong to its key",
                    do="restore the vault from a backup",
                ) from None
        return None

    def _data_cipher(self, connection: sqlite3.Connection, tenant: str, subject: str, *, create: bool) -> AESSIV | None:
        row = connection.execute(
            "SELECT vault_key, wrapped FROM data_key WHERE tenant = ? AND subject = ?", (tenant, subject)
        ).fetchone()
        if row is None:
            if not create:
                return None
            plain = AESSIV.generate_key(_KEY_BITS)
            wrapped = self._keys[self.current].encrypt(plain, [tenant.encode(), subject.encode()])
            connection.execute("INSERT INTO data_key VALUES (?, ?, ?, ?, NULL)", (tenant, subject, self.current, wrapped))
            return AESSIV(plain)
        vault_key, wrapped = row
        if wrapped is None:
            if create:
                raise RunError("vault: this subject was forgotten", do="give a new subject name to keep originals again")
            return None
        return AESSIV(self._unwrap(tenant, subject, vault_key, wrapped))

    def _unwrap(self, tenant: str, subject: str, vault_key: str, wrapped: bytes) -> bytes:
        cipher = self._keys.get(vault_key)
        if cipher is None:
            raise PermanentStoreError(
                f"vault {self._path}: needs vault key {vault_key!r}, which was not given", do="add it to the keys"
            )
        try:
            return cipher.decrypt(wrapped, [tenant.encode(), subject.encode()])
        except InvalidTag:
            raise PermanentStoreError(f"vault {self._path}: a data key was not wrapped by {vault_key!r}") from None


def _context(tenant: str, subject: str, class_: str, surrogate: str) -> list[bytes]:
    """Bind a ciphertext to its row, so that rows cannot be swapped."""
    return [tenant.encode(), subject.encode(), class_.encode(), surrogate.encode()]
