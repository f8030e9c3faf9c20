"""Whatever fails, at whatever layer: no log, metric, answer or rejected row holds a private value."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freezeframe._guard import RAISE_VARIABLE, guard
from freezeframe_collector.pipeline import Stage
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.settings.policies import Policies
from freezeframe_collector.store.engine import store_error
from freezeframe_redaction import Redactor, load_or_create_keys, load_policy
from freezeframe_redaction.detectors import ALL
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.scanner import engine_of
from freezeframe_replay.cli import main
from freezeframe_schemas.errors import PermanentStoreError, RetryableStoreError, WireError
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json, spans_to_otlp_json
from freezeframe_schemas.span import Event, Scope, SpanRecord
from freezeframe_schemas.tables.cells import from_cell

MAIL, NAME = "jane.roe@corp-mail.io", "Zoë Quillfeather"
PRIVATE = ("jane.roe", "corp-mail", "Quillfeather", "415-867-5309")
TEXT = f"my name is {NAME}, mail {MAIL}, call +1 415-867-5309"


@pytest.fixture
def stage(tmp_path: Path) -> RedactStage:
    return RedactStage(Policies(default=load_policy()), load_or_create_keys(tmp_path / "keys"))


@pytest.fixture
def collector(start_collector: Callable[..., Any], stage: RedactStage) -> Any:
    return start_collector(stages=(Stage(name="redact", apply=stage),))


def _send(port: int, body: bytes, kind: str = "application/x-protobuf") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body, {"content-type": kind}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode("utf-8", "replace")


def _said(collector: Any, caplog: pytest.LogCaptureFixture, *answers: str) -> str:
    """Return everything that the collector said: answers, log, metrics, health, and what it noted about rejected spans."""
    told = [*answers, caplog.text, *(record.getMessage() + str(record.exc_info) for record in caplog.records)]
    for path in ("metrics", "status", "healthz"):
        page = urllib.request.Request(f"http://127.0.0.1:{collector.http_port}/{path}", headers=collector.reader)
        with urllib.request.urlopen(page, timeout=120) as answer:
            told.append(answer.read().decode())
    return "\n".join([*told, repr(collector.store.rejected), repr(collector.pipeline.meter.drain())])


def _private_in(told: str) -> list[str]:
    return [value for value in PRIVATE if value in told]


def _raising(kind: type[BaseException]) -> Callable[..., Any]:
    def find(text: str, low: int, high: int, at: int) -> tuple[()]:
        raise kind(f"cannot read {text[low:high]!r}")

    return find


@pytest.fixture
def faulty() -> Iterator[Callable[[int, type[BaseException]], None]]:
    """Break the check behind one trigger; all are whole again afterwards."""
    finds = engine_of(load_policy())._finds  # pyright: ignore[reportPrivateUsage]  # the one place where a detector can be broken
    kept = list(finds)

    def break_one(index: int, kind: type[BaseException]) -> None:
        finds[:] = kept
        finds[index] = _raising(kind)

    yield break_one
    finds[:] = kept


@pytest.mark.long
@pytest.mark.parametrize("kind", [ValueError, UnicodeDecodeError, MemoryError, RecursionError, AssertionError])
def test_a_detector_that_fails_costs_the_span_and_says_no_value(
    kind: type[Exception],
    collector: Any,
    make_span: Callable[..., SpanRecord],
    faulty: Callable[[int, type[BaseException]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = engine_of(load_policy())._names  # pyright: ignore[reportPrivateUsage]
    examples = {detector.name: f"{TEXT}\n{detector.examples[0].text}" for detector in ALL if detector.class_ != "ENCODED"}
    answers: list[str] = []
    with caplog.at_level(logging.DEBUG):
        for index, name in enumerate(names):
            if name in examples:
                faulty(index, kind)
                span = make_span(index, {"text": f"{examples[name]} {index}"}, name=f"mail {MAIL}")
                answers.append(_send(collector.http_port, encode_traces([span])))
        collector.flush()
    assert sum("redact failed" in answer for answer in answers) > len(answers) / 2
    assert len(collector.store.rejected) > len(answers) / 2
    assert _private_in(_said(collector, caplog, *answers)) == []
    assert all(_private_in(repr(span)) == [] for span in collector.store.spans)


_SPAN_JSON = {"traceId": "1" * 32, "spanId": "2" * 16, "name": MAIL, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}


def _request_json(**changes: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [_SPAN_JSON | changes]}]}]}).encode()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (TEXT.encode(), "application/x-protobuf"),
        (TEXT.encode(), "application/json"),
        (TEXT.encode("latin-1"), "application/json"),
        (b'{"resourceSpans": "' + MAIL.encode() + b'"}', "application/json"),
        (_request_json(traceId=MAIL), "application/json"),
        (_request_json(startTimeUnixNano=MAIL), "application/json"),
        (_request_json(kind=MAIL, attributes=MAIL), "application/json"),
        (_request_json(attributes=[{"key": MAIL, "value": {"intValue": MAIL}}]), "application/json"),
        (_request_json(attributes=[{"key": MAIL, "value": {"bytesValue": TEXT}}]), "application/json"),
        (_request_json()[:-20], "application/json"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_without_a_word_of_it(
    body: bytes, kind: str, collector: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = _send(collector.http_port, body, kind)
        collector.flush()
    assert _private_in(_said(collector, caplog, answer)) == []


def test_bytes_that_are_no_text_in_a_span_are_not_quoted(
    collector: Any,
    make_span: Callable[..., SpanRecord],
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = encode_traces([make_span(1, {"text": TEXT}, name=MAIL)])
    broken = body.replace(MAIL.encode(), MAIL.encode().replace(b"@", b"\xff"))
    with caplog.at_level(logging.DEBUG):
        answer = _send(collector.http_port, broken)
        collector.flush()
    assert "not UTF-8" in answer
    assert _private_in(_said(collector, caplog, answer)) == []


def test_names_of_scopes_are_no_label_of_a_metric_before_they_are_redacted(
    collector: Any,
    make_span: Callable[..., SpanRecord],
    caplog: pytest.LogCaptureFixture,
) -> None:
    span = replace(make_span(1), scope=Scope(name=f"scope of {MAIL}"), events=(Event(time_unix_nano=1, name=MAIL),))
    _send(collector.http_port, encode_traces([span]))
    collector.flush()
    assert _private_in(_said(collector, caplog)) == []


@pytest.mark.parametrize("kind", [PermanentStoreError, RetryableStoreError])
def test_a_store_that_quotes_what_it_refuses_is_not_quoted(
    kind: type[Exception],
    start_collector: Callable[..., Any],
    make_span: Callable[..., SpanRecord],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without redaction before it, so that the rows hold the value itself."""
    collector = start_collector()
    refusals = iter(range(2))

    def fault(spans: Sequence[SpanRecord]) -> None:
        if kind is PermanentStoreError or next(refusals, None) is not None:
            code = 27 if kind is PermanentStoreError else 241
            raise store_error(
                RuntimeError(f"Code: {code}. DB::Exception: Cannot parse '{TEXT}' in row 1"), "insert into span_rows"
            )

    collector.store.fault = fault
    with caplog.at_level(logging.DEBUG):
        _send(collector.http_port, encode_traces([make_span(1, {"text": TEXT})]))
        collector.flush()
    told = _said(collector, caplog)
    assert "Cannot parse" in caplog.text
    assert _private_in(told) == []


