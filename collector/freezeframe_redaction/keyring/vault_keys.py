"""The vault's keys: separate files, apart from those of the surrogates, versioned; the newest wraps new data keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from freezeframe_redaction.keyring.keys import create_key_file, read_key_file
from freezeframe_redaction.keyring.vault import Vault
from freezeframe_schemas.data_directory import VAULT, VAULT_KEYS, make_private
from freezeframe_schemas.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultPlace:
    """Paths of a vault and its keys."""

    file: Path
    keys: Path

    def open(self) -> Vault:
        """Return the vault, created with its first key if it is missing.

        Raises:
            ConfigError: a key cannot be read, is open to other users, or is lost.
            PermanentStoreError: the file is another version's.
        """
        make_private(self.keys)
        keys = dict(
            sorted((read_key_file(path) for path in self.keys.glob("vault.*.key.json")), key=lambda item: _version(item[0]))
        )
        if not keys and self.file.exists():
            raise ConfigError(
                f"{self.keys}: holds no key of the vault {self.file}",
                do="restore the keys from a backup; if they are lost for good, what the vault holds is too: move it away",
            )
        if not keys:
            keys = dict([_create(self.keys, 1)])
        return Vault(self.file, keys, list(keys)[-1])

    def rotate(self) -> tuple[str, int]:
        """Make the next key and wrap every data key with it, so that older ones can go; return its id and how many it wraps."""
        newest = _version(self.open().current)
        key_id, _ = _create(self.keys, newest + 1)
        vault = self.open()
        return key_id, sum(vault.rotate(tenant) for tenant in vault.tenants())


def vault_of(data_directory: Path, keys: Path | None = None) -> VaultPlace:
    """Return the place of a collector's vault, with the keys that its data directory links to unless others are named."""
    return VaultPlace(file=data_directory / f"{VAULT}.db", keys=keys or data_directory / VAULT_KEYS)


def _version(key_id: str) -> int:
    return int(key_id.rpartition("/")[2])


def _create(directory: Path, version: int) -> tuple[str, bytes]:
    return create_key_file(directory / f"vault.{version}.key.json", f"vault/{version}", Vault.generate_key())
