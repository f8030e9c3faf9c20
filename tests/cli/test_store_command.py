"""`freezeframe store`: against a running collector, against its files, and as a user who may not."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_folder import COMMAND_LINE, EPHEMERAL, RECORD, Project

from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]


def ports(project: Project) -> dict[str, int]:
    found: dict[str, int] = json.loads((project.root / ".freezeframe" / "ports.json").read_text())
    return found


def asked(project: Project, *arguments: str) -> Any:
    done = project.freezeframe("store", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_a_terminal(project: Project, *arguments: str) -> str:
    """Return what a command prints on a terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-c", COMMAND_LINE, *arguments]
    process = subprocess.Popen(command, cwd=project.root, stdin=its, stdout=its, stderr=subprocess.DEVNULL)
    os.close(its)
    parts: list[bytes] = []
    with suppress(OSError):  # the terminal is closed with its last user
        while part := os.read(ours, 65536):
            parts.append(part)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode()


@pytest.fixture(scope="module")
def project(recorded: tuple[Path, Run], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with a running collector and two runs."""
    root = tmp_path_factory.mktemp("administered")
    shutil.copy(recorded[0] / "agent.py", root / "agent.py")
    (root / ".freezeframe").mkdir()
    project = Project(root=root)
    try:
        done = project.freezeframe("up", *EPHEMERAL)
        assert done.returncode == 0, done.stderr
        for _ in range(2):
            done = project.python("-c", RECORD)
            assert done.returncode == 0, done.stderr
        yield project
    finally:
        project.freezeframe("down")


def test_stats_tell_sizes_by_kind_and_what_storing_once_saved(project: Project) -> None:
    stats = asked(project, "stats")
    assert stats["runs"] == 2
    assert stats["by_kind"]["tool"]["spans"] == 4
    assert stats["disk_bytes"] > 0
    payload = stats["payload"]
    assert payload["referenced_bytes"] > 0
    assert payload["dedup_ratio"] == round(payload["referenced_bytes"] / payload["stored_bytes"], 2)
    assert "span_rows" in project.freezeframe("store", "stats").stdout


def test_pinning_and_unpinning_leave_their_trace_in_audit(project: Project) -> None:
    run = asked(project, "pin", "last", "--note", "INC-17")["run"]
    assert asked(project, "unpin", run[:12])["pinned"] is False
    rows = json.loads(project.freezeframe("sql", "SELECT action, note FROM audit ORDER BY time", "--format", "json").stdout)
    assert {"action": "pin", "note": "INC-17"} in rows


@pytest.mark.proof("command store")
def test_a_deletion_asks_first_and_is_verified(project: Project, tmp_path: Path) -> None:
    rows = asked(project, "backup", str(tmp_path / "backup"))["rows"]
    refused = project.freezeframe("store", "delete", "last")
    assert refused.returncode == 1
    assert "give --yes" in refused.stderr
    deleted = asked(project, "delete", "last", "--yes")
    assert (deleted["runs"], deleted["left"]) == (1, 0)
    assert asked(project, "stats")["runs"] == 1
    assert asked(project, "restore", str(tmp_path / "backup"))["rows"] == rows
    new_host = tmp_path / "new" / "host"
    assert asked(project, "restore", str(tmp_path / "backup"), "--data", str(new_host))["rows"] == rows
    assert asked(project, "stats", "--data", str(new_host))["runs"] == 2
    assert new_host.stat().st_mode & 0o077 == 0
    assert asked(project, "stats")["runs"] == 2


def test_a_policy_is_tried_on_stored_runs_before_it_is_switched_on(project: Project) -> None:
    (project.root / "places.toml").write_text(
        'name = "places"\nversion = 1\nclasses = ["EMAIL"]\n[[class]]\nname = "TOWN"\npattern = "Lyon"\nexample = "Lyon"\n'
    )
    newest = asked(project, "pin", "last")["run"]
    question = f"SELECT trace_id FROM runs WHERE trace_id = '{newest}'"
    before = asked(project, "stats")["by_kind"]
    tried = asked(project, "redact", "--try", "places.toml", "--over", question)
    assert (tried["runs"], tried["left_out"]) == (1, 0)
    towns = {row["key"]: row["count"] for row in tried["keys"] if row["class"] == "TOWN"}
    assert any(key.endswith(".place") for key in towns)
    shown = project.freezeframe("store", "redact", "--try", "places.toml", "--over", "status = 'ok'")
    assert shown.returncode == 0, shown.stderr
    assert "nothing was written" in shown.stdout
    assert "TOWN" in shown.stdout
    assert "Lyon" not in shown.stdout  # samples are for a terminal
    assert "Lyon" in on_a_terminal(project, "store", "redact", "--try", "places.toml", newest)
    assert asked(project, "stats")["by_kind"] == before
    unchosen = project.freezeframe("store", "redact", "--try", "places.toml", "--over", "name = 'no such run'")
    assert (unchosen.returncode, "no run is chosen" in unchosen.stderr) == (1, True)
    alone = project.freezeframe("store", "redact", "--over", "1")
    assert (alone.returncode, "--try POLICY" in alone.stderr) == (1, True)


def test_a_stored_run_is_redacted_again_and_still_replays(project: Project) -> None:
    (project.root / "towns.toml").write_text(
        'name = "towns"\nversion = 1\n[[class]]\nname = "TOWN"\npattern = "Lyon"\nexample = "Lyon"\n'
    )
    run = asked(project, "pin", "last")["run"]
    before = asked(project, "stats")
    asking = project.freezeframe("store", "redact", run[:12], "--policy", "towns.toml")
    assert asking.returncode == 1
    assert "replaces 1 TOWN in addition" in asking.stdout
    assert asked(project, "stats")["by_kind"] == before["by_kind"]  # not its sizes on disk: parts are merged all the time
    done = project.freezeframe("store", "redact", run[:12], "--policy", "towns.toml", "--yes", "--note", "towns are personal")
    assert done.returncode == 0, done.stderr
    assert "are stored under towns@" in done.stdout
    assert asked(project, "stats")["spans"] == before["spans"]
    assert "Lyon" not in project.freezeframe("show", run, "--json").stdout
    assert "2 of 2 steps and the outcome" in project.freezeframe("replay", run).stdout
    audited = json.loads(project.freezeframe("sql", "SELECT action, subject, note FROM audit", "--format", "json").stdout)
    assert any(row["action"] == "redact_run" and row["subject"] == run and "towns are" in row["note"] for row in audited)
    pinned = json.loads(project.freezeframe("sql", "SELECT trace_id FROM pins FINAL WHERE pinned", "--format", "json").stdout)
    assert {"trace_id": run} in pinned
    assert list((project.root / ".freezeframe").glob("redacted-*")) == []


@pytest.mark.proof
def test_damage_is_looked_for_and_files_are_merged(project: Project) -> None:
    assert asked(project, "check") == {"damaged": []}
    assert asked(project, "optimize")["disk_bytes"] > 0


def test_who_cannot_read_the_token_gives_no_orders(project: Project) -> None:
    assert (project.root / ".freezeframe" / "admin-token").stat().st_mode & 0o077 == 0
    request = urllib.request.Request(
        f"http://127.0.0.1:{ports(project)['clickhouse']}/store", data=b'{"action": "stats"}', method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=400)
    assert refused.value.code == 401
    refused.value.close()


def test_the_files_of_a_stopped_collector_take_orders_too(project: Project) -> None:
    assert project.freezeframe("down").returncode == 0
    assert asked(project, "stats")["runs"] == 2
    assert asked(project, "check") == {"damaged": []}
    run = asked(project, "pin", "last")["run"]
    assert asked(project, "unpin", run[:10])["run"] == run
    unknown = project.freezeframe("store", "pin", "00000000")
    assert (unknown.returncode, "not in the store" in unknown.stderr) == (1, True)
    assert asked(project, "expire", "--days", "1", "--tenants", "acme=30", "--dry-run") == {"days": [], "dry_run": True}
    assert project.freezeframe("up", *EPHEMERAL).returncode == 0
