"""The spool: what the collector did not take is on the disk, protected, bounded, and delivered later."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from otlp_receiver import Receiver

import freezeframe
from freezeframe import _cli, _instrument, seams
from freezeframe._config import load_settings
from freezeframe._delivery_report import delivery_reports
from freezeframe.export.export_queue import BatchDeadline
from freezeframe.export.seal import make_seal
from freezeframe.export.spool import Header, Spool, SpoolFileError, SpoolFull
from freezeframe.export.spooling import SpoolingExporter
from freezeframe.export.tracing import make_provider
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command

SECRET = "Maria Keller, maria.keller@example.org"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    made.start()
    made.stop()  # its port is known, and no one answers there
    yield made
    made.stop()


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "spool"


@freezeframe.tool
def work(text: Any) -> Any:
    return text


def start(url: str, spool: Path, **options: Any) -> tuple[freezeframe.Handle, SpoolingExporter]:
    """Record with a spool. The pauses between deliveries are not waited for: a test calls `drain`."""
    given = {"endpoint": url, "spool": str(spool), "root": "never", "batch_interval_s": 0.01, "export_timeout_s": 0.2}
    settings = load_settings({**given, **options}, environ={})
    exporter = _instrument.make_spooling_exporter(settings, str(spool))
    handle = _instrument.start_recording(settings, exporter, provider=make_provider("shop"), environment=dict)
    seams.install()
    return handle, exporter


def spooled(url: str, spool: Path, *texts: str, **options: Any) -> freezeframe.Handle:
    """Record one tool call per text while no one answers at `url`, and end."""
    handle, _ = start(url, spool, **options)
    for text in texts:
        assert work(text) == text
        assert handle.flush(10)
    handle.uninstrument()
    return handle


def drain(url: str, spool: Path, **options: Any) -> SpoolingExporter:
    """Deliver what is waiting, as a later process does."""
    settings = load_settings({"endpoint": url, **options}, environ={})
    exporter = _instrument.make_spooling_exporter(settings, str(spool))
    exporter.drain()
    exporter.close()
    return exporter


def redaction_keys(tmp_path: Path) -> str:
    from freezeframe_redaction import load_or_create_keys

    load_or_create_keys(tmp_path / "keys")
    return str(tmp_path / "keys")


def test_spans_wait_on_the_disk_while_the_collector_is_down_and_a_later_process_delivers_them(
    receiver: Receiver, spool: Path
) -> None:
    handle = spooled(receiver.url, spool, "one", "two")
    assert handle.counts is not None
    assert (handle.counts.spooled, handle.counts.exported, handle.counts.lost) == (2, 0, 0)
    receiver.start()
    later = drain(receiver.url, spool)
    assert receiver.names == ["execute_tool work"] * 2
    assert (later.drained.delivered, later.waiting, list(spool.iterdir())) == (2, 0, [])


def test_the_same_process_delivers_once_the_collector_is_back(
    receiver: Receiver, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freezeframe.export.spooling._PATIENCE_S", 0.1)
    handle, exporter = start(receiver.url, spool, export_timeout_s=60)
    work("while it is down")
    handle.flush(10)
    receiver.start()
    exporter._rest_until_s = 0.0  # the pause is over
    work("when it is back")
    assert handle.flush(60)
    handle.uninstrument()
    exporter._rest_until_s = 0.0  # it may have tried once more before the receiver was back
    exporter.drain()
    assert len(receiver.names) == 2
    assert exporter.waiting == 0


@pytest.mark.parametrize("protection", ["encrypt", "redact"])
def test_nothing_on_the_disk_can_be_read(protection: str, receiver: Receiver, spool: Path, tmp_path: Path) -> None:
    key = redaction_keys(tmp_path) if protection == "redact" else None
    spooled(receiver.url, spool, f"ask {SECRET}", spool_protection=protection, spool_key=key)
    on_disk = b"".join(path.read_bytes() for path in spool.iterdir())
    assert on_disk
    receiver.start()
    drain(receiver.url, spool, spool_protection=protection, spool_key=key)
    sent = b"".join(request.SerializeToString() for request in receiver.requests)
    assert b"maria.keller@example.org" not in on_disk
    if protection == "redact":
        import zlib

        assert b"maria.keller@example.org" not in sent
        assert b"maria.keller@example.org" not in zlib.decompress(on_disk.partition(b"\n")[2][32:])
    else:
        assert b"maria.keller@example.org" in sent  # as it was recorded: the collector redacts it


def test_files_and_key_belong_to_their_owner_only(receiver: Receiver, spool: Path, tmp_path: Path) -> None:
    spooled(receiver.url, spool, "one")
    key = tmp_path / "config" / "freezeframe" / "spool.key"
    modes = [path.stat().st_mode & 0o777 for path in (*spool.iterdir(), key, spool, key.parent)]
    assert modes == [0o600, 0o600, 0o700, 0o700]


def test_a_full_spool_keeps_what_it_has_and_the_loss_is_counted_and_said(
    receiver: Receiver, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    noise = os.urandom(30_000).hex()
    handle = spooled(receiver.url, spool, "kept", noise, spool_bytes=20_000)
    assert handle.counts is not None
    assert (handle.counts.spooled, handle.counts.failed) == (1, 1)
    assert sum(path.stat().st_size for path in spool.iterdir()) <= 20_000
    assert "1 spooled" in caplog.text
    assert "1 could not be sent" in caplog.text


def test_a_disk_that_is_full_leaves_nothing_half_written(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Spool(spool, limit_bytes=1000)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        kept.put(Header(protection="encrypt", key="k", spans=1), b"sealed")
    assert list(spool.iterdir()) == []


def test_the_bound_counts_the_files_of_all_processes(spool: Path) -> None:
    header = Header(protection="encrypt", key="k", spans=1)
    Spool(spool, limit_bytes=1000).put(header, b"x" * 600)
    with pytest.raises(SpoolFull, match="of 1000 bytes"):
        Spool(spool, limit_bytes=1000).put(header, b"x" * 600)


def test_one_process_delivers_a_batch_that_two_look_at(spool: Path) -> None:
    here, there = Spool(spool, limit_bytes=1000), Spool(spool, limit_bytes=1000)
    here.put(Header(protection="encrypt", key="k", spans=1), b"x")
    path = here.batches()[0]
    with here.claim(path) as mine, there.claim(path) as theirs:
        assert theirs is None
        assert mine is not None
        mine.done()
    with there.claim(path) as gone:
        assert gone is None


def test_another_key_leaves_a_batch_alone_and_says_so(
    receiver: Receiver, spool: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spooled(receiver.url, spool, "one")
    receiver.start()
    other = tmp_path / "other.key"
    exporter = drain(receiver.url, spool, spool_key=str(other))
    assert (exporter.drained.foreign, exporter.drained.delivered, len(list(spool.iterdir()))) == (1, 0, 1)
    assert "name the key that it was written with" in caplog.text
    assert drain(receiver.url, spool).drained.delivered == 1


@pytest.mark.parametrize("protection", ["encrypt", "redact"])
@pytest.mark.parametrize("place", [0.5, 0.999])
def test_a_damaged_batch_is_set_aside_and_the_others_are_delivered(
    protection: str, place: float, receiver: Receiver, spool: Path, tmp_path: Path
) -> None:
    key = redaction_keys(tmp_path) if protection == "redact" else None
    spooled(receiver.url, spool, "one", "two", spool_protection=protection, spool_key=key)
    first = sorted(spool.iterdir())[0]
    content = bytearray(first.read_bytes())
    content[int(len(content) * place)] ^= 1
    first.write_bytes(content)
    receiver.start()
    exporter = drain(receiver.url, spool, spool_protection=protection, spool_key=key)
    assert (exporter.drained.damaged, exporter.drained.delivered) == (1, 1)
    assert [path.suffix for path in spool.iterdir()] == [".damaged"]


def test_a_file_of_a_later_version_is_an_error_that_names_both_versions(spool: Path) -> None:
    kept = Spool(spool, limit_bytes=1000)
    kept.put(Header(protection="encrypt", key="k", spans=1), b"x")
    path = kept.batches()[0]
    path.write_bytes(path.read_bytes().replace(b'"freezeframe_spool": 1', b'"freezeframe_spool": 2'))
    with pytest.raises(SpoolFileError, match="found version 2, expected 1"), kept.claim(path):
        pass


def test_a_batch_that_the_collector_refuses_does_not_stop_the_others(receiver: Receiver, spool: Path) -> None:
    spooled(receiver.url, spool, "refused", "taken")
    receiver.statuses = [400]
    receiver.start()
    exporter = drain(receiver.url, spool)
    assert (exporter.drained.refused, exporter.drained.delivered, exporter.waiting) == (1, 1, 0)


def test_a_collector_that_does_not_know_us_loses_nothing(receiver: Receiver, spool: Path) -> None:
    receiver.statuses = [401, 401]
    receiver.start()
    handle = spooled(receiver.url, spool, "one")
    assert handle.counts is not None
    assert handle.counts.spooled == 1
    assert drain(receiver.url, spool).waiting == 1
    assert drain(receiver.url, spool).waiting == 0


def test_without_a_way_to_protect_it_there_is_no_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("spool"))):
        make_seal("encrypt", str(tmp_path / "key"))
    monkeypatch.setitem(sys.modules, "freezeframe_redaction", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("redaction"))):
        make_seal("redact", str(tmp_path))


@pytest.mark.parametrize(("content", "mode", "says"), [(b"short", 0o600, "found 5 bytes"), (b"k" * 32, 0o644, "chmod 600")])
def test_a_key_that_is_none_or_open_to_others_is_refused(tmp_path: Path, content: bytes, mode: int, says: str) -> None:
    key = tmp_path / "spool.key"
    key.write_bytes(content)
    key.chmod(mode)
    with pytest.raises(ConfigError, match=says):
        make_seal("encrypt", str(key))


@pytest.mark.proof("command run drain")
@pytest.mark.long
def test_the_command_delivers_and_says_what_is_left(receiver: Receiver, spool: Path, capsys: Any) -> None:
    spooled(receiver.url, spool, "one")
    command = ["run", "drain", "--spool", str(spool), "--endpoint", receiver.url]
    assert _cli.main(command) == 1
    assert "1 batches left" in capsys.readouterr().out
    receiver.start()
    assert _cli.main(command) == 0
    assert capsys.readouterr().out == "1 spans delivered, 0 refused, 0 batches damaged, 0 batches left\n"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FREEZEFRAME_SPOOL", "off")
        assert _cli.main(["run", "drain"]) == 2


CHILD = """
import freezeframe, os, signal, sys
handle = freezeframe.instrument(root="never")
@freezeframe.tool
def work(number): return number
for number in range(5):
    work(number)
    handle.flush(10)
    print(number, flush=True)
