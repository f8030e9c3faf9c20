"""`freezeframe import` of faulty, hostile, cut and very large files: a clear error with the place, and nothing is sent."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from handmade_runs import make_run, model_call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording_files import ALL, DATA, ENTRY, FILES, archive, run_of, written

from freezeframe_replay.sources.recordings import json_items
from freezeframe_replay.sources.recordings.kinds import RECORDINGS, requests_of_recording, runs_of_recording
from freezeframe_replay.sources.span_file import load_runs_below, load_runs_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, RunError, WireError
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

RESPONSE = {"status": {"code": 200}, "body": {"string": "{}"}}
REQUEST = {"method": "GET", "uri": "https://example.com/"}


def cassette(*items: Any, **others: Any) -> str:
    return json.dumps({"interactions": items, "version": 1, **others})


_RUN = {"id": "0190aaaa-0000-7000-8000-000000000002", "start_time": "2026-01-01T00:00:00Z"}
_TOO_LARGE = {**_RUN, "extra": {"metadata": {"n": 10**23}}}


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        ("vcr", cassette({"request": REQUEST, "response": RESPONSE}, version=7), r"found cassette version '7', expected 1"),
        ("vcr", json.dumps({"interactions": []}), "no version at its end"),
        ("vcr", cassette({"request": REQUEST}), "interaction 1: response.status.code: expected a number"),
        (
            "vcr",
            cassette({"request": {**REQUEST, "uri": "file:///etc/passwd"}}),
            "interaction 1: request: expected an http URL",
        ),
        ("vcr", cassette({"request": {**REQUEST, "uri": "http://["}}), "interaction 1: Invalid IPv6 URL"),
        ("vcr", cassette({"request": REQUEST, "response": {**RESPONSE, "body": {"string": [1]}}}), "response.body: found list"),
        ("vcr", "interactions:\n- !!python/object/apply:os.system [id]\n", "line 2: found .*not plain data"),
        ("vcr", "interactions:\n- request: &a {}\n  response: *a\nversion: 1\n", "line 3: found 'a'.*not plain data"),
        ("vcr", "interactions:\n- " + "[" * 200 + "]" * 200, "line 2: nested deeper than 100 levels"),
        ("vcr", "interactions: [\n", "line 2: "),
        ("vcr", "hello\n", "line 1: found Scalar, expected MappingStart"),
        ("vcr", b"\x00\x01\xff", "control characters|unacceptable|special characters"),
        ("vcr", "", "line 1: found StreamEnd, expected DocumentStart"),
        ("har", archive(ENTRY, version="2.0"), "found HAR version '2.0', expected one of 1.1, 1.2, 1.3"),
        ("har", json.dumps({"log": {"entries": []}}), "no HAR version"),
        ("har", json.dumps({"log": {"version": "1.2"}}), "found no array 'log.entries'"),
        ("har", archive({**ENTRY, "request": {"method": "GET", "url": "nowhere"}}), "entry 1: request: expected an http URL"),
        ("har", archive(ENTRY, {**ENTRY, "startedDateTime": "noon"}), "entry 2: startedDateTime: expected a time"),
        ("har", archive({**ENTRY, "response": {}}), "entry 1: response.status: expected a number"),
        (
            "har",
            archive({**ENTRY, "response": {"status": 200, "content": {"text": "*", "encoding": "base64"}}}),
            "entry 1: response.content.text: is marked as base64 but does not decode",
        ),
        ("har", archive(*[ENTRY] * 300, {}), "entry 301: request: expected an http URL"),
        ("har", archive() + "{}", "after the end of the document"),
        ("har", '{"log": {"version": "1.2", "entries": [' + "[" * 100_000, "nested deeper|not JSON, or cut"),
        ("har", b'{"log": "\xff"}', "not UTF-8"),
        ("har", "", "the file is cut"),
        ("har", '{"log": {\n"version": "1.2",\n"entries": [\n{},\n{"a":\nb}]}}', "line 4, after item 0|entry 1"),
        ("phoenix", '{"data": [' + "\n" * 70_000 + "{],\n1]}", "line 70001, after item 0: not JSON, or cut"),
        ("batch", '{"id": 1}', "line 1: custom_id: expected text; this is not a line of a batch"),
        ("batch", '{"custom_id": "a", "response": {}}', "line 1: found no request of this custom_id"),
        ("bedrock", "{}", "record 1: schemaType: expected ModelInvocationLog"),
        ("bedrock", '{"schemaType": "ModelInvocationLog", "schemaVersion": "2.0"}', "found schemaVersion '2.0', expected 1.0"),
        ("bedrock", gzip.compress(b'{"schemaType": 1}' * 99, mtime=0)[:-9], "the compressed file is cut or damaged"),
        ("inspect", '{"version": 3, "samples": []}', "found version '3' of the log, expected 2"),
        ("inspect", '{"version": 2}', "found no array 'samples'"),
        ("inspect", '{"samples": [{"events": [{"event": "model"}]}]}', "sample 1: timestamp: expected a time"),
        ("inspect", '{"samples": [{"events": [{"event": "model", "input_refs": [5]}]}]}', "input_refs: expected pairs"),
        ("inspect", b"PK\x05\x06" + bytes(18), "found no header.json"),
        ("inspect", b"PK\x03\x04" + bytes(60), "not a readable log of Inspect"),
        ("braintrust", "{}", "row 1: metrics.start: expected a time"),
        ("braintrust", '{"metrics": {"start": 1}}', "row 1: root_span_id: expected text"),
        ("jsonl", '{"request": 5}', "line 1, item 1: request: found int, expected an object"),
        ("jsonl", '\n\n{"request": 5}', "line 3, item 1: request: found int, expected an object"),
        ("jsonl", '{"request": {}}\n\n{"request": ', "line 3: not JSON, or cut"),
        ("jsonl", '{"request": {}, "url": "file:///etc/passwd"}', "item 1: request: expected an http URL"),
        ("tau-bench", "{}", "found '{', expected"),
        ("tau-bench", "[{}]", "result 1: traj: expected a list of messages"),
        ("tau-bench", '[{"traj": [{"role": "user"}, 5]}]', "result 1: traj: expected a list of messages"),
        ("tau-bench", '[{"traj": [{"role": "user"}]}, {"traj": [{"role": 1}]}]', "result 2: message 1: role: expected text"),
        ("tau-bench", json.dumps([{"traj": [{"role": "user"}] * 2000 + [{"role": "assistant"}]}]), "follows 2,000 messages"),
        ("langfuse", '{"observations": [{}]}', "observation 1: startTime: expected a time"),
        ("langfuse", '{"observations": [{"startTime": "2026-01-01"}]}', "observation 1: traceId: expected text"),
        ("langfuse", '{"trace": {}}', "found no array 'observations'"),
        ("mlflow", '{"info": {}}', "found no array 'data.spans'"),
        ("mlflow", '{"spans": [{}]}', "span 1: start_time_unix_nano: expected a number"),
        ("mlflow", '{"spans": [{"start_time_unix_nano": 1, "trace_id": "x"}]}', "span 1: trace_id: expected an id of 16 bytes"),
        ("mlflow", b"SQLite format 3\x00" + b"\x00" * 200, "not a readable store of MLflow"),
        ("phoenix", '{"spans": []}', "found no array 'data'"),
        ("phoenix", '{"data": [{"start_time": "noon"}]}', "span 1: start_time: expected a time"),
        ("phoenix", '{"data": [{"start_time": "2026-01-01"}]}', "span 1: context.trace_id: expected text"),
        ("langsmith", '{"id": 1}', "run 1: start_time: expected a time"),
        ("langsmith", '{"start_time": "2026-01-01"}', "run 1: trace_id: expected text"),
        ("langsmith", '[{"start_time": "2026-01-01"}', "run 1: trace_id: expected text"),
        ("langsmith", "{}\n{", "line 2: not JSON|run 1"),
        ("langsmith", "\n".join([json.dumps(_RUN)] * 300 + [json.dumps(_TOO_LARGE)]), "a value has no OTLP form"),
        ("claude-code", '{"type": "user"}\n{"id": 1}', "line 2: type: expected text; this is not a session of Claude Code"),
        ("claude-code", '{"type": "user", "uuid": "a", "message": {"role": "user"}}', "line 1: timestamp: expected a time"),
        ("codex", "[1]", "line 1: type: expected text; this is not a session of Codex CLI"),
        ("codex", '{"type": "session_meta", "timestamp": 5}', "line 1: timestamp: expected a time"),
        ("gemini-cli", '{"sessionId": "a"}\n{"id": "b", "type": "user"}', "line 2: timestamp: expected a time"),
        ("gemini-cli", '{"sessionId": "a", "messages": [{"id": "b", "type": "user"}]}', "message 1: timestamp: expected a"),
        ("gemini-cli", '{"sessionId": "a",\n"chats": []}', "found no array 'messages'"),
        ("mini-swe-agent", '{"info": {}}', "found no array 'messages'"),
        ("mini-swe-agent", '{"messages": [{"content": "x"}]}', "message 1: expected a message with a role"),
    ],
)
def test_a_faulty_file_is_an_error_with_the_place_and_nothing_of_it_is_sent(
    kind: str, content: str | bytes, told: str, tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(WireError, match=told) as error:
        next(requests_of_recording(path, RECORDINGS[kind]))
    assert str(path) in str(error.value)


def test_every_kind_is_among_those_that_are_cut_and_fuzzed() -> None:
    assert ALL.keys() == RECORDINGS.keys()


@pytest.mark.parametrize("kind", sorted(ALL.keys() - {"vcr"}))
@pytest.mark.parametrize("value", ["[" * 100_000, '"' + "x" * 400_000, "1" * 10_000, '{"a":' * 100_000])
def test_hostile_json_is_an_error_with_the_file_whatever_was_expected(
    kind: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deeper than Python reads, longer than an item may be, or a number with more digits than Python takes."""
    monkeypatch.setattr(json_items, "MAX_ITEM_CHARS", 100_000)
    whole = ALL[kind].read_bytes()
    for content in (value.encode(), whole.rstrip() + value.encode(), whole[: len(whole) // 2] + value.encode()):
        with pytest.raises(WireError, match="file"):
            next(requests_of_recording(written(tmp_path, content), RECORDINGS[kind]))


FORMS = [*ALL.items(), ("inspect", DATA / "rain.inspect.eval")]


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_file_cut_anywhere_is_an_error(kind: str, form: Path, tmp_path: Path) -> None:
    """Of a file with a run a line, inside a line."""
    whole = form.read_bytes().rstrip()
    for end in {*range(0, len(whole), 997), len(whole) - 1}:
        path = written(tmp_path, whole[:end])
        with pytest.raises((WireError, RunError) if end == 0 else WireError, match="file"):
            next(requests_of_recording(path, RECORDINGS[kind]))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "form"), FORMS)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_bytes_in_a_recording_give_runs_or_an_error_with_the_file(
    kind: str, form: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = form.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    piece = data.draw(
        st.one_of(st.binary(max_size=8), st.sampled_from([b"null", b"[]", b"{}", b"1e999", b'"', b"- ", b"!!int x"]))
    )
    path = written(tmp_path, whole[:at] + piece + whole[at + data.draw(st.integers(0, 200)) :])
    try:
        runs_of_recording(path, RECORDINGS[kind])
    except WireError as error:
        assert str(path) in str(error)  # noqa: PT017 - it may also be readable


@pytest.mark.parametrize("kind", FILES)
def test_an_item_over_the_limit_is_an_error(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_items, "MAX_ITEM_CHARS", 100_000)
    monkeypatch.setattr("freezeframe_replay.sources.recordings.vcr.MAX_ITEM_CHARS", 100_000)
    long = "x" * 400_000
    content = {
        "vcr": f"interactions:\n- request: {{body: {long}}}\n",
        "har": archive({**ENTRY, "comment": long}),
    }[kind]
    with pytest.raises(WireError, match="has more than"):
        runs_of_recording(written(tmp_path, content), RECORDINGS[kind])


@pytest.mark.long
def test_a_long_archive_is_read_in_little_memory(tmp_path: Path) -> None:
    entry = json.dumps({**ENTRY, "response": {"status": 200, "content": {"text": "x" * 50_000}}})
    path = written(tmp_path, '{"log": {"version": "1.2", "entries": [' + ",".join([entry] * 600) + "]}}")
    assert path.stat().st_size > 30_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in requests_of_recording(path, RECORDINGS["har"])) > 3
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_without_pyyaml_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match="pip install pyyaml"):
        run_of("vcr", FILES["vcr"])


def test_bodies_that_the_archive_left_out_are_gaps_of_the_run(tmp_path: Path) -> None:
    entry = {**ENTRY, "response": {"status": 200, "content": {"size": 10}}}
    run = run_of("har", written(tmp_path, archive(entry)))
    assert any("save it with content" in str(gap) for gap in run.gaps)


def test_a_recorded_body_that_does_not_fit_its_chunks_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """The one of several that holds the span."""
    whole = make_run(model_call("Where is it?", "In Lyon."))
    cut = [replace(span, trace_id="cd" * 16) for span in whole]
    cut[-1] = replace(cut[-1], span_id="99" * 8, attributes={**cut[-1].attributes, genai.RESPONSE_CHUNK_SIZES: [1, 2]})
    for name, spans in (("a.jsonl", whole), ("b.jsonl", cut)):
        (tmp_path / name).write_text(json.dumps(spans_to_otlp_json(spans)))
    for read in (load_runs_of_file, load_runs_below):
        with pytest.raises(WireError, match=rf"{tmp_path / 'b.jsonl'}, span 9999999999999999: .*chunks add up to 3 bytes"):
            read(tmp_path)
