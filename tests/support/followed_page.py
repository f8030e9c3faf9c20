"""Do what a page of docs/extending says: put its code blocks into the files that it names, and run the result."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"^`(?P<file>[\w.-]+)` in `(?P<folder>[^`\n]+)`:\n|^```(?P<kind>python|sql|toml|diff)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def copy_package(package: ModuleType, root: Path) -> None:
    """Copy the package's source to the place below `root` that it has in the repository."""
    source = Path(package.__path__[0])
    shutil.copytree(source, root / source.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))


def follow(page: str, root: Path) -> set[str]:
    """Make the files of the page's blocks of code, which must be new, and the edits of its ``diff`` blocks, whose lines must
    be in the file exactly once. Return the paths of all files touched."""
    touched = set[str]()
    path = ""
    for block in _BLOCK.finditer((ROOT / "docs" / "extending" / page).read_text("utf-8")):
        if block["file"]:
            path = f"{block['folder']}/{block['file']}"
            continue
        touched.add(path)
        if block["kind"] != "diff":
            with (root / path).open("x", encoding="utf-8") as file:
                file.write(block["code"])
        else:
            _edit(root / path, block["code"].splitlines(keepends=True))
    return touched


def _edit(target: Path, diff: list[str]) -> None:
    old = "".join(line[1:] for line in diff if line[0] in " -")
    text = target.read_text("utf-8")
    assert text.count(old) == 1, f"{target.name}: expected the lines of the page once:\n{old}"
    target.write_text(text.replace(old, "".join(line[1:] for line in diff if line[0] in " +")), "utf-8")


def run_with(paths: Iterable[Path], script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a Python that finds these folders first, then the support modules."""
    found = os.pathsep.join(map(str, (*paths, ROOT / "tests" / "support")))
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": found}, capture_output=True, text=True, timeout=120)
