"""Files that a run's unmarked code reads: recorded with `record_files`, answered in a replay when they are gone; else a gap."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import Run, readiness
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_PROGRAM = """
import asyncio, csv, json, os, pathlib
import freezeframe

freezeframe.instrument()


@freezeframe.tool
def told(text):
    return f"told {text} " + open("data/tool.txt").read()


async def later():
    return await asyncio.to_thread(pathlib.Path("data/later.txt").read_text)


@freezeframe.run
def main(who):
    prices = json.loads(pathlib.Path("data/prices.json").read_text())
    with open("data/stock.csv", newline="", encoding="latin-1") as file:
        rows = list(csv.reader(file))
        stat = [file.name, os.fstat(file.fileno()).st_size]
    with open("data/photo", "rb") as file:
        file.seek(2)
        photo = [file.read(2).hex(), file.tell(), len(file.read())]
    try:
        open("data/none.txt")
    except FileNotFoundError as error:
        missing = [str(error), error.errno, error.filename]
    lines = [line for path in ("data/lines.txt", "data/lines.txt") for line in open(path)]
    return [prices, rows, stat, photo, missing, lines, asyncio.run(later()), told(who)]


if __name__ == "__main__":
    print(main("maria"))
"""


def write(folder: Path) -> None:
    (folder / "shop.py").write_text(_PROGRAM)
    (folder / "data").mkdir()
    for name, content in {
        "tool.txt": b"of the tool",
        "later.txt": b"later",
        "prices.json": b'{"kettle": 3.5}',
        "stock.csv": "kettle,7\r\npâté,2\r\n".encode("latin-1"),
        "photo": bytes(range(200, 256)),
        "lines.txt": b"one\ntwo\r\n",
    }.items():
        (folder / "data" / name).write_bytes(content)


def record(folder: Path, **environment: str) -> Run:
    spans = folder / "spans.jsonl"
    variables = {**os.environ, "FREEZEFRAME_FILE": str(spans), **environment}
    done = subprocess.run(
        [sys.executable, "shop.py"], cwd=folder, env=variables, capture_output=True, text=True, check=True, timeout=200
    )
    assert "freezeframe" not in done.stderr
    [run] = load_runs_of_file(spans)
    return run


def replay(run: Run, folder: Path, *, changed: tuple[str, str] = ("", "")) -> Report:
    (folder / "shop.py").write_text(_PROGRAM.replace(*changed))
    return reenact(freeze(run), cwd=folder)


@pytest.mark.proof
def test_what_a_run_reads_of_files_is_answered_when_they_are_gone(tmp_path: Path) -> None:
    write(tmp_path)
    plain = subprocess.run([sys.executable, "shop.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    run = record(tmp_path, FREEZEFRAME_RECORD_FILES="1")
    again = subprocess.run(
        [sys.executable, "shop.py"],
        cwd=tmp_path,
        env={**os.environ, "FREEZEFRAME_RECORD_FILES": "1", "FREEZEFRAME_FILE": str(tmp_path / "again.jsonl")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert again == plain
    asked = [values.decode(exchange.request.body.decode())["args"] for exchange in run.exchanges if exchange.kind is Kind.FILE]
    names = ("prices.json", "stock.csv", "photo", "none.txt", "lines.txt", "lines.txt", "later.txt", "tool.txt")
    assert asked == [[f"data/{name}"] for name in names]
    assert run.gaps == ()
    assert readiness(run).level >= 4
    shutil.rmtree(tmp_path / "data")
    report = replay(run, tmp_path)
    assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL)
    first = replay(run, tmp_path, changed=("data/stock.csv", "data/other.csv")).divergences[0]
    assert (first.kind, first.step) == (DivergenceKind.REQUEST_CHANGED, 2)


def test_a_file_that_is_not_recorded_is_a_gap_which_names_the_option(tmp_path: Path) -> None:
    write(tmp_path)
    run = record(tmp_path)
    gaps = [gap for gap in run.gaps if gap.kind is GapKind.FILE_READ]
    assert len(gaps) == 5
    assert "main (shop.py:" in gaps[0].text
    assert [gap.do for gap in gaps if not gap.do.startswith("set record_files (FREEZEFRAME_RECORD_FILES=1), or ")] == []


def test_a_large_file_stays_a_gap_and_is_read_again(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "data" / "lines.txt").write_bytes(b"x" * (1 << 20) + b"\n")
    run = record(tmp_path, FREEZEFRAME_RECORD_FILES="1")
    [gap] = run.gaps
    assert "reads the large file data/lines.txt" in gap.text
    assert "record_files" not in gap.do
    assert max(len(exchange.response.body) for exchange in run.exchanges) < 1000
    assert replay(run, tmp_path).divergences == ()
    (tmp_path / "data" / "lines.txt").write_bytes(b"y")
    assert verdict(replay(run, tmp_path)) is Verdict.DIVERGED


_WRITES = (
    _PROGRAM.partition("@freezeframe.run")[0]
    + """
@freezeframe.run
def main(who):
    open("notes.txt", "w").write(who)
    with open("notes.txt", "a") as file:
        file.write("!")
    said = pathlib.Path("notes.txt").read_text()
    return [said, told(who)]


if __name__ == "__main__":
    print(main("maria"))
"""
)


def test_what_a_run_wrote_itself_is_no_input(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "shop.py").write_text(_WRITES)
    run = record(tmp_path, FREEZEFRAME_RECORD_FILES="1")
    assert [exchange.kind for exchange in run.exchanges] == [Kind.TOOL, Kind.FILE]
    assert {gap.kind for gap in run.gaps} == {GapKind.FILE_WRITTEN}
