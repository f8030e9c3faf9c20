"""A hermetic replay starts no program and leaves no file behind: an attempt is stopped, named, and cannot be swallowed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.cli.command import make_parser
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import HERMETIC, Fence, ReplayPolicy
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import Verdict, verdict, why_incomparable

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts a program

PROCESSES = {
    "subprocess.run(['echo', 'hello'])": "echo hello",
    "os.system('echo hello')": "echo hello",
    "os.popen('echo hello').read()": "/bin/sh -c echo hello",
    "asyncio.run(asyncio.create_subprocess_exec('echo', 'hello'))": "echo hello",
    "os.fork() or os._exit(0)": "fork",
    "os.execv('/bin/echo', ['echo', 'hello'])": "echo hello",
    "multiprocessing.get_context('fork').Process(target=print).start()": "fork",
    "multiprocessing.get_context('spawn').Process(target=print).start()": sys.executable,
}
WRITES = {
    "open('out', 'w').write('x')": "open out w",
    "pathlib.Path('out').write_bytes(b'x')": "open out w",
    "open('kept', 'a').write('x')": "open kept a",
    "os.close(os.open('out', os.O_CREAT | os.O_WRONLY))": "open out for writing",
    "os.remove('kept')": "remove kept",
    "os.rename('kept', 'moved')": "rename moved",
    "os.makedirs('deep/er')": "mkdir deep",
    "shutil.copy('kept', 'copied')": "open copied w",
    "shutil.rmtree('folder')": "rmdir folder",
    "sqlite3.connect('data.db').execute('CREATE TABLE t (a)')": "sqlite3.connect data.db",
    "os.symlink('kept', 'link')": "symlink link",
}
HARMLESS = (
    "open('kept').read()",
    "open(os.devnull, 'w').write('x')",
    "open('allowed/out', 'w').write('x')",
    "sqlite3.connect(':memory:').execute('CREATE TABLE t (a)')",
    "os.makedirs('folder', exist_ok=True)",
    "subprocess.run(['true'])",
)

PROBE = """
import asyncio, json, multiprocessing, os, pathlib, shutil, sqlite3, subprocess, sys
from freezeframe_replay.engine.policy import HERMETIC
from freezeframe_replay.process.fences import Fences

class Stopped(BaseException):
    pass

def on_try(fence, what):
    return Stopped(f"{fence.value}: {what}")

