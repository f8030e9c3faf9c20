"""Claude Code, Codex CLI and Gemini CLI, as they send: one run for each session, with its prompts, calls, tools and cost.

Their requests were recorded from the programs (``tests/data/otlp/README.md``). One more of Claude Code was written field by
field from its documentation, with events that no prompt of ours made it send.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from running_collector import CollectorProcess

from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.policies.policy import load_policy
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas.otlp.decode import Limits
from freezeframe_schemas.otlp.logs import decode_json_logs, decode_logs
from freezeframe_schemas.vendors.normalise import normalise

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a collector process and its store

DATA = Path(__file__).parents[1] / "data" / "otlp"
AGENTS = {
    "claude-code": "claudecode-session-native",
    "claude-code, written": "claudecode-msg-written",
    "codex_exec": "codexcli-resp-native",
    "gemini-cli": "geminicli-gemini-native",
}
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
SONNET = "claude-sonnet-4-5-20250929"
TOOL_CALL = '[{"role":"assistant","parts":[{"type":"tool_call","id":"list_directory__list_di…'
QUESTION, ADDRESS = "How many lamps did ada@example.com order?", "ada@example.com"

RUNS = {
    # session: prompt, status, calls, tools, tokens in, tokens out
    "claude-code": ["622cd9bf-a7b8-4488-9258-a0859cd436a1", QUESTION, "ok", 6, 2, 76934, 171],
    "claude-code, written": ["5f0c7a52-6b0e-4a55-9a43-1f6f3f1c8a01", QUESTION, "ok", 5, 3, 46342, 177],
    "codex_exec": ["01a208c2-c363-7861-a961-d0203cb36847", QUESTION, "ok", 5, 1, 3800, 69],
    "gemini-cli": ["032034c0-b913-495b-8e9e-468b339a82e3", QUESTION, "ok", 3, 1, 1805, 79],
}
CALLS = {
    # model, status, HTTP status, tokens in, out, from cache, to cache, thinking, dollars, ms, asked, answered
    "claude-code": [
        [SONNET, "ok", None, 15359, 60, 12000, 3355, None, 0.01709325, 42, QUESTION, ""],
        [SONNET, "ok", None, 15360, 44, 15300, 55, None, 0.00547125, 18, "", ""],
        [SONNET, "ok", None, 15373, 33, 15355, 12, None, 0.0051645, 60, "", ""],
        [SONNET, "ok", None, 15434, 22, 15367, 60, None, 0.0051861, 63, "", "Ada ordered 3 lamps."],
        [SONNET, "ok", None, 15408, 12, 15400, 5, None, 0.00482775, 16, "Make it 4 lamps.", "Four lamps it is."],
        [SONNET, "error", 400, None, None, None, None, None, 0, 17, "Break it.", ""],
    ],
    "claude-code, written": [
        ["claude-haiku-4-5-20251001", "ok", None, 180, 25, 0, 0, None, 0.000305, 850, QUESTION, ""],
        [SONNET, "ok", None, 15359, 60, 12000, 3355, None, 0.0171, 3100, "", ""],
        [SONNET, "ok", None, 15373, 22, 15355, 12, None, 0.005, 2000, "", "Ada ordered 3 lamps."],
        [SONNET, "ok", None, 15430, 70, 15367, 60, None, 0.0061, 1800, "Make it 4 lamps.", ""],
        [SONNET, "error", 529, None, None, None, None, None, 0, 22000, "", ""],
    ],
    "codex_exec": [
        ["gpt-5.1", "error", 500, None, None, None, None, None, 0, 86, QUESTION, ""],
        ["gpt-5.1", "ok", 200, 1200, 45, 1000, 0, 20, 0.000825, 321.147, "", ""],
        ["gpt-5.1", "ok", 200, 1300, 12, 1200, 0, 0, 0.000395, 383.771, "", ""],
        ["gpt-5.1", "error", 200, None, None, None, None, None, 0, 365.579, "Say it again.", ""],
        ["gpt-5.1", "ok", 200, 1300, 12, 1200, 0, 0, 0.000395, 397.18, "", ""],
    ],
    "gemini-cli": [
        ["gemini-2.5-pro", "error", 503, None, None, None, None, None, 0, 74, QUESTION, ""],
        ["gemini-2.5-pro", "ok", 200, 902, 39, 500, None, 7, 0.0010475, 371, QUESTION, TOOL_CALL],
        ["gemini-2.5-pro", "ok", 200, 903, 40, 500, None, 7, 0.00105875, 382, QUESTION, "Ada ordered 3 lamps."],
    ],
}
TOOLS = {
    # name, id, status, error, arguments, result
    "claude-code": [
        ["Bash", "toolu_01", "ok", "", '{"command":"cat orders.txt","description":"Read the orders"}', ""],
        ["Read", "toolu_03", "error", "TelemetrySafeError", '{"file_path":"/nowhere/order.txt"}', ""],
    ],
    "claude-code, written": [
        ["Bash", "toolu_01one", "ok", "", '{"command":"cat orders.txt","description":"Read the orders"}', ""],
        ["Edit", "toolu_01two", "error", "rejected", "", ""],
        ["Read", "toolu_01three", "error", "Error:ENOENT", '{"file_path":"shop/order.txt"}', ""],
    ],
    "codex_exec": [["exec_command", "call_1", "ok", "", '{"cmd": "cat orders.txt"}', "Chunk ID: b6f226"]],
    "gemini-cli": [["list_directory", "", "ok", "", '{ "dir_path": "." }', ""]],
}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """Return a collector to which each agent has sent its session, over the protocol that it uses by default or is told to."""
    made = CollectorProcess(tmp_path_factory.mktemp("collector"))
    try:
        send(made)
        made.flush()
        yield made
    finally:
        made.stop()


def bodies(agent: str) -> list[tuple[str, bytes]]:
    """Return the requests of an agent, each with its content type."""
    kinds = {".pb": "application/x-protobuf", ".json": "application/json"}
    return [(kinds[path.suffix], path.read_bytes()) for path in sorted((DATA / AGENTS[agent]).iterdir())]


def send(collector: CollectorProcess) -> None:
    """Send all sessions: JSON and protobuf over HTTP, one of them compressed, and protobuf over gRPC."""
    for kind, body in (*bodies("claude-code"), *bodies("claude-code, written"), *bodies("codex_exec")):
        headers = {"content-type": kind, "content-encoding": "gzip"}
        answer = httpx.post(f"{collector.url}/v1/logs", content=gzip.compress(body), headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.content in (b"", b"{}")  # no partial success
    with grpc.insecure_channel(f"127.0.0.1:{collector.ports['grpc']}", compression=grpc.Compression.Gzip) as channel:
        for _, body in bodies("gemini-cli"):
            channel.unary_unary(LOGS)(as_protobuf(body))


def as_protobuf(body: bytes) -> bytes:
    """Return the same request in protobuf, as Gemini CLI sends it unless it is told to use HTTP."""
    request = json.loads(body)
    for scope_logs in (scope for resource in request["resourceLogs"] for scope in resource["scopeLogs"]):
        ids = [[bytes.fromhex(record.pop(name, "")) for name in ("traceId", "spanId")] for record in scope_logs["logRecords"]]
        scope_logs["ids"] = ids
    message = ParseDict(request, ExportLogsServiceRequest(), ignore_unknown_fields=True)
    for resource, logs in zip(request["resourceLogs"], message.resource_logs, strict=True):
        for scope_logs, read in zip(resource["scopeLogs"], logs.scope_logs, strict=True):
            for (trace_id, span_id), record in zip(scope_logs["ids"], read.log_records, strict=True):
                record.trace_id, record.span_id = trace_id, span_id
    return message.SerializeToString()


def stored(collector: CollectorProcess, agent: str) -> dict[str, Any]:
    """Return what the views have of an agent."""
    service = f"trace_id IN (SELECT trace_id FROM runs WHERE session_id = '{RUNS[agent][0]}')"
    runs = collector.rows(
        "SELECT session_id, input, status, model_calls, tool_calls, toUInt32(input_tokens), toUInt32(output_tokens)"
        f" FROM runs WHERE {service}"
    )
    calls = collector.rows(
        "SELECT model, status, toInt32(http_status), toInt32(input_tokens), toInt32(output_tokens), toInt32(cache_read_tokens),"
        " toInt32(cache_write_tokens), toInt32(reasoning_tokens), round(cost_usd, 9), round(ms, 3), request, response"
        f" FROM model_calls WHERE {service} ORDER BY start_time"
    )
    tools = collector.rows(
        "SELECT tool, tool_call_id, status, error_type, arguments, substring(result, 1, 16)"
        f" FROM tool_calls WHERE {service} ORDER BY start_time"
    )
    return {"runs": runs, "calls": calls, "tools": tools}


def expected(agent: str) -> dict[str, Any]:
    return {"runs": [RUNS[agent]], "calls": CALLS[agent], "tools": TOOLS[agent]}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_is_one_run_with_its_calls_tools_and_cost(collector: CollectorProcess, agent: str) -> None:
    """Each API request once, with its tokens, time, failure and cost: as the agent says, else at the model's price."""
    assert stored(collector, agent) == expected(agent)


