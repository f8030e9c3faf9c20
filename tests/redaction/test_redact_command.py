"""The command that redacts files and lines."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_redaction import load_or_create_keys, load_policy
from freezeframe_replay.cli import main


def _run(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> tuple[int, str, str]:
    monkeypatch.chdir(tmp_path)
    status = main(["store", "redact-file", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.proof("command store redact-file")
def test_the_command_redacts_lines_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Ids, values and findings; a bad line is named and the others are done."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id":1,"text":"mail bob@gmail.com"}\nnope\n{"id":"b","value":{"a":["x@y.io",1.5]}}\n')
    status, out, err = _run([str(source)], monkeypatch, capsys, tmp_path)
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 1
    assert [row["id"] for row in rows] == [1, "b"]
    assert rows[0]["findings"] == [{"class": "EMAIL", "start": 5, "end": 18}]
    assert rows[1]["value"]["a"][1] == 1.5
    assert "in.jsonl:2" in err
    assert "ephemeral" in err


def test_the_command_takes_its_own_lines_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each line lists its surrogates, so that they stay; a list that is none is a fault of its line."""
    first, second = tmp_path / "in.jsonl", tmp_path / "again.jsonl"
    first.write_text('{"id":1,"text":"Phone: 974 3493, MRN: 90155580"}\n')
    _, once, _ = _run([str(first)], monkeypatch, capsys, tmp_path)
    assert sorted(json.loads(once)["surrogates"].values()) == ["MEDID", "PHONE"]
    second.write_text(once + '{"id":2,"text":"x","surrogates":[]}\n{"id":3,"text":"x","surrogates":["y"]}\n')
    status, out, err = _run([str(second)], monkeypatch, capsys, tmp_path)
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {**json.loads(once), "findings": []}
    assert [row["id"] for row in rows] == [1, 2]
    assert "again.jsonl:3: surrogates: expected a JSON object" in err
    assert status == 1


def test_a_dry_run_shows_counts_and_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What an officer may look at before switching on."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id":1,"text":"mail bob@gmail.com"}\n')
    status, out, _ = _run(["--dry-run", str(source)], monkeypatch, capsys, tmp_path)
    assert status == 0
    assert "1 findings" in out
    assert "bob" not in out


def test_counts_and_keys_are_written_for_scripts_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"text":"mail bob@gmail.com"}\n')
    load_or_create_keys(tmp_path / "keys").rotate()
    status, out, err = _run(["--dry-run", "--json", "in.jsonl"], monkeypatch, capsys, tmp_path)
    assert (status, json.loads(out)["findings"]) == (0, [{"class": "EMAIL", "detector": "email", "count": 1}])
    assert "bob" not in out + err
    status, out, _ = _run(["--list-keys", "--json", "--keys", "keys"], monkeypatch, capsys, tmp_path)
    assert json.loads(out) == [{"id": "default/1", "current": False}, {"id": "default/2", "current": True}]


def test_explain_says_where_what_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """For a developer's own text."""
    source = tmp_path / "note.txt"
    source.write_text("first\nmail bob@gmail.com")
    status, out, _ = _run(["--text", "--explain", str(source)], monkeypatch, capsys, tmp_path)
    assert status == 0
    assert out.startswith("2:6  EMAIL  'bob@gmail.com'  by email")
    assert "\n  rules/email.toml: find = find" in out


@pytest.mark.parametrize(
    ("text", "detector", "row"),
    [
        ("PESEL 44051401359", "national id: PL PESEL", "rules/national.toml: digits = [11]; check = pl_pesel; words = pesel"),
        ("call (415) 555-2671", "phone", ""),
        ("CBU 2850590940090418135201", "bank: cbu", "rules/bank.toml: around = (?<![0-9])[0-9]{22}(?![0-9]); reach = [22, 1]"),
        ("use ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "secret: github", "rules/vendors.toml: head = gh[pousr]_; tail ="),
    ],
)
def test_explain_names_the_row_of_rules_that_decided(
    text: str, detector: str, row: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 1, "text": text}))
    _, out, _ = _run(["--explain", str(tmp_path / "in.jsonl")], monkeypatch, capsys, tmp_path)
    (finding,) = json.loads(out)["findings"]
    assert finding["detector"] == detector
    assert finding["row"].startswith(row)


def test_explain_says_which_evidence_decided_about_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each feature with its weight, for a name that goes and one that stays: they add up to the score."""
    text = "We sat in the Casa Milà with Barbara Tuchman."
    (tmp_path / "note.txt").write_text(text)
    status, out, _ = _run(["--text", "--explain", str(tmp_path / "note.txt")], monkeypatch, capsys, tmp_path)
    assert status == 0
    river, tuchman = re.split(r"^(?='Casa Milà'|'Barbara Tuchman')", out, flags=re.MULTILINE)[1:]
    assert "not a name, kept as it is: evidence -" in river
    assert "  a name: evidence +" in tuchman
    assert re.search(r"^  [+-][0-9.]+  word before=the$", river, re.MULTILINE)
    for said in (river, tuchman):
        score, *weights = (float(one) for one in re.findall(r"(?:evidence |^  )([+-][0-9.]+)", said, re.MULTILINE))
        assert abs(score - sum(weights)) < 0.2
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 1, "text": text}))
    _, out, _ = _run(["--explain", str(tmp_path / "in.jsonl")], monkeypatch, capsys, tmp_path)
    assert [(one["text"], one["is_name"]) for one in json.loads(out)["names"]] == [
        ("Casa Milà", False),
        ("Barbara Tuchman", True),
    ]


def test_the_command_uses_the_local_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two runs with the data directory's key give the same surrogates; help shows examples."""
    load_or_create_keys(tmp_path / ".freezeframe" / "keys")
    source = tmp_path / "in.jsonl"
    source.write_text('{"id":1,"text":"mail bob@gmail.com"}\n')
    outs = {_run([str(source)], monkeypatch, capsys, tmp_path)[1] for _ in range(2)}
    assert len(outs) == 1
    status, out, _ = _run(["--help"], monkeypatch, capsys, tmp_path)
    assert status == 0
    assert "examples:" in out


def test_equal_policies_are_equal_values() -> None:
    """Policies are frozen values; a changed one is another."""
    assert load_policy() == load_policy()
    assert replace(load_policy(), classes=frozenset({"EMAIL"})).hash != load_policy().hash
