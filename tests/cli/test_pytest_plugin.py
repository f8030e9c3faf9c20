"""The pytest plugin, as users meet it: whole projects whose tests pytest runs in a separate process.

One project holds all cases, each with its own edited agent, so that pytest starts once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from agent_folder import Project

from freezeframe_replay.report.regression import Expect, regression_test
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.gaps import KEPT_ANSWER, NOT_REPEATED
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test runs pytest on a small project

NOTHING = ("orders[0]", "orders[0]")
ANOTHER_CALL = ("orders[0]", "orders[1]")
ANOTHER_OUTCOME = ("it is in {", "we think it is in {")
CALL_LEFT_OUT = ("{track(orders[0])['place']}", "{orders[0]}")
LAZY_IMPORT = ('orders = find_orders("keller")', "import a_module_that_is_not_there")
NETWORK = ('orders = find_orders("keller")', "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)")

CASES: Mapping[str, tuple[tuple[str, str], Expect]] = {
    "unchanged": (NOTHING, Expect.CHANGED),
    "another_call": (ANOTHER_CALL, Expect.CHANGED),
    "another_outcome": (ANOTHER_OUTCOME, Expect.CHANGED),
    "call_left_out": (CALL_LEFT_OUT, Expect.CHANGED),
    "import_error": (("import freezeframe", "import freezeframe, a_module_that_is_not_there"), Expect.CHANGED),
    "lazy_import_error": (LAZY_IMPORT, Expect.CHANGED),
    "entry_gone": (("def answer(question)", "def reply(question)"), Expect.CHANGED),
    "network": (NETWORK, Expect.CHANGED),
    "writes": (('orders = find_orders("keller")', 'orders = find_orders("keller"); open("out", "w")'), Expect.CHANGED),
    "from_earlier": (ANOTHER_CALL, Expect.CHANGED),
    "kept": (NOTHING, Expect.IDENTICAL),
    "kept_but_edited": (ANOTHER_CALL, Expect.IDENTICAL),
}

FROM_EARLIER = f"the program asked with {KEPT_ANSWER}, {NOT_REPEATED}"
OURS = ("pytest_plugin.py", "Traceback", "During handling")

MARKED = """
import pytest

@pytest.mark.freezeframe("unchanged", command=["python", "start.py"], cwd="unchanged")
def test_program(freezeframe_fixture):
    result = freezeframe_fixture.replay()
    result.assert_identical()
    assert [served.step for served in result.report.served] == [1, 2]

@pytest.mark.freezeframe("unchanged", command=["python", "not_there.py"], cwd="unchanged")
def test_program_gone(freezeframe_fixture):
    freezeframe_fixture.replay().assert_not_reenacted()

@pytest.mark.freezeframe("writes", command=["python", "start.py"], cwd="writes", hermetic=True)
def test_hermetic(freezeframe_fixture):
    freezeframe_fixture.replay().assert_not_reenacted()

@pytest.mark.freezeframe(folder="pair", cwd="unchanged")
def test_each(freezeframe_fixture):
    freezeframe_fixture.replay().assert_identical()

@pytest.mark.freezeframe("nowhere")
def test_nowhere(freezeframe_fixture): ...

@pytest.mark.freezeframe("unchanged", command="python agent.py")
def test_command_as_text(freezeframe_fixture): ...

@pytest.mark.freezeframe(paht="unchanged")
def test_misspelt(freezeframe_fixture): ...
"""


@pytest.fixture(scope="module")
def outcomes(recorded: tuple[Path, Run], frozen: Fixture, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of each test -> empty if it passed, else what pytest shows of its failure."""
    root = tmp_path_factory.mktemp("cases")
    source = (recorded[0] / "agent.py").read_text()
    for case, ((old, new), expect) in CASES.items():
        assert old in source
        (root / case).mkdir()
        (root / case / "agent.py").write_text(source.replace(old, new))
        write_fixture(replace(frozen, gaps=(FROM_EARLIER,)) if case == "from_earlier" else frozen, root / case)
        (root / case / f"test_{case}.py").write_text(regression_test(frozen, case, expect=expect))
    for case in ("unchanged", "writes"):
        (root / case / "start.py").write_text("import agent\nagent.answer('where is it?')\n")
    for name in ("one", "two"):
        write_fixture(frozen, root / "pair" / name)
    (root / "test_marked.py").write_text(MARKED)
    done = Project(root=root).pytest("--junitxml=junit.xml", "--strict-markers")
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, str] = {}
    for case in ElementTree.parse(root / "junit.xml").iter("testcase"):
        faults = [fault.text or "" for fault in case if fault.tag in ("failure", "error")]
        found[case.attrib["name"]] = "\n".join(faults)
    return found