def test_what_an_agent_sends_twice_counts_once(collector: CollectorProcess) -> None:
    send(collector)
    collector.flush()
    counted = collector.rows(
        "SELECT session_id, model_calls, tool_calls, toUInt32(input_tokens), toUInt32(output_tokens)"
        " FROM runs ORDER BY session_id"
    )
    assert counted == sorted([run[0], *run[3:]] for run in RUNS.values())


def test_events_that_no_dialect_knows_can_be_asked_for(collector: CollectorProcess) -> None:
    """They are kept whole, next to the others of their session; only the pieces of Codex's streams are not."""
    assert collector.rows(
        "SELECT session_id, attributes['surprise'], attributes['prompt.id'] FROM spans"
        " WHERE name = 'claude_code.an_event_of_tomorrow'"
    ) == [[RUNS["claude-code, written"][0], "kept", "0a4b6f0e-98a1-4a7d-8a39-3a1c58e9d102"]]
    counts = dict(collector.rows("SELECT session_id, toUInt32(count()) FROM spans GROUP BY session_id"))
    for agent in AGENTS:
        kept = 20 if agent == "codex_exec" else sum(records(body) for _, body in bodies(agent))
        assert counts[str(RUNS[agent][0])] == kept, agent


def records(body: bytes) -> int:
    return sum(len(scope["logRecords"]) for resource in json.loads(body)["resourceLogs"] for scope in resource["scopeLogs"])


