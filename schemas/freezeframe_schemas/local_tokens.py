"""The tokens of a data directory: they open a collector's ports to whoever can read its files, and to no one else.

Several files, because they go to different places: the sender's to containers, the reader's to notebooks, the admin's nowhere,
the fourth to coding agents. The listener creates the token before it listens, unless the file already holds one.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Final

from freezeframe_schemas.data_directory import known_data_directories, read_notes
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.same_origin import is_loopback

SENDER: Final = "sender-token"
"""Sends spans, and sees the collector's reports about itself."""
READER: Final = "reader-token"
"""Reads every run: SQL, the replay service and its pages; and sees the collector's reports about itself."""
ADMIN: Final = "admin-token"
"""Gives commands to the store and inserts into the user's own tables."""
ALL: Final = (SENDER, READER, ADMIN)
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,512}")


def load_or_create_token(directory: Path, name: str) -> str:
    """Return the token in the file `name`, created on first use, readable by its owner only.

    Raises:
        ConfigError: the file cannot be read or created, or holds no token.
    """
    path = directory / name
    try:
        if not path.exists():
            _create(path)
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read or created: {error}") from None
    if not _TOKEN.fullmatch(text):
        raise ConfigError(
            f"{path}: expected a token of 16 to 512 letters, digits and -._~+/",
            do="delete the file: the next start makes a new one",
        )
    return text


def _create(path: Path) -> None:
    """Create the file whole or not at all; if two try at once, one succeeds."""
    import tempfile

    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
        os.link(partial, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(partial)


def read_token(directory: Path, name: str) -> str | None:
    """Return the token in the file `name`, or None if this user cannot read one."""
    try:
        text = (directory / name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if _TOKEN.fullmatch(text) else None


def shown_token(authorization: str | None) -> str:
    """Return the token in an ``Authorization`` header; empty if it has none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_same(given: str, expected: str) -> bool:
    """Return whether two secrets are the same, in a time that depends on neither."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode())


def bearer(token: str | None) -> dict[str, str]:
    """Return the header with the token; empty without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def whose_port(host: str, port: int) -> Path | None:
    """Return the data directory whose collector runs and noted that port.

    It checks the working directory's data directory and those for which this user started collectors
    (`known_data_directories`), on this machine only.
    """
    for directory in known_data_directories() if is_loopback(host) else ():
        notes = read_notes(directory)
        if port in (notes.get("http"), notes.get("grpc"), notes.get("clickhouse")):
            return directory.resolve()
    return None


def token_of(host: str, port: int, name: str) -> str | None:
    """Return the token for the listener there, if it is a collector of this user on this machine (`whose_port`)."""
    directory = whose_port(host, port)
    return None if directory is None else read_token(directory, name)
