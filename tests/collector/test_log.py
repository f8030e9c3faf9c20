"""The write-ahead log: what was acked survives, whatever happens to the process or the disk."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_collector.admission import BusyError
from freezeframe_collector.audit import Audit, Counts
from freezeframe_collector.batch import Batch
from freezeframe_collector.files import DirectoryLock
from freezeframe_collector.ledger import RememberedSpans
from freezeframe_collector.otlp import Limits, encode_spans
from freezeframe_collector.segment import LoadedSpans, Segment, count_damaged
from freezeframe_collector.store import Rejected
from freezeframe_collector.wal import Log, LogSettings
from freezeframe_collector.wal_format import read_segment
from freezeframe_schemas.errors import ConfigError, StoreError, WireError
from freezeframe_schemas.span import Resource, Scope, SpanRecord

NEVER = LogSettings(flush_interval_s=3600)
"""The open segment stays open, so that the test decides when it is sealed."""
RESOURCE, SCOPE = Resource(attributes={"service.name": "orders"}), Scope(name="test")


def span(number: int) -> SpanRecord:
    """Return a span whose number makes its ids."""
    return SpanRecord(
        trace_id=f"{number + 1:032x}",
        span_id=f"{number + 1:016x}",
        name=f"span-{number}",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        attributes={"number": number},
        resource=RESOURCE,
        scope=SCOPE,
    )


def batch(*numbers: int, rejected: Sequence[str] = ()) -> Batch:
    """Return a request of these spans and of rejected ones with these reasons."""
    spans = [span(number) for number in numbers]
    reasons = tuple(
        Rejected(trace_id="", span_id="", name="", reason=reason, detail="", time_unix_nano=1) for reason in rejected
    )
    return Batch(encoded=encode_spans(spans), spans=spans, rejected=reasons)


def crash(log: Log, to: Path) -> Path:
    """Return a copy of the log's directory as a kill -9 at this moment would leave it."""
    return Path(shutil.copytree(log.directory, to))


def sealed(log: Log) -> list[Segment]:
    """Close the log and return the segments that it hands to the writer."""
    log.close()
    segments: list[Segment] = []
    while (segment := log.next_sealed()) is not None:
        segments.append(segment)
    return segments


def numbers(segments: Sequence[Segment]) -> list[int]:
    """Return the numbers of all spans, in order."""
    return [int(found.name.removeprefix("span-")) for segment in segments for found in segment.load_spans().spans]