def test_a_record_without_a_session_is_refused_by_name(collector: CollectorProcess) -> None:
    """It would be a run of its own, or of nobody; the sender hears of it, and so does who looks for it."""
    record = {"body": {"stringValue": "claude_code.auth"}, "timeUnixNano": "1795449600000000000"}
    record |= {"attributes": [{"key": "event.name", "value": {"stringValue": "auth"}}]}
    scope_logs = {"scope": {"name": "com.anthropic.claude_code.events"}, "logRecords": [record]}
    answer = httpx.post(f"{collector.url}/v1/logs", json={"resourceLogs": [{"scopeLogs": [scope_logs]}]}).json()
    assert answer["partialSuccess"]["rejectedLogRecords"] == "1"
    assert "no session id" in answer["partialSuccess"]["errorMessage"]
    collector.flush()
    assert collector.rows("SELECT reason FROM rejected") == [["event without a session"]]


def test_no_session_can_be_re_enacted_and_its_level_says_so(collector: CollectorProcess) -> None:
    assert collector.rows("SELECT DISTINCT cause FROM cold_cases") == [["no_exchanges"]]
    assert collector.rows("SELECT toUInt32(count()), toUInt32(max(level)) FROM readiness WHERE cold") == [[len(AGENTS), 2]]


def test_private_values_of_prompts_and_answers_are_redacted() -> None:
    """In the agent's own attributes, in what is derived from them, and in the command line that Gemini CLI adds."""
    redactor = Redactor(load_policy("strict"), TenantKey(id="test/1", secret=b"k" * 32))
    for agent in AGENTS:
        decoded = [
            (decode_json_logs if kind.endswith("json") else decode_logs)(body, Limits()).events for kind, body in bodies(agent)
        ]
        spans = [normalise(span) for events in decoded for span in events.spans]
        assert ADDRESS in repr(spans)
        redacted = repr([redactor.redact_span(span) for span in spans])
        assert ADDRESS not in redacted
        assert "How many lamps did" in redacted
