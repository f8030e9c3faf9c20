"""``docs/internals/walk.md`` names files, and classes and functions in them, that exist; so do messages that name a page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"`([\w/]+\.py)::([\w.]+)`")


def names_of(path: Path) -> set[str]:
    """Return the top-level names of a module, and the methods of its classes as ``Class.method``."""
    names: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def test_every_place_of_the_walk_exists() -> None:
    places = PLACE.findall((ROOT / "docs" / "internals" / "walk.md").read_text("utf-8"))
    assert len(places) > 20
    assert [(file, name) for file, name in places if not (ROOT / file).is_file() or name not in names_of(ROOT / file)] == []


def test_pages_that_code_and_tests_name_exist() -> None:
    folders = ("schemas", "instrumentation", "collector", "replay", "deploy", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".toml", ".yaml"}]
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for path in files
        for page in re.findall(r"(?<![\w/])docs/[\w/-]+\.md", path.read_text("utf-8"))
        if "Source:" not in path.read_text("utf-8").partition(page)[0][-200:]
    }
    assert sorted((file, page) for file, page in named if not (ROOT / page).is_file()) == []
