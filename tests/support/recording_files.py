"""The recordings of other tools that tests import, by kind, and the forms in which recorded API calls are kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from recorded_traffic import load_conversations

from freezeframe_replay.sources.recordings.kinds import RECORDINGS, runs_of_recording
from freezeframe_schemas.run import Run

DATA = Path(__file__).parents[1] / "data" / "recordings"
FILES = {"vcr": DATA / "pelican-names.yaml", "har": DATA / "search.har"}
"""Those that hold bytes."""
OTHERS = {
    "tau2-bench": DATA / "retail.tau2-bench.json",
    "mini-swe-agent": DATA / "hello.mini-swe-agent.traj.json",
    "inspect": DATA / "rain.inspect.json",
    "braintrust": DATA / "rain.braintrust.jsonl",
}
"""Those that hold it in their own form."""
TRACES = {
    "mlflow": DATA / "weather.mlflow.json",
    "phoenix": DATA / "order.phoenix.json",
    "langsmith": DATA / "weather.langsmith.jsonl",
}
"""Those that hold spans."""
SESSIONS = {kind: DATA / f"orders.{kind}.jsonl" for kind in ("claude-code", "codex", "gemini-cli")}
"""Those of coding agents."""
CALLS = {kind: DATA / f"tools.{kind}.jsonl" for kind in ("batch", "bedrock", "jsonl")}
"""Those that hold calls of an API, but not their bytes."""
ALL = {**FILES, **TRACES, **SESSIONS, **CALLS, **OTHERS, "langfuse": DATA / "greeting.json", "tau-bench": DATA / "airline.json"}

RECORDED_AS = {
    "openai": "fantasy/providertests/testdata/TestOpenAICommon/openai-gpt-4o/multi_tool.yaml",
    "bedrock": "fantasy/providertests/testdata/TestBedrockCommon/bedrock-anthropic-claude-haiku-4-5/tool.yaml",
}
"""The recorded exchanges that `CALLS` hold."""

Row = dict[str, Any]


def run_of(kind: str, path: Path) -> Run:
    """Return the only run of a file."""
    (run,) = runs_of_recording(path, RECORDINGS[kind])
    return run


def written(directory: Path, content: str | bytes, name: str = "file") -> Path:
    """Return a file that holds `content`."""
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- what was asked -----------------------------------------------------------------------------------------------------

CHAT = "/v1/chat/completions"


def requests_of(kind: str) -> list[Row]:
    """Return what was sent to the provider, in its API's own form, not by way of our readers: path and body."""
    match kind:
        case "claude-code" | "codex" | "gemini-cli":
            return json.loads((DATA / "orders.asked.json").read_text(encoding="utf-8"))[kind]
        case "inspect":
            return list(_inspect_requests(json.loads(OTHERS[kind].read_bytes())["samples"][0]))
        case "mini-swe-agent":
            recorded = json.loads(OTHERS[kind].read_bytes())["messages"]
            plain = [{name: message[name] for name in message if name != "extra"} for message in recorded]
            return [_chat(plain[:place]) for place, message in enumerate(recorded) if message["role"] == "assistant"]
        case "tau2-bench":
            (simulation,) = json.loads(OTHERS[kind].read_bytes())["simulations"]
            told = [_of_tau2_bench(message) for message in simulation["messages"]]
            return [_chat(told[:place]) for place, message in enumerate(told) if place and message["role"] == "assistant"]
        case "braintrust":
            items = map(json.loads, OTHERS[kind].read_text(encoding="utf-8").splitlines())
            inputs = [item.get("input") for item in items]
            return [_chat(messages) for messages in inputs if isinstance(messages, list)]
        case _:
            rows = load_conversations()[RECORDED_AS["bedrock" if kind == "bedrock" else "openai"]]
            return [{"path": urlsplit(row["request"]["url"]).path, "body": json.loads(row["request"]["text"])} for row in rows]


def _chat(messages: list[Row]) -> Row:
    return {"path": CHAT, "body": {"model": "any", "messages": messages}}


def _of_tau2_bench(message: Row) -> Row:
    """Return a message as tau2-bench sends it to the agent's model."""
    plain = {"role": message["role"], "content": message["content"]}
    if message.get("tool_calls"):
        plain["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for call in message["tool_calls"]
        ]
    return plain | ({"tool_call_id": message["id"]} if message["role"] == "tool" else {})


def _inspect_requests(sample: Row) -> Iterable[Row]:
    """Yield the provider's own requests, which Inspect keeps, too."""
    for event in sample["events"]:
        if event["event"] == "model":
            ((first, end),) = event["call"]["call_refs"]
            yield _chat(sample["events_data"]["calls"][first:end])


# -- recorded exchanges, in the form of each kind -----------------------------------------------------------------------


def as_lines(kind: str, rows: Iterable[Row]) -> str:
    """Write recorded exchanges as a kind has them, an item a line."""
    items = [item for number, row in enumerate(rows) for item in _WRITERS[kind](number, row)]
    return "".join(f"{json.dumps(item, ensure_ascii=False)}\n" for item in items)


def _bodies(row: Row) -> tuple[Any, Any]:
    return json.loads(row["request"]["text"]), json.loads(row["response"]["text"])


def _batch(number: int, row: Row) -> list[Row]:
    asked, told = _bodies(row)
    name, path = f"request-{number}", urlsplit(row["request"]["url"]).path
    if row["provider"] == "anthropic":
        return [{"custom_id": name, "params": asked}, {"custom_id": name, "result": {"type": "succeeded", "message": told}}]
    response = {"status_code": row["response"]["status"], "request_id": f"req_{number}", "body": told}
    return [
        {"custom_id": name, "method": "POST", "url": path, "body": asked},
        {"id": f"batch_req_{number}", "custom_id": name, "response": response, "error": None},
    ]


def _bedrock(number: int, row: Row) -> list[Row]:
    asked, told = _bodies(row)
    model, operation = urlsplit(row["request"]["url"]).path.split("/")[-2:]
    return [
        {
            "timestamp": f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z",
            "accountId": "123456789012",
            "identity": {"arn": "arn:aws:iam::123456789012:user/test"},
            "region": "us-east-1",
            "requestId": f"request-{number}",
            "operation": {"invoke": "InvokeModel", "converse": "Converse"}[operation],
            "modelId": unquote(model),
            "input": {"inputContentType": "application/json", "inputBodyJson": asked, "inputTokenCount": 1},
            "output": {"outputContentType": "application/json", "outputBodyJson": told, "outputTokenCount": 1},
            "schemaType": "ModelInvocationLog",
            "schemaVersion": "1.0",
        }
    ]


def _plain(number: int, row: Row) -> list[Row]:
    asked, told = _bodies(row)
    url = {} if row["provider"] == "openai" else {"url": row["request"]["url"]}
    return [{**url, "time": 1_767_225_600 + number, "duration_ms": 250, "request": asked, "response": told}]


_WRITERS = {
    "batch": _batch,
    "bedrock": _bedrock,
    "jsonl": _plain,
}


ENTRY = {
    "startedDateTime": "2026-01-01T00:00:00Z",
    "request": {"method": "GET", "url": "https://example.com/"},
    "response": {"status": 200, "content": {"text": "{}"}},
}
"""An entry of a HTTP Archive."""


def archive(*entries: Any, **others: Any) -> str:
    """Return a HTTP Archive."""
    return json.dumps({"log": {"version": "1.2", "entries": entries, **others}})
