"""`freezeframe import otlp`: files of OTLP through the door of a real collector, as often as one likes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from loopback import QuietHandler, listening, send_json
from running_collector import CollectorProcess, span

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.target import RunsPlace, load_as_fixture, load_run
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.sources.otlp_requests import requests_of_file
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError, WireError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.reported_calls import reported_calls
from freezeframe_schemas.run import Run

RECORDED = Path(__file__).parents[1] / "data" / "otlp"
BACKENDS = RECORDED.parent / "backends"
KEPT = "803a3b618da43f25026c778afad31019"
LANGGRAPH = "554bb01c4036783ed6077da86cd79476"


@pytest.fixture(scope="module")
def collector(warm_python: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    running = CollectorProcess(tmp_path_factory.mktemp("import") / "data", policy="minimal")
    yield running
    running.stop()


def imported(collector: CollectorProcess, *arguments: str) -> int:
    return main(["import", "otlp", *arguments, "--data", str(collector.data)])


@pytest.mark.proof("command import")
@pytest.mark.long
def test_an_imported_run_is_redacted_stored_once_and_reconstructed_from_the_store(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = "4111 1111 1111 1111"
    lines = [json.dumps(spans_to_otlp_json([span(number, f"pay with card {card}")])) for number in (1, 2, 3)]
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join(lines))
    for _ in range(2):
        assert imported(collector, str(file), str(RECORDED / "langgraph-chat-oi")) == 0
        told = f"sent 4 requests of 2 files\n2 runs:\n  {span(1).trace_id}\n  {LANGGRAPH}\nnext: freezeframe runs\n"
        assert capsys.readouterr().out == told
    place = RunsPlace(data=collector.data)
    run = load_run(place, span(1).trace_id)
    assert len(run.spans) == 3
    assert card not in str(run)
    fixture = freeze(load_run(place, LANGGRAPH))
    assert [step.exchange.kind.value for step in fixture.steps] == ["model", "tool", "tool", "model"]
    assert fixture.redaction.policy
    assert main(["runs", "--json", "--data", str(collector.data)]) == 0
    steps = {run["trace_id"]: run["steps"] for run in json.loads(capsys.readouterr().out)}
    assert steps == {span(1).trace_id: 0, LANGGRAPH: 4}, "those of an instrumentation that is not ours, too"


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["openai-chat-oi", "openai-resp-tl"])
def test_traces_of_a_client_without_a_span_around_the_run_are_one_run_of_the_store(
    collector: CollectorProcess, scenario: str
) -> None:
    """Whichever of them is named; a trace that asks otherwise is another run, and the ledger says why they are one."""
    folder = RECORDED / scenario
    (run,) = load_runs_of_file(folder)
    stranger = replace(
        run.spans[0], trace_id="9" * 32, span_id="9" * 16, attributes={**run.spans[0].attributes, "input.value": "{}"}
    ).with_attributes({genai.INPUT_MESSAGES: '[{"role": "user", "parts": [{"type": "text", "content": "Who?"}]}]'})
    assert collector.post([stranger]).status_code == 200
    assert imported(collector, str(folder)) == 0
    ids = {span.trace_id for path in folder.glob("*.pb") for span in decode_traces(path.read_bytes()).spans}
    assert len(ids) > 1
    for trace_id in (min(ids), max(ids)):
        found = load_run(RunsPlace(data=collector.data), trace_id)
        shown = RunSource(RunsPlace(data=collector.data)).load(trace_id)
        assert isinstance(shown, Run) and [len(shown.spans), len(found.spans)] == [len(run.spans)] * 2
        ledger = [loss.source for loss in freeze(found).ledger if loss.field == "traces"]
        assert ledger == [f"{len(ids)} joined: each carries on the conversation of one before, or reports its answer"]
    assert len(load_run(RunsPlace(data=collector.data), "9" * 32).spans) == 1


@pytest.mark.long
def test_requests_through_litellms_proxy_are_one_run_of_the_store_though_each_is_below_a_span_of_its_server(
    collector: CollectorProcess,
) -> None:
    (run,) = load_runs_of_file(RECORDED / "openai-chat-oi")
    ids: list[str] = []
    for number, call in enumerate(reported_calls(run.spans)):
        ids.append(f"{number + 7}" * 32)
        served = replace(
            call.span, trace_id=ids[-1], span_id=f"{number + 3}" * 16, name="POST /v1/chat/completions", attributes={}
        )
        called = replace(call.span, trace_id=ids[-1], parent_span_id=served.span_id)
        assert collector.post([served, called.with_attributes({"litellm.call_id": ids[-1]})]).status_code == 200
    collector.flush()
    for trace_id in ids:
        kinds = [step.exchange.kind for step in freeze(load_run(RunsPlace(data=collector.data), trace_id)).steps]
        assert kinds == [Kind.MODEL, Kind.TOOL, Kind.TOOL, Kind.MODEL]


class _Phoenix(QuietHandler):
    """Gives what a real one answered, and a list of that run."""

    def do_GET(self) -> None:
        answer = gzip.decompress((BACKENDS / "phoenix-answer.json.gz").read_bytes())
        row = {"trace_id": KEPT, "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z"}
        send_json(self, json.dumps({"data": [row]}).encode() if "/traces?" in self.path else answer)


@pytest.mark.long
def test_the_runs_of_a_backend_are_imported_redacted(collector: CollectorProcess, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(_Phoenix) as url:
        url = url.replace("//", "//me:word@")
        assert main(["import", "phoenix", url, "--dry-run", "--json"]) == 0
        assert [row["run"] for row in json.loads(capsys.readouterr().out)] == [KEPT]
        assert main(["import", "phoenix", url, "--data", str(collector.data)]) == 0
    told = capsys.readouterr()
    assert KEPT in told.out
    assert "word" not in told.err
    fixture = freeze(load_run(RunsPlace(data=collector.data), KEPT))
    assert fixture.redaction.policy
    assert not fixture.reconstructed
    assert main(["import", "vcr", url]) == 1
    assert "found a URL, expected a file" in capsys.readouterr().err


@pytest.mark.long
def test_a_directory_is_imported_with_those_below_it(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "day=22" / "hour=7"
    deep.mkdir(parents=True)
    (deep / "traces_1.binpb.gz").write_bytes(gzip.compress(encode_traces([replace(span(300), trace_id="e" * 32)])))
    assert imported(collector, str(tmp_path), "--dry-run") == 0
    assert capsys.readouterr().out.startswith("e" * 32)
    assert imported(collector, str(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == ["e" * 32]


@pytest.mark.long
def test_a_request_that_is_refused_is_named_and_the_rest_goes_on_from_there(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [json.dumps(spans_to_otlp_json([replace(span(100 + number), trace_id="c" * 32)])) for number in range(3)]
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join([good[0], "", '{"resourceSpans": 5}', *good[1:]]))
    assert imported(collector, str(file)) == 1
    told = capsys.readouterr().err
    assert f"{file}, request 2 (line 3): refused with HTTP 400" in told
    assert "--from 2" in told
    assert imported(collector, str(file), "--from", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"requests": 2, "rejected": 0, "unreadable": 0, "runs": ["c" * 32]}
    assert len(load_run(RunsPlace(data=collector.data), "c" * 32).spans) == 3


@pytest.mark.long
def test_messages_after_their_length_are_sent_one_by_one_and_a_cut_one_is_said(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = [encode_traces([replace(span(200 + number), trace_id="d" * 32)]) for number in range(2)]
    framed = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    file = tmp_path / "spans.pb"
    file.write_bytes(framed)
    assert imported(collector, str(file)) == 0
    assert "sent 2 requests of 1 file\n" in capsys.readouterr().out
    file.write_bytes(framed[:-3])
    assert imported(collector, str(file)) == 1
    assert "the last message is cut" in capsys.readouterr().err


def test_a_dry_run_prints_the_ledger_and_needs_no_collector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = str(RECORDED / "langgraph-chat-oi")
    assert main(["import", "otlp", named, "--dry-run", "--data", str(tmp_path)]) == 0
    assert "step 1, 4: response id: made up" in capsys.readouterr().out
    assert main(["import", "otlp", named, "--data", str(tmp_path)]) == 1
    assert "no collector is running" in capsys.readouterr().err


def test_every_form_of_otlp_names_the_runs_in_it(tmp_path: Path) -> None:
    """Protobuf and JSON, of spans and of log records."""
    runs = {
        file.name: {run for request in requests_of_file(file) for run in request.runs}
        for folder in ("langgraph-chat-oi", "adk-logs-native")
        for file in sorted((RECORDED / folder).iterdir())
        if file.suffix in (".pb", ".json", ".jsonl")
    }
    assert runs
    assert all(len(found) == 1 for found in runs.values()), runs


def test_what_a_backends_api_returned_is_otlp_in_its_own_wrapper() -> None:
    requests = list(requests_of_file(BACKENDS / "phoenix-answer.json.gz"))
    assert {run for request in requests for run in request.runs} == {KEPT}
    assert [request.number for request in requests] == list(range(1, len(requests) + 1))


def test_a_line_that_is_not_otlp_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_text("\n".join([json.dumps(spans_to_otlp_json([span(1)])), "", '{"resourceSpans": [']))
    with pytest.raises(WireError, match=r"line 3: not JSON"):
        list(requests_of_file(file))


@pytest.mark.parametrize("content", [b"hello\n", b"{}", b"\x00\x01\x02\x03", b"\x0a\x03abc", b"[1]\n"])
def test_what_is_not_otlp_is_an_error_with_the_file(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file.bin"
    file.write_bytes(content)
    with pytest.raises(WireError, match=r"file\.bin"):
        list(requests_of_file(file))


@pytest.mark.long
def test_messages_that_spans_point_to_are_read_from_a_named_place_and_redacted(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the option the run is stored as it came, and what keeps it from a replay is named."""
    prompts = tmp_path / "prompts"
    prompts.mkdir()
    (run,) = load_runs_of_file(RECORDED / "langgraph-chat-genai")
    lines: dict[str, list[str]] = {"1": [], "2": []}
    for mark, made in lines.items():
        for held in run.spans:
            attributes = dict(held.attributes)
            for name in (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES, genai.SYSTEM_INSTRUCTIONS):
                if (content := attributes.pop(name, None)) is not None:
                    file = prompts / f"{held.span_id}_{name}.json"
                    file.write_text(str(content).replace("today?", "today? 4111 1111 1111 1111"))
                    attributes[f"{name}_ref"] = f"s3://bucket/prompts/{file.name}"
            made.append(json.dumps(spans_to_otlp_json([replace(held, trace_id=mark * 32, attributes=attributes)])))
        (tmp_path / f"{mark}.jsonl").write_text("\n".join(made))
    capsys.readouterr()
    assert imported(collector, str(tmp_path / "1.jsonl"), "--content-from", f"s3://bucket/prompts={prompts}") == 0
    assert imported(collector, str(tmp_path / "2.jsonl"), "--content-from", str(prompts)) == 0
    assert "that spans point to not read: its address is not below a place that may be read" in capsys.readouterr().err
    found, lost = (load_run(RunsPlace(data=collector.data), mark * 32) for mark in lines)
    fixture = freeze(found)
    assert [step.exchange.kind for step in fixture.steps] == [step.exchange.kind for step in freeze(run).steps]
    assert "Seattle and San Francisco today? " in str(found)
    assert "4111 1111 1111 1111" not in str(found)
    with pytest.raises(RunError) as refused:
        load_as_fixture(RunsPlace(data=collector.data), lost.trace_id)
    assert refused.value.do == "it is in s3://bucket: not read: its address is not below a place that may be read"
