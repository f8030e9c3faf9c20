"""Standard input and output of a whole process: recorded as input and outcome, given again in a replay, and not disturbed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts processes

HEAD = """
import sys, freezeframe
@freezeframe.tool
def double(number): return number * 2
"""
READERS = {
    "lines": "for line in sys.stdin: print(double(int(line)))",
    "all": "print(*map(double, map(int, sys.stdin.read().split())))",
    "input": "print(double(int(input('number? '))), double(int(input())))",
    "bytes": "print(double(len(sys.stdin.buffer.read())))",
    "none": "print(double(21))",
    "file number": "import os; print(double(len(os.read(sys.stdin.fileno(), 100))))",
}


def run(path: Path, stdin: bytes, *command: str) -> subprocess.CompletedProcess[bytes]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))}
    return subprocess.run(command, input=stdin, cwd=path, env=environ, capture_output=True, timeout=400, check=False)


def recorded(path: Path, stdin: bytes) -> tuple[Run, bytes]:
    """Run agent.py as `freezeframe run` does; return its run and what it printed."""
    spans = path / "spans.jsonl"
    done = run(path, stdin, sys.executable, "-m", "freezeframe._cli", "run", "--file", str(spans), sys.executable, "agent.py")
    assert done.returncode == 0, done.stderr
    return build_run(
        span for line in spans.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))
    ), done.stdout


@pytest.mark.parametrize("reader", READERS)
def test_a_program_reads_and_prints_as_without_us_and_both_are_recorded(reader: str, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(HEAD + READERS[reader] + "\n")
    bare = run(tmp_path, b"1\n20\n", sys.executable, "agent.py")
    found, printed = recorded(tmp_path, b"1\n20\n")
    assert printed == bare.stdout
    given: Any = values.decode(found.entry.input or "")
    assert given.get("stdin") == (None if reader in ("none", "file number") else "1\n20\n")
    assert values.decode(found.entry.output or "") == {"stdout": printed.decode()}


@pytest.mark.proof
def test_a_replay_gives_the_recorded_input_and_compares_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(HEAD + READERS["lines"] + "\n")
    found, _ = recorded(tmp_path, b"1\n20\n")
    write_fixture(freeze(found), tmp_path / "fixture")
    same = reenact(tmp_path / "fixture", cwd=tmp_path, quiet=True)
    assert (verdict(same), len(same.served)) == (Verdict.IDENTICAL, 2)
    (tmp_path / "agent.py").write_text(HEAD + READERS["lines"].replace("print(", "print('got', ") + "\n")
    changed = reenact(tmp_path / "fixture", cwd=tmp_path, quiet=True)
    assert [item.kind for item in changed.divergences] == [DivergenceKind.OUTCOME_CHANGED]


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(HEAD + READERS["bytes"] + "\n")
    found, _ = recorded(tmp_path, b"\xff\x00\xfe")
    given: Any = values.decode(found.entry.input or "")
    assert given["stdin"] == b"\xff\x00\xfe"


def test_too_much_is_left_out_and_disturbs_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(HEAD + "text = sys.stdin.read(); double(1); print(text)\n")
    found, printed = recorded(tmp_path, b"x" * 2_000_000)
    assert len(printed) == 2_000_001
    assert "stdin" not in values.decode(found.entry.input or "")
    assert found.entry.output == '{"stdout": null}'


USES = {
    "detached": "sys.stdin = io.TextIOWrapper(sys.stdin.detach(), encoding='utf-8'); print(sys.stdin.readline(), input())",
    "detached and gone": "print(sys.stdin.detach().read())",
    "the interpreter's own": "print(sys.stdin is sys.__stdin__); sys.stdin = sys.__stdin__; print(sys.stdin.read())",
    "a size of another type": "try: sys.stdin.read('1')\nexcept TypeError as error: print(error)",
    "closed": "sys.stdin.close(); print(sys.stdin.closed)",
}


@pytest.mark.parametrize("use", USES)
def test_a_program_that_does_anything_to_its_standard_input_prints_as_without_us(use: str, tmp_path: Path) -> None:
    instrumented = "import freezeframe; freezeframe.instrument(file='spans.jsonl')\n"
    printed: list[tuple[bytes, bytes, int]] = []
    for capture in ("", instrumented):
        (tmp_path / "agent.py").write_text(f"import io, sys\n{capture}{USES[use]}\n")
        done = run(tmp_path, b"one\ntwo\n", sys.executable, "agent.py")
        printed.append((done.stdout, done.stderr, done.returncode))
    assert printed[1] == printed[0]