@pytest.mark.proof
def test_red_while_the_code_reenacts_the_failure(outcomes: dict[str, str], frozen: Fixture) -> None:
    """The message is the replay's report: the run, N of N steps, the wrong answer."""
    shown = outcomes["test_unchanged_is_no_longer_reenacted"]
    assert "the recorded failure is re-enacted exactly" in shown
    assert f"2 of 2 steps and the outcome, run {frozen.run_id}" in shown
    assert "it is in Lyon" in shown
    assert "@pytest.mark.freezeframe(run_tools=['find_orders', 'track'])" in shown, "the fix may be in what a tool reads"


@pytest.mark.proof
@pytest.mark.parametrize("case", ["another_call", "another_outcome", "call_left_out"])
def test_green_once_the_code_behaves_otherwise(outcomes: dict[str, str], case: str) -> None:
    """A changed request, a missing call and a changed outcome are all the end of the recorded failure."""
    assert outcomes[f"test_{case}_is_no_longer_reenacted"] == ""


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("import_error", "never reached the recorded entry point"),
        ("lazy_import_error", "the code did not run: ModuleNotFoundError"),
        ("entry_gone", "never reached the recorded entry point"),
        ("network", "tried to reach the network"),
        ("from_earlier", f"{FROM_EARLIER}; unchanged code differs, too"),
    ],
)
def test_red_where_nothing_can_be_said(outcomes: dict[str, str], case: str, reason: str) -> None:
    """Code that does not run, or runs into the network, is never taken for a fix."""
    shown = outcomes[f"test_{case}_is_no_longer_reenacted"]
    assert "the replay cannot be compared" in shown
    assert reason in shown


def test_a_run_to_keep_is_green_until_the_code_changes(outcomes: dict[str, str]) -> None:
    """With `assert_identical` it is the other way round, and the failure shows the divergence."""
    assert outcomes["test_kept_is_reenacted_exactly"] == ""
    shown = outcomes["test_kept_but_edited_is_reenacted_exactly"]
    assert "REPLAY-101 diverged at step 2 (tool track, lane root)" in shown
    assert '- "AC-1"' in shown
    assert '+ "AC-2"' in shown


def test_a_hermetic_replay_that_writes_a_file_is_no_fix(outcomes: dict[str, str]) -> None:
    """A program that hits a fence says nothing about the code; without `hermetic` the same run is re-enacted."""
    assert "the program was blocked by a fence (writes: open out w)" in outcomes["test_hermetic"]
    assert "re-enacted exactly" in outcomes["test_writes_is_no_longer_reenacted"]


def test_the_marker_names_fixture_and_program(outcomes: dict[str, str]) -> None:
    """`path` and `cwd` are relative to the test's file, `command` is started in place of the entry point."""
    assert outcomes["test_program"] == ""


@pytest.mark.proof
def test_a_folder_of_fixtures_is_a_test_of_each(outcomes: dict[str, str]) -> None:
    """`folder` finds the fixtures below it; each has its own name."""
    each = {name: shown for name, shown in outcomes.items() if name.startswith("test_each")}
    assert each == {"test_each[one]": "", "test_each[two]": ""}


@pytest.mark.proof
def test_a_program_that_is_gone_is_no_fix(outcomes: dict[str, str]) -> None:
    """The command that was started in place of the entry point never reached it."""
    assert "the replay cannot be compared" in outcomes["test_program_gone"]


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("test_nowhere", "manifest.json: not found"),
        ("test_command_as_text", "expected a list of arguments"),
        (
            "test_misspelt",
            "found paht, expected command, cwd, folder, hermetic, ignore, path, redact, require_values, run_tools, timeout_s",
        ),
    ],
)
def test_a_wrong_marker_says_what_is_wrong(outcomes: dict[str, str], test: str, message: str) -> None:
    """No fixture, a command as text, a misspelt option: one message each."""
    assert message in outcomes[test]


def test_no_failure_shows_our_code(outcomes: dict[str, str]) -> None:
    """Pytest prints the report, never a stack trace of the plugin."""
    assert [test for test, shown in outcomes.items() if any(mark in shown for mark in OURS)] == []


@pytest.mark.usefixtures("fresh_python")
def test_loading_the_plugin_imports_nothing_of_ours(project: Project) -> None:
    """Every project that has freezeframe installed loads it: pytest and the standard library only."""
    code = "import sys, freezeframe_replay.pytest_plugin; print(*[n for n in sys.modules if n.startswith('freezeframe')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=project.root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["freezeframe_replay", "freezeframe_replay.pytest_plugin"]


@pytest.mark.long
def test_two_workers_replay_side_by_side(project: Project, frozen: Fixture) -> None:
    """Replays share nothing but the fixture's files, which they only read."""
    folder = project.root / "tests" / "late-order"
    for name in ("late", "again", "and_again"):
        (folder / f"test_{name}.py").write_text(regression_test(frozen, name, expect=Expect.IDENTICAL))
    done = project.pytest("-n", "2")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
