"""What readiness says about a run is true in its replay: level 6 is identical in another process, a cold case cannot start.

Small programs, each recorded by one process in a repository with a commit, and replayed by another.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from known_gaps import EARLY, HEAD, LATE, PROGRAMS, REACHES, reaching_program

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import Run, build_run, readiness
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each program is started twice


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port where nothing answers."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def record(folder: Path, port: int, source: str, arguments: tuple[str, ...] = ("agent.py",), stdin: str = "") -> Path:
    """Run the program in a separate repository; return the file with its spans."""
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "elsewhere.txt").write_text("1")
    home = folder / "agent"
    home.mkdir()
    (home / "agent.py").write_text(HEAD + source)
    (home / "late.py").write_text(LATE)
    (home / "early.py").write_text(EARLY)
    (home / "prompt.txt").write_text("be kind")
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "agent"]):
        subprocess.run(["git", *identity, *command], cwd=home, check=True, timeout=400)
    (home / "orders.csv").write_text("AC-1,3\n")
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env={
            **os.environ,
            "FREEZEFRAME_FILE": "spans.jsonl",
            "FREEZEFRAME_RECORD_ENV": "PORT,ELSEWHERE",
            "PORT": str(port),
            "ELSEWHERE": "../elsewhere/elsewhere.txt",
        },
        input=stdin,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "spans.jsonl" in os.listdir(home), done.stderr
    return home / "spans.jsonl"


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_readiness_says_is_true_when_the_run_is_replayed(name: str, tmp_path: Path, port: int) -> None:
    program = PROGRAMS[name]
    run = load_run_of_file(record(tmp_path, port, program.source, program.arguments, program.stdin))
    reached = readiness(replace(run, verified=True))
    assert {gap.kind for gap in run.gaps} == ({program.gap} if program.gap else set()), run.gaps
    for gap in run.gaps:
        assert program.text in gap.text
        assert program.do in gap.do
    assert reached.level == program.level, reached
    assert readiness(run).level == min(program.level, 5)  # no replay of it was seen so far
    fixture, home = freeze(run), tmp_path / "agent"
    if reached.level == 6:
        report = reenact(fixture, cwd=home)
        assert verdict(report) is Verdict.IDENTICAL, (report.first, report.warnings)
    elif reached.cold:
        with contextlib.suppress(ReplayError):
            assert verdict(reenact(fixture, cwd=home, timeout_s=60)) is not Verdict.IDENTICAL


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory, port: int) -> tuple[dict[str, Run], Path]:
    """The runs of all functions of one program, by name, and the folder that it ran in."""
    folder = tmp_path_factory.mktemp("reaches")
    file = record(folder, port, reaching_program())
    spans = [span for line in file.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))]
    runs = [build_run(span for span in spans if span.trace_id == trace) for trace in {span.trace_id for span in spans}]
    return {run.entry.name: run for run in runs}, folder


@pytest.mark.proof
@pytest.mark.parametrize("name", REACHES)
def test_what_unmarked_code_reaches_is_a_gap_with_the_line_that_closes_it(
    name: str, reached: tuple[dict[str, Run], Path]
) -> None:
    (gap,) = reached[0][name].gaps
    expected = REACHES[name]
    assert (gap.kind, readiness(reached[0][name]).level) == (expected.gap, 5)
    assert expected.text in gap.text
    assert expected.do in gap.do
    assert "secret" not in str(gap)
    assert str(reached[1]) not in str(gap)
