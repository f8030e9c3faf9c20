"""`freezeframe export`: what other tools read of a run, and what of it comes back."""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from arbitrary import spans as arbitrary_spans
from clients.team import all_teams
from followed_page import ROOT
from hypothesis import given
from hypothesis import strategies as st
from loopback import listening
from recorded_teams import recorded_team

from freezeframe_replay.cli import main
from freezeframe_replay.report.render import counted
from freezeframe_replay.sources.exports.endpoints import HEADERS_VARIABLE
from freezeframe_replay.sources.exports.kinds import EXPORTS, Export, Exported, Needs, requests_of_spans
from freezeframe_replay.sources.exports.openinference import in_openinference
from freezeframe_replay.sources.foreign import in_conventions
from freezeframe_replay.sources.recordings.kinds import RECORDINGS, runs_of_recording
from freezeframe_replay.sources.span_file import load_run_of_file, load_runs_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange, Request
from freezeframe_schemas.meaning import result_value
from freezeframe_schemas.otlp.decode import NO_LIMITS, decode_traces
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.reported_calls import SPOKEN
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.vendors.openinference import DIALECT
from freezeframe_schemas.wire.attributes import AttributeWriter
from freezeframe_schemas.wire.document import parse
from freezeframe_schemas.wire.encoding import decode_body

