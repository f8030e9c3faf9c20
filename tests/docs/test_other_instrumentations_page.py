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

At least one span of the recorded scenarios has these. What is not named, the sender does not send, or the recorded agent did
not do (most had no error, no retrieval and no user).
"""
ABOUT_SENDERS: Final = """## Today's senders

`make test-senders` installs each in an environment of its own. A small agent with one tool asks a provider on loopback that
answers with recorded bytes; its spans go to a real collector, and the same agent asks again what is in the store. As expected:
all calls are stored, and asked again, the verdict is *same in meaning, reconstructed*. With one word of the question changed,
none got an answer. *error*: the class that is stored of a refused call. *no calls*: left to the instrumentation of the SDK.

Not repaired: OpenLLMetry adds the tokens with which a stream of Anthropic begins to its final count, and sends the word
`replies` for the messages of Haystack. MLflow sends by gRPC unless `OTEL_EXPORTER_OTLP_PROTOCOL` is `http/protobuf`.
LiteLLM's proxy 1.108.7, tried the same way with the variables of LiteLLM: 4 of 4 calls, tokens and cost, both runs re-enacted.
Not tried: Vercel's and Cloudflare's AI gateways, Helicone and Datadog, which are services.
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
    others: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for scenario, call in CALLS.items():
        run = RUNS[scenario]
        if run["runs"] == run["reenacted"] > 0 and not call["lost"]:
            whole.append(scenario)
            continue
        refused = ", refused" if run["refused"] else ""
        not_all = "" if run["reenacted"] == run["runs"] else f"{run['reenacted']} of {run['runs']}{refused}"
        fault = not_all if run["runs"] else "no model call on a span"
        others[", ".join(call["lost"]).replace("_", " "), fault].append(scenario)
    lines = ["| scenario | not reported of a call | not re-enacted |", "|---|---|---|"]
    lines += [f"| {', '.join(names)} | {lost} | {fault} |" for (lost, fault), names in others.items()]
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


def fields_list() -> str:
    """Return what else the senders' spans hold, found in the recorded scenarios."""
    senders: defaultdict[str, set[str]] = defaultdict(set)
    for folder in sorted(path for path in RECORDED.iterdir() if path.is_dir()):
        client, _, instrumentation = folder.name.split("-")
        sender = f"{instrumentation} ({client})" if instrumentation in OF_THE_CLIENT else instrumentation
        for span in spans_of(folder):
            senders[sender] |= {field for field, names in FIELDS.items() if not names.isdisjoint(span.attributes)}
            senders[sender] |= {ERROR} if span.status_code is StatusCode.ERROR else set()
    held: defaultdict[str, list[str]] = defaultdict(list)
    for sender, found in sorted(senders.items()):
        held[", ".join(field for field in [*FIELDS, ERROR] if field in found) or "none of these"].append(sender)
    return "\n".join(f"- {fields}: {', '.join(names)}" for fields, names in held.items()) + "\n"


def senders_table() -> str:
    """Return the table of the senders that `make test-senders` installs; one row for what is watched with the same result."""
    rows: defaultdict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    results = load_results()
    for name in SENDERS:
        if name not in results:  # a table lists what was tried
            continue
        found = results[name]["found"]
        again = (
            found["re-enacted"].partition("\n")[0].replace("refused: run RUN: its spans", "refused: spans").partition(",")[0]
        )
        again = "" if again == "same in meaning" else again
        stored, _, made = found["calls"].partition(" of ")
        missing = "" if stored == made else "no calls" if stored == "0" else f"{stored} calls of {made}"
        has = ", ".join(field for field in ("tokens", "tool", "agent") if found[field])
        rows[results[name]["version"], has, found["error"].rpartition(".")[2].strip("'>"), missing or again].append(
            name.rpartition(": ")[2]
        )
    lines = ["| sender | watches | reported | error | not as expected |", "|---|---|---|---|---|"]
    for (version, has, error, faults), watched in rows.items():
        first, *others = dict.fromkeys(watched)
        names = " / ".join([first, *(each.removeprefix(first).strip(" ,") for each in others)])
        lines.append(f"| {version} | {names} | {has} | {error} | {faults} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Return the page with what the golden files decide."""
    parts = (summary(), table(), ABOUT_FIELDS, fields_list(), ABOUT_SENDERS, senders_table())
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