fences = Fences(HERMETIC, on_try, allow_paths=[pathlib.Path("allowed")], allow_programs=["true"])
fences.raise_fences()
found = {}
for act in json.load(open("acts.json")):
    fences.up = True
    try:
        exec(act)
        found[act] = None
    except Stopped as stopped:
        found[act] = str(stopped)
    finally:
        fences.up = False
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str | None], Path]:
    """What each act met inside the fences, and the folder in which it was done."""
    folder = tmp_path_factory.mktemp("fenced")
    for name in ("folder", "allowed"):
        (folder / name).mkdir()
    (folder / "kept").write_text("as it was")
    (folder / "acts.json").write_text(json.dumps([*PROCESSES, *WRITES, *HARMLESS]))
    done = subprocess.run([sys.executable, "-c", PROBE], cwd=folder, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


@pytest.mark.proof
@pytest.mark.parametrize("act", PROCESSES)
def test_a_started_process_is_stopped_and_named(act: str, tried: tuple[dict[str, str | None], Path]) -> None:
    assert (tried[0][act] or "").startswith(f"processes: {PROCESSES[act]}")


@pytest.mark.proof
@pytest.mark.parametrize("act", WRITES)
def test_a_changed_file_is_stopped_and_named(act: str, tried: tuple[dict[str, str | None], Path]) -> None:
    assert tried[0][act] == f"writes: {WRITES[act]}"


@pytest.mark.proof
@pytest.mark.parametrize("act", HARMLESS)
def test_what_leaves_nothing_behind_or_is_allowed_is_let_through(act: str, tried: tuple[dict[str, str | None], Path]) -> None:
    assert tried[0][act] is None


@pytest.mark.proof
def test_no_file_was_changed(tried: tuple[dict[str, str | None], Path]) -> None:
    _, folder = tried
    assert sorted(path.name for path in folder.iterdir()) == ["acts.json", "allowed", "folder", "kept"]
    assert (folder / "kept").read_text() == "as it was"


# -- in a replay --------------------------------------------------------------------------------------------------------

AGENT = """
import os, pathlib, subprocess, sys, tempfile
import freezeframe
freezeframe.instrument()

pathlib.Path("started").write_text("set-up may write")

@freezeframe.tool
def look():
    pathlib.Path("touched").write_text("by the tool")
    return subprocess.run([sys.executable, "-c", "print(7)"], capture_output=True, text=True).stdout.strip()

@freezeframe.run
def answer():
    tempfile.NamedTemporaryFile(suffix=".txt").write(b"scratch")
    seen = look()
    try:
        pass  # ACT
    except Exception as error:
        seen = type(error).__name__
    return seen

if __name__ == "__main__":
    answer()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Fixture:
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "agent.py").write_text(AGENT)
    environ = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environ, timeout=400, check=True)
    return freeze(load_run_of_file(folder / "spans.jsonl"))


def replay(fixture: Fixture, folder: Path, act: str, policy: ReplayPolicy) -> Report:
    """Make the program do one more thing, and replay it."""
    (folder / "agent.py").write_text(AGENT.replace("pass  # ACT", act))
    return reenact(fixture, cwd=folder, policy=policy)


@pytest.mark.proof
def test_the_recorded_program_replays_under_every_fence_with_its_tool_not_called(recorded: Fixture, tmp_path: Path) -> None:
    report = replay(recorded, tmp_path, "pass", ReplayPolicy(fences=frozenset(Fence)))
    assert verdict(report) is Verdict.IDENTICAL, report
    assert not (tmp_path / "touched").exists()


@pytest.mark.proof("code REPLAY-108")
def test_what_runs_into_a_fence_is_a_divergence_that_no_handler_swallows(recorded: Fixture, tmp_path: Path) -> None:
    report = replay(recorded, tmp_path, "open('out', 'w')", ReplayPolicy(fences=HERMETIC))
    assert [(item.kind, item.call_kind, item.name) for item in report.divergences] == [
        (DivergenceKind.FENCED, "writes", "open out w")
    ]
    assert "open out w" in (why_incomparable(report) or "")
    assert not (tmp_path / "out").exists()


@pytest.mark.proof
def test_a_program_is_named_with_its_arguments_and_may_be_allowed(recorded: Fixture, tmp_path: Path) -> None:
    act = "subprocess.run(['true', 'indeed'])"
    first = replay(recorded, tmp_path, act, ReplayPolicy(fences=HERMETIC)).first
    assert first is not None
    assert (first.kind, first.call_kind, first.name) == (DivergenceKind.FENCED, "processes", "true indeed")
    report = replay(recorded, tmp_path, act, ReplayPolicy(fences=HERMETIC, allow_programs=frozenset({"true"})))
    assert verdict(report) is Verdict.IDENTICAL


@pytest.mark.proof
def test_a_file_from_elsewhere_is_named_where_reads_are_fenced(recorded: Fixture, tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere.txt", tmp_path / "project"
    elsewhere.write_text("a fact that no span holds")
    folder.mkdir()
    act = f"open({str(elsewhere)!r}).read()"
    report = replay(recorded, folder, act, ReplayPolicy(fences=frozenset({Fence.READS})))
    assert [(item.call_kind, item.name) for item in report.divergences] == [("reads", f"open {elsewhere}")]
    assert verdict(replay(recorded, folder, act, ReplayPolicy(fences=HERMETIC))) is Verdict.IDENTICAL


@pytest.mark.proof
def test_without_the_fences_a_program_starts_others_and_writes_where_it_may(recorded: Fixture, tmp_path: Path) -> None:
    act = "subprocess.run(['true']); open('out', 'w').write('x'); assert open('out').read() == 'x'"
    for policy in (ReplayPolicy(), ReplayPolicy(allow_paths=("out",))):
        report = replay(recorded, tmp_path, act, policy)
        assert verdict(report) is Verdict.IDENTICAL
        assert (tmp_path / "out").exists() == bool(policy.allow_paths)


@pytest.mark.proof
def test_the_command_line_knows_the_fences() -> None:
    given = ["x", "--hermetic", "--fence", "reads", "--allow-path", "out", "--allow-program", "git"]
    found = make_parser("replay").parse_args(given)
    assert (found.hermetic, found.fence, found.allow_path, found.allow_program) == (True, ["reads"], ["out"], ["git"])