GOLDEN = ROOT / "tests" / "golden" / "exports.json"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a recorded run of the demo: model calls, tools, a retrieval, an answer that broke off."""
    path = tmp_path_factory.mktemp("sent") / "sent.jsonl"
    path.write_bytes(gzip.decompress((ROOT / "tests" / "data" / "backends" / "sent.jsonl.gz").read_bytes()))
    return path


def export(sent: Path, kind: str, destination: str, *more: str) -> int:
    return main(["export", str(sent), "--unredacted", "--as", kind, "-o", destination, *more])


def text_of(kind: str, *runs: Exported, each_call: bool = False, form: str = "") -> str:
    made = EXPORTS[kind].write(runs, Export(each_call=each_call, form=form or EXPORTS[kind].forms[0]))
    return "".join(piece if isinstance(piece, str) else piece.decode() for piece in made)


def exported(run: Run) -> Exported:
    return Exported(run_id=run.trace_id, spans=run.spans, exchanges=run.exchanges)


@pytest.mark.parametrize("form", ["jsonl", "json", "pb"])
@pytest.mark.parametrize("kind", ["otlp", "phoenix"])
def test_spans_come_back_from_each_form_as_they_were(kind: str, form: str, sent: Path, tmp_path: Path) -> None:
    assert export(sent, kind, str(tmp_path / f"run.{form}")) == 0
    before, after = load_run_of_file(sent), load_run_of_file(tmp_path / f"run.{form}")
    assert after.exchanges == before.exchanges
    assert after.entry == before.entry
    if kind == "otlp":
        assert after.spans == before.spans


@given(st.lists(arbitrary_spans, min_size=1, max_size=4))
def test_any_spans_survive_a_file_of_otlp(spans: list[SpanRecord]) -> None:
    text = text_of("otlp", Exported(run_id="run", spans=spans), form="json")
    made = json.loads(text)["resourceSpans"]
    assert made == json.loads(json.dumps(spans_to_otlp_json(spans)))["resourceSpans"]


@pytest.mark.parametrize(("kind", "suffix"), [("vcr", "yaml"), ("har", "har")])
def test_http_calls_come_back_from_a_file_of_calls_with_their_bytes(kind: str, suffix: str, sent: Path, tmp_path: Path) -> None:
    path = tmp_path / f"calls.{suffix}"
    assert export(sent, kind, str(path)) == 0
    before = [exchange for exchange in load_run_of_file(sent).exchanges if exchange.request.method]
    (run,) = runs_of_recording(path, RECORDINGS[kind])
    told = [(e.request.method, e.request.url, e.request.body, e.response.status, e.response.body) for e in run.exchanges]
    assert told == [(e.request.method, e.request.url, e.request.body, e.response.status, e.response.body) for e in before]


def exchanges_of_traffic() -> list[Exchange]:
    from recorded_traffic import body_of, load_conversations

    from freezeframe_schemas.exchange import Chunk, Kind, Response

    rows = [row for conversation in list(load_conversations().values())[::18] for row in conversation]
    return [
        Exchange(
            kind=Kind.MODEL,
            name="POST /",
            seam="httpx",
            request=Request(method=row["request"]["method"], url=row["request"]["url"], body=body_of(row["request"])),
            response=Response(
                status=row["response"]["status"],
                headers=tuple((name, str(value)) for name, value in row["response"]["headers"].items()),
                chunks=(Chunk(data=body_of(row["response"])),),
            ),
        )
        for row in rows
    ]


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("kind", ["vcr", "har"])
def test_recorded_provider_traffic_is_written_with_its_bytes(kind: str, tmp_path: Path) -> None:
    """A cassette is read by PyYAML itself, as vcrpy does."""
    import yaml

    calls = exchanges_of_traffic()
    assert len(calls) > 50
    text = text_of(kind, Exported(run_id="run", exchanges=calls))
    plain = [decode_body(call.response.body, call.response.headers) for call in calls]
    path = tmp_path / "calls.yaml"
    path.write_text(text, encoding="utf-8")
    (run,) = runs_of_recording(path, RECORDINGS[kind])
    assert [call.request.body for call in run.exchanges] == [call.request.body for call in calls]
    assert [call.response.body for call in run.exchanges] == (
        [call.response.body for call in calls] if kind == "vcr" else plain
    )
    if kind == "vcr":
        held = [item["response"]["body"]["string"] for item in yaml.safe_load(text)["interactions"]]
        assert [body if isinstance(body, bytes) else body.encode() for body in held] == [call.response.body for call in calls]


@given(st.text(), st.binary())
def test_any_text_and_any_bytes_are_a_scalar_that_yaml_reads(text: str, body: bytes) -> None:
    import yaml

    from freezeframe_replay.sources.recordings.vcr import write_cassette
    from freezeframe_schemas.exchange import Chunk, Kind, Response

    call = Exchange(
        kind=Kind.HTTP,
        name="GET /",
        seam="httpx",
        request=Request(method="GET", url="http://x/", body=text.encode("utf-8", "replace")),
        response=Response(status=200, chunks=(Chunk(data=body),)),
    )
    (item,) = yaml.safe_load("".join(write_cassette([call])))["interactions"]
    asked, answer = item["request"]["body"], item["response"]["body"]["string"]
    assert (asked if isinstance(asked, bytes) else asked.encode()) == call.request.body
    assert (answer if isinstance(answer, bytes) else answer.encode()) == body


@pytest.mark.proof("command export")
def test_what_each_kind_keeps_of_a_run_is_what_the_golden_file_says(sent: Path, tmp_path: Path) -> None:
    """Us, them, us: of each kind that can be read again, what is not the same; of each other, what it says it does not hold."""
    told: dict[str, Any] = {}
    for name, kind in EXPORTS.items():
        path = tmp_path / f"{name}.{kind.forms[0]}"
        held = Export(form=kind.forms[0], each_call=True)
        pieces = kind.write([exported(load_run_of_file(sent))], held)
        path.write_bytes(b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces))
        row: dict[str, Any] = {
            "written": held.written,
            "left_out": [f"{counted(count, what)} {why}" for (what, why), count in held.left_out.items()],
        }
        row["not_held"] = kind.loses
        if kind.needs is Needs.CALLS and name in RECORDINGS:
            (back,) = runs_of_recording(path, RECORDINGS[name])
            row["differs"] = differing(load_run_of_file(sent), back)
        elif kind.endpoint is not None:
            row["differs"] = differing(load_run_of_file(sent), load_run_of_file(path))
        told[name] = row
    assert told == json.loads(GOLDEN.read_text(encoding="utf-8")), json.dumps(told, indent=1)


def differing(before: Run, after: Run) -> list[str]:
    """Name what of the HTTP calls, and of the entry, did not come back."""
    calls = [exchange for exchange in before.exchanges if exchange.request.method]
    kept = [exchange for exchange in after.exchanges if exchange.request.method]
    assert len(calls) == len(kept)
    lost = {
        f"{part}.{name}" if part != "exchange" else name
        for one, other in zip(calls, kept, strict=True)
        for part, a, b in (
            ("exchange", one, other),
            ("request", one.request, other.request),
            ("response", one.response, other.response),
        )
        for name in type(a).__dataclass_fields__
        if name not in ("request", "response", "span_id", "parent_span_id") and getattr(a, name) != getattr(b, name)
    }
    lost |= {
        f"entry.{name}"
        for name in type(before.entry).__dataclass_fields__
        if name not in ("span_id", "start_time_unix_nano", "end_time_unix_nano")
        and getattr(before.entry, name) != getattr(after.entry, name)
    }
    return sorted(lost)


@pytest.mark.parametrize(
    "scenario", ["openai-chat-genai", "anthropic-msg-logfire", "langgraph-chat-ls", "vercelai-chat-aisdk6"]
)
def test_what_is_said_comes_back_from_openinference_as_it_was(scenario: str) -> None:
    """The writer beside its reader: roles, texts, calls with ids and arguments, results, tokens."""
    compared = 0
    for run in load_runs_of_file(ROOT / "tests" / "data" / "otlp" / scenario):
        for span in in_conventions(run.spans):
            if genai.OUTPUT_MESSAGES not in span.attributes or span.text(genai.OPERATION_NAME) not in SPOKEN:
                continue
            out = AttributeWriter()
            DIALECT.derive(in_openinference(span), out)
            for name in (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES):
                instructions = span.text(genai.SYSTEM_INSTRUCTIONS) if name == genai.INPUT_MESSAGES else None
                system = [("text", None, None, None, part["content"]) for part in json.loads(instructions or "[]")]
                assert spoken(out.attributes.get(name)) == system + spoken(span.attributes.get(name))
            for name in (genai.USAGE_INPUT_TOKENS, genai.USAGE_OUTPUT_TOKENS):
                assert out.attributes.get(name) == span.attributes.get(name)
            compared += 1
    assert compared


@pytest.mark.parametrize("name", sorted(all_teams()))
def test_tokens_of_a_call_that_an_instrumentor_reports_too_are_exported_once(name: str) -> None:
    """Phoenix adds up those of all spans; nothing else of the instrumentor's spans is changed."""
    spans = recorded_team(name)
    (batch,) = requests_of_spans([Exported(run_id="", spans=spans)], EXPORTS["phoenix"], Export())
    assert [span.integer("llm.token_count.prompt") for span in batch if "llm.token_count.prompt" in span.attributes] == [
        span.integer(genai.USAGE_INPUT_TOKENS) for span in spans if genai.USAGE_INPUT_TOKENS in span.attributes
    ]
    for sent, span in zip(batch, spans, strict=True):
        assert {key for key in span.attributes if not key.startswith("llm.token_count.")} <= sent.attributes.keys()


