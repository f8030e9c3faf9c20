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
IN_NODE: dict[str, dict[str, int]] = json.loads((ROOT / "tests" / "golden" / "foreign_runs_in_node.json").read_text())
MARK: Final = "| scenario |"
IN_NODE_MARK: Final = "| instrumentation |"
INSTRUMENTATIONS: Final = {
    "OpenInference": ("oi", "oiold"),
    "OpenLLMetry": ("tl", "tlold"),
    "both of them at once": ("oitl",),
    "OpenTelemetry's GenAI instrumentations": ("genai", "v2old"),
    "Logfire": ("logfire",),
    "LangSmith": ("ls",),
    "MLflow": ("autolog",),
    "the framework itself (Pydantic AI, Vercel AI SDK, ADK, Strands, Semantic Kernel)": ("native", "latest", "v1", "aisdk6"),
}
"""What the last words of the scenarios' names mean."""


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


def table_in_node() -> str:
    """Return the table of the runs that agents in JavaScript asked again."""
    ways = ("runs", "whole", "streamed", "changed result", "changed question")
    lines = ["| instrumentation | runs | whole | streamed | changed result named | changed question not answered |"]
    rows = [[name, *(sum(IN_NODE[word][way] for word in words) for way in ways)] for name, words in INSTRUMENTATIONS.items()]
    rows.append(["all", *(sum(row[way] for row in IN_NODE.values()) for way in ways)])
    return "\n".join([*lines, "|---|---|---|---|---|---|", *(f"| {' | '.join(map(str, row))} |" for row in rows)]) + "\n\n"


def page(text: str) -> str:
    """Return the page with both tables as they should be."""
    before, _, after = text.partition(IN_NODE_MARK)
    between = after.partition("\n\n")[2].partition(MARK)[0]
    return f"{before}{table_in_node()}{between}{table()}"


def test_the_page_has_the_tables_that_the_golden_files_give() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)
    assert text.startswith("# ")


def test_no_changed_question_was_answered() -> None:
    assert not any(found["answered_if_changed"] for found in GOLDEN.values())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
