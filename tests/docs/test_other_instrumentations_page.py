"""``docs/other-instrumentations.md``: what is read of each recorded scenario, and what becomes of its runs.

To accept a change of the golden files: ``python tests/docs/test_other_instrumentations_page.py`` writes the page; read the
difference as text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "other-instrumentations.md"
CALLS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "calls.json").read_text(encoding="utf-8"))
RUNS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "foreign_runs.json").read_text(encoding="utf-8"))
IN_NODE: dict[str, dict[str, int]] = json.loads((ROOT / "tests" / "golden" / "foreign_runs_in_node.json").read_text())
MARK: Final = re.compile(r"^Of \d+ scenarios, ", re.MULTILINE)
"""Begins what the golden files decide."""
OFTEN: Final = 3


def summary() -> str:
    """Return what the golden files say of all scenarios together."""
    right = sum(not call["lost"] for call in CALLS.values())
    number = sum(not any(" calls of " in text for text in call["lost"]) for call in CALLS.values())
    runs, reenacted = (sum(run[name] for run in RUNS.values()) for name in ("runs", "reenacted"))
    ways = ("whole", "streamed", "changed result", "changed question")
    of_node = sum(run["runs"] for run in IN_NODE.values())
    in_node = ", ".join(f"{sum(run[way] for run in IN_NODE.values())} ({way})" for way in ways)
    return (
        f"Of {len(CALLS)} scenarios, {number} have the right number of calls, and {right} every value of each call. "
        f"Of {runs} runs, {reenacted} are re-enacted.\n"
        f"Agents in JavaScript, on npm's openai and anthropic SDKs, asked {of_node} runs again through the server; "
        f"as expected ended {in_node}.\n"
    )


def table() -> str:
    """Return the table as it should be. What several scenarios lack alike is a number, explained below."""
    often = Counter(text for run in RUNS.values() for text in run["ledger"])
    notes = [text for text, times in often.most_common() if times > OFTEN]
    lines = [
        "| scenario | calls counted | not reported of a call | runs re-enacted | not held, and where it is taken from |",
        "|---|---|---|---|---|",
    ]
    for scenario, call in CALLS.items():
        lost = [text for text in call["lost"] if " calls of " not in text]
        miscounted = [text.replace(" calls", "") for text in call["lost"] if " calls of " in text]
        run = RUNS[scenario]
        refused = f" ({run['refused']} refused)" if run["refused"] else ""
        reenacted = f"{run['reenacted']} of {run['runs']}{refused}" if run["runs"] else "no model call on a span"
        not_held = (
            "; ".join(f"({notes.index(text) + 1})" if text in notes else text for text in run["ledger"]) if run["runs"] else ""
        )
        counted = miscounted[0] if miscounted else "✓"
        lines.append(f"| {scenario} | {counted} | {', '.join(lost).replace('_', ' ')} | {reenacted} | {not_held} |")
    return "\n".join([*lines, "", *(f"{number}. {text}" for number, text in enumerate(notes, 1))]) + "\n"


def page(text: str) -> str:
    """Return the page with what the golden files decide."""
    return f"{MARK.split(text)[0]}{summary()}\n{table()}"


def test_the_page_has_what_the_golden_files_give() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)
    assert text.startswith("# ")


def test_no_changed_question_was_answered() -> None:
    assert not any(run["answered_if_changed"] for run in RUNS.values())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