def spoken(text: Any) -> list[Any]:
    """Return who said what: calls with parsed arguments, results by themselves."""
    said: list[Any] = []
    for message in json.loads(text):
        for part in message["parts"]:
            arguments = part.get("arguments")
            parsed = parse(arguments) if isinstance(arguments, str) else arguments
            said.append(
                (
                    part["type"],
                    part.get("id"),
                    part.get("name"),
                    parsed,
                    part.get("content") or result_value(part.get("response")),
                )
            )
    return said


def test_a_dataset_has_a_row_a_run_or_a_row_a_call(sent: Path) -> None:
    run = exported(load_run_of_file(sent))
    (row,) = text_of("openai-evals", run).splitlines()
    sample = json.loads(row)
    assert [message["role"] for message in sample["input"]] == ["system", "user"]
    assert sample["ideal"].startswith("Hello Maria Keller! Good to hear from you!"), "what the run returned"
    rows = [json.loads(line) for line in text_of("inspect", run, each_call=True).splitlines()]
    assert [row["metadata"]["call"] for row in rows] == [1, 2, 3, 4]
    assert rows[1]["input"][2]["tool_calls"][0]["arguments"] == {
        "name": "Maria Keller",
        "email": "maria.keller@northbay-mail.com",
    }
    assert [message["role"] for message in rows[1]["input"]] == ["system", "user", "assistant", "tool", "tool"]


def test_the_parameters_of_a_test_are_literals_that_hold_what_was_said(sent: Path, tmp_path: Path) -> None:
    path = tmp_path / "cases.py"
    assert export(sent, "pytest", str(path), "--each", "call") == 0
    cases = ast.literal_eval(re.sub(r"pytest\.param", "", re.sub(r"id=", "", path.read_text().partition("CASES = ")[2])))
    assert [(messages[-1]["role"], name[-2:]) for messages, _, name in cases] == [
        ("user", "-1"),
        ("tool", "-2"),
        ("tool", "-3"),
        ("user", "-4"),
    ]


