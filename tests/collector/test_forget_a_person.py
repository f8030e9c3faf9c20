"""A person asks to be forgotten: what mentions her goes from the store, the vault and the data directory; the rest stays."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from running_collector import CollectorProcess, span

from freezeframe_replay.cli import main
from freezeframe_replay.operations import forgetting
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.span import SpanRecord

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts a collector of its own

MAIL, NAME, PHONE, NUMBER = "anna.keller@corp-mail.io", "Anna Keller", "+1 415 865 2671", "u-4411x9"
VALUES = (MAIL, NAME, PHONE, NUMBER)
LONG = "and tell them when it ships. " * 20
HERS = {
    1: f"Dear Anna Keller, we wrote to {MAIL}. {LONG}",
    2: json.dumps({"customer": {"first_name": "Anna", "last_name": "Keller"}, "note": LONG}),
    3: "call me back: (415) 865-2671, please",
    4: f"account {NUMBER} was opened",
    5: "login ANNA.KELLER@CORP-MAIL.IO failed",
}
APART = 6
OTHERS = {APART: "Dear Anna Schmidt, ask Tom Keller about it", 7: "Dear Bob Meyer, write to bob@corp-mail.io", 8: LONG}


def _trace(run: int) -> str:
    return f"{run:032x}"


def _span(run: int, text: str) -> SpanRecord:
    return span(7 * (run - 1), text)


@dataclass
class World:
    """A collector with a vault, the runs, and files below its data directory."""

    data: Path
    capsys: pytest.CaptureFixture[str]

    def ask(self, *arguments: str) -> tuple[int, str, str]:
        """Run `freezeframe store`; return its exit code and what it printed."""
        self.capsys.readouterr()
        code = main(["store", *arguments, "--data", str(self.data)])
        out, err = self.capsys.readouterr()
        return code, out, err

    def forget(self, *arguments: str, values: tuple[str, ...] = VALUES) -> dict[str, Any]:
        """Forget the person; return the report."""
        who = ("--who", "A. Officer", "--note", "request 71")
        code, out, err = self.ask("delete", "--person", *values, *who, "--yes", "--json", *arguments)
        assert code == 0, (out, err)
        return json.loads(out)

    def runs(self) -> set[int]:
        """Return the numbers of the runs in the store."""
        code = main(["sql", "SELECT DISTINCT trace_id FROM spans", "--format", "json", "--data", str(self.data)])
        assert code == 0
        return {int(row["trace_id"], 16) for row in json.loads(self.capsys.readouterr().out)}


@pytest.fixture
def world(data: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    collector = CollectorProcess(data, policy="strict", environment={"FREEZEFRAME_COLLECTOR__REDACTION__VAULT": "true"})
    for run, text in {**HERS, **OTHERS}.items():
        assert collector.post([_span(run, text)]).status_code == 200
    collector.flush()
    yield World(data=data, capsys=capsys)
    assert collector.stop() == 0


def _surrogate(world: World, run: int, class_: str) -> str:
    where = f"trace_id = '{_trace(run)}' AND class = '{class_}'"
    assert main(["sql", f"SELECT surrogate FROM redactions WHERE {where}", "--format", "json", "--data", str(world.data)]) == 0
    return max((row["surrogate"] for row in json.loads(world.capsys.readouterr().out)), key=len)


@pytest.mark.proof
def test_what_mentions_a_person_is_gone_and_the_signed_report_holds_no_value(world: World) -> None:
    mail, bobs = _surrogate(world, 1, "EMAIL"), _surrogate(world, 7, "EMAIL")
    kept = world.data / "fixtures" / "late" / "steps"
    kept.mkdir(parents=True)
    (kept.parent / "manifest.json").write_text("{}")
    (kept / "1.gz").write_bytes(gzip.compress(json.dumps({"to": mail}).encode()))
    (world.data / "notes.txt").write_text(f"call {PHONE}")
    (world.data / "other.txt").write_text(f"write to {bobs}")
    elsewhere = world.data.parent / "project"
    elsewhere.mkdir()
    (elsewhere / "test.json").write_text(json.dumps([mail]))

    refused = world.ask("delete", "--person", *VALUES, "--yes")
    assert (refused[0], "--who" in refused[2]) == (1, True)
    code, out, _ = world.ask("delete", "--person", *VALUES, "--who", "A. Officer", "--note", "request 71")
    assert code == 1  # nobody to ask
    assert all(_trace(run) in out for run in (*HERS, APART))
    assert world.runs() == {*HERS, *OTHERS}

    report = world.forget("--look-in", str(elsewhere))
    assert world.runs() == {*OTHERS}
    assert (report["state"], report["left"]) == ("done", {"runs": [], "files": [], "vault": []})
    assert {int(run["run"], 16) for run in report["deleted"]} == {*HERS}
    assert report["kept_words_apart"] == [_trace(APART)]
    assert sorted(report["files"]) == ["fixtures/late", "notes.txt"]
    assert report["elsewhere"] == [str(elsewhere / "test.json")]
    assert (elsewhere / "test.json").exists()
    assert (world.data / "other.txt").exists()
    assert not kept.parent.exists()
    reveal = ("vault", "reveal", "--who", "A. Officer", "--why", "after")
    assert world.ask(*reveal, mail)[0] == 1
    assert world.ask(*reveal, bobs)[1] == "bob@corp-mail.io\n"

    (folder,) = (world.data / "forgotten").iterdir()
    body = (folder / "report.json").read_bytes()
    public = load_pem_public_key((folder / "public_key.pem").read_bytes())
    assert isinstance(public, Ed25519PublicKey)
    public.verify((folder / "report.sig").read_bytes(), body)
    assert json.loads(body)["who"] == "A. Officer"
    assert not any(value in body.decode() for value in (*VALUES, "Keller"))
    assert folder.stat().st_mode & 0o077 == 0
    again = world.forget()
    assert (again["deleted"], again["files"], again["vault"]) == ([], [], [])
    assert world.forget("--apart", values=(NAME,))["state"] == "done"
    assert world.runs() == {7, 8}


def test_a_blanked_run_stays_with_surrogates_that_its_keys_do_not_make(world: World) -> None:
    mail = _surrogate(world, 1, "EMAIL")
    report = world.forget("--blank")
    assert {int(run["run"], 16) for run in report["blanked"]} == {*HERS}
    assert world.runs() == {*HERS, *OTHERS}
    assert _surrogate(world, 1, "EMAIL") != mail
    assert world.forget("--blank")["blanked"] == []


def test_an_order_that_failed_midway_is_repeated(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermanentStoreError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(forgetting, "forget_originals", fail)
        code, _, err = world.ask("delete", "--person", MAIL, "--who", "A. Officer", "--note", "request 71", "--yes")
        assert (code, "the disk is gone" in err) == (1, True)
    (begun,) = (world.data / "forgotten").iterdir()
    assert json.loads((begun / "report.json").read_bytes())["state"] == "begun"
    assert world.runs() == {*HERS, *OTHERS}
    report = world.forget(values=(MAIL,))
    assert {int(run["run"], 16) for run in report["deleted"]} == {1, 5}
    assert report["state"] == "done"


def test_deleting_a_users_runs_names_those_of_others_that_mention_her(world: World) -> None:
    user = _surrogate(world, 1, "EMAIL")
    code, out, _ = world.ask("delete", "--user", user, "--yes", "--json")
    assert code == 0
    assert {int(run, 16) for run in json.loads(out)["mentioned"]} == {1, 5}
    assert world.ask("delete", _trace(1), "--yes")[0] == 0
    assert world.ask("vault", "reveal", user, "--run", _trace(1), "--who", "A. Officer", "--why", "after")[0] == 1
    assert "1 run of others mention" in world.ask("delete", "--user", user, "--yes")[1]
