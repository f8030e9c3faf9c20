"""Tenant keys: the secret that makes surrogates, and the ring that holds its versions.

A key never leaves this module's files: its `repr` shows the id only. Losing the secret does no harm to stored runs (they replay
from their surrogates); leaking it lets others test guesses against the store, so files are readable by their owner only.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from freezeframe_redaction.keyring.root_key import FILE, derived
from freezeframe_schemas.data_directory import make_private, state_directory
from freezeframe_schemas.errors import ConfigError

_VERSION = 1
_SECRET_BYTES = 32
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _check(secret: bytes) -> str:
    return hashlib.blake2b(b"freezeframe key check", key=secret, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKey:
    """One version of one tenant's surrogate key."""

    id: str
    """``tenant/2``: the tenant and the version. Stamped on every span; holds no secret."""
    secret: bytes = field(repr=False)
    """32 bytes."""

    def __post_init__(self) -> None:
        if len(self.secret) != _SECRET_BYTES:
            raise ConfigError(
                f"tenant key {self.id}: found a secret of {len(self.secret)} bytes, expected {_SECRET_BYTES}",
                do="make keys with TenantKey.generate() or load_or_create_keys(directory)",
            )

    @property
    def check(self) -> str:
        """Return the check value that distinguishes the key from another one with the same id.

        Reveals nothing about the secret.
        """
        return _check(self.secret)

    @classmethod
    def generate(cls, id: str = "ephemeral/1") -> TenantKey:  # noqa: A002 - the field's name
        """Return a fresh random key."""
        return cls(id=id, secret=secrets.token_bytes(_SECRET_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """All key versions of all tenants in one directory; the newest version of each is used for redaction."""

    directory: Path
    keys: tuple[TenantKey, ...] = ()
    """Sorted by tenant, then by version, oldest first."""

    def current(self, tenant: str = "default") -> TenantKey:
        """Return the tenant's newest key, making and writing the first one if it is missing."""
        held = [key for key in self.keys if key.id.rpartition("/")[0] == tenant]
        return held[-1] if held else _create(self.directory, tenant, 1)

    def by_id(self, key_id: str) -> TenantKey | None:
        """Return the key that a span was redacted with, or None if this ring never held it."""
        return next((key for key in self.keys if key.id == key_id), None)

    def rotate(self, tenant: str = "default") -> KeyRing:
        """Write the next version for the tenant and return the ring that holds it.

        Old versions stay, so that a redaction of an old run under its own key gives the same surrogates.
        """
        newest = int(self.current(tenant).id.rpartition("/")[2])
        _create(self.directory, tenant, newest + 1)
        return load_or_create_keys(self.directory)


def load_or_create_keys(directory: Path, *, redacted: Path | None = None) -> KeyRing:
    """Load every key below `directory`, creating the directory and the key of tenant ``default`` if it is missing.

    `redacted` names data redacted with that key, if any: in that case a missing key is lost, and none is created.

    Raises:
        ConfigError: a key file cannot be read, is of another version, is open to other users, or is lost.
    """
    make_private(directory)
    keys = [_read(path) for path in directory.glob("*.key.json")]
    if not any(key.id.startswith("default/") for key in keys):
        if redacted is not None:
            raise _lost(directory.resolve(), redacted)
        keys.append(_create(directory, "default", 1))
    return KeyRing(directory=directory, keys=tuple(sorted(keys, key=_order)))


def _lost(directory: Path, redacted: Path) -> ConfigError:
    return ConfigError(
        f"{directory}: holds no key of tenant default, but {redacted} was redacted with one", do=_restore(directory)
    )


def _restore(directory: Path) -> str:
    return (
        "restore the keys from a backup; if they are lost for good, make new ones: "
        f"freezeframe store redact-file --rotate-key --keys {directory} (from then on, the same value gets another surrogate)"
    )


def keys_apart(data: Path, name: str, chosen: Path | None = None) -> Path:
    """Return the folder of keys of a data directory, which is a link, so that a copy of the data alone has no key.

    Args:
        data: the data directory.
        name: of the folder in it.
        chosen: the folder of the keys. By default a new one in the user's state directory; for a user who has none, or whose
            home is the data directory, the folder itself.

    Raises:
        ConfigError: the link leads nowhere, or the data directory holds keys and another place was chosen.
    """
    link = data / name
    if link.is_dir() and not link.is_symlink():
        if chosen is None or (chosen.exists() and chosen.samefile(link)):
            return link
        raise ConfigError(
            f"{link}: the keys are here, expected them in {chosen}", do="move the files there and remove the folder"
        )
    if chosen is None and link.is_symlink():
        if not link.is_dir():
            raise ConfigError(f"{link}: the keys are missing, expected them in {link.readlink()}", do=_restore(link.readlink()))
        return link
    make_private(data)
    _point(link, chosen or _new_folder(data, name))
    return link


def _new_folder(data: Path, name: str) -> Path | None:
    state = state_directory()
    if state is None or state.is_relative_to(data):
        return None
    try:
        make_private(state / name)
        return Path(tempfile.mkdtemp(dir=state / name, prefix=f"{data.parent.name}-"))
    except OSError:  # a service's home directory may be read-only
        return None


def _point(link: Path, place: Path | None) -> None:
    if place is None or place == link:
        link.mkdir(mode=0o700, exist_ok=True)
        return
    make_private(place)
    made = link.with_name(f"{link.name}.{secrets.token_hex(8)}")
    made.symlink_to(place)
    made.replace(link)  # also a link to another place


def find_key(directory: Path, key_id: str, check: str) -> TenantKey | None:
    """Return the key of that id in `directory` if `check` identifies it, or None. Creates nothing.

    Raises:
        ConfigError: the key's file cannot be read, is of another version, or is open to other users.
    """
    tenant, _, version = key_id.rpartition("/")
    path = directory / f"{tenant}.{version}.key.json"
    if not check or not _TENANT.fullmatch(tenant) or not path.is_file():
        return None
    key = _read(path)
    return key if key.check == check else None


def _order(key: TenantKey) -> tuple[str, int]:
    tenant, _, version = key.id.rpartition("/")
    return tenant, int(version)


def _create(directory: Path, tenant: str, version: int) -> TenantKey:
    if not _TENANT.fullmatch(tenant):
        raise ConfigError(
            f"tenant name: found {len(tenant)} characters that are not a valid file name",
            do="use letters, digits, dot, dash and underscore, 64 at most",
        )
    path = directory / f"{tenant}.{version}.key.json"
    key_id, secret = create_key_file(path, f"{tenant}/{version}", secrets.token_bytes(_SECRET_BYTES))
    return TenantKey(id=key_id, secret=secret)


def create_key_file(path: Path, key_id: str, secret: bytes) -> tuple[str, bytes]:
    """Write a key, readable by its owner only, and return it; if the file already exists, return its key.

    In a folder with a root key, the secret is derived from it, and the file has only a check value.
    """
    body = {"version": _VERSION, "id": key_id}
    root = derived(path.parent, key_id, len(secret))
    if root is None:
        body["secret"] = base64.b64encode(secret).decode()
    else:
        secret = root
        body |= {"bytes": len(secret), "check": _check(secret)}
    # O_EXCL: if two processes start together, one makes the key and the other reads it.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read_key_file(path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(body))
        file.flush()
        os.fsync(file.fileno())
    return key_id, secret


def read_key_file(path: Path) -> tuple[str, bytes]:
    """Return the id and the secret of a key file.

    Raises:
        ConfigError: it cannot be read, is of another version, or is open to other users.
    """
    try:
        body = orjson.loads(path.read_bytes())
        version, key_id = body["version"], str(body["id"])
        secret = base64.b64decode(body["secret"]) if "secret" in body else None
        size, check = (0, "") if secret is not None else (int(body["bytes"]), str(body["check"]))
        int(key_id.rpartition("/")[2])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not a readable key file ({type(error).__name__})", do="restore it from a backup") from None
    if version != _VERSION:
        raise ConfigError(f"{path}: found version {version}, expected {_VERSION}", do="upgrade freezeframe to read this file")
    if path.stat().st_mode & 0o077:
        raise ConfigError(f"{path}: other users may read this key", do=f"chmod 600 {path}")
    if secret is not None:
        return key_id, secret
    secret = derived(path.parent, key_id, size)
    if secret is None or _check(secret) != check:
        found = f"no {FILE}" if secret is None else "another root key than the one that made it"
        raise ConfigError(f"{path}: derived from a root key; found {found}", do=f"restore {path.parent / FILE} or its root key")
    return key_id, secret


def _read(path: Path) -> TenantKey:
    key_id, secret = read_key_file(path)
    return TenantKey(id=key_id, secret=secret)
