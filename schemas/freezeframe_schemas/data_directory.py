"""Where the data directory is: named, in the environment, or the nearest `.freezeframe` upwards, as git finds its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAME: Final = ".freezeframe"
VARIABLE: Final = "FREEZEFRAME_DATA"
KEYS: Final = "keys"
"""Folder of the surrogate keys in it."""
VAULT: Final = "vault"
"""Begins the names of the file of sealed originals, and of the folder of its keys."""


def find_data_directory(
    given: Path | None = None, *, environ: Mapping[str, str] = os.environ, start: Path | None = None
) -> Path:
    """Return the data directory: `given`, else the environment's, else the nearest upwards from `start`, else one in `start`.

    Nothing is made on the disk.
    """
    start = start or Path.cwd()
    if given is not None:
        return (start / given).resolve()
    if named := environ.get(VARIABLE, "").strip():
        return (start / named).resolve()
    return next((folder / NAME for folder in (start, *start.parents) if (folder / NAME).is_dir()), start / NAME)
