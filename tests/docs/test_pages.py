"""What the pages name exists: files, links, extras, commands with their options, make targets."""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from cli_page import parser_of

from freezeframe_replay.cli.commands import HIDDEN, SUMMARIES, TOP
from freezeframe_replay.mcp.skill import skill_text

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*"), *ROOT.glob("examples/**/*.md")]
    if path.is_file() and path.name != "template.md"
)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_of(path: Path) -> list[str]:
    """Return the pieces of a page that are set as code: fenced lines and backticks; of any other file, its lines."""
    text = path.read_text()
    if path.suffix != ".md":
        return text.splitlines()
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in fenced for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", rest)


def extras_named_in(text: str) -> set[str]:
    groups = [*re.findall(r"freezeframe\[([a-z, ]+)\]", text), *re.findall(r"install_command\(([\"'][\"'a-z, ]+)\)", text)]
    return {extra.strip(" \"'") for group in groups for extra in group.split(",")}


@pytest.mark.parametrize("page", [path for path in PAGES if path.suffix == ".md"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [path for path in PAGES if path.suffix == ".md"], ids=name)
def test_links_into_a_page_lead_to_a_heading(page: Path) -> None:
    anchors = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    pages = [((page.parent / target) if target else page, anchor) for target, anchor in anchors]
    assert [anchor for target, anchor in pages if target.suffix == ".md" and anchor not in anchors_of(target)] == []


def anchors_of(page: Path) -> set[str]:
    """Return the names that a forge gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_found_from_the_first_one() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = [page for page in ROOT.glob("docs/**/*.md") if page.parent.name not in {"cli", "decisions"}]
    named = {page.relative_to(ROOT / "docs").as_posix() for page in pages} - {"index.md"}
    assert [page for page in sorted(named) if f"({page})" not in index] == []


def test_measurements_with_a_date_are_not_on_the_pages_of_users() -> None:
    """They are in `docs/internals/measured.md`, the newest alone."""
    pages = [path for path in ROOT.glob("docs/**/*.md") if path.parent.name not in {"decisions", "internals"}]
    dated = [(name(page), date) for page in pages for date in re.findall(r"\b20\d\d-\d\d-\d\d\b", prose_of(page))]
    assert dated == []


def prose_of(page: Path) -> str:
    """Return a page without what is set as code."""
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def test_extras_are_declared() -> None:
    """`pip install 'freezeframe[...]'` of another, on a page or in a message, would warn and install nothing."""
    declared = set(PYPROJECT["project"]["optional-dependencies"])
    code = [path for folder in ("schemas", "instrumentation", "collector", "replay") for path in (ROOT / folder).rglob("*.py")]
    named = {extra: name(path) for path in [*PAGES, *code] for extra in extras_named_in(path.read_text())}
    assert {extra: path for extra, path in named.items() if extra not in declared} == {}


BY_ITS_BARE_NAME = (
    r"(?:\b(?:pip3?|pipx|uv)(?: pip| tool)? install|\buvx|\bpipx run)(?: -[-\w]+)*"
    r" ['\"]?freezeframe(?:\[[\w,]+\])?['\"]?(?! @)(?=$|[\s'\"`;)])"
)


def test_nothing_installs_this_package_from_an_index() -> None:
    """Whoever takes the name there first would decide what runs (docs/decisions/0198-no-message-names-an-index.md)."""
    code = [path for folder in ("schemas", "instrumentation", "collector", "replay") for path in (ROOT / folder).rglob("*.*")]
    texts = [
        path for path in [*PAGES, *code] if path.suffix in {".py", ".sh", ".toml", ".yml", ".yaml", ".html", ".md", ".txt"}
    ]
    texts = [path for path in texts if "decisions" not in path.parts]
    assert [name(path) for path in texts if re.search(BY_ITS_BARE_NAME, path.read_text(), flags=re.MULTILINE)] == []
    for typed in (
        "pip install freezeframe",
        "pip install 'freezeframe[ui]'",
        "uv pip install -U freezeframe",
        "uvx freezeframe",
    ):
        assert re.search(BY_ITS_BARE_NAME, typed), typed
    for typed in (
        "pip install '/path/to/freezeframe[ui]'",
        "pip install 'freezeframe[ui] @ file:///x'",
        "uvx --from 'W[demo]' x",
    ):
        assert not re.search(BY_ITS_BARE_NAME, typed), typed


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page: Path) -> None:
    known = {*TOP, *HIDDEN, "COMMAND", *re.findall(r'^\+ +"([a-z]+)": "', page.read_text(), flags=re.MULTILINE)}  # that it adds
    named = {match for code in code_of(page) for match in re.findall(r"(?:^|[\s`])freezeframe ([a-z]+)\b", code)}
    assert named - known == set()


@pytest.fixture(scope="module")
def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, and of each action of one: ``store pin``."""
    made = {name: parser_of(name) for name in SUMMARIES}
    for command, parser in list(made.items()):
        for actions in (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)):
            made.update({f"{command} {action}": choice for action, choice in actions.items()})
    return made