def test_what_was_appended_survives_a_crash(tmp_path: Path) -> None:
    """Appended is on the disk: a copy of the directory holds it, spans and reasons alike."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1, 2))
    log.append(batch(3, rejected=["unreadable"]))
    [segment] = sealed(Log(crash(log, tmp_path / "copy"), NEVER))
    assert numbers([segment]) == [1, 2, 3]
    assert [item.reason for item in segment.rejected] == ["unreadable"]
    log.close()


@pytest.mark.parametrize(("step", "tail"), [(11, "cut off"), (13, "zeros"), pytest.param(1, "cut off", marks=pytest.mark.long)])
def test_a_tail_torn_at_any_byte_costs_only_what_was_not_acked(tmp_path: Path, step: int, tail: str) -> None:
    """A power loss may keep any prefix of the last write, or the file's new length with zeros where the write was to be.

    Every whole record before it is recovered, and the log goes on; even where not so much as the file's header is there.
    """
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1, 2))
    [path] = log.directory.glob("*.open")
    first_end = path.stat().st_size
    log.append(batch(3))
    content = path.read_bytes()
    for length in [*range(10), *range(10, len(content), step), first_end, len(content)]:
        copy = tmp_path / f"copy-{length}"
        shutil.copytree(log.directory, copy)
        zeros = bytes(len(content) - length) if tail == "zeros" else b""
        (copy / path.name).write_bytes(content[:length] + zeros)
        recovered = Log(copy, NEVER)
        recovered.append(batch(9))
        whole = [1, 2, 3] if length == len(content) else [1, 2] if length >= first_end else []
        assert numbers(sealed(recovered)) == [*whole, 9]
        shutil.rmtree(copy)
    log.close()


@settings(max_examples=examples(60), deadline=None)
@given(at=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_a_changed_byte_never_gives_other_spans(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int) -> None:
    """Whatever byte of a segment changes, the reader gives a prefix of what was written or says what is wrong."""
    directory = tmp_path_factory.mktemp("flip")
    log = Log(directory / "wal", NEVER)
    log.append(batch(1))
    log.append(batch(2))
    segments = sealed(log)
    data = bytearray(segments[0].path.read_bytes())
    data[at % len(data)] ^= flip
    segments[0].path.write_bytes(data)
    try:
        records = read_segment(segments[0].path).records
    except WireError:
        return
    assert [len(record.keys) for record in records] in ([], [1])


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
        assert (started.damaged_bytes, count_damaged(copy)) == (torn_bytes, 0)
        assert numbers(sealed(started)) == [1]


def test_a_segment_of_another_version_is_refused(tmp_path: Path) -> None:
    """The message names both versions."""
    path = tmp_path / "0000000000000001.wal"
    path.write_bytes(b"FFWAL\x00\x07\x00")
    with pytest.raises(WireError, match="version 7, this collector knows version 1"):
        read_segment(path)


def test_a_crash_between_store_and_ledger_gives_the_same_token_again(tmp_path: Path) -> None:
    """Not yet in the ledger: the segment comes back under the same number and identity, so the store knows the token."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))
    log.seal()
    segment = log.next_sealed()
    assert segment is not None
    again = Log(crash(log, tmp_path / "copy"), NEVER)
    [segment_again] = sealed(again)
    assert (again.identity, segment_again.number) == (log.identity, segment.number)
    log.close()


def test_a_crash_between_ledger_and_unlink_stores_nothing_twice(tmp_path: Path) -> None:
    """In the ledger: a file that was left behind is deleted unread, and its spans count once."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))
    log.seal()
    segment = log.next_sealed()
    assert segment is not None
    data = segment.path.read_bytes()
    log.retire(segment, stored=1, rejected=0)
    segment.path.write_bytes(data)
    again = Log(crash(log, tmp_path / "copy"), NEVER)
    assert again.audit().counts.stored == 1
    assert sealed(again) == []
    log.close()


def test_a_span_sent_again_is_a_duplicate_over_a_restart(tmp_path: Path) -> None:
    """Known in the same request, in the log, after it was stored, and after a restart; in other batches too."""
    log = Log(tmp_path / "wal", NEVER)
    assert log.append(batch(1, 1, 2)).duplicate == 1
    assert log.append(batch(2, 3)).duplicate == 1
    log.seal()
    segment = log.next_sealed()
    assert segment is not None
    assert numbers([segment]) == [1, 2, 3]
    log.retire(segment, stored=3, rejected=0)
    assert log.append(batch(1)).duplicate == 1
    log.close()
    again = Log(tmp_path / "wal", NEVER)
    assert again.append(batch(1, 2, 3, 4)).duplicate == 3
    audit = again.audit()
    assert (audit.counts.received, audit.counts.duplicate, audit.counts.stored, audit.in_log) == (10, 6, 3, 1)
    assert audit.missing == 0
    again.close()


def test_a_span_of_a_log_that_a_dead_process_left_is_a_duplicate(tmp_path: Path) -> None:
    """What is in the log and not yet in the store is known after a crash: its sender, not answered in time, sends it again."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1, 2))
    again = Log(crash(log, tmp_path / "copy"), NEVER)
    assert again.append(batch(1, 2, 3)).duplicate == 2
    assert numbers(sealed(again)) == [1, 2, 3]
    log.close()


