"""`freezeframe open`, `logs` and `runs --follow`, without services."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from freezeframe_replay.cli import main
from freezeframe_replay.cli.logs import Tail
from freezeframe_replay.cli.open import has_browser
from freezeframe_replay.cli.runs import changes
from freezeframe_replay.local.daemon import COLLECTOR, log_file
from freezeframe_replay.local.home import Home, make_home
from freezeframe_replay.sources.run_list import RunPage
from freezeframe_replay.sources.store import RUN_COLUMNS, RunRow
from freezeframe_schemas.lifecycle import RunStatus


def test_a_log_is_followed_line_by_line_and_from_its_start_once_it_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "collector.log"
    tail = Tail(log)
    assert [*tail.last(2)] == [*tail.new()] == []
    log.write_text("one\ntwo\nthree\nha")
    assert [*tail.last(2)] == ["two", "three"]
    log.write_text("one\ntwo\nthree\nhalf\n")
    assert [*tail.new()] == ["half"]
    assert [*tail.new()] == []
    log.write_text("new\n")
    assert [*tail.new()] == ["new"]


@pytest.mark.proof("command logs")
def test_logs_shows_the_last_lines_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FREEZEFRAME_DATA", str(tmp_path))
    assert main(["logs"]) == 1
    assert "do: start it with `freezeframe up`" in capsys.readouterr().err
    make_home(Home(directory=tmp_path))
    log_file(Home(directory=tmp_path), COLLECTOR).write_text("first\nsecond \x1b[2J\n")
    assert main(["logs", "--lines", "1"]) == 0
    assert capsys.readouterr().out == "collector | second \\x1b[2J\n"
    assert main(["logs", "replay"]) == 1


def test_open_without_a_service_says_what_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FREEZEFRAME_DATA", str(tmp_path))
    assert main(["open"]) == 1
    said = capsys.readouterr().err
    assert "no replay service runs" in said
    assert "do: start it with `freezeframe up`" in said


def test_a_browser_that_would_take_the_terminal_is_not_opened() -> None:
    assert not has_browser({}, "linux")
    assert has_browser({"DISPLAY": ":0"}, "linux")
    assert has_browser({}, "darwin")


def row(number: int, status: RunStatus) -> RunRow:
    values: dict[str, object] = dict.fromkeys(RUN_COLUMNS, "")
    return RunRow(**{**values, "trace_id": f"{number:032x}", "status": status, "start_time": dt.datetime(2026, 1, 1)})  # pyright: ignore[reportArgumentType]  # the other columns do not matter


def test_following_shows_a_run_when_it_begins_and_when_it_ends() -> None:
    began, ended, other = row(1, RunStatus.UNFINISHED), row(1, RunStatus.OK), row(2, RunStatus.OK)
    pages = [RunPage(rows=[began]), RunPage(rows=[began]), RunPage(rows=[other, began]), RunPage(rows=[other, ended])]
    assert [page.rows for page in changes(pages)] == [[began], [other], [ended]]
