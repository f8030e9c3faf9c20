"""The spool of a process that names none: on if its content can be sealed, below the user's state directory.

One directory per collector, and for local collectors per project: spans recorded for one collector, under one
token, are never delivered to another. Nothing is loaded and no key is created until a batch has to be kept or
delivered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from freezeframe._config import USUAL_ENDPOINT
from freezeframe_schemas.data_directory import find_data_directory, state_directory
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.same_origin import is_loopback

if TYPE_CHECKING:
    from freezeframe._config import Settings
    from freezeframe.export.seal import SpoolSeal
    from freezeframe.export.spool import Claim, Header
    from freezeframe_schemas.span import SpanRecord

_DIGITS: Final = 16


def default_spool_root() -> Path:
    """Return the directory of all default spools of this user.

    Raises:
        ConfigError: the user has no home directory.
    """
    state = state_directory()
    if state is None:
        raise ConfigError(
            "spool: the home directory is unknown", do="set HOME or XDG_STATE_HOME, or name a directory: spool=..."
        )
    return state / "spool"


def default_spool_directory(settings: Settings) -> Path:
    """Return the directory of the spool for this collector.

    Raises:
        ConfigError: the user has no home directory.
    """
    endpoint = (
        settings.endpoint or USUAL_ENDPOINT
    )  # without the port: the project's next collector, on another one, takes what waits
    destination = [endpoint, *(f"{name}={value}" for name, value in sorted(settings.headers))]
    if _is_on_this_machine(endpoint):  # the port may be another project's collector's
        destination.append(str(find_data_directory()))
    return default_spool_root() / hashlib.sha256("\0".join(destination).encode()).hexdigest()[:_DIGITS]


def spool_directory(settings: Settings) -> str:
    """Return the directory of the spool: the named one, else the one for this collector below the user's state directory.

    Raises:
        ConfigError: none is named, and the user has no home directory.
    """
    return settings.spool if isinstance(settings.spool, str) else str(default_spool_directory(settings))


def check_seal(settings: Settings) -> None:
    """Check that a spool's content can be protected here, without loading the libraries for it.

    Raises:
        ConfigError: a required library is not installed.
    """
    needed, extra = (
        ("freezeframe_redaction", "redaction") if settings.spool_protection == "redact" else ("cryptography", "spool")
    )
    try:
        found = find_spec(needed)
    except ImportError:
        found = None
    if found is None:
        raise ConfigError(
            f"spool: {needed} is not installed, and the spool never holds clear text",
            do=install_command(extra),
        )


def _is_on_this_machine(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return is_loopback(host) or host.endswith(".localhost")


class LazySeal:
    """A seal that is built on first use: it loads libraries, and creates a key if it is missing."""

    def __init__(self, make: Callable[[], SpoolSeal]) -> None:
        self._make = make
        self._made: SpoolSeal | None = None

    def _seal(self) -> SpoolSeal:
        if self._made is None:
            self._made = self._make()
        return self._made

    def seal(self, records: Sequence[SpanRecord]) -> tuple[Header, bytes]:
        """Return a batch's header and its protected content.

        Raises:
            ConfigError: the key cannot be used.
        """
        return self._seal().seal(records)

    def open(self, claim: Claim) -> bytes:
        """Return the request that the batch holds.

        Raises:
            ConfigError: the key cannot be used.
        """
        return self._seal().open(claim)