def test_segments_of_a_dead_process_go_to_the_writer_in_order(tmp_path: Path) -> None:
    """Also the one that was still open: a later segment in the books would let the next start delete an earlier one unread."""
    log = Log(tmp_path / "wal", NEVER)
    for number in (1, 2, 3):
        log.append(batch(number))
        if number < 3:
            log.seal()
    segments = sealed(Log(crash(log, tmp_path / "copy"), NEVER))
    assert [segment.number for segment in segments] == [1, 2, 3]
    assert numbers(segments) == [1, 2, 3]
    log.close()


def test_a_crash_between_a_segments_keys_and_the_ledger_forgets_no_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys are kept before the books let go of the segment: in either case a span that is sent again is known."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))
    log.seal()
    segment = log.next_sealed()
    assert segment is not None

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RememberedSpans, "save", die)
        with pytest.raises(KeyboardInterrupt):
            log.retire(segment, stored=1, rejected=0)
    again = Log(crash(log, tmp_path / "copy"), NEVER)
    assert again.append(batch(1)).duplicate == 1
    again.close()
    log.close()


@pytest.mark.long
def test_memory_of_old_spans_is_bounded(tmp_path: Path) -> None:
    """Beyond the limit the oldest are forgotten; the newest half is always known."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, remembered_spans=100))
    for number in range(300):
        log.append(batch(number))
    assert log.append(batch(0)).duplicate == 0
    assert log.append(batch(*range(250, 300))).duplicate == 50
    log.close()


def test_a_full_log_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    """Beyond the limit senders are asked to come back; what was acked stays."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, max_bytes=4096))
    accepted = 0
    with pytest.raises(BusyError, match="the limit is 4096") as caught:
        while True:
            log.append(batch(accepted))
            accepted += 1
    assert caught.value.retry_after_s > 0
    assert numbers(sealed(log)) == list(range(accepted))


def test_a_request_larger_than_the_room_left_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """The log's limit holds for what it would have with the request, not only for what it has."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, max_bytes=4096))
    with pytest.raises(BusyError, match="the limit is 4096"):
        log.append(batch(*range(200)))
    log.append(batch(1))
    assert numbers(sealed(log)) == [1]


def test_a_full_segment_goes_to_the_writer_at_once(tmp_path: Path) -> None:
    """Its size is bounded, so that one insert's memory is: it does not wait for the interval."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, segment_bytes=2000))
    handed: list[Segment | None] = []
    writer = threading.Thread(target=lambda: handed.append(log.next_sealed()), daemon=True)
    writer.start()
    log.append(batch(*range(40)))
    writer.join(10)
    assert [numbers([segment]) for segment in handed if segment] == [list(range(40))]
    log.close()


def test_spans_held_for_the_writer_are_bounded_together(tmp_path: Path) -> None:
    """Over all segments that wait; what the store has makes room for the next ones."""
    one = batch(*range(10)).size_bytes
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, memory_bytes=one * 3 // 2))

    def take(start: int) -> Segment:
        log.append(batch(*range(start, start + 10)))
        log.seal()
        segment = log.next_sealed()
        assert segment is not None
        return segment

    first, second = take(0), take(10)
    assert first.spans is not None
    assert second.spans is None
    log.retire(first, stored=10, rejected=0)
    log.retire(second, stored=10, rejected=0)
    assert take(20).spans is not None
    log.close()


def test_a_segment_read_from_disk_is_the_one_that_was_held(tmp_path: Path) -> None:
    """Without memory for spans the writer gets them from the file, the same."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, memory_bytes=0))
    log.append(batch(1, 2))
    log.append(batch(3))
    [segment] = sealed(log)
    assert segment.spans is None
    assert segment.load_spans().spans == [span(1), span(2), span(3)]


def test_a_changed_segment_is_a_fault_and_not_fewer_spans(tmp_path: Path) -> None:
    """A file that lost a record after it was sealed is named, never stored in part in silence."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, memory_bytes=0))
    log.append(batch(1))
    log.append(batch(2))
    [segment] = sealed(log)
    os.truncate(segment.path, segment.size_bytes - 1)
    loaded = segment.load_spans()
    assert loaded.spans == [span(1)]
    assert "found 1 spans, expected 2" in loaded.fault


