"""The write-ahead log and room: it refuses what does not fit, and what a disk refuses leaves no trace."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from log_batches import NEVER, batch, crash, numbers, sealed

from freezeframe_collector.admission import BusyError
from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.wal.log import Log
from freezeframe_collector.wal.segment import Segment, count_damaged


def test_a_full_log_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    """Beyond the limit senders are asked to come back; what was acked stays."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, max_bytes=4096))
    accepted = 0
    with pytest.raises(BusyError, match="the limit is 4096") as caught:
        while True:
            log.append(batch(accepted))
            accepted += 1
    assert caught.value.retry_after_s > 0
    assert numbers(sealed(log)) == list(range(accepted))


def test_a_request_larger_than_the_room_left_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """The log's limit holds for what it would have with the request, not only for what it has."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, max_bytes=4096))
    with pytest.raises(BusyError, match="the limit is 4096"):
        log.append(batch(*range(200)))
    log.append(batch(1))
    assert numbers(sealed(log)) == [1]


def test_a_full_segment_goes_to_the_writer_at_once(tmp_path: Path) -> None:
    """Its size is bounded, so that one insert's memory is: it does not wait for the interval."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, segment_bytes=2000))
    handed: list[Segment | None] = []
    writer = threading.Thread(target=lambda: handed.append(log.next_sealed()), daemon=True)
    writer.start()
    log.append(batch(*range(40)))
    writer.join()
    assert [numbers([segment]) for segment in handed if segment] == [list(range(40))]
    log.close()


def test_spans_held_for_the_writer_are_bounded_together(tmp_path: Path) -> None:
    """Over all segments that wait; what the store has makes room for the next ones."""
    one = batch(*range(10)).size_bytes
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, memory_bytes=one * 3 // 2))

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


def test_a_segment_that_waited_for_the_writer_is_sealed_when_it_is_free(tmp_path: Path) -> None:
    """No further request is needed: the writer's "done" wakes the log, whose open segment is long due."""
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=0.01))
    log.append(batch(1))
    first = log.next_sealed()
    assert first is not None
    log.append(batch(2))
    log.retire(first, stored=1, rejected=0)
    handed: list[Segment | None] = []
    writer = threading.Thread(target=lambda: handed.append(log.next_sealed()), daemon=True)
    writer.start()
    writer.join()
    assert [segment.number for segment in handed if segment] == [2]
    log.close()


_IMPORTS = str(Path(__file__).parents[1] / "support")
"""Where a child finds what it imports."""


_LIMITED = """
import resource, sys
from pathlib import Path
sys.path += sys.argv[2:]
import log_batches as t
from freezeframe_collector.admission import BusyError
from freezeframe_collector.wal.log import Log
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


@pytest.mark.proof
@pytest.mark.long
def test_a_write_that_the_disk_refuses_leaves_no_trace(tmp_path: Path) -> None:
    """Under a file-size limit the large request is refused whole; what came before and comes after is kept."""
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "wal"), _IMPORTS]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.splitlines() == ["the log's disk is full", "[1, 500]"]


_FULL = """
import subprocess, sys
from pathlib import Path
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", sys.argv[1]], check=True)
sys.path += sys.argv[2:]
import log_batches as t
from freezeframe_collector.admission import BusyError
from freezeframe_collector.wal.log import Log
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


@pytest.mark.proof
@pytest.mark.long
def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """On a full file system requests are refused; once there is room the log goes on, and all that was acked is there."""
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    command = ["unshare", "--mount", sys.executable, "-c", _FULL, str(tmp_path), _IMPORTS]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "mount" in result.stderr and result.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    assert result.stdout.split() == ["True", "1", "500", "True"], result.stderr


def test_a_failed_sync_acks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk fails to sync, the sender is asked to come back, and the span is not a duplicate when it does.

    The log says why as long as the disk fails, and no longer, even if no one sends.
    """
    log = Log(tmp_path / "wal", NEVER)
    log.append(batch(1))

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(BusyError, match="Input/output error"):
            log.append(batch(2))
        assert log.disk.fault() == "the log cannot be written: Input/output error"
    assert log.disk.fault() == ""
    after_a_crash = Log(crash(log, tmp_path / "copy"), NEVER)
    assert (after_a_crash.torn_bytes, count_damaged(after_a_crash.directory)) == (0, 0)
    assert numbers(sealed(after_a_crash)) == [1]
    assert log.append(batch(2)).duplicate == 0
    assert numbers(sealed(log)) == [1, 2]


def test_a_segment_whose_name_is_not_on_the_disk_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file is only there after a power loss once its directory was synced; if that fails, nothing is acked."""
    log = Log(tmp_path / "wal", NEVER)

    def broken(directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("freezeframe_collector.wal.segment.fsync_directory", broken)
        with pytest.raises(BusyError, match="Input/output error"):
            log.append(batch(1))
    assert not [*log.directory.glob("*.open")]
    assert log.append(batch(1)).duplicate == 0
    assert numbers(sealed(log)) == [1]
