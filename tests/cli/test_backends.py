"""Runs from other backends: they give back what was sent, as far as a replay needs it."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from arbitrary import exchanges, spans
from bare_spans import span_of
from followed_page import ROOT, copy_package, follow, run_with
from hypothesis import given
from loopback import listening

import freezeframe_replay
from freezeframe_replay.cli import main
from freezeframe_replay.cli.show import next_lines
from freezeframe_replay.local.target import RunsPlace, target_as_typed
from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.sources.backends import (
    BACKENDS,
    HEADERS_VARIABLE,
    URLS,
    list_backend_runs,
    load_backend_spans,
)
from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_replay.sources.retyped import retyped
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_replay.sources.store_door import is_backend
from freezeframe_schemas import genai
from freezeframe_schemas.errors import (
    ConfigError,
    FreezeframeError,
    PermanentStoreError,
    RetryableStoreError,
    RunError,
    WireError,
)
from freezeframe_schemas.exchange import Exchange, exchange_from_span
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode

DATA = ROOT / "tests" / "data" / "backends"
TRACE = "803a3b618da43f25026c778afad31019"
_MAIN = """
import sys
from freezeframe_replay.cli import main
sys.exit(main(sys.argv[1:]))
"""


def packed(name: str) -> bytes:
    """Return what a packed file of the data holds."""
    return gzip.decompress((DATA / name).read_bytes())


@contextmanager
def answering(answer: Callable[[str, Mapping[str, str]], tuple[int, bytes]]) -> Generator[str]:
    """Run a server that answers path and headers with status and body; yield its host and port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  # the name is the standard library's

    with listening(Handler) as url:
        yield url.removeprefix("http://")


