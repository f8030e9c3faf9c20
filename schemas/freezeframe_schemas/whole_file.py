"""Write a file whole or not at all: to a temporary file next to it, then in its place."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path


def replace_file(path: Path, content: str | bytes | Iterable[bytes], *, is_private: bool = False) -> None:
    """Replace the file, or create it; a text is written as UTF-8.

    Args:
        path: the file, in a directory that exists.
        content: all of it.
        is_private: let only its owner read it.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    content = content.encode() if isinstance(content, str) else content
    # No two writers share the name, and nothing is drawn for it: a replayed program's draws are recorded.
    partial = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        if is_private:
            partial.touch(mode=0o600)
        with partial.open("wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
