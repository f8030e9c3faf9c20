"""Tracebacks as Python prints them: the program's own innermost frame, and the text with frames of libraries folded. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

_FRAME: Final = re.compile(r'^[ |]*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_PACKAGE: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<name>[\w.-]+)")
_PYTHON: Final = re.compile(r"[/\\]lib[/\\]python\d[\d.]*[/\\]|^<frozen ")
_OURS: Final = re.compile(r"[/\\](?:site-packages|instrumentation)[/\\]freezeframe[/\\]")
_SOURCE: Final = ("    ", "  |     ", "    |     ")
"""Begins the line of code below a frame; in exception groups behind a bar."""
_CHAINED: Final = re.compile(r"^(?:During handling of the above|The above exception was the direct cause)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFrame:
    """A frame of the program."""

    file: str
    line: int
    function: str
    source: str = ""
    """The line of code; empty if it is not known."""

    @property
    def text(self) -> str:
        """Return ``shop.py:31 in total: return ORDERS[order]``."""
        return f"{self.file}:{self.line} in {self.function}" + (f": {self.source}" if self.source else "")


def own_frame(stack: str, entry_file: str = "") -> OwnFrame | None:
    """Return the program's innermost frame of the exception that a traceback ends with, else of those before it.

    `entry_file`, as recorded, shows in which folder the program is; without it, only the name of a file is shown.
    """
    for block in reversed(_CHAINED.split(stack)):
        lines = block.splitlines()
        for at in range(len(lines) - 1, -1, -1):
            found = _FRAME.match(lines[at])
            if found is not None and not _is_foreign(found["file"]):
                after = next(iter(lines[at + 1 : at + 2]), "")
                source = after.strip(" |") if after.startswith(_SOURCE) and not _FRAME.match(after) else ""
                return OwnFrame(
                    file=_shown(found["file"], _root(stack, entry_file)),
                    line=int(found["line"]),
                    function=found["function"],
                    source=source,
                )
    return None


def folded(stack: str) -> str:
    """Return a traceback with a line in place of consecutive frames of libraries, and without freezeframe's own."""
    return "\n".join(_folded(stack))


def _folded(stack: str) -> Iterator[str]:
    for is_foreign, entries in groupby(_entries(stack), key=lambda entry: _is_foreign(entry[0])):
        group = list(entries)
        if not is_foreign:
            yield from (line for _, lines in group for line in lines)
            continue
        libraries = [_library(file) for file, _ in group if not _OURS.search(file)]
        if libraries:
            count = "1 frame" if len(libraries) == 1 else f"{len(libraries)} frames"
            yield f"  ... {count} of {', '.join(dict.fromkeys(libraries))}"


def _entries(stack: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the file of each frame, empty for lines between frames, with its lines."""
    entry: tuple[str, list[str]] = ("", [])
    for line in stack.splitlines():
        found = _FRAME.match(line)
        goes_on = entry[0] and line.startswith(_SOURCE) and found is None
        if goes_on:
            entry[1].append(line)
            continue
        if entry[1]:
            yield entry
        entry = (found["file"] if found else "", [line])
    if entry[1]:
        yield entry


def _is_foreign(file: str) -> bool:
    return any(each.search(file) is not None for each in (_PACKAGE, _PYTHON, _OURS))


def _library(file: str) -> str:
    found = _PACKAGE.search(file)
    return "Python" if found is None else found["name"].removesuffix(".py")


def _root(stack: str, entry_file: str) -> str:
    """Return the folder in which the program was started, with a slash, as the traceback names it."""
    for line in stack.splitlines() if entry_file else ():
        found = _FRAME.match(line)
        if found is not None and found["file"].endswith(f"/{entry_file}"):
            return found["file"].removesuffix(entry_file)
    return ""


def _shown(file: str, root: str) -> str:
    return file.removeprefix(root) if root and file.startswith(root) else re.split(r"[/\\]", file)[-1]