def test_a_segment_that_the_disk_damaged_does_not_keep_the_log_from_starting(tmp_path: Path) -> None:
    """Sealed is synced: what is missing now was acked. The whole file is kept, counted, and the log goes on."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))
    log.seal()
    log.append(batch(2))
    crash(log, tmp_path / "copy")
    log.close()
    [path] = (tmp_path / "copy").glob("*.wal")
    content = path.read_bytes()
    path.write_bytes(b"XX" + content[2:])
    again = Log(tmp_path / "copy", NEVER)
    assert (count_damaged(again.directory), again.audit().missing) == (1, 0)
    assert numbers(sealed(again)) == [2]
    assert path.with_suffix(".damaged").read_bytes()[2:] == content[2:]


def test_what_was_accepted_is_read_back_whatever_the_limits_are(tmp_path: Path) -> None:
    """A stage may add attributes to a span that came at the limit, and a limit may be lowered: the log gives all back."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=3600, memory_bytes=0))
    large = span(1).with_attributes({f"key-{number}": number for number in range(Limits().attributes + 1)})
    log.append(Batch(encoded=encode_spans([large]), spans=[large], rejected=()))
    [segment] = sealed(log)
    assert segment.load_spans() == LoadedSpans(spans=[large])


def test_a_file_that_cannot_be_deleted_is_off_the_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The books are what counts: the writer goes on, and the next start deletes the file unread."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))
    log.seal()
    segment = log.next_sealed()
    assert segment is not None

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


def test_half_a_remembered_key_does_not_spoil_the_others(tmp_path: Path) -> None:
    """A write of the keys that a full disk cut short is cut off: what is remembered after it is still known later."""
    log = Log(tmp_path / "wal", NEVER)
    for number in (1, 2):
        log.append(batch(number))
        log.seal()
        segment = log.next_sealed()
        assert segment is not None
        log.retire(segment, stored=1, rejected=0)
        with (log.directory / "current.keys").open("ab") as file:
            file.write(b"cut")
    log.close()
    again = Log(tmp_path / "wal", NEVER)
    assert again.append(batch(1, 2, 3)).duplicate == 2
    again.close()


_IMPORTS = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
"""Where a child finds this module and what it imports."""

_LIMITED = """
import resource, sys
from pathlib import Path
sys.path += sys.argv[2:]
import test_log as t
from freezeframe_collector.admission import BusyError
from freezeframe_collector.wal import Log
log = Log(Path(sys.argv[1]), t.NEVER)
log.append(t.batch(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
try:
    log.append(t.batch(*range(2, 400)))
except BusyError as error:
    print(error)
log.append(t.batch(500))
print(t.numbers(t.sealed(log)))
"""


@pytest.mark.long
def test_a_write_that_the_disk_refuses_leaves_no_trace(tmp_path: Path) -> None:
    """Under a file-size limit the large request is refused whole; what came before and comes after is kept."""
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "wal"), *_IMPORTS]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == ["the log's disk is full", "[1, 500]"]


_FULL = """
import subprocess, sys
from pathlib import Path
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", sys.argv[1]], check=True)
sys.path += sys.argv[2:]
import test_log as t
from freezeframe_collector.admission import BusyError
from freezeframe_collector.wal import Log
log = Log(Path(sys.argv[1]) / "wal", t.NEVER)
log.append(t.batch(1))
filler = Path(sys.argv[1]) / "filler"
with filler.open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
refused = 0
for number in range(2, 200):
    try:
        log.append(t.batch(number))
    except BusyError:
        refused += 1
filler.unlink()
log.append(t.batch(500))
found = t.numbers(t.sealed(log))
print(refused > 0, found[0], found[-1], len(found) == 198 - refused + 2)
"""