if "--killed" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("end", ["--killed", "--exit"])
def test_what_was_flushed_survives_the_end_of_the_process(end: str, receiver: Receiver, spool: Path, tmp_path: Path) -> None:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))},
        "FREEZEFRAME_ENDPOINT": receiver.url,
        "FREEZEFRAME_SPOOL": str(spool),
        "FREEZEFRAME_EXPORT_TIMEOUT_S": "0.2",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, end], env=environ, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.stdout.split() == list("01234"), done.stderr
    assert done.returncode == (-9 if end == "--killed" else 0)
    receiver.start()
    drain(receiver.url, spool)
    assert len(receiver.names) == 5


def test_a_half_written_file_of_a_dead_process_is_swept_away(spool: Path) -> None:
    Spool(spool, limit_bytes=1000)
    left = spool / "1-1-1.unfinished"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    (spool / "2-1-1.unfinished").write_bytes(b"under way")
    Spool(spool, limit_bytes=1000).sweep()
    assert [path.name for path in spool.iterdir()] == ["2-1-1.unfinished"]


def test_the_header_says_how_many_spans_wait_and_nothing_else(receiver: Receiver, spool: Path) -> None:
    spooled(receiver.url, spool, SECRET)
    header = json.loads(next(spool.iterdir()).read_bytes().partition(b"\n")[0])
    assert set(header) == {"freezeframe_spool", "protection", "key", "spans"}
    assert header["spans"] == 1