def test_what_the_capture_cannot_record_is_logged_without_the_applications_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(RAISE_VARIABLE, raising=False)
    with caplog.at_level(logging.DEBUG, logger="freezeframe"), guard("test.place"):
        raise ValueError(f"cannot serialise {MAIL}")
    assert re.search(r"test\.place: could not record.*ValueError at .*test_no_value_in_what_we_say\.py:\d+", caplog.text)
    assert _private_in(caplog.text + repr([record.exc_info for record in caplog.records])) == []


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value inside the value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inside:
        yield (*place, name)
        yield from _places(item, (*place, name))


_MISPLACED: Any = [
    MAIL,
    {MAIL: 1},
    [MAIL],
    {"stringValue": [MAIL]},
    {"intValue": MAIL},
    {"doubleValue": MAIL},
    {"bytesValue": MAIL},
]


def test_a_value_in_any_wrong_place_of_otlp_json_is_not_quoted(make_span: Callable[..., SpanRecord]) -> None:
    span = replace(
        make_span(1, {"text": "x", "number": 1, "list": ("a", 1.5), "bytes": b"x", "map": {"key": "a"}}),
        events=(Event(time_unix_nano=1, name="e", attributes={"a": 1}),),
    )
    whole = json.dumps(spans_to_otlp_json([span]))
    told: set[str] = set()
    for place in _places(json.loads(whole)):
        for wrong in _MISPLACED:
            request: Any = json.loads(whole)
            around = request
            for name in place[:-1]:
                around = around[name]
            around[place[-1]] = wrong
            try:
                spans_from_otlp_json(request)
            except WireError as error:
                told.add(str(error))
    assert len(told) > 5
    assert _private_in("\n".join(told)) == []


