"""Cells: the same code and other code, and the cells that an unfinished experiment leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from freezeframe_replay.experiments.cells import CellFolder, code_digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with code, a prompt, and files that are neither."""
    for name in ("agent.py", "prompts/a.json", "set/dataset.json", "out.json", "run.log", ".cache/x", "venv/lib.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    return tmp_path


CODE = {"agent.py": True, "prompts/a.json": True, "new.py": True}
NO_CODE = {"set/dataset.json": False, "out.json": False, "run.log": False, ".cache/x": False, "venv/lib.py": False}


def digest(folder: Path) -> str:
    return code_digest(folder, but=(folder / "set", folder / "out.json"))


@pytest.mark.parametrize(("name", "counts"), [*CODE.items(), *NO_CODE.items()])
def test_outside_git_every_file_is_code_that_is_not_hidden_installed_or_a_result(folder: Path, name: str, counts: bool) -> None:
    before = digest(folder)
    (folder / name).write_text("2")
    assert (digest(folder) != before) is counts


@pytest.mark.long
def test_in_git_the_commit_and_what_is_not_committed_are_the_code(folder: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)

    (folder / ".gitignore").write_text("venv\n.cache\n")
    git("init", "-q")
    git("add", "agent.py", "set")
    git("commit", "-qm", "a")
    seen = {digest(folder)}
    for name in NO_CODE:
        (folder / name).write_text("2")
    assert digest(folder) in seen
    for name in CODE:
        (folder / name).write_text("2")
        assert digest(folder) not in seen
        seen.add(digest(folder))
    git("commit", "-qam", "b")
    assert digest(folder) not in seen
    assert code_digest(folder / "prompts", but=(folder / "set", folder / "out.json")) == digest(folder)


def test_a_finished_experiment_leaves_the_cells_of_others(tmp_path: Path) -> None:
    one, other = CellFolder(tmp_path), CellFolder(tmp_path)
    one.keep({"a": 1}, "replay", 1)
    other.keep({"b": 2}, "replay", 2)
    assert CellFolder(tmp_path).find("replay", 1) == {"a": 1}
    one.finish()
    assert CellFolder(tmp_path).find("replay", 1) is None
    assert CellFolder(tmp_path).find("replay", 2) == {"b": 2}
    other.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_fresh_experiment_sees_no_cell_but_its_own(tmp_path: Path) -> None:
    CellFolder(tmp_path).keep(1, "old")
    fresh = CellFolder(tmp_path, fresh=True)
    assert fresh.find("old") is None
    fresh.keep(2, "old")
    assert fresh.find("old") == 2


def test_a_dataset_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    cells = CellFolder(tmp_path / "gone")
    cells.keep(1, "a")
    assert "unfinished" in cells.unwritable
    assert cells.find("a") is None
    cells.finish()
