"""The vault through the whole collector: off by default; sealed at ingest, revealed by the command, forgotten for good."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from running_collector import CollectorProcess, span

from freezeframe_replay.cli import main

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts a collector of its own

MAIL = "jane.roe@corp-mail.io"
TEXT = json.dumps([{"role": "user", "content": f"write to {MAIL}, please, " + "and tell them when it ships. " * 20}])
VAULT = {"FREEZEFRAME_COLLECTOR__REDACTION__VAULT": "true"}


def _surrogate(collector: CollectorProcess) -> str:
    collector.flush()
    rows = collector.rows("SELECT toJSONString(tuple(*)) FROM freezeframe.spans")
    [found] = {mail for [row] in rows for mail in re.findall(r"u[a-z0-9]+@[a-z0-9]+\.example\.com", row)}
    return found


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.proof("command store vault")), "2"])
def test_an_original_is_revealed_with_a_reason_and_forgotten_with_its_runs(
    data: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    collector = CollectorProcess(
        data, policy="strict", environment={**VAULT, "FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": workers}
    )
    runs = [f"{run:032x}" for run in (1, 2)]
    for number in (1, 8):  # of the first run, and of the second, whose text is recalled whole
        assert collector.post([span(number, text=TEXT)]).status_code == 200
    surrogate = _surrogate(collector)
    assert collector.stop() == 0
    assert all(MAIL.encode() not in path.read_bytes() for path in data.rglob("*") if path.is_file())

    command = ["--data", str(data)]
    asked = ["store", "vault", "reveal", surrogate, *command, "--who", "A. Officer"]
    assert main(asked) == 2  # no reason
    assert main([*asked, "--why", " "]) == 2
    capsys.readouterr()
    assert main([*asked, "--why", "request 71"]) == 0
    assert capsys.readouterr().out == f"{MAIL}\n"
    assert main(["store", "vault", "rotate", *command]) == 0
    (data / "vault-keys" / "vault.1.key.json").unlink()
    assert main(["store", "vault", "forget", runs[0], *command]) == 0
    assert main([*asked, "--why", "again"]) == 0  # the second run has it, too
    assert main([*asked, "--why", "again", "--run", runs[0]]) == 1
    assert main(["store", "vault", "forget", runs[1], *command]) == 0
    capsys.readouterr()
    assert main([*asked, "--why", "once more"]) == 1
    assert MAIL not in "".join(capsys.readouterr())
    assert main(["store", "vault", "log", "--json", *command]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(row["what"], row.get("why")) for row in told] == [
        ("revealed", "request 71"),
        ("forgotten", None),
        ("revealed", "again"),
        ("asked for", "again"),
        ("forgotten", None),
        ("asked for", "once more"),
    ]
    assert {row["who"] for row in told if "who" in row} == {"A. Officer"}


def test_nothing_is_kept_unless_the_configuration_asks_for_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    collector = CollectorProcess(data, policy="strict")
    assert collector.post([span(1, text=TEXT)]).status_code == 200
    surrogate = _surrogate(collector)
    assert collector.stop() == 0
    assert list(data.glob("vault*")) == []
    assert main(["store", "vault", "reveal", surrogate, "--data", str(data), "--who", "x", "--why", "y"]) == 2
    assert "vault = true" in capsys.readouterr().err
