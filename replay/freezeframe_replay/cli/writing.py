"""Write files to the user's directory, and print the warnings about them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.whole_file import replace_file


def warn(command: str, warnings: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for warning in warnings:
        print(f"freezeframe {command}: warning: {warning}", file=sys.stderr)


def write_whole(path: Path, content: bytes | Iterable[bytes], *, option: str = "-o", parents: bool = False) -> None:
    """Write a file whole, or not at all; with `parents`, in folders that are made for it.

    Raises:
        FixtureError: it cannot be written; the message names the option that names the file.
    """
    try:
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise FixtureError(f"{path}: cannot be written: {error.strerror}", do=f"name another file with {option}") from error
