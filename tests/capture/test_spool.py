"""The spool's directory, file by file: what is written, counted, claimed, set aside and thrown away."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from freezeframe.export import spool as _spool
from freezeframe.export.spool import Header, Spool, SpoolFileError, SpoolFull
from freezeframe_schemas.errors import ConfigError

HEADER = Header(protection="encrypt", key="9f86d081", spans=12)
SEALED = b"sealed\nbytes\x00\n"
SIZE = len(HEADER.to_line() + b"\n" + SEALED)
DAY_NS = 86_400 * 10**9


def make_spool(path: Path, limit_bytes: int = 10_000, **options: Any) -> Spool:
    return Spool(path / "a" / "spool", limit_bytes=limit_bytes, **options)


def test_a_batch_comes_back_as_it_was_put_and_is_gone_once_it_is_done(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    spool.put(HEADER, SEALED)
    [path] = make_spool(tmp_path).batches()
    with spool.claim(path) as claim:
        assert claim is not None
        assert (claim.header, claim.sealed) == (HEADER, SEALED)
        with make_spool(tmp_path).claim(path) as another:
            assert another is None
        claim.done()
        claim.done()
    assert list(spool.directory.iterdir()) == []
    with spool.claim(path) as again:
        assert again is None


def test_what_is_put_is_on_the_disk_under_its_last_name_and_no_file_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool, int, list[str]]] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        status = os.fstat(descriptor)
        names = [path.suffix for path in spool.directory.iterdir()]
        synced.append((descriptor, stat.S_ISDIR(status.st_mode), status.st_size, names))
        fsync(descriptor)

    spool = make_spool(tmp_path)
    monkeypatch.setattr(os, "fsync", noted)
    spool.put(HEADER, SEALED)
    (of_file, is_directory, size, while_writing), (of_directory, then_directory, _, at_the_end) = synced
    assert (is_directory, size, while_writing) == (False, SIZE, [".unfinished"])
    assert (then_directory, at_the_end) == (True, [".batch"])
    for descriptor in (of_file, of_directory):
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(descriptor)
    assert [path.stat().st_mode & 0o777 for path in (spool.directory, spool.batches()[0])] == [0o700, 0o600]


@pytest.mark.parametrize("step", ["open", "fsync"])
def test_a_full_disk_is_an_error_and_nothing_half_written_stays(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        patched.undo()  # only once: nothing after it may hide it
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = make_spool(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            spool.put(HEADER, SEALED)
    assert list(spool.directory.iterdir()) == []


def test_the_bound_is_a_size_that_may_be_reached(tmp_path: Path) -> None:
    make_spool(tmp_path, 2 * SIZE).put(HEADER, SEALED)
    with pytest.raises(SpoolFull, match=f"full, {SIZE} of {2 * SIZE - 1} bytes"):
        make_spool(tmp_path, 2 * SIZE - 1).put(HEADER, SEALED)
    make_spool(tmp_path, 2 * SIZE).put(HEADER, SEALED)
    assert len(make_spool(tmp_path).batches()) == 2


def test_files_of_the_spool_count_whoever_wrote_them_and_other_files_do_not(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    for number, suffix in enumerate((".batch", ".unfinished", ".damaged", ".txt")):
        (spool.directory / f"{number}{suffix}").write_bytes(b"x" * 10**number)
    assert spool.held_bytes() == 111
    assert [path.name for path in spool.batches()] == ["0.batch"]


def test_batches_wait_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    for now in (10**18, 9, 10**18):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        spool.put(Header(protection="encrypt", key="k", spans=now), b"")
    spans: list[int] = []
    for path in spool.batches():
        with spool.claim(path) as claim:
            assert claim is not None
            spans.append(claim.header.spans)
    assert spans == [9, 10**18, 10**18]


def test_what_is_older_than_the_days_goes_and_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path, limit_days=2.0)
    now = 100 * DAY_NS
    monkeypatch.setattr(time, "time_ns", lambda: now)
    oldest = now - 2 * DAY_NS
    gone = [f"{oldest - 1:020d}-1-1.batch", f"{oldest - 1:020d}-1-2.damaged", f"{1:020d}-1-3.batch"]
    kept = [f"{oldest:020d}-1-1.batch", "notes-1.batch", f"{1:020d}-1-1.unfinished"]
    for name in gone + kept:
        (spool.directory / name).touch()
    assert spool.expire() == 3
    assert {path.name for path in spool.directory.iterdir()} == {*kept}
    assert spool.expire() == 0


def test_a_half_written_file_is_left_alone_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    for name, written in (("old", 999.0), ("young", 1000.0)):
        path = spool.directory / f"{name}.unfinished"
        path.touch()
        os.utime(path, (written, written))
    monkeypatch.setattr(time, "time", lambda: 1000.0 + 3600.0)
    spool.sweep()
    assert [path.name for path in spool.directory.iterdir()] == ["young.unfinished"]


def test_a_batch_that_was_delivered_between_a_look_and_the_lock_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    spool = make_spool(tmp_path)
    spool.put(HEADER, SEALED)
    [path] = spool.batches()
    flock = fcntl.flock

    def delivered_before(file: Any, how: int) -> None:
        path.unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", delivered_before)
    with spool.claim(path) as claim:
        assert claim is None


def test_what_is_set_aside_waits_no_longer(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    spool.put(HEADER, SEALED)
    [path] = spool.batches()
    with spool.claim(path) as claim:
        assert claim is not None
        claim.set_aside()
    assert spool.batches() == []
    assert [path.suffix for path in spool.directory.iterdir()] == [".damaged"]


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"[]", b"1", b"null", b'{"freezeframe_spool": 1}', HEADER.to_line().replace(b"12", b'"many"'), b" " * 5000],
)
def test_a_file_without_a_header_is_an_error_that_names_it(line: bytes, tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    path = spool.directory / "1-1-1.batch"
    path.write_bytes(line + b"\n")
    with pytest.raises(SpoolFileError, match=r"1-1-1\.batch: not a spooled batch"), spool.claim(path):
        pass


def test_a_batch_of_a_later_version_is_an_error_that_names_both(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    path = spool.directory / "1-1-1.batch"
    path.write_bytes(HEADER.to_line().replace(b'"freezeframe_spool": 1', b'"freezeframe_spool": 9') + b"\n")
    with pytest.raises(SpoolFileError, match="found version 9, expected 1"), spool.claim(path):
        pass


def test_a_directory_that_cannot_be_used_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="name a directory that can be created"):
        Spool(tmp_path / "file", limit_bytes=1)
    asked: list[int] = []

    def refuse(_: Path, mode: int) -> None:
        asked.append(mode)

    with monkeypatch.context() as patched, pytest.raises(ConfigError, match="cannot be written to"):
        patched.setattr(os, "access", refuse)
        make_spool(tmp_path)
    assert asked == [os.W_OK | os.X_OK]
    monkeypatch.setattr(_spool, "find_spec", {}.get)
    with pytest.raises(ConfigError, match="no fcntl locks"):
        make_spool(tmp_path)
