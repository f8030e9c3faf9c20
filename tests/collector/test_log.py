"""The write-ahead log: what was acked survives, whatever happens to the process."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from log_batches import NEVER, batch, crash, numbers, sealed, span

from freezeframe_collector.admission import BusyError
from freezeframe_collector.batch import Batch, encode_spans
from freezeframe_collector.files import DirectoryLock
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.wal.format import HEADER_BYTES, read_segment
from freezeframe_collector.wal.log import Log
from freezeframe_collector.wal.segment import LoadedSpans, Segment, count_damaged
from freezeframe_schemas.errors import ConfigError, StoreError, WireError
from freezeframe_schemas.otlp.decode import Limits


def test_what_was_appended_survives_a_crash(tmp_path: Path) -> None:
    """Appended is on the disk: a copy of the directory holds it, spans and reasons alike."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1, 2))
    log.append(batch(3, rejected=["unreadable"]))
    [segment] = sealed(Log(crash(log, tmp_path / "copy"), NEVER))
    assert numbers([segment]) == [1, 2, 3]
    assert [item.reason for item in segment.rejected] == ["unreadable"]
    log.close()


@pytest.mark.proof("law acked spans survive a torn log")
@pytest.mark.parametrize(("step", "tail"), [(11, "cut off"), (13, "zeros"), pytest.param(1, "cut off", marks=pytest.mark.long)])
def test_a_tail_torn_at_any_byte_costs_only_what_was_not_acked(tmp_path: Path, step: int, tail: str) -> None:
    """A power loss may keep any prefix of the last write, or the file's new length with zeros in place of the write.

    Every whole record before it is recovered, and the log goes on; even if not so much as the file's header is there.
    """
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1, 2))
    [path] = log.directory.glob("*.open")
    first = path.read_bytes()
    first_end = len(first)
    log.append(batch(3))
    # The state before the second sync: the start of the file says how far the first one got.
    content = first[:HEADER_BYTES] + path.read_bytes()[HEADER_BYTES:]
    for length in [*range(10), *range(10, len(content), step), first_end, len(content)]:
        copy = tmp_path / f"copy-{length}"
        shutil.copytree(log.directory, copy)
        zeros = bytes(len(content) - length) if tail == "zeros" else b""
        (copy / path.name).write_bytes(content[:length] + zeros)
        recovered = Log(copy, NEVER)
        recovered.append(batch(9))
        whole = [1, 2, 3] if length == len(content) else [1, 2] if length >= first_end else []
        assert numbers(sealed(recovered)) == [*whole, 9]
        assert length < first_end or recovered.audit().balanced
        shutil.rmtree(copy)
    log.close()


