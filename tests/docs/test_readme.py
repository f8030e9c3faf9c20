"""The README's first steps, followed literally."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe.seams import SEAMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CAPTURE = (ROOT / "docs/capture.md").read_text()


@pytest.mark.proof
@pytest.mark.long
def test_the_lines_of_code_run(tmp_path: Path) -> None:
    """The Python block, with spans to a file in place of a collector; and one call, so that there is a run."""
    block = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert block is not None
    program = tmp_path / "agent.py"
    program.write_text(f"{block[1]}\nanswer('where is my order?')\n")
    environment = {"FREEZEFRAME_FILE": str(tmp_path / "spans.jsonl"), "PATH": ""}
    subprocess.run([sys.executable, program], cwd=tmp_path, env=environment, check=True)
    assert "__main__:answer" in (tmp_path / "spans.jsonl").read_text()


def test_the_readme_is_a_screen_and_a_half_with_one_picture() -> None:
    """What does not fit is in the pages that it links."""
    lines = README.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120
    assert README.count("![") == 1


def test_the_table_of_what_is_captured_names_every_seam() -> None:
    captured = CAPTURE.partition("## What is captured")[2].partition("## What is not")[0].lower()
    written = {"llama-index-core": "llamaindex", "langchain-core": "langchain", "pydantic-ai-slim": "pydantic-ai"}
    written |= {"google-adk": "google adk", "strands-agents": "strands"}
    missing = {seam.distribution for seam in SEAMS if written.get(seam.distribution, seam.distribution) not in captured}
    assert missing == set()


def test_no_library_is_named_both_as_captured_and_as_not() -> None:
    """Once a seam exists, the line that says otherwise must go."""
    uncaptured = CAPTURE.partition("## What is not")[2].partition("## ")[0].lower()
    lines = [line for line in uncaptured.splitlines() if "not in the table" not in line]
    wrong = {seam.distribution for seam in SEAMS if re.search(rf"\b{seam.distribution.lower()}\b", "\n".join(lines))}
    assert wrong == set()