def test_doctor_says_what_waits_and_what_to_do(receiver: Receiver, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spooled(receiver.url, spool, "one")
    monkeypatch.setenv("FREEZEFRAME_SPOOL", str(spool))
    monkeypatch.setenv("FREEZEFRAME_SAMPLE", "0.25")
    said = {report.subject: report for report in delivery_reports()}
    assert (said["spool"].ok, said["spool"].found) == (False, f"batches waiting: 1, in {spool}, protected by: encrypt")
    assert "freezeframe run drain" in said["spool"].do
    assert said["sampling"].found == "25.0% of runs are kept"
    monkeypatch.setenv("FREEZEFRAME_SPOOL_KEY", str(spool))
    assert "Is a directory" in {report.subject: report for report in delivery_reports()}["spool"].found


def test_doctor_says_that_zstd_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    settings = load_settings({"compression": "zstd"}, environ={})
    found = [report for report in delivery_reports(settings) if not report.ok]
    assert [report.subject for report in found] == ["compression"]
    assert install_command("zstd") in found[0].do


def test_the_end_of_a_process_does_not_wait_for_a_collector_that_is_down(
    receiver: Receiver, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(BatchDeadline, "wait", lambda _, seconds: waits.append(seconds))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    handle, _ = start(receiver.url, spool, batch_interval_s=60, export_timeout_s=60)
    work(SECRET)
    handle.uninstrument()
    assert handle.counts is not None
    assert (handle.counts.spooled, waits) == (1, [])
