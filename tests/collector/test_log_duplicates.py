"""The write-ahead log knows what it has had: a span that is sent again is stored once, and every span is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_batches import NEVER, batch, crash, numbers, sealed

from freezeframe_collector.settings.config import WalConfig
from freezeframe_collector.wal.format import Audit, Counts
from freezeframe_collector.wal.ledger import RememberedSpans
from freezeframe_collector.wal.log import Log


def test_a_span_sent_again_is_a_duplicate_over_a_restart(tmp_path: Path) -> None:
    """Recognised in the same request, in the log, after it was stored, and after a restart; in other batches too."""
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
    log = Log(tmp_path / "wal", WalConfig(flush_interval_s=3600, remembered_spans=100))
    for number in range(300):
        log.append(batch(number))
    assert log.append(batch(0)).duplicate == 0
    assert log.append(batch(*range(250, 300))).duplicate == 50
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


def test_the_files_of_remembered_spans_stay_small(tmp_path: Path) -> None:
    """However many segments go to the store, the keys next to them are no more than are remembered, and one segment's."""
    remembered = RememberedSpans(tmp_path, 100)
    for start in range(0, 1000, 30):
        remembered.save(range(start, start + 30))
    keys = sum(path.stat().st_size for path in tmp_path.glob("*.keys")) // 8
    assert keys <= 100 + 2 * 30
    again = RememberedSpans(tmp_path, 100)
    assert all(key in again for key in range(980, 1020))


def test_the_books_tell_a_span_that_is_unaccounted_for() -> None:
    """What was received and is not stored, duplicate, rejected or in the log is missing; too many are reported as well."""
    counts = Counts(received=10, duplicate=1, rejected=2, stored=3)
    assert [Audit(counts=counts, in_log=in_log).missing for in_log in (3, 4, 5)] == [1, 0, -1]