@pytest.mark.parametrize("name", ["promptfoo", "mappings"])
def test_a_recipe_makes_another_format_of_an_export(
    name: str, sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert export(sent, "openai-evals", "runs.jsonl", "--each", "call") == export(sent, "har", "calls.har") == 0
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    (recipe,) = [block for block in re.findall("```python\n(.*?)```", page, re.DOTALL) if f"\n{name} = [" in block]
    made: dict[str, Any] = {}
    exec(compile(recipe, "docs/export.md", "exec"), made)
    calls = [exchange for exchange in load_run_of_file(sent).exchanges if exchange.request.method]
    if name == "mappings":
        assert [m["response"]["status"] for m in made["mappings"]] == [call.response.status for call in calls]
        paths = [call.request.url[call.request.url.find("/", 8) :] for call in calls]
        assert [mapping["request"]["url"] for mapping in made["mappings"]] == paths
        assert ["bodyPatterns" in m["request"] for m in made["mappings"]] == [bool(call.request.body) for call in calls]
    else:
        assert len(made["promptfoo"]) == len(made["dspy"]) == 4
        assert [row["answer"] for row in made["dspy"]] == [row["assert"][0]["value"] for row in made["promptfoo"]]


# -- what leaves, and what does not -----------------------------------------------------------------------------------------


def test_a_run_that_was_never_redacted_is_refused_and_no_file_is_left(
    sent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    assert main(["export", str(sent), "--as", "otlp", "-o", str(path)]) == 1
    assert "it was never redacted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--as", "otlp", "-o", "run.txt"], "cannot tell the format of otlp"),
        (["--as", "vcr", "-o", "http://127.0.0.1:9"], "found a URL, expected a file"),
        (["--as", "otlp", "-o", "ftp://127.0.0.1:9"], "expected http://HOST:4318"),
        (["--as", "otlp", "-o", "http://127.0.0.1:9"], "does not answer"),
        (["--sql", "SELECT 1", "--as", "otlp", "-o", "-"], "exactly one way"),
    ],
)
def test_what_cannot_be_done_is_an_error_that_says_what_was_expected(
    arguments: list[str], told: str, sent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(sent), "--unredacted", *arguments]) == 1
    assert told in capsys.readouterr().err


def test_a_run_without_bytes_is_no_cassette(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ROOT / "tests" / "data" / "otlp" / "openai-chat-genai"
    assert main(["export", str(folder), "--unredacted", "--as", "vcr", "-o", str(tmp_path / "x.yaml")]) == 1
    assert "holds no HTTP call with its bytes" in capsys.readouterr().err


@contextmanager
def receiving(status: list[int]) -> Generator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    """Run a receiver that answers with each status in turn, then 200; yield its address and what it got."""
    got: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(status.pop(0) if status else 200)
            self.send_header("Retry-After", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  # the name is the standard library's

    with listening(Handler) as url:
        yield url.removeprefix("http://"), got


ASKED: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "otlp": ("", "/v1/traces", {"authorization": "Bearer a key"}),
    "phoenix": ("/shop", "/v1/traces", {}),
    "mlflow": ("/7", "/v1/traces", {"x-mlflow-experiment-id": "7"}),
    "langfuse": ("", "/api/public/otel/v1/traces", {}),
    "langsmith": ("/shop", "/otel/v1/traces", {"langsmith-project": "shop"}),
}


@pytest.mark.parametrize("kind", ASKED)
def test_each_backend_gets_every_span_at_its_own_path_and_once_more_if_it_was_busy(
    kind: str, sent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HEADERS_VARIABLE, "authorization=Bearer%20a%20key")
    named, path, headers = ASKED[kind]
    with receiving([503, 429]) as (address, got):
        assert export(sent, kind, f"http://{address}{named}") == 0
    assert [where for where, _, _ in got] == [path] * 3
    assert headers.items() <= got[0][1].items()
    arrived = decode_traces(got[2][2], NO_LIMITS).spans
    assert {span.span_id for span in arrived} == {span.span_id for span in load_run_of_file(sent).spans}
    if kind == "phoenix":
        assert arrived[0].resource.attributes["openinference.project.name"] == "shop"
    if kind == "otlp":
        assert [replace(span, resource=arrived[0].resource) for span in arrived] == list(arrived)


def test_the_credentials_of_a_url_become_a_header_and_are_not_shown(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving([403]) as (address, got):
        assert export(sent, "langfuse", f"http://pk-lf:sk-lf@{address}") == 1
    assert got[0][1]["authorization"] == "Basic cGstbGY6c2stbGY="
    told = capsys.readouterr()
    assert "sk-lf" not in told.out + told.err
    assert HEADERS_VARIABLE in told.err
