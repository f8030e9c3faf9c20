"""SECURITY.md: each row of its table names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| (?!who or what|---).*$", (ROOT / "SECURITY.md").read_text(), flags=re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)`: `(test_\w+)`")


def test_each_row_names_a_test() -> None:
    found = {row: NAMED.search(row) for row in ROWS}
    assert [row for row, named in found.items() if named is None] == []
    named = [match.groups() for match in found.values() if match]
    assert named
    assert [test for file, test in named if f"def {test}(" not in (ROOT / file).read_text()] == []
