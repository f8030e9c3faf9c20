"""`freezeframe demo` before the story begins: which file it becomes, and what it says if a part is missing."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from freezeframe_replay.cli import demo, main

ROOT = Path(__file__).parents[2]


class Became(BaseException):
    """The process would be another program now."""


@pytest.mark.proof("command demo")
def test_the_command_becomes_the_story_of_the_source_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """tests/demo plays it to its end."""

    def become(path: str, words: list[str]) -> None:
        raise Became(words)

    monkeypatch.setattr(os, "execv", become)
    with pytest.raises(Became) as became:
        main(["demo", "--directory", str(tmp_path)])
    story = ROOT / "examples/order_lookup/demo.py"
    assert became.value.args[0] == [sys.executable, str(story), "--directory", str(tmp_path)]


def test_a_wheel_and_an_sdist_hold_the_story() -> None:
    """Beside the package, where the command looks first."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["force-include"] == {"examples/order_lookup": "freezeframe_replay/order_lookup"}
    assert "/examples/order_lookup" in build["sdist"]["include"]


def test_a_missing_part_is_named_with_the_install_of_this_copy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def find(name: str) -> str | None:
        return None if name == "chdb" else name

    monkeypatch.setattr(demo, "find_spec", find)
    assert main(["demo"]) == 1
    said = capsys.readouterr().err
    assert "not installed: chdb" in said
    assert re.search(r"pip install .*\[demo\]", said)


def test_the_extra_names_each_library_that_the_story_imports() -> None:
    """What only another package brings along may be gone tomorrow. langgraph is for one variant, played in a clone."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {re.split(r"[>=\[]", line)[0] for line in extra["demo"] + extra["ui"]}
    files = sorted((ROOT / "examples/order_lookup").glob("*.py"))
    imported = {word for file in files for word in re.findall(r"^(?:import|from) (\w+)", file.read_text(), flags=re.MULTILINE)}
    foreign = imported - sys.stdlib_module_names - {file.stem for file in files}
    left_out = ("freezeframe", "langgraph", "langchain_")
    assert [name for name in sorted(foreign - named) if not name.startswith(left_out)] == []
