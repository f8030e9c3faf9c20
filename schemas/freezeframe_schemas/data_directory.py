"""Find the data directory: named, in the environment, or the nearest `.freezeframe` upwards, as git finds `.git`.

Also read the running collector's notes there, and list the data directories for which this user has started collectors.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

NAME: Final = ".freezeframe"
VARIABLE: Final = "FREEZEFRAME_DATA"
PORTS_FILE: Final = "ports.json"
KEYS: Final = "keys"
"""Its folder of surrogate keys, a link to where they are (`freezeframe_redaction.keyring.keys.keys_apart`)."""
REPLAYS: Final = "replays"
"""Its folder of the replays that the pages have made."""
VAULT: Final = "vault"
"""Prefix of the file of sealed originals."""
VAULT_KEYS: Final = "vault-keys"
"""The folder of the vault's keys, a link as well."""


def find_data_directory(
    given: Path | None = None, *, environ: Mapping[str, str] = os.environ, start: Path | None = None
) -> Path:
    """Return the data directory: `given`, else the environment's, else the nearest upwards from `start`, else one in `start`.

    Does not create it.
    """
    start = start or Path.cwd()
    if given is not None:
        return (start / given).resolve()
    if named := environ.get(VARIABLE, "").strip():
        return (start / named).resolve()
    return next((folder / NAME for folder in (start, *start.parents) if (folder / NAME).is_dir()), start / NAME)


def read_notes(directory: Path) -> dict[str, Any]:
    """Return the notes of the data directory's collector: its ports, its process; empty if it does not run.

    A collector that was killed leaves its notes behind, and anyone may take its ports: no token is sent there.
    """
    try:
        notes: Any = json.loads((directory / PORTS_FILE).read_bytes())
        return notes if _is_alive(int(notes["pid"])) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def collector_url(directory: Path, *, grpc: bool = False) -> str | None:
    """Return the address to which an agent on this machine sends OTLP; None if the directory's collector does not run."""
    notes = read_notes(directory)
    port = notes.get("grpc" if grpc else "http")
    scheme = "https" if notes.get("tls") is True else "http"
    return f"{scheme}://127.0.0.1:{port}" if isinstance(port, int) and port > 0 else None


def is_chosen(directory: Path, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this project's data directory was chosen: it exists, or the environment names it."""
    return directory.is_dir() or bool(environ.get(VARIABLE, "").strip())


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:  # of another user, as the collector in a container
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def make_private(directory: Path) -> None:
    """Make a directory, and those above it that are missing, for this user only, whatever the umask is.

    Raises:
        OSError: it cannot be made.
    """
    for folder in reversed((directory, *directory.parents)):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def state_directory(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory where this user's programs keep state; None if the user has no home directory.

    Source: XDG Base Directory Specification.
    """
    base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "freezeframe" if os.path.isabs(base) else None


def remember_data_directory(directory: Path) -> None:
    """Note that this user starts a collector for `directory`, so that agents started elsewhere find it. Forget deleted ones."""
    state = state_directory()
    if state is None:
        return
    notes = state / "data-directories"
    with suppress(OSError):  # an agent started below the directory finds it anyway
        make_private(notes)
        for note in notes.iterdir():
            if not note.exists():  # a symbolic link to the data directory
                note.unlink(missing_ok=True)
        link = notes / hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
        if not link.is_symlink():
            link.symlink_to(directory)


def known_data_directories() -> Iterator[Path]:
    """Yield the data directory of the working directory, then those that this user started collectors for."""
    with suppress(OSError):  # the working directory was deleted
        yield find_data_directory()
    state = state_directory()
    if state is not None:
        with suppress(OSError):
            yield from sorted((state / "data-directories").iterdir())