def test_a_stored_cell_that_cannot_be_read_is_not_quoted() -> None:
    for type_ in ("int", "double", "bytes", "json"):
        with pytest.raises(WireError) as caught:
            from_cell(type_, MAIL)
        assert _private_in(str(caught.value)) == []


@pytest.mark.parametrize(
    "line", [MAIL, f'{{"text": "{MAIL}"', f'["{MAIL}"]', f'{{"resourceSpans": "{MAIL}"}}', f'{{"{MAIL}": 1}}']
)
def test_a_line_that_the_command_cannot_read_is_not_quoted(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.jsonl").write_text(line + "\n")
    assert main(["store", "redact-file", str(tmp_path / "lines.jsonl")]) == 1
    told = capsys.readouterr()
    assert "lines.jsonl:1" in told.err
    assert _private_in(told.out + told.err) == []


def test_keys_and_what_holds_them_print_no_secret(tmp_path: Path) -> None:
    """Nor does whatever formats them: a log, an assertion, a debugger's list of variables."""
    ring = load_or_create_keys(tmp_path / "keys")
    key = ring.current()
    redactor = Redactor(load_policy(), key)
    told = repr((ring, key, redactor, redactor.redact(TEXT), Prf(key.secret))) + str(key)
    assert repr(key.secret)[2:10] not in told
    assert _private_in(told) == []


_STRAY = """
import asyncio, gc, sys, threading
from freezeframe_collector.telemetry import configure_logging, hide_exception_text

VALUE = sys.argv[1]
configure_logging("debug")
hide_exception_text()

def fail(value):
    raise ValueError(value)

class Failing:
    def __del__(self):
        fail(VALUE)

async def fail_later():
    fail(VALUE)

async def main():
    asyncio.get_running_loop().call_soon(fail, VALUE)
    task = asyncio.ensure_future(fail_later())
    await asyncio.wait((task,))
    del task
    gc.collect()

asyncio.run(main())
thread = threading.Thread(target=fail, args=(VALUE,))
thread.start()
thread.join()
Failing()
fail(VALUE)
"""


@pytest.mark.long
def test_an_exception_that_nobody_catches_is_told_without_its_text() -> None:
    """In a callback, a task, a thread, a finalizer, and at last the one that ends the process."""
    ended = subprocess.run([sys.executable, "-c", _STRAY, MAIL], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 1
    told = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [line["message"] for line in told if "error" in line] == [
        "Exception in callback",
        "Task exception was never retrieved",
        "a thread ended",
        "unhandled exception",
        "ended by an exception",
    ]
    assert {(line["error"], line["where"]) for line in told if "error" in line} == {("ValueError", "<string>:10")}
    assert _private_in(ended.stderr) == []
