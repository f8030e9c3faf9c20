"""The npm packages of the tests' agents in JavaScript, installed once into a folder outside of the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

NODE: Final = Path(__file__).parents[1] / "replay" / "node"


def node_folder() -> Path:
    """Return a folder with the agents and their packages; skips the test where there is no node, or no registry."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    locked = hashlib.sha256((NODE / "package-lock.json").read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "freezeframe-tests" / f"node-{locked}"
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NODE / name, folder)
        install = ["npm", "ci", "--no-audit", "--no-fund"]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=400, check=False)
        if done.returncode:
            pytest.skip(f"npm ci: {done.stderr.strip().splitlines()[-1:]}")
        (folder / "installed").touch()
    for agent in NODE.glob("*.mjs"):
        shutil.copy(agent, folder)
    return folder
