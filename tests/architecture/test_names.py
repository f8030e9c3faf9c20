"""Names that are written in one place only, and files that name nothing of the machine they were written on."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from freezeframe_schemas.wire.registry import PROVIDERS

ROOT = Path(__file__).parents[2]
PACKAGES = [
    ROOT / "schemas/freezeframe_schemas",
    ROOT / "instrumentation/freezeframe",
    ROOT / "collector/freezeframe_redaction",
    ROOT / "collector/freezeframe_collector",
    ROOT / "replay/freezeframe_replay",
]
CODE_FOLDERS = ("schemas", "instrumentation", "collector", "replay", "examples")
MODULES = sorted(path for folder in CODE_FOLDERS for path in (ROOT / folder).rglob("*.py"))
VOCABULARY = ROOT / "schemas/freezeframe_schemas/genai.py"


def vocabulary() -> list[str]:
    """Return the attribute names in `freezeframe_schemas.genai`."""
    return [
        node.value.value
        for node in ast.walk(ast.parse(VOCABULARY.read_text()))
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)+", node.value.value)
    ]


OURS = {name.split(".")[1] for name in vocabulary() if name.startswith("freezeframe.")}
"""The second words of our own names (``exchange``, ``entry``), which mark attributes, not modules or context variables."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: the list of the project's files is git's")
    return [path for item in listed.stdout.decode().split("\0") if item and (path := ROOT / item).is_file()]


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def docstrings(tree: ast.AST) -> set[int]:
    """Return the ids of the string nodes that are documentation: a string that is a whole statement."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}


def is_attribute(text: str) -> bool:
    if text.startswith("gen_ai."):
        return True
    words = text.split(".")
    return words[0] == "freezeframe" and len(words) > 1 and words[1] in OURS and re.fullmatch(r"[a-z0-9_.]+", text) is not None


_BEGINS_AS_ONE = re.compile(r"""["'](?:gen_ai|freezeframe)\.""")


def attribute_strings(path: Path) -> list[str]:
    source = path.read_text()
    if not _BEGINS_AS_ONE.search(source):  # parsing every module takes seconds
        return []
    tree = ast.parse(source, filename=str(path))
    ignored = docstrings(tree)
    return [
        f"{name(path)}:{node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in ignored
        and is_attribute(node.value)
    ]


def test_attribute_names_come_from_the_vocabulary() -> None:
    """A quoted attribute name outside `freezeframe_schemas.genai` would drift from it unseen."""
    assert [found for path in MODULES if path != VOCABULARY for found in attribute_strings(path)] == []


def test_the_vocabulary_names_each_attribute_once() -> None:
    """Two constants for one attribute are one too many."""
    names = vocabulary()
    assert sorted({item for item in names if names.count(item) > 1}) == []


@dataclass(frozen=True, slots=True)
class Facts:
    """What a module's tree holds that the tests here ask for. The trees of all modules would take a gigabyte."""

    identifiers: Set[str]
    """Names in code, and the words of texts that are not documentation."""
    quoted: Sequence[tuple[int, str]]
    """Line and word of each name in single backticks in a docstring."""
    long_functions: Sequence[str]


@cache
def facts(path: Path) -> Facts:
    """Return the facts of a module, which is parsed once."""
    found: set[str] = set()
    quoted: list[tuple[int, str]] = []
    long_functions: list[str] = []
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):  # a statement comes before its string
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as string):
                documentation.add(id(string))
                quoted += [(string.lineno, word) for word in re.findall(r"(?<!`)`([A-Za-z_*][\w.*]*)`(?!`)", text)]
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.keyword(arg=str(word)):
                found.add(word)
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word):
                found.add(word)
                if (node.end_lineno or 0) - node.lineno >= 60:
                    long_functions.append(f"{name(path)}: {word}")
            case ast.ClassDef(name=word):
                found.add(word)
            case ast.alias(name=word):
                found.update(word.split("."))
            case ast.Constant(value=str(text)) if id(node) not in documentation:
                found.update(re.findall(r"\w+", text))
            case _:
                pass
    return Facts(found, quoted, long_functions)