def test_a_run_that_phoenix_kept_is_the_run_that_was_sent(tmp_path: Path) -> None:
    """Every exchange to the byte. Phoenix rounds times through a double and keeps no resource."""
    (tmp_path / "sent.jsonl").write_bytes(packed("sent.jsonl.gz"))
    sent = load_run_of_file(tmp_path / "sent.jsonl")
    asked: list[str] = []

    def phoenix(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        asked.append(path)
        return 200, packed("phoenix-answer.json.gz")

    with answering(phoenix) as address:
        kept = build_run(load_backend_spans(f"phoenix+http://{address}", TRACE))
    assert asked == [f"/v1/projects/default/spans/otlpv1?trace_id={TRACE}&limit=1000"]

    def timeless(exchange: Exchange) -> Exchange:
        return replace(exchange, start_time_unix_nano=0, end_time_unix_nano=0)

    assert [timeless(one) for one in kept.exchanges] == [timeless(one) for one in sent.exchanges]
    assert replace(kept.entry, start_time_unix_nano=0, end_time_unix_nano=0) == replace(
        sent.entry, start_time_unix_nano=0, end_time_unix_nano=0
    )


def test_phoenix_gives_a_long_run_page_by_page() -> None:
    """The cursor of each answer asks for the next; the project's name is one part of the path."""
    (first, second) = (json.loads(packed("phoenix-answer.json.gz"))["data"][:2] for _ in range(2))
    pages = {"": {"data": first[:1], "next_cursor": "a b"}, "a+b": {"data": second[1:], "next_cursor": None}}

    def phoenix(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        assert path.startswith("/v1/projects/my%2Fagents/spans/otlpv1?")
        return 200, json.dumps(pages[path.partition("&cursor=")[2]]).encode()

    with answering(phoenix) as address:
        assert len(load_backend_spans(f"phoenix+http://{address}/my%2Fagents".replace("%2F", "/"), TRACE)) == 2


def protobuf_json(document: dict[str, Any]) -> dict[str, Any]:
    """Return OTLP/JSON as protobuf's own JSON writes it: ids in base64."""
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
                for link in span["links"]:
                    for name in ("traceId", "spanId"):
                        link[name] = base64.b64encode(bytes.fromhex(link[name])).decode()
    return document


def snake_case(value: Any) -> Any:
    """Return a JSON value with its keys in snake case, and null for what is missing."""
    if isinstance(value, dict):
        made = {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake_case(item) for key, item in value.items()}
        return made | {"not_there": None}
    return [snake_case(item) for item in value] if isinstance(value, list) else value


FORMS: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "OTLP/JSON": lambda document: document,
    "Jaeger, /api/v3/traces": lambda document: {"result": document},
    "Tempo, /api/traces": lambda document: {"batches": protobuf_json(document)["resourceSpans"]},
    "Tempo, /api/v2/traces": lambda document: {"trace": protobuf_json(document)},
    "snake case and nulls": snake_case,
}


@pytest.mark.parametrize("form", FORMS)
@given(span=spans)
def test_a_span_survives_every_form_of_otlp_json(form: str, span: SpanRecord) -> None:
    document = spans_to_otlp_json([span])
    assert spans_of_document(FORMS[form](json.loads(json.dumps(document)))) == spans_of_document(document)


def as_text(value: AttributeValue) -> str:
    """Return a value as the OpenTelemetry Collector's `pcommon.Value.AsString` does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(list(value)) if isinstance(value, tuple) else str(value)


@given(exchange=exchanges())
def test_an_exchange_survives_a_backend_that_keeps_text_only(exchange: Exchange) -> None:
    span = span_of(exchange)
    span = replace(span, attributes=retyped({name: as_text(value) for name, value in span.attributes.items()}))
    assert exchange_from_span(span) == exchange


def test_a_document_over_many_lines_is_read_as_a_file_of_spans(tmp_path: Path) -> None:
    """As `curl` puts the answer of a backend into a file."""
    answer = json.loads(packed("phoenix-answer.json.gz"))
    (tmp_path / "answer.json").write_text(json.dumps(answer, indent=2))
    assert load_run_of_file(tmp_path / "answer.json").trace_id == TRACE


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_file_nested_without_end_is_an_error_of_its_line(depth: int, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"a":' * depth + "1" + "}" * depth)
    with pytest.raises((WireError, RunError)):
        load_run_of_file(tmp_path / "deep.json")


@pytest.mark.parametrize(
    ("named", "store", "typed"),
    [
        (TRACE, "phoenix+http://127.0.0.1:6006", f"{TRACE} --store phoenix+http://127.0.0.1:6006"),
        (TRACE, "otlp+http://me:word@127.0.0.1:3200", f"{TRACE} --store URL"),
        ("last", "phoenix+http://127.0.0.1:6006", f"{TRACE} --store phoenix+http://127.0.0.1:6006"),
        (TRACE[:6], "http://127.0.0.1:8123", f"{TRACE[:12]} --store http://127.0.0.1:8123"),
        ("last", "", TRACE[:12]),
    ],
)
def test_what_show_tells_to_type_next_finds_the_same_run(named: str, store: str, typed: str, tmp_path: Path) -> None:
    """Another backend knows whole trace ids only, and has to be named again; a password is not printed."""
    (tmp_path / "sent.jsonl").write_bytes(packed("sent.jsonl.gz"))
    outline = outline_run(load_run_of_file(tmp_path / "sent.jsonl"))
    again = target_as_typed(RunsPlace(store=store), named, outline.run_id)
    first, second = next_lines(outline, again, fixture=False).split("\n")
    assert first == f"next: freezeframe replay {typed}"
    assert f"freezeframe fixture {typed} -o " in second


@pytest.mark.parametrize(
    ("status", "body", "error", "says"),
    [
        (404, b"", RunError, "no such trace"),
        (401, b"secret", PermanentStoreError, "HTTP 401"),
        (302, b"", PermanentStoreError, "HTTP 302"),
        (503, b"", RetryableStoreError, "HTTP 503"),
        (200, b"<html>secret", PermanentStoreError, "JSON"),
        (200, b"[" * 100_000, PermanentStoreError, "JSON"),
        (200, b'{"data": []}', RunError, "no span"),
    ],
)
def test_what_a_backend_refuses_is_said_and_its_text_is_not(
    status: int, body: bytes, error: type[FreezeframeError], says: str
) -> None:
    with answering(lambda path, headers: (status, body)) as address, pytest.raises(error, match=says) as raised:
        load_backend_spans(f"otlp+http://{address}/api/v3/traces", TRACE)
    assert "secret" not in str(raised.value)


def test_the_key_of_a_backend_comes_from_the_environment() -> None:
    """Percent-encoded, as the exporter's own headers are."""
    seen: dict[str, str] = {}

    def keyed(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        seen.update(headers)
        return 404, b""

    environ = {HEADERS_VARIABLE: "authorization=Bearer%20k%3D1, x-scope-orgid=team"}
    with answering(keyed) as address, pytest.raises(RunError):
        load_backend_spans(f"otlp+http://{address}", TRACE, environ=environ)
    assert (seen["authorization"], seen["x-scope-orgid"]) == ("Bearer k=1", "team")


def test_user_and_password_of_the_url_go_into_a_header() -> None:
    seen: list[str] = []

    def keyed(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(headers["authorization"])
        return 404, b""

    with answering(keyed) as address, pytest.raises(RunError):
        load_backend_spans(f"otlp+http://me:w%40rd@{address}", TRACE)
    assert seen == ["Basic " + base64.b64encode(b"me:w@rd").decode()]


def test_a_backend_that_is_not_there_is_named() -> None:
    with pytest.raises(RetryableStoreError, match=r"http://127\.0\.0\.1:9/x"):
        load_backend_spans("otlp+http://user:word@127.0.0.1:9/x", TRACE)


def test_a_run_is_named_by_its_trace_id() -> None:
    with pytest.raises(RunError, match="32 hex digits, or `last`"):
        load_backend_spans("phoenix+http://127.0.0.1:9", "last-failed")


OBSERVATION = {
    "id": "aa" * 8,
    "traceId": TRACE,
    "type": "GENERATION",
    "name": "call",
    "startTime": "2026-01-01T00:00:00Z",
    "input": [{"role": "user", "content": "Hello"}],
    "output": {"role": "assistant", "content": "Hi"},
    "model": "gpt-4o",
}
RUN = {
    "id": str(UUID(TRACE)),
    "trace_id": str(UUID(TRACE)),
    "name": "call",
    "run_type": "llm",
    "start_time": "2026-01-01T00:00:00",
    "end_time": "2026-01-01T00:00:02",
    "inputs": {"messages": [{"role": "user", "content": "Hello"}]},
    "outputs": {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]},
}
LISTING: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "langfuse": (
        "",
        {
            "/api/public/traces?limit=5&orderBy=timestamp.desc": {
                "data": [{"id": TRACE, "timestamp": "2026-01-01T00:00:00Z", "name": "call", "latency": 2.0}]
            },
            "/api/public/traces?limit=1&orderBy=timestamp.desc": {
                "data": [{"id": TRACE, "timestamp": "2026-01-01T00:00:00Z", "name": "call", "latency": 2.0}]
            },
            f"/api/public/traces/{TRACE}": {"id": TRACE, "observations": [OBSERVATION]},
        },
    ),
    "langsmith": ("/shop", {"/api/v1/runs/query": {"runs": [RUN]}}),
}


@pytest.mark.parametrize("name", LISTING)
def test_last_is_the_newest_run_that_a_backend_lists(name: str) -> None:
    """In the form that their documents show; what was asked and answered comes with it."""
    path, pages = LISTING[name]
    with answering(lambda asked, _: (200, json.dumps(pages[asked]).encode())) as address:
        store = f"{name}+http://{address}{path}"
        (listed,) = list_backend_runs(store, 5)
        (span,) = load_backend_spans(store, "last")
    assert (listed.trace_id, listed.name, listed.ms) == (TRACE, "call", 2000.0)
    assert span.trace_id == TRACE
    assert "Hello" in (span.text(genai.INPUT_MESSAGES) or "")
    assert "Hi" in (span.text(genai.OUTPUT_MESSAGES) or "")


def test_jaeger_lists_the_runs_of_all_its_services_and_last_is_the_newest(tmp_path: Path) -> None:
    """Each trace of a service comes whole, once, though it is of two services; a service without traces is said with 404."""
    (tmp_path / "sent.jsonl").write_bytes(packed("sent.jsonl.gz"))
    run = load_run_of_file(tmp_path / "sent.jsonl")
    older = [replace(span, trace_id="0" * 31 + "1", start_time_unix_nano=5, end_time_unix_nano=7) for span in run.spans[:1]]
    services = {"agent": [*older, *run.spans], "shop": run.spans, "empty": []}

    def jaeger(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        parts = urlsplit(path)
        match parts.path:
            case "/api/v3/services":
                return 200, json.dumps({"services": list(services)}).encode()
            case "/api/v3/traces":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                assert asked["query.start_time_min"].endswith("Z")
                assert asked["query.start_time_max"].endswith("Z")
                spans = services[asked["query.service_name"]]
                return (200, json.dumps({"result": spans_to_otlp_json(spans)}).encode()) if spans else (404, b"{}")
            case _:
                return 200, json.dumps({"result": spans_to_otlp_json(run.spans)}).encode()

    with answering(jaeger) as address:
        store = f"otlp+http://{address}/api/v3/traces"
        newest, other = list_backend_runs(store, 3)
        assert len(build_run(load_backend_spans(store, "last")).exchanges) == len(run.exchanges)
    assert (newest.trace_id, newest.name, newest.failed) == (TRACE, run.entry.name, run.failed)
    assert (other.trace_id, other.ms) == (older[0].trace_id, 2e-6)


def test_tempo_lists_what_its_search_finds_and_another_path_says_that_it_does_not() -> None:
    found = {"traces": [{"traceID": TRACE[1:], "rootTraceName": "answer", "startTimeUnixNano": "5", "durationMs": 7}]}
    with answering(lambda asked, _: (200, json.dumps(found if asked == "/api/search?limit=3" else {}).encode())) as address:
        (listed,) = list_backend_runs(f"otlp+http://{address}/api/v2/traces", 3)
        assert (listed.trace_id, listed.ms) == (f"0{TRACE[1:]}", 7)
        with pytest.raises(ConfigError, match="cannot list runs"):
            list_backend_runs(f"otlp+http://{address}/traces", 3)


def test_a_directory_of_otlp_files_is_a_store_with_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However deep the files lie, as an exporter puts them under days and hours."""
    deep = tmp_path / "year=2026" / "day=22"
    deep.mkdir(parents=True)
    (deep / "traces_7.json.gz").write_bytes((DATA / "sent.jsonl.gz").read_bytes())
    assert main(["runs", "--store", str(tmp_path)]) == 0
    assert TRACE in capsys.readouterr().out
    assert main(["show", "last", "--store", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == TRACE
    assert main(["runs", "--failed", "--store", str(tmp_path)]) == 1
    assert "--failed: requires freezeframe's own tables" in capsys.readouterr().err


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"phoenix\+http.*otlp\+http.*clickhouse"):
        load_backend_spans("tape+http://127.0.0.1:9", TRACE)


def test_only_urls_of_other_backends_are_taken_for_such() -> None:
    assert all(is_backend(url) for url in URLS)
    assert not any(is_backend(url) for url in ("http://h:8123", "clickhouse://u:p@h/db", "clickhouses://h/db?ca=x"))


def jaeger_tags(attributes: Mapping[str, AttributeValue]) -> list[dict[str, Any]]:
    """Return attributes as Jaeger's JSON writes them; lists as text."""
    types: dict[type, str] = {bool: "bool", int: "int64", float: "float64", bytes: "binary"}
    return [
        {
            "key": name,
            "type": types.get(type(value), "string"),
            "value": base64.b64encode(value).decode()
            if isinstance(value, bytes)
            else value
            if type(value) in types
            else as_text(value),
        }
        for name, value in attributes.items()
    ]


def to_jaeger(spans: Sequence[SpanRecord]) -> dict[str, Any]:
    """Return the spans of a trace as Jaeger's page downloads them: what the specification says of the way there."""
    made = []
    for span in spans:
        tags = {
            "span.kind": span.kind.name.lower(),
            "otel.scope.name": span.scope.name,
            "otel.scope.version": span.scope.version,
        }
        if span.status_code is not StatusCode.UNSET:
            tags |= {"otel.status_code": span.status_code.name, "otel.status_description": span.status_message}
        parents = [("CHILD_OF", span.trace_id, span.parent_span_id)] if span.parent_span_id else []
        links = [("FOLLOWS_FROM", link.trace_id, link.span_id) for link in span.links]
        made.append(
            {
                "traceID": span.trace_id.lstrip("0"),
                "spanID": span.span_id,
                "operationName": span.name,
                "references": [{"refType": kind, "traceID": trace, "spanID": of} for kind, trace, of in (*parents, *links)],
                "startTime": span.start_time_unix_nano // 1000,
                "duration": span.end_time_unix_nano // 1000 - span.start_time_unix_nano // 1000,
                "tags": jaeger_tags({**span.attributes, **tags}),
                "logs": [
                    {
                        "timestamp": event.time_unix_nano // 1000,
                        "fields": jaeger_tags({"event": event.name, **event.attributes}),
                    }
                    for event in span.events
                ],
                "processID": "p1",
                "warnings": None,
            }
        )
    resource = dict(spans[0].resource.attributes)
    process = {"serviceName": resource.pop("service.name", ""), "tags": jaeger_tags(resource)}
    return {"data": [{"traceID": spans[0].trace_id, "spans": made, "processes": {"p1": process}, "warnings": None}], "total": 0}


def test_jaegers_own_form_is_read_from_its_older_api_and_as_its_page_downloads_it(tmp_path: Path) -> None:
    """Every span comes back, with whole microseconds, and lists as text if a replay does not need them."""
    (tmp_path / "sent.jsonl").write_bytes(packed("sent.jsonl.gz"))
    sent = load_run_of_file(tmp_path / "sent.jsonl").spans
    document = json.dumps(to_jaeger(sent))
    (tmp_path / "downloaded.json").write_text(document)
    with answering(lambda path, headers: (200, document.encode())) as address:
        answered = load_backend_spans(f"otlp+http://{address}/api/traces", TRACE)
    expected = [
        replace(
            span,
            start_time_unix_nano=span.start_time_unix_nano // 1000 * 1000,
            end_time_unix_nano=span.end_time_unix_nano // 1000 * 1000,
            attributes={
                name: retyped({name: as_text(value)})[name] if isinstance(value, tuple) else value
                for name, value in span.attributes.items()
            },
            flags=0,
            resource=replace(span.resource, schema_url=""),
            scope=replace(span.scope, schema_url=""),
        )
        for span in sent
    ]
    assert sorted(answered, key=lambda span: span.span_id) == sorted(expected, key=lambda span: span.span_id)
    assert load_run_of_file(tmp_path / "downloaded.json").spans == build_run(answered).spans


@pytest.mark.parametrize(
    "wrong",
    [{"spanID": "no hex"}, {"startTime": "soon"}, {"startTime": None}, {"tags": [{"key": "a", "type": "int64", "value": {}}]}],
)
def test_a_faulty_span_in_jaegers_own_form_is_an_error_that_names_it(wrong: dict[str, Any]) -> None:
    span = {"traceID": TRACE, "spanID": "ab" * 8, "startTime": 1, "duration": 1, **wrong}
    with pytest.raises(WireError, match=f"trace {TRACE}, span {span['spanID']}"):
        spans_of_document({"data": [{"traceID": TRACE, "spans": [span]}]})


@pytest.mark.long
def test_the_page_on_adding_a_backend_adds_one_that_a_run_is_read_from(tmp_path: Path) -> None:
    """Its code blocks, put into the two files that it names and into no other, make ``--store tracebox+http://...`` work."""
    copy_package(freezeframe_replay, tmp_path)
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "other-backends.md", tmp_path / "docs")
    assert len(follow("backend.md", tmp_path)) == 2
    sent = tmp_path / "sent.jsonl"
    sent.write_bytes(packed("sent.jsonl.gz"))
    run = load_run_of_file(sent)
    kept = {"a/1": run.spans[::2], "b": run.spans[1::2]}
    asked: list[tuple[str, str]] = []

    def tracebox(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        asked.append((path, headers.get("authorization", "")))
        match path.split("/"):
            case ["", "own", "traces", run.trace_id]:
                return 200, json.dumps({"parts": list(kept)}).encode()
            case ["", "own", "parts", name]:
                return 200, json.dumps(spans_to_otlp_json(kept[name.replace("%2F", "/")])).encode()
            case _:
                return 200, b"[]"

    with answering(tracebox) as address:
        store = f"tracebox+http://me:word@{address}/own"
        shown = run_with([tmp_path / "replay"], _MAIN, "show", run.trace_id, "--store", store, "--json")
        missing = run_with([tmp_path / "replay"], _MAIN, "show", "ab" * 16, "--store", store)
    of_the_file = run_with([], _MAIN, "show", str(sent), "--json")
    assert json.loads(shown.stdout) == json.loads(of_the_file.stdout), shown.stderr
    assert {path for path, _ in asked} >= {"/own/parts/a%2F1", "/own/parts/b"}
    assert {credentials for _, credentials in asked} == {"Basic bWU6d29yZA=="}
    assert missing.returncode == 1
    assert "has no spans of it" in missing.stderr


def test_the_page_names_every_backend() -> None:
    page = (ROOT / "docs" / "other-backends.md").read_text()
    assert [name for name in BACKENDS if f"| `{name}+http://" not in page] == []
