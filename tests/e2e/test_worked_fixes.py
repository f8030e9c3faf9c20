"""The examples of docs/guides/prove-a-fix.md, as a reader does them: red before the fix, green after it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from any_provider import AnyProvider

from freezeframe_replay.cli import main

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

PAGE = Path(__file__).parents[2] / "docs/guides/prove-a-fix.md"


class Example(NamedTuple):
    """One bug of the page."""

    agent: str
    old: str
    new: str
    says: str


def examples() -> Iterator[tuple[str, Example]]:
    """Yield each with its heading."""
    first, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    head = re.findall(r"```python\n(.*?)```", first, re.DOTALL)[0]
    for section in sections:
        code, says = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)
        fix = re.search(r"Fix: `([^`]+)` becomes `([^`]+)`", section)
        assert fix is not None
        yield section.splitlines()[0], Example(head + "\n" + code, fix[1], fix[2], says.strip())


EXAMPLES = dict(examples())


def check(folder: Path) -> tuple[int, str]:
    """Run the test of the fixture; return the exit status, and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "bug"],
        cwd=folder, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_page_has_five_examples() -> None:
    assert list(EXAMPLES) == ["A tool that raised", "A tool that returned the wrong thing", "A prompt", "A loop", "A parser"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_test_of_a_recorded_bug_is_red_before_the_fix_and_green_after_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES[name]
    agent = tmp_path / "agent.py"
    agent.write_text(example.agent)
    with AnyProvider() as provider:
        variables = {**os.environ, **provider.variables(), "FREEZEFRAME_FILE": "spans.jsonl"}
        subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=variables, capture_output=True, timeout=400, check=False)
    monkeypatch.chdir(tmp_path)
    assert main(["fixture", "spans.jsonl", "-o", "bug", "--pytest"]) == 0
    status, printed = check(tmp_path)
    assert (status, "the code still does the same" in printed) == (1, True), printed
    assert example.agent.count(example.old) == 1
    agent.write_text(example.agent.replace(example.old, example.new))
    status, printed = check(tmp_path)
    assert status == 0, printed
    capsys.readouterr()
    assert main(["replay", "bug", "--run-changed", "--quiet"]) == 3
    assert capsys.readouterr().out.startswith(example.says)
