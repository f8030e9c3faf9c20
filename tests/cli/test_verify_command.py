"""`verify`: only a recording that lacks nothing is called whole; the lines say what one lacks, and that it is a fork."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.audit_check import check
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord


def spans(*, omitted: str | None = None) -> list[SpanRecord]:
    call = tool_call("track", "Lyon", "AC-1")
    return make_run(replace(call, response=replace(call.response, omitted=omitted)))


def recording(*, omitted: str | None = None) -> Fixture:
    return freeze(build_run(spans(omitted=omitted)))


def test_a_recording_with_a_body_left_out_is_not_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fixture(recording(omitted="over the limit"), tmp_path / "run")
    assert main(["fixture", "verify", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().out
    assert ": as written, but not whole, 1 step of run " in said
    assert "  lacks: span 0000000000000001 (track): response body not kept, over the limit" in said
    assert main(["export", "--unredacted", "--as", "audit", str(tmp_path / "run"), "-o", str(tmp_path / "audit")]) == 0
    assert "  lacks: span" in capsys.readouterr().out
    assert "the recording itself lacks: span" in check(str(tmp_path / "audit"))[-1]


@pytest.mark.proof("command fixture verify")
def test_whole_recordings_are_whole_and_forks_are_forks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fixture(recording(), tmp_path / "run")
    write_fixture(replace(recording(), forked_from="cd" * 16, edits=("step 1",)), tmp_path / "fork")
    assert main(["fixture", "verify", str(tmp_path / "run"), str(tmp_path / "fork")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert ": whole, 1 step of run " in first
    assert second.endswith(f"a fork of run {'cd' * 16}")


def test_edits_of_a_file_of_spans_are_named_as_not_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, omitted in (("whole", None), ("lacking", "over the limit")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(spans_to_otlp_json(spans(omitted=omitted))))
    edited = (tmp_path / "whole.jsonl").read_text().replace("Lyon", "Nice")
    (tmp_path / "edited.jsonl").write_text(edited)
    assert main(["fixture", "verify", *(str(tmp_path / f"{name}.jsonl") for name in ("edited", "lacking"))]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "edited.jsonl: whole, except edits (a file of spans has no digest that shows them), 1 step" in said[0]
    assert "lacking.jsonl: not whole, 1 step" in said[1]


def test_a_damaged_recording_outweighs_one_of_which_nothing_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fixture(recording(), tmp_path / "run")
    (tmp_path / "run" / "steps.json").write_text("[]")
    write_fixture(replace(recording(), steps=(), entry=replace(recording().entry, input=None, output=None)), tmp_path / "bare")
    assert main(["fixture", "verify", str(tmp_path / "bare")]) == 125
    assert main(["fixture", "verify", str(tmp_path / "bare"), str(tmp_path / "run")]) == 1
    assert "edited or damaged" in capsys.readouterr().err
