"""``docs/foreign-runs.md``: what becomes of each recorded scenario of another instrumentation, according to the golden file.

To accept a change: write the page with ``python tests/docs/test_foreign_runs_page.py``, and read the difference as text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "foreign-runs.md"
GOLDEN: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "foreign_runs.json").read_text(encoding="utf-8"))
MARK: Final = "| scenario |"


def table() -> str:
    """Return the table as it should be."""
    lines = ["| scenario | runs | re-enacted | what its spans do not hold, and where it is taken from |", "|---|---|---|---|"]
    for scenario, found in GOLDEN.items():
        if not found["runs"]:
            what = "reports no model call on a span"
        else:
            what = "; ".join(found["ledger"])
        refused = f" ({found['refused']} refused)" if found["refused"] else ""
        lines.append(f"| {scenario} | {found['runs']} | {found['reenacted']}{refused} | {what} |")
    total = sum(found["runs"] for found in GOLDEN.values()), sum(found["reenacted"] for found in GOLDEN.values())
    return "\n".join([*lines, f"| all | {total[0]} | {total[1]} | |"]) + "\n"


def test_the_page_has_the_table_that_the_golden_file_gives() -> None:
    before, mark, found = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark + found == table()
    assert before.startswith("# ")


def test_no_changed_question_was_answered() -> None:
    assert not any(found["answered_if_changed"] for found in GOLDEN.values())


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(MARK)[0] + table(), encoding="utf-8")