def command_of(words: list[str], parsers: dict[str, argparse.ArgumentParser]) -> str:
    """Return the command that words begin with, or an empty string."""
    return next((name for name in (" ".join(words[:length]) for length in (3, 2, 1)) if name in parsers), "")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_options_of_commands_exist(page: Path, parsers: dict[str, argparse.ArgumentParser]) -> None:
    unknown: set[str] = set()
    for typed in (match for code in code_of(page) for match in re.findall(r"(?:^|[\s`])freezeframe ([a-z][^|;&>#`]*)", code)):
        words = typed.split(" -- ")[0].split()
        if named := command_of(words, parsers):
            known = {option for action in parsers[named]._actions for option in action.option_strings}
            unknown |= {
                f"{named} {word}" for word in words[len(named.split()) :] if re.match(r"--[a-z]", word) and word not in known
            }
    assert unknown == set()


def test_each_command_of_the_skill_can_be_typed_as_it_stands(parsers: dict[str, argparse.ArgumentParser]) -> None:
    """With a number, JSON and SQL where it has a placeholder for one."""
    placed = {"N": "2", "JSON": "[]", "SQL": "name != ''", "SELECT ...": "SELECT 1"}
    commands = re.findall(r"`(freezeframe [^`]+)` \|$", skill_text(), flags=re.MULTILINE)
    assert len(commands) == 14
    for command in commands:
        words = [placed.get(word, word) for word in shlex.split(command)[1:]]
        named = command_of(words, parsers)
        parsers[named].parse_args(words[len(named.split()) :])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_make_targets_exist(page: Path) -> None:
    known = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {match for code in code_of(page) for match in re.findall(r"(?:^|[\s`])make ([a-z][a-z-]*)", code)}
    benches = {
        f"bench-{path.stem.removeprefix('bench_').replace('_', '-')}" for path in ROOT.glob("tests/benchmarks/bench_*.py")
    }
    assert named - known - benches - {"bench-"} == set()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_are_named_exist(page: Path) -> None:
    """A path from the root, or from a package's own root, to a file of the project."""
    roots = [ROOT, page.parent, *(ROOT / folder for folder in ("schemas", "instrumentation", "collector", "replay"))]
    named = {
        code
        for code in code_of(page)
        if re.fullmatch(r"[a-z_]+(/[a-z_0-9]+)+\.(py|toml|md|json|sql)", code) and not code.startswith("tests/regressions/")
    }
    assert {path for path in named if not any((root / path).is_file() for root in roots)} == set()


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    records = [path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md")]
    assert records
    assert [record for record in records if f"({record})" not in index] == []


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\*\*([^*]+)\.\*\*", (ROOT / "docs/glossary.md").read_text(), flags=re.MULTILINE)
    assert words == sorted(words, key=lambda word: word.lower().replace("-", ""))


def test_the_licence_is_whole() -> None:
    """And it is the one that the package's metadata names."""
    text = (ROOT / "LICENSE").read_text()
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_page_of_the_api_lists_every_route() -> None:
    from freezeframe_replay.service.api import ROUTES

    page = (ROOT / "docs" / "http-api.md").read_text()
    assert re.findall(r"^\| `(\w+ /api/v1[^`]*)` \|", page, re.MULTILINE) == [
        f"{route.method} {route.path}" for route in ROUTES
    ]
