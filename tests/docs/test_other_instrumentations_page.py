"""``docs/other-instrumentations.md``: what is read of each recorded scenario, and what becomes of its runs.

To accept a change of the golden files: ``PYTHONPATH=tests/support python tests/docs/test_other_instrumentations_page.py``
writes the page; read the difference as text.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from senders.results import load_results
from senders.table import SENDERS

from freezeframe_schemas import genai
from freezeframe_schemas.otlp.decode import Limits, decode_traces
from freezeframe_schemas.otlp.logs import decode_json_logs, decode_logs
from freezeframe_schemas.span import SpanRecord, StatusCode
from freezeframe_schemas.vendors.normalise import normalise

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "other-instrumentations.md"
CALLS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "calls.json").read_text(encoding="utf-8"))
RUNS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "foreign_runs.json").read_text(encoding="utf-8"))
IN_NODE: dict[str, dict[str, int]] = json.loads((ROOT / "tests" / "golden" / "foreign_runs_in_node.json").read_text())
MARK: Final = re.compile(r"^Of \d+ scenarios, ", re.MULTILINE)
"""Begins what the golden files decide."""
RECORDED: Final = ROOT / "tests" / "data" / "otlp"
FIELDS: Final = {
    "session": {genai.SESSION_ID, genai.CONVERSATION_ID},
    "user": {genai.USER_ID},
    "agent": {genai.AGENT_NAME},
    "tool": {genai.TOOL_CALL_RESULT},
    "retrieval": {genai.RETRIEVAL_QUERY},
    "finish reason": {genai.RESPONSE_FINISH_REASONS},
    "cost": {genai.USAGE_COST_USD},
}
"""A column -> the attributes that stand for it after the collector has read a span."""
ERROR: Final = "error"
OF_THE_CLIENT: Final = ("native", "latest", "v1", "oi")
"""Instrumentations that differ by what they instrument."""
ABOUT_FIELDS: Final = """## Fields

✓: at least one span of the recorded scenarios has it. An empty cell means that none has: the sender does not send it, or the
recorded agent did not do it (most had no error, no retrieval and no user).
"""
ABOUT_SENDERS: Final = """## Today's senders

`make test-senders` installs each in an environment of its own. A small agent with one tool asks a provider on loopback that
answers with recorded bytes; its spans go to a real collector, and the same agent asks again what is in the store. *calls*:
stored, of those made. *tool*, *agent*: spans report it. *error*: the class that is stored of a call that the provider refused.
*again*: asked again, the verdict is *same in meaning, reconstructed*. With one word of the question changed, none got an
answer. A row without calls is of an instrumentation that leaves them to that of the SDK. OpenLLMetry adds the tokens with which
a stream of Anthropic begins to its final count, and sends the word `replies` for the messages of Haystack.
MLflow sent nothing with these settings. Not repaired: a stream of Logfire counts twice, a call of LangSmith's in LangGraph
too, and OpenLIT's openai diverges.
"""


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
    """Return the scenarios that hold everything, and the table of the others. `freezeframe show` lists what a run lacks."""
    whole: list[str] = []
    lines = ["| scenario | not reported of a call | runs re-enacted |", "|---|---|---|"]
    for scenario, call in CALLS.items():
        run = RUNS[scenario]
        refused = f" ({run['refused']} refused)" if run["refused"] else ""
        reenacted = f"{run['reenacted']} of {run['runs']}{refused}" if run["runs"] else "no model call on a span"
        if run["runs"] == run["reenacted"] > 0 and not call["lost"]:
            whole.append(scenario)
        else:
            lines.append(f"| {scenario} | {', '.join(call['lost']).replace('_', ' ')} | {reenacted} |")
    return f"All is reported, and every run re-enacted, of {', '.join(whole)}. Of the others:\n\n" + "\n".join(lines) + "\n"


def spans_of(folder: Path) -> Iterator[SpanRecord]:
    """Yield the spans and log records of a recorded scenario, as the collector stores them."""
    for path in sorted(folder.iterdir()):
        if path.name.endswith(".traces.pb"):
            spans = decode_traces(path.read_bytes()).spans
        else:
            decode = decode_logs if path.suffix == ".pb" else decode_json_logs
            spans = decode(path.read_bytes(), Limits()).events.spans
        yield from map(normalise, spans)


def fields_table() -> str:
    """Return the table of what else each sender's spans hold, found in the recorded scenarios."""
    senders: defaultdict[str, set[str]] = defaultdict(set)
    for folder in sorted(path for path in RECORDED.iterdir() if path.is_dir()):
        client, _, instrumentation = folder.name.split("-")
        sender = f"{instrumentation} ({client})" if instrumentation in OF_THE_CLIENT else instrumentation
        for span in spans_of(folder):
            senders[sender] |= {field for field, names in FIELDS.items() if not names.isdisjoint(span.attributes)}
            senders[sender] |= {ERROR} if span.status_code is StatusCode.ERROR else set()
    columns = [*FIELDS, ERROR]
    lines = [f"| sender | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [
        f"| {sender} | {' | '.join('✓' if field in found else '' for field in columns)} |"
        for sender, found in sorted(senders.items())
    ]
    return "\n".join(lines) + "\n"


def senders_table() -> str:
    """Return the table of the senders that `make test-senders` installs, with what was found of each."""
    mark = {True: "✓", False: ""}
    lines = ["| sender | watches | calls | tokens | tool | agent | error | again |", "|---|---|---|---|---|---|---|---|"]
    results = load_results()
    for name in SENDERS:
        if name not in results:  # a table lists what was tried
            continue
        watched = name.rpartition(": ")[2]
        found = results[name]["found"]
        marks = " | ".join(mark[found[field]] for field in ("tokens", "tool", "agent"))
        again = found["re-enacted"].partition("\n")[0]
        again = mark[True] if again == "same in meaning, reconstructed" else again
        error = found["error"].rpartition(".")[2].strip("'>")
        lines.append(f"| {results[name]['version']} | {watched} | {found['calls']} | {marks} | {error} | {again} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the page with what the golden files decide."""
    parts = (summary(), table(), ABOUT_FIELDS, fields_table(), ABOUT_SENDERS, senders_table())
    return MARK.split(text)[0] + "\n".join(parts)


def test_the_page_has_what_the_golden_files_give() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)
    assert text.startswith("# ")


def test_no_changed_question_was_answered() -> None:
    assert not any(run["answered_if_changed"] for run in RUNS.values())


def test_no_changed_question_of_a_sender_was_answered() -> None:
    assert not any(row["found"]["answered if changed"] for row in load_results().values())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
