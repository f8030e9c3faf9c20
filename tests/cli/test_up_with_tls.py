"""A collector with tokens and client certificates: agents send to it, and every command on its host still works."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from pathlib import Path

import pytest
from agent_folder import EPHEMERAL, RECORD, Project
from certificates import issue_certificates

from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]


def test_commands_read_a_collector_that_asks_senders_for_certificates(recorded: tuple[Path, Run], tmp_path: Path) -> None:
    """`up`, `status`, `doctor`, `runs` and `replay` show no certificate and no token: they do not ask through the receivers."""
    (tmp_path / "agent.py").write_text((recorded[0] / "agent.py").read_text())
    (tmp_path / ".freezeframe").mkdir()
    certificates = issue_certificates(tmp_path)
    (tmp_path / "tokens.toml").write_text(f'[tokens]\nacme = "sha256:{hashlib.sha256(b"let-me-in").hexdigest()}"\n')
    (tmp_path / "collector.toml").write_text(
        f'[tls]\ncert_file = "{certificates.server[0]}"\nkey_file = "{certificates.server[1]}"\n'
        f'client_ca_file = "{certificates.authority}"\n[auth]\ntokens_file = "{tmp_path / "tokens.toml"}"\n'
        '[redaction]\npolicy = "off"\n'
    )
    project = Project(root=tmp_path)

    def run_command(*arguments: str) -> str:
        done = project.freezeframe(*arguments)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    try:
        shown = run_command("up", *EPHEMERAL, "--config", "collector.toml")
        ports = json.loads((tmp_path / ".freezeframe" / "ports.json").read_text())
        url = f"https://127.0.0.1:{ports['http']}"
        assert f"OTLP/HTTP        {url}\n" in shown
        assert "  freezeframe run" in shown
        agent = {
            "FREEZEFRAME_HEADERS": "authorization=Bearer%20let-me-in",
            "FREEZEFRAME_CERTIFICATE": str(certificates.authority),
            "FREEZEFRAME_CLIENT_CERTIFICATE": str(certificates.client[0]),
            "FREEZEFRAME_CLIENT_KEY": str(certificates.client[1]),
        }
        done = project.python("-c", RECORD, environ=agent)
        assert (done.returncode, done.stderr) == (0, "")
        assert "answer" in run_command("runs")
        assert run_command("sql", "SELECT DISTINCT tenant FROM runs", "--format", "csv").split() == ["tenant", "acme"]
        assert f"OTLP/HTTP        {url}\n" in run_command("status")
        assert "collector            is running and ready" in run_command("doctor")
        assert "identical" in run_command("replay", "last")
        reader = bearer(read_token(tmp_path / ".freezeframe", READER))
        metrics = urllib.request.Request(f"http://127.0.0.1:{ports['pages']}/metrics", headers=reader)
        with urllib.request.urlopen(metrics) as answer:
            assert b"freezeframe_collector_spans_missing" in answer.read()
        with pytest.raises(OSError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{ports['pages']}/v1/traces", data=b"")
    finally:
        project.freezeframe("down")