@settings(max_examples=examples(60), deadline=None)
@given(at=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_a_changed_byte_never_gives_other_spans(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int) -> None:
    """Whatever byte of a segment changes, the reader gives whole records that were written and says what is lost."""
    directory = tmp_path_factory.mktemp("flip")
    log = Log(directory / "wal", NEVER)
    log.append(batch(1))
    log.append(batch(2))
    segments = sealed(log)
    written = {record.keys for record in read_segment(segments[0].path).records}
    data = bytearray(segments[0].path.read_bytes())
    data[at % len(data)] ^= flip
    segments[0].path.write_bytes(data)
    content = read_segment(segments[0].path, segments[0].mark)
    assert content.damage is not None
    assert {record.keys for record in content.records} <= written
    assert len(content.records) + content.damage.records == 2


def test_a_torn_tail_is_cut_off_once(tmp_path: Path) -> None:
    """A second start finds a whole file: a tail left on it would look like a disk that damages what was synced."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))
    copy = crash(log, tmp_path / "copy")
    log.close()
    [path] = copy.glob("*.open")
    with path.open("ab") as file:
        file.write(b"torn")
    for torn_bytes in (4, 0):
        started = Log(copy, NEVER)
        assert (started.torn_bytes, count_damaged(copy)) == (torn_bytes, 0)
        assert numbers(sealed(started)) == [1]


def test_a_segment_of_another_version_is_refused(tmp_path: Path) -> None:
    """The message names both versions."""
    path = tmp_path / "0000000000000001.wal"
    path.write_bytes(b"FFWAL\x00\x07\x00")
    with pytest.raises(WireError, match="version 7, this collector knows version 1"):
        read_segment(path)


def _sealed_log(directory: Path) -> tuple[Log, Segment]:
    """Return a log whose only segment is sealed, and the segment."""
    log = Log(directory, NEVER)
    log.append(batch(1))
    log.seal()
    segment = log.next_sealed()
    assert segment is not None
    return log, segment


def test_a_crash_between_store_and_ledger_gives_the_same_token_again(tmp_path: Path) -> None:
    """Not yet in the ledger: the segment comes back under the same number and identity, so the store knows the token."""
    log, segment = _sealed_log(tmp_path / "wal")
    again = Log(crash(log, tmp_path / "copy"), NEVER)
    [segment_again] = sealed(again)
    assert (again.identity, segment_again.number) == (log.identity, segment.number)
    log.close()


def test_a_crash_between_ledger_and_unlink_stores_nothing_twice(tmp_path: Path) -> None:
    """In the ledger: a file that was left behind is deleted unread, and its spans count once."""
    log, segment = _sealed_log(tmp_path / "wal")
    data = segment.path.read_bytes()
    log.retire(segment, stored=1, rejected=0)
    segment.path.write_bytes(data)
    again = Log(crash(log, tmp_path / "copy"), NEVER)
    assert again.audit().counts.stored == 1
    assert sealed(again) == []
    log.close()


def _log_of_dead_processes(directory: Path, segments: int) -> Path:
    """Return the directory of a log that was killed with so many segments, of one span each, the last one open."""
    log = Log(directory / "wal", NEVER)
    for number in range(1, segments + 1):
        log.append(batch(number))
        if number < segments:
            log.seal()
    copy = crash(log, directory / "copy")
    log.close()
    return copy


def test_segments_of_a_dead_process_go_to_the_writer_in_order(tmp_path: Path) -> None:
    """Also the one that was still open: a later segment in the books would let the next start delete an earlier one unread."""
    segments = sealed(Log(_log_of_dead_processes(tmp_path, 3), WalConfig(flush_interval_s=3600, segment_bytes=1)))
    assert [segment.number for segment in segments] == [1, 2, 3]
    assert numbers(segments) == [1, 2, 3]


def test_segments_of_dead_processes_go_to_the_store_together(tmp_path: Path) -> None:
    """All but the first, which the store may have begun with under its own token; what is stored leaves no file."""
    log = Log(_log_of_dead_processes(tmp_path, 40), NEVER)
    first, rest = sealed(log)
    assert (numbers([first]), numbers([rest])) == ([1], list(range(2, 41)))
    for segment in (first, rest):
        log.take(segment)
        log.retire(segment, stored=segment.span_count, rejected=0)
    audit = log.audit()
    assert (audit.counts.stored, audit.in_log, audit.balanced) == (40, 0, True)
    assert not list(log.directory.glob("*.wal"))
    assert Log(log.directory, NEVER).append(batch(17)).duplicate == 1


def test_segments_that_went_to_the_store_together_do_so_again_after_a_crash(tmp_path: Path) -> None:
    """The token is that of the same spans: a segment that came since is not among them."""
    log = Log(_log_of_dead_processes(tmp_path, 5), NEVER)
    first, rest = (log.next_sealed() for _ in range(2))
    assert first is not None
    assert rest is not None
    log.retire(first, stored=1, rejected=0)
    log.take(rest)
    log.append(batch(6))
    again = sealed(Log(crash(log, tmp_path / "again"), NEVER))
    assert [numbers([segment]) for segment in again] == [[2, 3, 4, 5], [6]]
    assert again[0].number == rest.number
    log.close()


def test_damage_in_one_of_several_segments_is_named_and_only_its_file_kept(tmp_path: Path) -> None:
    """Found while the log is open, after they were joined: the others give their spans."""
    log = Log(_log_of_dead_processes(tmp_path, 4), NEVER)
    _, rest = sealed(log)
    data = bytearray(rest.parts[1].path.read_bytes())
    data[-1] ^= 1
    rest.parts[1].path.write_bytes(data)
    loaded = rest.load_spans()
    assert [found.name for found in loaded.spans] == ["span-2", "span-4"]
    assert loaded.fault.startswith(f"{rest.parts[1].path.name}: ")
    assert loaded.faulty == (rest.parts[1],)


def test_a_segment_read_from_disk_is_the_one_that_was_held(tmp_path: Path) -> None:
    """Without memory for spans the writer gets them from the file, the same."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, memory_bytes=0))
    log.append(batch(1, 2))
    log.append(batch(3))
    [segment] = sealed(log)
    assert segment.spans is None
    assert segment.load_spans().spans == [span(1), span(2), span(3)]


def test_a_changed_segment_is_a_fault_and_not_fewer_spans(tmp_path: Path) -> None:
    """A file that lost a record after it was sealed is named, never stored in part in silence."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, memory_bytes=0))
    log.append(batch(1))
    log.append(batch(2))
    [segment] = sealed(log)
    os.truncate(segment.path, segment.size_bytes - 1)
    loaded = segment.load_spans()
    assert loaded.spans == [span(1)]
    assert "1 spans in 1 records are lost" in loaded.fault


def test_a_segment_that_the_disk_damaged_does_not_keep_the_log_from_starting(tmp_path: Path) -> None:
    """What was acked and is gone is counted as lost, the whole file is kept, and the log goes on; also at the start after."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1, 2))
    log.seal()
    log.append(batch(3))
    crash(log, tmp_path / "copy")
    log.close()
    [path] = (tmp_path / "copy").glob("*.wal")
    content = bytearray(path.read_bytes())
    content[HEADER_BYTES + 90] ^= 1
    path.write_bytes(content)
    for _ in ("first start", "second start"):
        again = Log(tmp_path / "copy", NEVER)
        audit = again.audit()
        assert (count_damaged(again.directory), audit.missing, audit.balanced) == (1, 0, False)
        assert (audit.counts.received, audit.counts.lost, audit.in_log) == (3, 2, 1)
        assert numbers(sealed(again)) == [3]
        assert (again.directory / path.name).with_suffix(".damaged").read_bytes() == content


def test_what_was_accepted_is_read_back_whatever_the_limits_are(tmp_path: Path) -> None:
    """A stage may add attributes to a span that came at the limit, and a limit may be lowered: the log gives all back."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, memory_bytes=0))
    large = span(1).with_attributes({f"key-{number}": number for number in range(Limits().attributes + 1)})
    log.append(Batch(encoded=encode_spans([large]), spans=[large], rejected=()))
    [segment] = sealed(log)
    assert segment.load_spans() == LoadedSpans(spans=[large])


def test_a_file_that_cannot_be_deleted_is_off_the_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The books are what counts: the writer goes on, and the next start deletes the file unread."""
    log, segment = _sealed_log(tmp_path / "wal")

    def refuse(path: Path, missing_ok: bool = False) -> None:
        del path, missing_ok
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        log.retire(segment, stored=1, rejected=0)
    audit = log.audit()
    assert (audit.counts.stored, audit.in_log, audit.missing) == (1, 0, 0)
    assert sealed(Log(crash(log, tmp_path / "copy"), NEVER)) == []
    log.close()


def test_a_log_that_has_ended_refuses_at_once(tmp_path: Path) -> None:
    """After the end, and after the last request in the queue: no sender waits for an answer that never comes."""
    log = Log(tmp_path / "wal", NEVER)
    syncing, go_on = threading.Event(), threading.Event()
    sync = os.fdatasync

    def held(descriptor: int) -> None:
        syncing.set()
        assert go_on.wait()
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", held)
        last = log.submit(batch(1))
        assert syncing.wait()
        closing = threading.Thread(target=log.close)
        closing.start()
        while log._queue.empty():  # pyright: ignore[reportPrivateUsage]  # until the end is in the queue, before the next one
            os.sched_yield()
        too_late = log.submit(batch(2))
        go_on.set()
        closing.join()
    assert last.result(10).duplicate == 0
    with pytest.raises(BusyError, match="the log is closed"):
        too_late.result(10)
    with pytest.raises(BusyError, match="the log is closed"):
        log.submit(batch(3)).result(10)


def test_a_fault_that_ends_the_log_is_the_answer_to_who_waits(tmp_path: Path) -> None:
    log = Log(tmp_path / "wal", NEVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", repr)  # prints it
        patch.setattr(os, "fdatasync", "no function")
        with pytest.raises(BusyError, match="the log is closed"):
            log.submit(batch(1)).result(10)
        log.close()
    assert not log.alive


def test_two_collectors_on_one_directory_is_an_error(tmp_path: Path) -> None:
    """The second is told which process holds the directory and what to do; after the first ends it may start."""
    first = DirectoryLock(tmp_path)
    with pytest.raises(ConfigError, match=f"process {os.getpid()}") as caught:
        DirectoryLock(tmp_path)
    assert str(tmp_path) in caught.value.message
    first.release()
    DirectoryLock(tmp_path).release()


def test_a_damaged_ledger_is_an_error(tmp_path: Path) -> None:
    """Without the ledger nothing says what is stored already; guessing would double spans."""
    (tmp_path / "ledger.json").write_text("{")
    with pytest.raises(StoreError, match="the ledger cannot be read"):
        Log(tmp_path, NEVER)


@pytest.mark.proof
@pytest.mark.long
def test_many_threads_share_a_sync(tmp_path: Path) -> None:
    """Requests that wait together are synced together: far fewer syncs than requests."""
    log = Log(tmp_path / "wal", NEVER)
    threads = [threading.Thread(target=_append_many, args=(log, start)) for start in range(0, 1600, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.syncs < 1600
    assert sorted(numbers(sealed(log))) == list(range(1600))


def _append_many(log: Log, start: int) -> None:
    for number in range(start, start + 100):
        log.append(batch(number))