@pytest.mark.long
def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """On a full file system requests are refused; once there is room the log goes on, and all that was acked is there."""
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    command = ["unshare", "--mount", sys.executable, "-c", _FULL, str(tmp_path), *_IMPORTS]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "mount" in result.stderr and result.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    assert result.stdout.split() == ["True", "1", "500", "True"], result.stderr


def test_a_failed_sync_acks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk fails to sync, the sender is asked to come back, and the span is no duplicate when it does."""
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(BusyError, match="Input/output error"):
            log.append(batch(2))
    after_a_crash = Log(crash(log, tmp_path / "copy"), NEVER)
    assert (after_a_crash.damaged_bytes, count_damaged(after_a_crash.directory)) == (0, 0)
    assert numbers(sealed(after_a_crash)) == [1]
    assert log.append(batch(2)).duplicate == 0
    assert numbers(sealed(log)) == [1, 2]


def test_a_segment_whose_name_is_not_on_the_disk_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file is only there after a power loss once its directory was synced; where that fails, nothing is acked."""
    log = Log(tmp_path / "wal", NEVER)

    def broken(directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("freezeframe_collector.wal.fsync_directory", broken)
        with pytest.raises(BusyError, match="Input/output error"):
            log.append(batch(1))
    assert not [*log.directory.glob("*.open")]
    assert log.append(batch(1)).duplicate == 0
    assert numbers(sealed(log)) == [1]


def test_a_log_that_has_ended_refuses_at_once(tmp_path: Path) -> None:
    """After the end, and behind the last request in line: no sender waits for an answer that never comes."""
    log = Log(tmp_path / "wal", NEVER)
    syncing, go_on = threading.Event(), threading.Event()
    sync = os.fdatasync

    def held(descriptor: int) -> None:
        syncing.set()
        assert go_on.wait(10)
        sync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", held)
        last = log.submit(batch(1))
        assert syncing.wait(10)
        closing = threading.Thread(target=log.close)
        closing.start()
        while log._queue.empty():  # pyright: ignore[reportPrivateUsage]  # until the end is in line, before the next one
            os.sched_yield()
        too_late = log.submit(batch(2))
        go_on.set()
        closing.join()
    assert last.result(10).duplicate == 0
    with pytest.raises(BusyError, match="the log is closed"):
        too_late.result(10)
    with pytest.raises(BusyError, match="the log is closed"):
        log.submit(batch(3)).result(10)


def test_a_segment_that_waited_for_the_writer_is_sealed_when_it_is_free(tmp_path: Path) -> None:
    """No further request is needed: the writer's "done" wakes the log, whose open segment is long due."""
    log = Log(tmp_path / "wal", LogSettings(flush_interval_s=0.01))
    log.append(batch(1))
    first = log.next_sealed()
    assert first is not None
    log.append(batch(2))
    log.retire(first, stored=1, rejected=0)
    handed: list[Segment | None] = []
    writer = threading.Thread(target=lambda: handed.append(log.next_sealed()), daemon=True)
    writer.start()
    writer.join(10)
    assert [segment.number for segment in handed if segment] == [2]
    log.close()


def test_the_files_of_remembered_spans_stay_small(tmp_path: Path) -> None:
    """However many segments go to the store, the keys beside them are no more than are remembered, and one segment's."""
    remembered = RememberedSpans(tmp_path, 100)
    for start in range(0, 1000, 30):
        remembered.save(range(start, start + 30))
    keys = sum(path.stat().st_size for path in tmp_path.glob("*.keys")) // 8
    assert keys <= 100 + 2 * 30
    again = RememberedSpans(tmp_path, 100)
    assert all(key in again for key in range(980, 1020))


def test_the_books_tell_a_span_that_is_unaccounted_for() -> None:
    """What was received and is none of stored, duplicate, rejected or in the log is missing; too many are told as well."""
    counts = Counts(received=10, duplicate=1, rejected=2, stored=3)
    assert [Audit(counts=counts, in_log=in_log).missing for in_log in (3, 4, 5)] == [1, 0, -1]


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
