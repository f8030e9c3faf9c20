"""The guides, followed literally: their files are written, their commands typed, and what they say is printed is printed.

In a guide, a block of Python or shell that begins with ``# NAME.py`` or ``# NAME.sh`` is that file; in a block of ``console``,
each line after ``$`` is typed, the lines after it are found in what it prints, and ``# exit code N`` names another exit code
than 0.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each command is a process

NOT_RUN = {"coding-agents", "prove-a-fix"}
"""The first is of programs that are not here, and `tests/collector/test_coding_agents.py` plays what they send. The second
is followed by `tests/e2e/test_worked_fixes.py`."""
GUIDES = [page for page in sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md")) if page.stem not in NOT_RUN]
PROGRAMS = {
    "freezeframe": ["-m", "freezeframe._cli"],
    "python": [],
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest"],
}
"""Program -> the arguments of Python that start it."""


@dataclass(kw_only=True)
class Typed:
    """A command, and what it prints and exits with."""

    line: str
    exit_code: int = 0
    printed: list[str] = field(default_factory=list[str])


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"^```(\w+)\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        yield match[1], match[2]


def typed(block: str) -> list[Typed]:
    commands: list[Typed] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            command, _, comment = line[2:].partition("  # ")
            code = re.search(r"exit code (\d+)", comment)
            commands.append(Typed(line=command, exit_code=int(code[1]) if code else 0))
        elif line.strip():
            commands[-1].printed.append(line.strip())
    return commands


def run(command: Typed, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command.line)
    environment = {**os.environ, "COLUMNS": "140", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), environment["PATH"]])
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    assert words[0] in PROGRAMS, command.line
    return subprocess.run(
        [sys.executable, *PROGRAMS[words[0]], *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def flat(text: str) -> str:
    """Return the text with runs of white space as one blank: columns may be wider than on the page."""
    return " ".join(text.split())


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_does_what_it_says(page: Path, tmp_path: Path) -> None:
    commands = 0
    for language, block in blocks(page):
        named = re.match(r"# (\S+\.(?:py|sh))\n", block)
        if language in ("python", "sh") and named is not None:
            (tmp_path / named[1]).write_text(block.partition("\n")[2])
        for command in typed(block) if language == "console" else ():
            done = run(command, tmp_path)
            assert done.returncode == command.exit_code, f"{command.line}\n{done.stdout}\n{done.stderr}"
            said = flat(done.stdout)
            assert [line for line in command.printed if flat(line) not in said] == [], f"{command.line}\n{done.stdout}"
            commands += 1
    assert commands >= 2
