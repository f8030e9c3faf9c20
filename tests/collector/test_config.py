"""The configuration: every fault at once, each with its place; the page is the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from settings_pages import DOCS, pages

from freezeframe_collector.__main__ import main
from freezeframe_collector.settings.check import warnings
from freezeframe_collector.settings.config import SETTINGS, CollectorConfig
from freezeframe_collector.settings.config_file import load_config
from freezeframe_schemas.errors import ConfigError


def test_every_key_is_optional() -> None:
    """An absent and an empty file give the defaults."""
    assert load_config(None, {}) == CollectorConfig()


def test_all_faults_are_named_at_once_with_their_place(tmp_path: Path) -> None:
    """One run shows everything that is wrong, in the file and in the environment."""
    file = tmp_path / "collector.toml"
    file.write_text(
        """
        grpc = 5
        [http]
        prot = 4318
        port = "4318"
        max_body_bytes = 1
        [nonsense]
        key = true
        """
    )
    environment = {"FREEZEFRAME_COLLECTOR__WAL__FLUSH_INTERVAL_S": "soon", "UNRELATED": "1"}
    with pytest.raises(ConfigError) as caught:
        load_config(file, environment)
    lines = [line.strip() for line in caught.value.message.splitlines()[1:]]
    assert lines == [
        f"{file}: grpc: found a value, expected a section like [grpc]",
        f"{file}: http.prot: no such setting; did you mean http.port?",
        f"{file}: http.port: found '4318', expected a whole number from 0 to 65535",
        f"{file}: http.max_body_bytes: found 1, expected a whole number from 1024 to 2147483647",
        f"{file}: nonsense.key: no such setting",
        "FREEZEFRAME_COLLECTOR__WAL__FLUSH_INTERVAL_S: found 'soon', expected a number from 0.01 to 60",
    ]


def test_the_environment_overrides_the_file_and_options_override_both(tmp_path: Path) -> None:
    """File, then environment, then the command line."""
    file = tmp_path / "collector.toml"
    file.write_text("[grpc]\nport = 1\nhost = '::1'\n[http]\nport = 2\n[clickhouse]\nenabled = true\n")
    environment = {"FREEZEFRAME_COLLECTOR__HTTP__PORT": "3", "FREEZEFRAME_COLLECTOR__CLICKHOUSE__ENABLED": "false"}
    config = load_config(file, environment, {"grpc.port": 4})
    assert (config.grpc.port, config.grpc.host, config.http.port, config.clickhouse.enabled) == (4, "::1", 3, False)


def test_contradictions_are_faults() -> None:
    """Values that are each right and together wrong are refused before the collector starts."""
    overrides = {"grpc.port": 9, "http.port": 9, "tls.cert_file": "nowhere.pem", "store.dsn": "mysql://x"}
    with pytest.raises(ConfigError) as caught:
        load_config(None, {}, overrides)
    assert [line.strip() for line in caught.value.message.splitlines()[1:]] == [
        "tls: cert_file and key_file go together; one of them is empty",
        "tls.cert_file: nowhere.pem: no such file",
        "http.port: port 9 is also grpc.port",
        "store.dsn: found scheme 'mysql', expected chdb, clickhouse or clickhouses",
    ]


def test_the_page_is_the_code() -> None:
    """``python tests/support/settings_pages.py`` writes it again after a setting has changed."""
    page = DOCS / "operate" / "collector-config.md"
    assert page.read_text() == pages()[page]


def test_every_setting_accepts_its_default() -> None:
    """No default would be refused if someone wrote it down."""
    for path, setting in SETTINGS.items():
        assert setting.help, path
        assert setting.kind.accepts(setting.default), path


def test_an_option_of_the_command_line_is_checked_like_the_file() -> None:
    """`--grpc-port 70000` is refused before a socket is opened."""
    with pytest.raises(ConfigError, match=r"grpc.port: found 70000, expected a whole number from 0 to 65535"):
        load_config(None, {}, {"grpc.port": 70000})


def test_a_listener_that_is_off_takes_no_port() -> None:
    """Another listener may have its port."""
    assert load_config(None, {}, {"grpc.enabled": False, "grpc.port": 9, "http.port": 9}).http.port == 9


@pytest.mark.proof
@pytest.mark.long
def test_check_names_the_faults_and_starts_nothing(tmp_path: Path) -> None:
    """`--check` exits 2 with the faults, 0 without."""
    file = tmp_path / "collector.toml"
    file.write_text("[grpc]\nport = 70000\n")
    command = [sys.executable, "-m", "freezeframe_collector", "--check", "--config", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "grpc.port: found 70000, expected a whole number from 0 to 65535" in result.stderr
    file.write_text("")
    assert subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 0


@pytest.mark.long
def test_check_looks_into_the_files_that_are_named(tmp_path: Path) -> None:
    """Everything that would stop the start is named at once: values, contradictions, policy, tokens, certificates."""
    (tmp_path / "tokens.toml").write_text('[tokens]\nacme = "hunter2"\n')
    (tmp_path / "cert.pem").write_text("no certificate")
    file = tmp_path / "collector.toml"
    file.write_text(
        f"""
        [service]
        data = ""
        [wal]
        flush_interval_s = nan
        [redaction]
        policy = "nope"
        [auth]
        tokens_file = "{tmp_path}/tokens.toml"
        [tls]
        cert_file = "{tmp_path}/cert.pem"
        key_file = "{tmp_path}/cert.pem"
        [store]
        dsn = "clickhouse://"
        retry_initial_s = 60.0
        """
    )
    command = [sys.executable, "-m", "freezeframe_collector", "--check", "--config", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 2
    for fault in (
        "wal.flush_interval_s: found nan, expected a number from 0.01 to 60",
        "service.data: found '', expected a directory",
        "store.dsn: found no host, expected clickhouse://USER:PASSWORD@HOST:PORT/DATABASE",
        "store.retry_initial_s: is more than store.retry_max_s",
        "nope",
        "tokens.acme: expected sha256: and 64 hex digits",
        "cert.pem",
    ):
        assert fault in result.stderr, result.stderr
    assert "hunter2" not in result.stderr


@pytest.mark.parametrize(
    ("dsn", "fault"),
    [
        ("chdb://relative", "not an absolute directory"),
        ("clickhouse:///database", "found no host"),
        ("clickhouse://user@host:8123/database", ""),
        ("clickhouse://user@host/database?clusters=main", "found the option 'clusters', expected of clickhouse://.*cluster="),
        ("clickhouse://user@host/database?ca=ca.pem", "found the option 'ca'"),
        ("clickhouses://user@host/database?ca=a.pem&cluster=", "found the option 'cluster'"),
        ("clickhouses://user@host/database?ca=a.pem&cluster=main", ""),
        ("chdb:///var/lib/store?memory=1", "found the option 'memory', expected of chdb://.*memory_bytes="),
        ("chdb:///var/lib/store?memory_bytes=1000000000", ""),
        ("chdb:///var/lib/store", ""),
    ],
)
def test_a_dsn_that_leads_nowhere_is_a_fault(dsn: str, fault: str) -> None:
    """Before the start, not when the first span is to be stored."""
    if not fault:
        assert load_config(None, {}, {"store.dsn": dsn}).store_dsn == dsn
        return
    with pytest.raises(ConfigError, match=fault):
        load_config(None, {}, {"store.dsn": dsn})


@pytest.mark.parametrize("arguments", [(), ("--check",)])
def test_a_data_directory_that_cannot_be_is_a_fault(
    tmp_path: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The start names what is in the way, without a traceback; `--check` does so before."""
    (tmp_path / "file").write_text("")
    assert main(["--data", str(tmp_path / "file" / "data"), "--http-port", "0", "--grpc-port", "0", *arguments]) == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / 'file'} is not a directory" in said
    assert "data directory" in said or "service.data" in said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("acme", "redaction.tenants: found 'acme', expected TENANT=POLICY"),
        ("=minimal", "redaction.tenants: found '=minimal'"),
        ("acme=minimal, acme=off", "redaction.tenants: acme has two policies, minimal and off"),
        ("acme=nowhere.toml", "redaction policy 'nowhere.toml': neither built in"),
    ],
)
def test_a_tenants_policy_that_cannot_be_is_a_fault(
    text: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by `--check`, before a span of the tenant comes."""
    file = tmp_path / "collector.toml"
    file.write_text(f'[redaction]\ntenants = "{text}"\n')
    assert main(["--config", str(file), "--data", str(tmp_path / "data"), "--check"]) == 2
    assert found in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, []),
        ({"http": {"host": "localhost"}, "clickhouse": {"host": "::1"}}, []),
        ({"http": {"host": "0.0.0.0"}}, ["http.host: 0.0.0.0, and no tls.cert_file"]),
        (
            {"http": {"host": "0.0.0.0"}, "auth": {"open_senders": True}},
            ["http.host: 0.0.0.0, and auth.open_senders", "http.host: 0.0.0.0, and no tls.cert_file"],
        ),
        ({"grpc": {"host": "::"}, "auth": {"tokens_file": "t"}}, ["grpc.host: ::, and no tls.cert_file"]),
        ({"grpc": {"host": "0.0.0.0", "enabled": False}}, []),
        ({"grpc": {"host": "0.0.0.0"}, "tls": {"cert_file": "c", "client_ca_file": "a"}}, []),
        ({"clickhouse": {"host": "10.1.2.3"}}, ["clickhouse.host: 10.1.2.3: passwords and answers cross"]),
    ],
)
def test_a_door_that_is_open_beyond_this_machine_is_told_of(values: dict[str, dict[str, Any]], told: list[str]) -> None:
    """It is not a fault: the network may be closed elsewhere. `--check` and the log at the start name what gets in."""
    sections = {name: type(getattr(CollectorConfig(), name))(**section) for name, section in values.items()}
    found = list(warnings(CollectorConfig(**sections)))
    assert len(found) == len(told)
    assert all(line.startswith(start) for line, start in zip(found, told, strict=True))
