"""``docs/foreign-calls.md``: what the store reads of each recorded scenario, according to the golden file of calls.

To accept a change: delete the page, run the test, which writes it and fails once, and read the difference as text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "foreign-calls.md"
GOLDEN: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "calls.json").read_text(encoding="utf-8"))
COLUMNS: Final = {
    "tokens": ("tokens",),
    "cost": ("cost",),
    "prompt and answer": ("request", "response"),
    "finish reasons": ("finish_reasons",),
    "model asked for": ("model_requested",),
    "model that answered": ("model_answered",),
}
INTRODUCTION: Final = """\
# Model calls of other instrumentations

This page compares what `model_calls`, `runs` and `tool_calls` hold of each recorded conversation with what the provider
really answered (`tests/data/otlp/truth.json`). A test stores the recorded requests, and writes this page from the
result. Of {scenarios} scenarios, {number} have the right number of calls, and {right} have everything.

A scenario is named `client-api-instrumentation`: `oi` OpenInference, `tl` OpenLLMetry, `ls` LangSmith, `genai`
OpenTelemetry's own; `twice` means that a framework and an SDK are both instrumented. A minus means that the value
differs, because the sender does not report it on the spans and log records of its calls. smolagents has some of it in
the text of a Python object, and LlamaIndex and ADK through OpenInference have it on spans of the workflow or the agent;
neither is read. SDKs alone report no tools or agents.

`codexcli`, `geminicli` and `claudecode` are [coding agents](guides/coding-agents.md). `claudecode-session-native` was
recorded; `claudecode-msg-written` was written field by field from Claude Code's documentation.

"""


def page() -> str:
    """Return the page as it should be."""
    right = sum(not found["lost"] for found in GOLDEN.values())
    number = sum(not any(" calls of " in text for text in found["lost"]) for found in GOLDEN.values())
    lines = [
        *INTRODUCTION.format(scenarios=len(GOLDEN), number=number, right=right).splitlines(),
        f"| scenario | number | {' | '.join(COLUMNS)} | tool calls | agent |",
        f"|---|---|{'---|' * len(COLUMNS)}---|---|",
    ]
    for scenario, found in GOLDEN.items():
        miscounted = [text for text in found["lost"] if " calls of " in text]
        cells = [miscounted[0].replace(" calls", "") if miscounted else "✓"]
        cells += ["−" if miscounted or set(parts) & set(found["lost"]) else "✓" for parts in COLUMNS.values()]
        cells += [str(found["tools"] or ""), ", ".join(found["agents"])]
        lines.append(f"| {scenario} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_page_says_what_the_golden_file_of_calls_says() -> None:
    if not PAGE.exists():
        PAGE.write_text(page(), encoding="utf-8")
        pytest.fail("wrote the page")
    assert PAGE.read_text(encoding="utf-8") == page()
