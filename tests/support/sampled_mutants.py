"""Mutation testing by sample: of all mutants of the four packages, run the tests near some, in a copy of the project.

``make mutants SAMPLE=300`` draws 300 (``SEED=1``: others), breaks one line of the copy for each, and runs the tests near the
broken module: first what ``make test`` runs, then, if nothing failed, the rest of ``make test-all``. Prints each mutant with
what killed it, and how many `make test` kills of those that all tests kill. A test that fails without the mutant, too, kills
nothing. Near are the test files that import the module, or else what imports it, with the fewest steps between.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutants import ROOT, Mutant, mutants

SOURCES: Final = (
    "schemas/freezeframe_schemas",
    "instrumentation/freezeframe",
    "collector/freezeframe_redaction",
    "collector/freezeframe_collector",
    "replay/freezeframe_replay",
)
RINGS: Final = {"make test": "not soak and (not long or proof)", "test-rest": "long and not proof and not soak"}
"""As in the Makefile, in the order in which they run."""
FOLDERS: Final[Mapping[str, Sequence[str]]] = {
    "freezeframe_schemas": ("schemas", "wire"),
    "freezeframe_redaction": ("redaction",),
    "freezeframe_collector": ("collector", "store"),
    "freezeframe_replay": ("replay", "cli", "experiments", "store"),
    "freezeframe": ("capture", "e2e"),
}
"""Package -> the folder of its tests."""
NEAR: Final = 6
"""Files of tests that are run for a mutant, unless `--near` gives another number."""
_LIMIT_S: Final = 400
_OPTIONS: Final = "-q -x --no-header --tb=line -p no:cacheprovider -p no:xdist -p no:randomly --hypothesis-seed=0".split()


class Imports:
    """Imports of the project's modules and tests."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}
        files = {_name(path): path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")}
        support = {path.stem: path for path in (ROOT / "tests/support").rglob("*.py")}
        known = files.keys() | support.keys()
        for name, path in {**files, **support}.items():
            self._of[name] = frozenset(_imported(path, known)) - {name}
        self._tests = {path: frozenset(_imported(path, known)) for path in sorted((ROOT / "tests").rglob("test_*.py"))}
        self._texts = {path: path.read_text("utf-8") for path in self._tests}

    def near(self, module: str, count: int) -> Sequence[Path]:
        """Return the nearest files of tests: fewest imports between, then fewest imports of their own.

        Seams and commands are imported by name out of a table. The tests of such a module are those that name it most.
        """
        found: list[Path] = []
        reached, ring = {module}, {module}
        while ring and len(found) < count:
            here = [path for path, names in self._tests.items() if names & ring and path not in found]
            found += sorted(here, key=lambda path: (len(self._tests[path]), path))
            ring = {name for name, names in self._of.items() if names & ring} - reached
            reached |= ring
        stem = module.rpartition(".")[2].strip("_")
        word = re.compile(rf"\b(?:{'|'.join([stem, *stem.split('_')])})\b")
        folders = next(folders for package, folders in FOLDERS.items() if module.startswith(package))
        texts = {path: text for path, text in self._texts.items() if path.relative_to(ROOT / "tests").parts[0] in folders}
        named = {path: len(word.findall(text)) / len(text) for path, text in texts.items() if path not in found}
        found += sorted((path for path in named if named[path]), key=lambda path: -named[path])
        return found[:count]


def _name(path: Path) -> str:
    """Return the name of a module of freezeframe."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in (node.module, *inner) if name in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A mutant of a file, as text."""

    path: Path
    text: str
    shown: str


def broken(path: Path, tree: ast.AST, mutant: Mutant) -> Break | None:
    """Return the file with the mutant in it; None for a place that cannot be rewritten alone, as inside an f-string."""
    source = path.read_bytes()
    shown = mutant.old if isinstance(mutant.old, ast.expr | ast.stmt) else mutant.parent
    if not isinstance(shown, ast.expr | ast.stmt) or shown.end_lineno is None or shown.end_col_offset is None:
        return None
    lines = source.splitlines(keepends=True)
    begin = sum(map(len, lines[: shown.lineno - 1])) + shown.col_offset
    end = sum(map(len, lines[: shown.end_lineno - 1])) + shown.end_col_offset
    words = str(mutant)
    mutant.put(mutant.new)
    wanted = ast.dump(tree)
    new = ast.unparse(ast.fix_missing_locations(mutant.new if shown is mutant.old else shown))
    mutant.put(mutant.old)
    if isinstance(shown, ast.expr):
        new = f"({new})"
    elif source[begin : begin + 4] == b"elif":
        new = f"el{new}"
    new = textwrap.indent(new, " " * shown.col_offset).lstrip()
    text = (source[:begin] + new.encode() + source[end:]).decode()
    try:
        same = ast.dump(ast.parse(text)) == wanted
    except SyntaxError:
        return None
    return Break(path=path, text=text, shown=words) if same else None


def drawn(count: int, seed: int, parts: Sequence[str]) -> Iterator[Break]:
    """Yield a sample, each mutant as likely as any other."""
    every: list[tuple[Path, int]] = []
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if str(path.relative_to(ROOT)).startswith(tuple(parts)):
                every += [(path, number) for number, _ in enumerate(mutants(ast.parse(path.read_text("utf-8"))))]
    print(f"{len(every)} mutants, sample of {count}, seed {seed}", flush=True)
    random.Random(seed).shuffle(every)
    for path, number in every:
        tree = ast.parse(path.read_text("utf-8"))
        if count and (found := broken(path, tree, list(mutants(tree))[number])):
            count -= 1
            yield found


class Copy:
    """The project in its own folder, with an environment that imports it from there."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        left_out = shutil.ignore_patterns(".venv*", "__pycache__", ".hypothesis", ".*_cache", ".demo", "site")
        shutil.copytree(ROOT, self.root, ignore=left_out, symlinks=True)
        prefix = Path(sys.prefix)
        site = next(prefix.glob("lib/python*/site-packages"))
        mine = self.root / ".venv" / site.relative_to(prefix)
        mine.mkdir(parents=True)
        shutil.copy(prefix / "pyvenv.cfg", self.root / ".venv")
        for path in site.iterdir():
            if path.suffix == ".pth" and str(ROOT) in path.read_text():
                (mine / path.name).write_text(path.read_text().replace(str(ROOT), str(self.root)))
            else:
                (mine / path.name).symlink_to(path)
        (self.root / ".venv/bin").mkdir()
        for path in (prefix / "bin").iterdir():
            if path.name.startswith("python"):
                (self.root / ".venv/bin" / path.name).symlink_to(path.resolve())
            elif (text := path.read_bytes()).startswith(b"#!"):
                (self.root / ".venv/bin" / path.name).write_bytes(text.replace(str(ROOT).encode(), str(self.root).encode()))
                (self.root / ".venv/bin" / path.name).chmod(0o755)
        self._written = int(time.time())

    def write(self, path: Path, text: str) -> None:
        """Write a file of the project, with a time of its own: byte code is made anew if the second differs."""
        mine = self.root / path.relative_to(ROOT)
        mine.write_text(text, "utf-8")
        self._written += 2
        os.utime(mine, (self._written, self._written))

    def failed(self, tests: Sequence[str], ring: str, *, without: Sequence[str] = ()) -> str | None:
        """Return the first test that fails, ``it hangs`` or ``it cannot be imported``; None if all pass."""
        left_out = [f"--deselect={test}" for test in without]
        command = [str(self.root / ".venv/bin/python"), "-m", "pytest", *_OPTIONS, "-m", ring, *left_out, *tests]
        variables = {
            name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
        }
        with subprocess.Popen(
            command, cwd=self.root, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as process:
            try:
                output = process.communicate(timeout=_LIMIT_S)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "it hangs"
        if process.returncode in (0, 5):
            return None
        named = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - |$)", output, re.MULTILINE)
        return named[1] if named else "it cannot be imported"


def killer(copy: Copy, found: Break, tests: Sequence[str]) -> tuple[str, str]:
    """Return the ring that kills a mutant, and the test; empty texts if it survives."""
    original = found.path.read_text("utf-8")
    for name, marks in RINGS.items():
        unreliable: list[str] = []
        while True:
            copy.write(found.path, found.text)
            failed = copy.failed(tests, marks, without=unreliable)
            copy.write(found.path, original)
            if failed is None:
                break
            one = [failed] if "::" in failed else tests
            if copy.failed(one, marks) is None:
                return name, failed
            if one is tests:  # it hangs without the mutant, too
                break
            unreliable.append(failed)
    return "", ""


def main(arguments: Mapping[str, object]) -> None:
    """Draw, break, run, count."""
    imports, counted = Imports(), Counter[str]()
    count, seed, near, parts = (arguments[name] for name in ("sample", "seed", "near", "parts"))
    assert isinstance(count, int) and isinstance(seed, int) and isinstance(near, int) and isinstance(parts, list)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for found in drawn(count, seed, parts or [""]):
            tests = [str(path.relative_to(ROOT)) for path in imports.near(_name(found.path), near)]
            ring, test = killer(copy, found, tests) if tests else ("", "")
            counted[ring] += 1
            outcome = f"killed by {ring} ({test})" if ring else "survives" if tests else "survives: no test is near"
            print(f"{found.path.relative_to(ROOT)}:{found.shown}: {outcome}", flush=True)
    first, rest = (counted[name] for name in RINGS)
    share = f"{first / (first + rest):.1%}" if first + rest else "none"
    print(f"make test kills {first} of the {first + rest} that all tests near them kill ({share}); {counted['']} survive")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--near", type=int, default=NEAR)
    parser.add_argument("parts", nargs="*")
    main(vars(parser.parse_args()))
