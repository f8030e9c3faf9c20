"""Damage of the log: if an acked span is lost, the books, a row, the log and the kept file say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from log_batches import NEVER, batch, sealed, span
from running_collector import CollectorProcess
from running_collector import span as sent_span

from freezeframe_collector.batch import Batch, encode_spans
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.wal.format import HEADER_BYTES, parse_segment, segment_mark
from freezeframe_collector.wal.log import Log
from freezeframe_schemas.otlp.encode import encode_traces

_REQUESTS, _SPANS = 5, 10


def _segment_of_50_spans(directory: Path) -> tuple[bytes, bytes]:
    """Return the bytes of an open segment whose requests were all acked, and its mark."""
    log = Log(directory, NEVER)
    for number in range(0, _REQUESTS * _SPANS, _SPANS):
        log.append(batch(*range(number, number + _SPANS)))
    [path] = directory.glob("*.open")
    data = path.read_bytes()
    log.close()
    return data, segment_mark(log.identity, int(path.stem))


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_flipped_byte_at_any_offset_leaves_no_acked_span_unaccounted_for(tmp_path: Path, is_sealed: bool) -> None:
    """Each span is read or counted as lost, a byte costs at most the request it is in, and damage is always named."""
    data, mark = _segment_of_50_spans(tmp_path / "wal")
    written = [record.keys for record in parse_segment(data, mark, is_sealed=is_sealed).records]
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        content = parse_segment(bytes(changed), mark, is_sealed=is_sealed)
        damage = content.damage
        assert damage is not None
        assert damage.is_counted
        assert (damage.spans, damage.records) == ((_SPANS, 1) if at >= HEADER_BYTES else (0, 0))
        assert [keys for keys in written if keys in {record.keys for record in content.records}] == [
            record.keys for record in content.records
        ]
        assert content.extent.spans + damage.spans == content.extent.counts.received == _REQUESTS * _SPANS
        assert (content.extent.counts.lost, content.torn_bytes) == (damage.spans, 0)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_lost_end_of_a_file_is_damage_and_counted(tmp_path: Path, is_sealed: bool) -> None:
    """Cut or overwritten with zeros: the start of the file says how much of it was acked."""
    data, mark = _segment_of_50_spans(tmp_path / "wal")
    for kept in range(HEADER_BYTES, len(data), 7):
        for rest in (b"", bytes(len(data) - kept)):
            content = parse_segment(data[:kept] + rest, mark, is_sealed=is_sealed)
            assert content.damage is not None
            assert content.extent.spans + content.damage.spans == _REQUESTS * _SPANS


def test_a_block_of_the_disk_that_is_lost_costs_only_the_requests_in_it(tmp_path: Path) -> None:
    """Also the first one, with the start of the file: the records after it say what was synced before them."""
    data, mark = _segment_of_50_spans(tmp_path / "wal")
    block = 512
    for at in range(0, len(data) - block, block):
        content = parse_segment(data[:at] + bytes(block) + data[at + block :], mark, is_sealed=False)
        assert content.damage is not None
        assert content.extent.spans + content.damage.spans == _REQUESTS * _SPANS
        assert content.damage.records <= 2


def test_a_record_inside_a_payload_is_not_taken_for_one(tmp_path: Path) -> None:
    """A sender who knows the format cannot plant spans that a damaged disk would bring to light."""
    own, own_mark = _segment_of_50_spans(tmp_path / "own")
    log = Log(tmp_path / "wal", NEVER)
    planted = span(1).with_attributes({"raw": own[HEADER_BYTES:]})
    log.append(Batch(encoded=encode_spans([planted]), spans=[planted], rejected=()))
    log.append(batch(2))
    [segment] = sealed(log)
    data = bytearray(segment.path.read_bytes())
    assert own[HEADER_BYTES:] in data
    data[HEADER_BYTES] ^= 1
    content = parse_segment(bytes(data), segment.mark, is_sealed=True)
    assert segment.mark != own_mark
    assert [len(record.keys) for record in content.records] == [1]
    assert content.damage is not None
    assert content.damage.spans == 1


def test_a_segment_without_its_ledger_can_be_read(tmp_path: Path) -> None:
    """The start of the file names the mark: a ledger that was lost takes no spans with it."""
    data, _ = _segment_of_50_spans(tmp_path / "wal")
    assert parse_segment(data, b"", is_sealed=False).extent.spans == _REQUESTS * _SPANS


def test_a_log_file_that_is_gone_does_not_hold_up_those_behind_it(tmp_path: Path) -> None:
    """It is a fault that is named; there is nothing to keep."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, memory_bytes=0))
    log.append(batch(1))
    [segment] = sealed(log)
    segment.path.unlink()
    loaded = segment.load_spans()
    assert (loaded.spans, loaded.fault) == ([], f"{segment.path.name} cannot be read: No such file or directory")
    segment.keep_damaged()
    assert not segment.path.with_suffix(".damaged").exists()


def test_a_log_file_that_somebody_deleted_is_missed_by_the_next_start(
    tmp_path: Path, start_collector: Callable[..., Any]
) -> None:
    """One before the last: the numbers of the files follow each other."""
    started = start_collector()
    started.pipeline.export(encode_traces([span(9)]))
    started.flush()
    started.log.close()
    log = Log(tmp_path / "wal", NEVER)
    for number in range(3):
        log.append(batch(number))
        log.seal()
    log.close()
    _, second, _ = sorted((tmp_path / "wal").glob("*.wal"))
    second.unlink()
    collector = start_collector()
    collector.flush()
    assert collector.store.names() == ["span-0", "span-2"]
    [row] = collector.store.rejected
    missing = f"{second.name} is missing, and it is not known what it held"
    assert row.detail.startswith(f"an unknown number of spans: {missing};")
    audit = collector.log.audit()
    assert (audit.counts.damaged, audit.missing, audit.balanced) == (1, 0, False)
    assert list((tmp_path / "wal").glob("*.wal")) == []


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_damage_of_acked_spans_is_said_everywhere(data: Path) -> None:
    """kill -9, one byte changed, started again: all other spans are in SQL, and every place names what is lost."""
    slowly = data.parent / "slowly.toml"
    slowly.write_text("wal.flush_interval_s = 60.0")
    collector = CollectorProcess(data, "--config", str(slowly))
    for start in range(0, 400, 10):
        assert collector.post([sent_span(number) for number in range(start, start + 10)]).status_code == 200
    collector.kill()
    [path] = (data / "wal").glob("*.open")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    again = CollectorProcess(data, "--config", str(slowly))
    again.flush()
    status = again.status()
    assert again.rows("SELECT toUInt32(uniqExact(span_id)) FROM freezeframe.spans") == [[390]]
    [[reason, detail]] = again.rows("SELECT reason, detail FROM freezeframe.rejected")
    assert reason == "the log was damaged"
    assert "10 spans in 1 records are lost" in detail
    audit = status["audit"]
    assert (audit["received"], audit["stored"], audit["lost"], audit["damaged"], audit["missing"]) == (400, 390, 10, 1, 0)
    assert audit["balanced"] is False
    assert status["log"]["damaged_files"] == 1
    assert path.with_suffix(".damaged").read_bytes() == content
    assert "freezeframe_collector_spans_lost_total 10\n" in httpx.get(f"{again.url}/metrics", headers=again.reader).text
    assert again.stop() == 0
    lines = [json.loads(line) for line in (data / "stderr.txt").read_text().splitlines() if line.startswith("{")]
    assert [line for line in lines if line["level"] == "error" and f"{path.stem}.damaged" in line["message"]]
