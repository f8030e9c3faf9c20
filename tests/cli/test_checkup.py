"""What `freezeframe doctor` finds, on machines where something is wrong."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from freezeframe_redaction import load_or_create_keys
from freezeframe_replay.local import checkup as checkup_module
from freezeframe_replay.local import daemon
from freezeframe_replay.local.checkup import CheckResult, Grade, checkup
from freezeframe_replay.local.home import Home
from freezeframe_schemas.data_directory import remember_data_directory


def findings(directory: Path, environ: Mapping[str, str] | None = None) -> dict[str, CheckResult]:
    return {finding.check: finding for finding in checkup(Home(directory=directory), environ=environ or {})}


def test_a_fresh_machine_has_nothing_that_fails(tmp_path: Path) -> None:
    """Before the first `up` there is something to do, but nothing is wrong."""
    found = findings(tmp_path / ".freezeframe")
    assert [finding for finding in found.values() if finding.grade is Grade.FAIL] == []
    assert found["collector"].do == "freezeframe up"
    assert "openai" in found["libraries captured"].found


def test_whatever_is_not_ok_says_what_to_do(tmp_path: Path) -> None:
    """No finding leaves the reader without advice."""
    assert all(finding.do for finding in findings(tmp_path).values() if finding.grade is not Grade.OK)


def test_a_key_that_others_may_read_fails(tmp_path: Path) -> None:
    """With the key, guesses can be checked against surrogates: it is the one secret of the data directory."""
    key = tmp_path / "keys" / "default.key"
    key.parent.mkdir()
    key.write_text("k")
    key.chmod(0o644)
    assert findings(tmp_path)["redaction key"].grade is Grade.FAIL
    key.chmod(0o600)
    assert findings(tmp_path)["redaction key"].grade is Grade.OK


@pytest.mark.parametrize("name", ["keys", "vault-keys"])
def test_keys_that_lie_in_the_data_directory_are_named(name: str, tmp_path: Path) -> None:
    data, elsewhere = tmp_path / ".freezeframe", tmp_path / "elsewhere"
    (data / name).mkdir(parents=True)
    assert findings(data)["keys and data"].grade is Grade.WARN
    (data / name).rename(elsewhere)
    (data / name).symlink_to(elsewhere)
    assert findings(data)["keys and data"].grade is Grade.OK
    elsewhere.rmdir()
    assert findings(data)["keys and data"].grade is Grade.FAIL


def test_a_root_key_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "root.toml").write_text('env = "ROOT"')
    monkeypatch.setenv("ROOT", "A" * 43 + "=")
    load_or_create_keys(tmp_path / "keys")
    assert findings(tmp_path)["root key"].grade is Grade.OK
    (tmp_path / "keys" / "root.toml").write_text('env = "NOWHERE"')
    assert findings(tmp_path)["root key"].grade is Grade.FAIL


@pytest.mark.parametrize("name", ["sender-token", "reader-token", "admin-token"])
def test_a_token_that_others_may_read_fails(tmp_path: Path, name: str) -> None:
    token = tmp_path / name
    token.write_text("t" * 40)
    token.chmod(0o640)
    assert findings(tmp_path)["token"].grade is Grade.FAIL
    token.chmod(0o600)
    assert findings(tmp_path)["token"].grade is Grade.OK


@pytest.mark.parametrize(
    ("name", "value", "grade"),
    [
        ("OTEL_SDK_DISABLED", "TRUE", Grade.FAIL),
        ("OTEL_TRACES_EXPORTER", "none", Grade.FAIL),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4096", Grade.FAIL),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otlp.vendor.example", Grade.WARN),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318", Grade.OK),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317", Grade.OK),
    ],
)
def test_an_environment_that_spoils_recording_is_named(tmp_path: Path, name: str, value: str, grade: Grade) -> None:
    """These are the settings after which people wonder where their runs are."""
    finding = findings(tmp_path, {name: value})["instrument()"]
    assert finding.grade is grade
    if grade is not Grade.OK:
        assert name in finding.found


@pytest.mark.parametrize(("folder", "grade"), [("b", Grade.WARN), ("c", Grade.OK)])
def test_doctor_names_the_collector_that_spans_would_go_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, grade: Grade
) -> None:
    """Project b has a data directory of its own, folder c has none."""
    another, own = tmp_path / "a" / ".freezeframe", tmp_path / "b" / ".freezeframe"
    for made in (another, own, tmp_path / "c"):
        made.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (another / "ports.json").write_text(json.dumps({"http": 45001, "pid": os.getpid()}))
    remember_data_directory(another)
    monkeypatch.setattr(checkup_module, "USUAL_ENDPOINT", "http://127.0.0.1:45001")
    monkeypatch.chdir(tmp_path / folder)
    finding = findings(own)["instrument()"]
    assert finding.grade is grade
    assert f"the collector of {another}" in finding.found
    assert (f"spans of this project ({own}) are not sent there" in finding.found) is (grade is Grade.WARN)


def test_a_taken_port_names_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no fault: `up` takes another one, which is the one that is named once it runs."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(daemon, "Ports", lambda: daemon_ports(port))
        finding = findings(tmp_path)[f"port {port}"]
        assert finding.grade is Grade.OK
        assert "`freezeframe up` takes any free one" in finding.found
        note = daemon.Note(name=daemon.REPLAY, pid=os.getpid(), started="", command=())
        own = daemon.ProcessState(name=daemon.REPLAY, note=note, ports={"http": 45001})
        monkeypatch.setattr(daemon, "services", {Home(directory=tmp_path): (own,)}.get)
        assert "port 45001" in findings(tmp_path)
        assert f"port {port}" not in findings(tmp_path)


def daemon_ports(replay: int, make: type[daemon.Ports] = daemon.Ports) -> daemon.Ports:
    """Return the usual ports with another one for the replay service."""
    return make(replay=replay)
