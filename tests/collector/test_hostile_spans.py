"""A whole collector under well-formed requests with hostile content: recorded spans of every instrumentation, twisted.

The bytes are OTLP, so they pass the receivers (`test_hostile_wire` is about those) and meet the dialects, the strict policy,
the log, its reader and the engine. ``FREEZEFRAME_FUZZ_S=3600`` goes on for an hour with new seeds.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import random
import time
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import zstandard
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from running_collector import CollectorProcess

RECORDED = sorted((Path(__file__).parents[1] / "data" / "otlp").glob("*/*.pb"))
LONG_S = float(os.environ.get("FREEZEFRAME_FUZZ_S", "0"))
ROUNDS = 24
MAX_MB = 3_000
"""What docs/operate/collector.md allows an owner with two workers: the engine's 2 GB, and the bounded parts."""
COMPRESSORS = {"identity": bytes, "gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}
METHODS = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
TIMES = (
    0,
    1,
    1 << 31,
    (1 << 32) - 1,
    1_780_000_000,
    1_780_000_000_000_000_000,
    (1 << 62),
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)


def _texts(chance: random.Random) -> str:
    many = chance.choice([1, 20, 3_000, 40_000])
    return chance.choice(
        [
            "",
            "\x00" * many,
            "a@" * many,
            "1-" * many,
            "4111 1111 1111 1111 " * min(many, 3_000),
            "eyJ" * many,
            "-----BEGIN RSA PRIVATE KEY-----" * min(many, 1_000),
            "Dear Maria Keller, " * min(many, 3_000),
            "\u202e\U0001f9ff\ufeff" * many,
            "[" * many,
            '{"a":' * many,
            '{"role":"user","content":[{"type":"text","text":"' + "x" * many,
            '[{"role": 5}, null, [], {"content": {"content": {}}}, {"parts": "x"}]',
            '{"k": 1e999999, "k": -0, "n": ' + "9" * min(many, 4_000) + "}",
            '"\\ud800\\udc00\\ud800"',
            "data: {}\n\n" * min(many, 3_000),
            chance.randbytes(min(many, 5_000)).decode("latin1"),
        ]
    )


def _value(chance: random.Random, depth: int = 0) -> AnyValue:
    match chance.randrange(9 if depth < 30 else 6):
        case 0 | 1 | 2:
            return AnyValue(string_value=_texts(chance))
        case 3:
            return AnyValue(int_value=chance.choice([0, -1, 1 << 53, -(1 << 63), (1 << 63) - 1]))
        case 4:
            return AnyValue(double_value=chance.choice([0.0, -0.0, float("nan"), float("inf"), 5e-324, 1e308]))
        case 5:
            return chance.choice([AnyValue(), AnyValue(bool_value=True), AnyValue(bytes_value=chance.randbytes(50))])
        case 6 | 7:
            items = [_value(chance, depth + chance.choice([1, 5])) for _ in range(chance.randrange(3))]
            return AnyValue(array_value=ArrayValue(values=items))
        case _:
            pairs = [KeyValue(key=_texts(chance)[:9], value=_value(chance, depth + 4)) for _ in range(chance.randrange(3))]
            return AnyValue(kvlist_value=KeyValueList(values=pairs))


def _twist_attributes(attributes: Any, chance: random.Random) -> None:
    for pair in chance.sample(list(attributes), min(len(attributes), chance.randrange(4))):
        match chance.randrange(5):
            case 0:
                pair.value.CopyFrom(_value(chance))
            case 1 if pair.value.string_value:
                text = pair.value.string_value
                at = chance.randrange(len(text) + 1)
                pair.value.string_value = (
                    text[:at] + chance.choice(["", _texts(chance), text]) + text[at:][chance.randrange(3) :]
                )
            case 2:
                numbers = chance.choice(["0", "-1", "999999999999999999", "1e9", "٣"])
                pair.key = ".".join(numbers if part.isdigit() else part for part in pair.key.split("."))
            case 3:
                pair.key += chance.choice([".", ".0", ".content", "." + "x" * 5_000, "\x00"])
            case _:
                attributes.add(key=pair.key, value=_value(chance))
    if chance.random() < 0.1:
        del attributes[chance.randrange(len(attributes) + 1) :]
    if chance.random() < 0.02:
        for number in range(chance.choice([100, 4_090])):
            attributes.add(key=f"filler.{number}", value=AnyValue(int_value=number))


def _twist_span(span: Any, chance: random.Random) -> None:
    _twist_attributes(span.attributes, chance)
    for event in span.events:
        _twist_attributes(event.attributes, chance)
    match chance.randrange(14):
        case 0:
            span.start_time_unix_nano = chance.choice(TIMES)
        case 1:
            span.end_time_unix_nano = chance.choice(TIMES)
        case 2:
            span.name = _texts(chance)
        case 3:
            span.parent_span_id = chance.choice([span.span_id, b"", b"\x00" * 8, chance.randbytes(8)])
        case 4:
            span.span_id = chance.choice([b"", b"\x00" * 8, chance.randbytes(7), chance.randbytes(8)])
        case 5:
            span.trace_id = chance.choice([b"", b"\x00" * 16, chance.randbytes(17), chance.randbytes(16)])
        case 6:
            span.kind, span.flags = chance.choice([0, 5]), (1 << 32) - 1
            span.status.message = _texts(chance)
        case 7:
            span.events.add(name=_texts(chance), time_unix_nano=chance.choice(TIMES))
        case 8:
            span.links.add(trace_id=chance.randbytes(chance.choice([0, 3, 16])), span_id=chance.randbytes(8))
        case _:
            # A separate run, so that it is not a duplicate.
            span.trace_id = chance.randbytes(16)


def _request(chance: random.Random) -> tuple[str, Any]:
    """Return the signal and a twisted request of it."""
    path = chance.choice(RECORDED)
    if ".logs." in path.name:
        logs = ExportLogsServiceRequest.FromString(path.read_bytes())
        for resource in logs.resource_logs:
            _twist_attributes(resource.resource.attributes, chance)
            for record in (record for scope in resource.scope_logs for record in scope.log_records):
                _twist_attributes(record.attributes, chance)
                if chance.random() < 0.2:
                    record.body.CopyFrom(_value(chance))
                record.time_unix_nano = chance.choice([record.time_unix_nano, *TIMES])
        return "logs", logs
    traces = ExportTraceServiceRequest.FromString(path.read_bytes())
    for resource in traces.resource_spans:
        if chance.random() < 0.2:
            _twist_attributes(resource.resource.attributes, chance)
        for scope in resource.scope_spans:
            if chance.random() < 0.1:
                scope.scope.name = chance.choice(["", "langsmith", "openinference.instrumentation.x", _texts(chance)[:500]])
            for span in scope.spans:
                _twist_span(span, chance)
    return "traces", traces


def _as_json(request: Any) -> bytes:
    return json.dumps(_hexed(MessageToDict(request))).encode()


def _hexed(item: Any) -> Any:
    """Write ids in hex, as OTLP/JSON has them."""
    if isinstance(item, dict):
        ids = {"traceId", "spanId", "parentSpanId"}
        pairs = cast("dict[str, Any]", item).items()
        return {name: base64.b64decode(value).hex() if name in ids else _hexed(value) for name, value in pairs}
    return [_hexed(one) for one in cast("list[Any]", item)] if isinstance(item, list) else item


def _seeds() -> Iterator[int]:
    if not LONG_S:
        yield from range(ROUNDS)
        return
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        yield random.SystemRandom().getrandbits(64)


def _memory_mb(collector: CollectorProcess) -> float:
    pids = [collector.ports["pid"], *(worker["pid"] for worker in collector.status()["workers"])]
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@pytest.fixture
def collector(tmp_path: Path) -> Generator[CollectorProcess]:
    """Return a collector with two workers, the strict policy and the real engine."""
    two = {"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": "2", "FREEZEFRAME_COLLECTOR__WAL__FLUSH_INTERVAL_S": "0.5"}
    process = CollectorProcess(tmp_path / "data", policy="strict", environment=two)
    yield process
    if process.process.poll() is None:
        process.kill()


@pytest.mark.long
@pytest.mark.timeout(LONG_S + 300)
def test_twisted_spans_are_answered_stored_and_read_back(collector: CollectorProcess) -> None:
    """Every request has a well-formed answer in bounded time and memory; what was acked is in SQL, and the engine refuses none.

    Workers hand their batches over as bytes, so that each span is also read back from the log.
    """
    most_mb = slowest_s = 0.0
    rounds = 0
    with grpc.insecure_channel(f"127.0.0.1:{collector.ports['grpc']}") as channel:
        for rounds, seed in enumerate(_seeds(), 1):
            chance = random.Random(seed)
            signal, request = _request(chance)
            door = chance.choice(["grpc", "protobuf", "json"])
            started = time.monotonic()
            if door == "grpc":
                call: Any = channel.unary_unary(METHODS[signal])
                answer: Any = call.future(request.SerializeToString(), compression=chance.choice(list(grpc.Compression)))
                assert answer.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT), (seed, answer.details())
            else:
                body = request.SerializeToString() if door == "protobuf" else _as_json(request)
                encoding = chance.choice(list(COMPRESSORS))
                kind = "application/x-protobuf" if door == "protobuf" else "application/json"
                connection = http.client.HTTPConnection("127.0.0.1", collector.ports["http"], timeout=120)
                headers = {"content-type": kind, "content-encoding": encoding}
                connection.request("POST", f"/v1/{signal}", COMPRESSORS[encoding](body), headers)
                assert connection.getresponse().status in (200, 400), seed
                connection.close()
            slowest_s = max(slowest_s, time.monotonic() - started)
            if rounds % 20 == 1:
                most_mb = max(most_mb, _memory_mb(collector))
                assert most_mb < MAX_MB
    collector.flush()
    status = collector.status()
    print(json.dumps({"rounds": rounds, "MB": most_mb, "slowest_s": slowest_s, **status["audit"]}))
    print(json.dumps(status["rejected_by_reason"]), json.dumps(status["since_start"]))
    wrong = "SELECT reason, detail, toUInt32(count()) FROM freezeframe.rejected_rows GROUP BY reason, detail ORDER BY reason"
    reasons = collector.rows(wrong)
    print(*reasons, sep="\n")
    # A stage that fails with one of Python's errors is a bug; its own errors name what they found.
    assert [row for row in reasons if row[0].endswith("failed") and row[1].endswith("Error")] == []
    assert not (collector.data / "set-aside").exists()
    assert status["audit"]["missing"] == status["audit"]["in_log"] == 0
    assert status["writer"]["set_aside"] == status["log"]["damaged_files"] == 0
    assert all(worker["restarts"] == 0 for worker in status["workers"])
    [[count]] = collector.rows("SELECT toUInt32(uniqExact(trace_id, span_id)) FROM freezeframe.span_rows")
    # Spans with the same id and different content replace each other.
    assert 0 < count <= status["audit"]["stored"]
    assert collector.stop() == 0
