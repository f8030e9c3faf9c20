"""Parse and show the address of a store or service as users write it (``clickhouse://user:password@host:8123/database``).

A message may hold such an address only in the form that `shown_address` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from freezeframe_schemas.errors import ConfigError

_HIDDEN: Final = "***"

STORE_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "chdb": ("memory_bytes",),
    "clickhouse": ("cluster",),
    "clickhouses": ("cluster", "ca"),
    "http": ("cluster",),
    "https": ("cluster", "ca"),
}
"""Scheme -> options allowed after the ``?`` in the address of a collector's store."""


def split_address(address: str) -> SplitResult:
    """Split the address of a store. The result's host and port are readable.

    Raises:
        ConfigError: they are not, or the user or password holds a character that ends it early (``/``, ``?``, ``#``).
    """
    try:
        parts = urlsplit(address)
        if parts.port != 0 and (parts.scheme == "chdb" or "@" not in f"{parts.path}{parts.query}{parts.fragment}"):
            return parts
    except ValueError:
        pass  # the error's text may hold part of the password
    raise ConfigError(
        f"store: found {shown_address(address)}, expected SCHEME://USER:PASSWORD@HOST:PORT/DATABASE",
        do="take a port from 1 to 65535, and write / ? # and @ of a password as %2F %3F %23 and %40",
    )


def store_options(parts: SplitResult) -> dict[str, str]:
    """Return the options of a collector's store, ``?cluster=NAME``; their values are not checked here.

    Raises:
        ConfigError: an option is unknown for this scheme, given twice, or given without a value.
    """
    known = STORE_OPTIONS.get(parts.scheme, ())
    found = parse_qs(parts.query, keep_blank_values=True)
    wrong = sorted(name for name, values in found.items() if name not in known or len(values) != 1 or not values[0])
    if wrong:
        raise ConfigError(
            f"store: found the option {wrong[0]!r}, expected of {parts.scheme}:// at most "
            + ", ".join(f"{name}=..." for name in known)
            + ", each once"
        )
    return {name: values[0] for name, values in found.items()}


def shown_address(address: str) -> str:
    """Return the part of an address, valid or not, that a message may show: nothing before its last ``@``, and no query.

    Shape: ``clickhouse://***@host:8123/database``
    """
    before, at, after = address.rpartition("@")
    scheme = before[: before.index("://") + 3] if "://" in before else ""
    return f"{scheme}{_HIDDEN if at else ''}{at}{after.partition('?')[0].partition('#')[0]}"