def is_known(word: str, known: set[str]) -> bool:
    """Return whether a name, or a pattern like ``*_routes``, is that of a module or of something in one."""
    parts = [part for part in word.removesuffix(".py").split(".") if part]
    return all(
        any(map(re.compile(part.replace("*", ".*")).fullmatch, known)) if "*" in part else part in known for part in parts
    )


@pytest.mark.proof
@pytest.mark.long
def test_a_name_in_backticks_in_a_docstring_exists() -> None:
    """Single backticks are for names of ours: a module, or something in one. Those of others have double ones."""
    known = set[str]().union(*(facts(path).identifiers for path in MODULES))
    for path in [*MODULES, *(ROOT / "tests").rglob("test_*.py")]:
        known |= {path.stem, path.parent.name, *re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)}
    unknown = [
        f"{name(path)}:{line}: {word}" for path in MODULES for line, word in facts(path).quoted if not is_known(word, known)
    ]
    assert unknown == []


def test_no_place_but_the_dialects_knows_a_providers_host() -> None:
    """Rule 2 of the architecture: a provider is known in `freezeframe_schemas.wire` only."""
    hosts = [re.compile(provider.hosts, re.IGNORECASE) for provider in PROVIDERS if provider.name != "ollama"]
    elsewhere = [
        f"{name(path)}: {host}"
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.parent.name != "wire"
        for host in re.findall(r"[\w.-]+\.(?:com|ai|sh|co|cn|xyz)\b", path.read_text())
        if any(pattern.fullmatch(host) for pattern in hosts)
    ]
    assert elsewhere == []


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    """A module is named after what it does."""
    drawers = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}
    assert [
        name(path) for path in MODULES if {part.strip("_") for part in path.relative_to(ROOT).with_suffix("").parts} & drawers
    ] == []


def test_every_module_says_what_it_is_for() -> None:
    """Each module opens with a docstring."""
    assert [name(path) for path in MODULES if not re.match(r'(#.*\n)*("""\S|$)', path.read_text())] == []


def test_a_module_over_600_lines_says_why_it_is_long() -> None:
    """Split it, or give the reason in its docstring, with the word "long"."""
    long = {
        name(path): lines
        for path in MODULES
        if (lines := path.read_text().count("\n")) > 600 and not re.search(r"\blong\b", docstring(path))
    }
    assert long == {}


@pytest.mark.proof
@pytest.mark.long
def test_no_function_has_over_60_lines_and_no_line_over_160_characters() -> None:
    assert [function for path in MODULES for function in facts(path).long_functions] == []
    wide = [name(path) for path in MODULES if max(map(len, path.read_text().splitlines()), default=0) > 160]
    assert wide == []


def test_every_package_is_typed() -> None:
    """Without the marker a user's type checker reads none of the annotations."""
    assert [name(package) for package in PACKAGES if not (package / "py.typed").is_file()] == []


# Spelt in pieces, so that this file does not find itself.
MACHINE_PATHS = re.compile(
    r"(?<![\w.{}$<>-])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "fa" + "rm", "home/[a-z]+", "Us" + "ers/[a-z]+"]) + r")/"
)
TEMPORARY = re.compile(r"(?<![\w.{}$<>-])/t" + r"mp/\w")
REGISTRY_HOSTS = re.compile(
    "|".join([r"pypi\." + "org", r"files\.python" + "hosted", r"registry\." + "npmjs", r"deb\." + "debian"])
)
OTHERS_WORDS = ("tests/data/", "tests/golden/", "collector/freezeframe_redaction/lexicon/")
"""Recorded data, which holds whatever paths its programs printed."""


def test_no_file_names_this_machine() -> None:
    """A path of one machine, or the host of a package registry, is wrong on every other."""
    found: list[str] = []
    for path in tracked_files():
        if name(path).startswith(OTHERS_WORDS) or path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATHS.search(line) or TEMPORARY.search(line) or REGISTRY_HOSTS.search(line):
                found.append(f"{name(path)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_a_class_name_has_one_meaning() -> None:
    """Who reads a name need not look at an import to know what it means."""
    modules = [path for package in PACKAGES for path in package.rglob("*.py")]
    names = [re.findall(r"^class ([A-Z]\w*)", path.read_text(), re.MULTILINE) for path in modules]
    found = Counter(name for these in names for name in these)
    assert [name for name, times in found.items() if times > 1] == []
