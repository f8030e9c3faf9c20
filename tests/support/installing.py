"""Clients of other languages, installed by their package manager if it is available and reaches a registry."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

_PATIENCE_S = 100.0
"""Time for a package manager. Some of them try for many minutes if there is no network."""


def install(command: Sequence[str], folder: Path) -> None:
    """Run the command in the folder; skip the test if it fails."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{command[0]} cannot install it here: {error}")
    if done.returncode:
        pytest.skip(f"{command[0]} cannot install it here: {(done.stderr or done.stdout).strip()[-200:]}")
