"""A root key that is kept elsewhere, from which the keys of all tenants are derived.

A folder of keys may contain ``root.toml``, which names the source of the root key: an environment variable, a
file, or a command
that asks a key management service or a keyring. New key files in the folder then hold no secret. The root key is fetched once
per process and never written.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Final

from freezeframe_schemas.errors import ConfigError

FILE: Final = "root.toml"
_MIN_BYTES: Final = 32
_PATIENCE_S: Final = 60
_EXPECTED: Final = 'one of: command = ["vault", "..."], env = "NAME", file = "/path"'


def derived(directory: Path, key_id: str, size: int) -> bytes | None:
    """Return the secret of `size` bytes (64 at most) that the folder's root key gives for the id; None without a root key.

    Raises:
        ConfigError: the folder names a root key that cannot be read.
    """
    path = directory / FILE
    if not path.is_file():
        return None
    root = _fetch(path.resolve(), path.read_text("utf-8"))
    # Keyed BLAKE2b takes 64 bytes of key; a longer root is hashed first.
    key = root if len(root) <= 64 else hashlib.blake2b(root).digest()
    return hashlib.blake2b(b"freezeframe key\0" + key_id.encode(), key=key, digest_size=size).digest()


@cache
def _fetch(path: Path, text: str) -> bytes:
    try:
        source = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}", do=f"expected {_EXPECTED}") from None
    match source:
        case {"command": [str(), *_] as command, **rest} if not rest:
            key = _run(path, [str(part) for part in command])
        case {"env": str(name), **rest} if not rest:
            key = os.environb.get(name.encode(), b"")
            if not key:
                raise ConfigError(f"{path}: the environment variable {name} is not set", do="set it, or name another source")
        case {"file": str(name), **rest} if not rest:
            key = _read(path, Path(name))
        case _:
            raise ConfigError(f"{path}: found {', '.join(sorted(source)) or 'nothing'}, expected {_EXPECTED}")
    try:
        root = base64.b64decode(key.strip(), altchars=b"-_" if {*b"-_"} & {*key} else None, validate=True)
    except ValueError:
        root = b""
    if len(root) < _MIN_BYTES:
        raise ConfigError(
            f"{path}: the root key is not {_MIN_BYTES} bytes or more in base64", do="make one: openssl rand -base64 32"
        )
    return root


def _run(path: Path, command: list[str]) -> bytes:
    """Return the command's output; its error messages are not shown, as they may quote a secret."""
    do = f"run it yourself: {command[0]}"
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{path}: the command {command[0]} failed ({type(error).__name__})", do=do) from None
    if done.returncode:
        raise ConfigError(f"{path}: the command {command[0]} ended with status {done.returncode}", do=do)
    return done.stdout


def _read(path: Path, file: Path) -> bytes:
    try:
        if file.stat().st_mode & 0o007:
            raise ConfigError(f"{file}: other users may read this key", do=f"chmod 600 {file}")
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {file} cannot be read ({type(error).__name__})", do="restore the root key") from None
