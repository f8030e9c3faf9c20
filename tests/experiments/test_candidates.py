"""Several candidates on a dataset, by repeats, with a check: each starts the agent again, against a model on loopback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import pytest
from agent_folder import COMMAND_LINE, Folder

from freezeframe_replay.cli import main
from freezeframe_replay.experiments.dataset import write_dataset
from freezeframe_replay.mcp.project import Project
from freezeframe_replay.mcp.tools import Tools
from freezeframe_schemas.errors import ConfigError, FreezeframeError
from freezeframe_schemas.fixture import Fixture

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]
LIVE = ("--live", "model", "--check", "grep -q 'order: AC-1'")
CANDIDATES = ("--candidate", "wordy=--model wordy", "--candidate", "lost=--model other-order")
"""One says what the check looks for, and the other tracks another order."""


class Provider(Protocol):
    asked: list[dict[str, Any]]
    say: Any


@pytest.fixture
def questions(agent: Folder, provider: Provider, recordings: tuple[Fixture, Fixture], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of two recorded runs; the working directory is the agent's."""
    monkeypatch.chdir(agent.root)
    return write_dataset(agent.root / "set", [(run, "") for run in recordings], chosen_by="by hand").directory


def experiment(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["experiment", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def share(candidate: dict[str, Any], name: str) -> tuple[int, int]:
    found = candidate["score"][name]
    return found["count"], found["of"]


@pytest.mark.proof("command experiment results")
def test_candidates_are_compared_on_the_same_runs_by_a_check(
    questions: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """The third candidate has no live part, so it runs once for each run, and asks no one."""
    code, found = experiment(
        capsys, str(questions), *LIVE, *CANDIDATES, "--candidate", "same=", "--repeats", "2", "--as", "one", "--jobs", "2"
    )
    assert code == 125, "the recorded runs fail the check, so none is broken; one candidate leaves two open"
    wordy, lost, same = found["candidates"]
    assert [share(each, "fixes") for each in (wordy, lost, same)] == [(2, 2), (0, 0), (0, 2)]
    assert [len(row["repeats"]) for each in (wordy, lost, same) for row in each["rows"]] == [2, 2, 2, 2, 1, 1]
    assert Counter(body["model"] for body in provider.asked) == {"wordy": 8, "other-order": 4}
    cell = lost["rows"][0]["repeats"][1]
    assert cell["path"] == ["orders", "model", "track"], "the frozen tool has no answer for another order"
    assert (cell["passed"], cell["came_to"], cell["live_calls"]) == (None, None, 1)
    assert wordy["rows"][0]["came_to"] == '"Your order: AC-1 is in Lyon."'
    kept = json.loads((questions / "results" / "one-wordy.json").read_bytes())
    assert wordy.items() <= kept.items()
    assert (kept["check"], kept["repeats"]) == (LIVE[-1], 2), "a kept result holds what it was made under"
    assert main(["experiment", "results", str(questions)]) == 0
    printed = capsys.readouterr().out
    assert "candidate one-wordy: fixes 2 of 2" in printed and f"passes: `{LIVE[-1]}` exits with 0" in printed
    assert re.search(r"run +before +one-wordy +one-lost +one-same", printed)
    assert main(["experiment", "results", str(questions), "one-lost", "--json"]) == 0
    (read,) = json.loads(capsys.readouterr().out)
    (again,) = read["candidates"]
    named = {"name", "dataset", "statement"}
    assert {key: again[key] for key in again.keys() - named} == {key: lost[key] for key in lost.keys() - named}
    assert main(["experiment", "results", str(questions), "nobody"]) == 1
    assert "kept: one-wordy, one-lost, one-same" in capsys.readouterr().err
    assert not (questions / "unfinished").exists()


@pytest.mark.usefixtures("questions")
async def test_a_coding_agent_keeps_each_edit_as_a_candidate_and_compares_them(agent: Folder) -> None:
    """Each runs the code of the working tree, offline. What is kept is never written over, nor outside of the project."""
    tools = Tools(Project())
    assert "2 same" in await tools.experiment("set", keep="as-it-is")
    assert "experiment_results" in await tools.experiment("set", keep="other")
    compared = await tools.experiment_results("set")
    assert "candidate as-it-is: fixes 0 of" in compared and "candidate other: fixes 0 of" in compared
    assert "2 same; candidate other" in await tools.experiment_results("set", names=["other"])
    with pytest.raises(ConfigError, match="exists"):
        await tools.experiment("set", keep="other")
    for name in ("../up", "a/b", ".hidden"):
        with pytest.raises(FreezeframeError):
            await tools.experiment("set", keep=name)
    shutil.rmtree(agent.root / "set" / "results")
    (agent.root.parent / "elsewhere").mkdir()
    (agent.root / "set" / "results").symlink_to(agent.root.parent / "elsewhere")
    with pytest.raises(ConfigError, match="not a folder or file of the project"):
        await tools.experiment("set", keep="led-out")


@pytest.mark.parametrize(
    "rows",
    ['"rows": 7', '"rows": [7]', '"rows": [{"name": 1}]', '"repeats": "many"', '"score": 3', '"gates": [{"name": []}]'],
)
def test_a_kept_result_that_is_not_one_is_an_error_that_names_the_file(
    rows: str, questions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (questions / "results").mkdir()
    (questions / "results" / "odd.json").write_text(f'{{"format": "freezeframe-experiment", "version": 1, {rows}}}')
    assert main(["experiment", "results", str(questions)]) == 1
    assert re.search(r"odd\.json[.\w]*: not readable", capsys.readouterr().err)


def test_a_killed_experiment_goes_on_where_it_was(
    questions: Path, agent: Folder, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL comes while the second of four live cells waits for its model."""
    arguments = (str(questions), *LIVE, "--model", "wordy", "--repeats", "2")
    waits, ended = threading.Event(), threading.Event()

    def say(body: dict[str, Any]) -> str:
        if len(provider.asked) == 3 and not waits.is_set():
            waits.set()
            ended.wait()  # the killed cell's program, which may end later than the experiment, asks no more
        text = str(body["messages"][-1]["content"])
        return "AC-1" if text.startswith("pick") else f"Your order: {text}."

    provider.say = say
    process = subprocess.Popen([sys.executable, "-c", COMMAND_LINE, "experiment", *arguments], cwd=agent.root)
    assert waits.wait(120)
    process.kill()
    process.wait()
    provider.asked.clear()
    try:
        code, found = experiment(capsys, *arguments)
    finally:
        ended.set()
    assert (code, found["resumed"]) == (0, 1)
    assert len(provider.asked) == 2 * 3, "two requests for each of the three cells that were left"
    assert [len(row["repeats"]) for row in found["rows"]] == [2, 2]
    assert not (questions / "unfinished").exists(), "a finished experiment begins anew"


@pytest.fixture
def question(questions: Path, recordings: tuple[Fixture, Fixture]) -> Path:
    """A dataset of the first run alone."""
    return write_dataset(questions.parent / "one", [(recordings[0], "")], chosen_by="by hand").directory


@pytest.mark.proof
def test_a_tool_with_a_fixed_value_answers_arguments_that_were_never_recorded(
    question: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rule is saved in the dataset, so the second experiment has it, too."""
    live = (str(question), "--live", "model", "--model", "other-order", "--check", "grep -q 'AC-2 is in Oslo'")
    rule = ("--fix-tool", 'track="Oslo"', "--fix-tool", "trakc=1", "--save-tools")
    for arguments in ((*live, *rule), live):
        code, found = experiment(capsys, *arguments)
        (row,) = found["rows"]
        assert (code, row["passed"], row["passed_before"]) == (0, True, False)
        assert (row["structure"]["aspect"], row["path"]) == ("target", ["orders", "model", "track", "model"])
        counts = {use["name"]: (use["mode"], use["served"], use["unused"], use["mismatched"]) for use in found["tools"]}
        assert counts == {
            "orders": ("recorded", 1, 0, 0),
            "track": ("fixed", 0, 1, 1),
            "trakc": ("fixed", 0, 0, 0),
        }
    assert main(["experiment", *live]) == 0
    printed = capsys.readouterr().out
    assert "tool track (fixed): 0 served, 1 unused, 1 with other arguments" in printed
    assert "tool trakc (fixed): 0 served, 0 unused, 0 with other arguments; no run calls it" in printed


def test_noise_is_what_an_unchanged_program_does_with_the_model_asked_again(
    question: Path, agent: Folder, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code that does not repeat the run offline says nothing about the model."""

    def say(body: dict[str, Any]) -> str:
        text = str(body["messages"][-1]["content"])
        return "AC-1" if text.startswith("pick") else "Who knows?"

    provider.say = say
    noise = (str(question), "--noise", "--check", "grep -q Lyon")
    code, found = experiment(capsys, *noise)
    own, alone = found["candidates"]
    assert (code, own["finding"], own["rows"][0]["passed"]) == (0, "same", True), "noise has no part in the exit code"
    assert (alone["name"], alone["rows"][0]["came_to"], share(alone, "breaks")) == ("model noise alone", '"Who knows?"', (1, 1))
    assert len(provider.asked) == 2
    agent.edit("place = track(order,", "place = track(found[1],")
    _, found = experiment(capsys, *noise)
    alone = found["candidates"][1]
    assert "does not repeat the run offline" in alone["rows"][0]["why"]
    assert alone["score"]["unknown"] == 1
    assert len(provider.asked) == 2


def test_a_budget_stops_before_the_next_live_cell_and_a_larger_one_goes_on(
    questions: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    live = (str(questions), "--live", "model", "--model", "gpt-4o-mini", "--repeats", "2", "--check", "true")
    code, found = experiment(capsys, *live, "--budget", "0")
    assert (code, found["left"], provider.asked) == (125, 4, [])
    code, found = experiment(capsys, *live, "--budget", "0.0006")
    made = 4 - found["left"]
    assert code == 125
    assert 0 < made < 4
    assert found["budget"]["spent_usd"] <= 0.0006
    assert main(["experiment", *live, "--budget", "0.0006"]) == 125
    assert "left; the same command with a larger --budget goes on" in capsys.readouterr().out
    code, found = experiment(capsys, *live, "--budget", "1")
    assert (code, found["left"], found["resumed"], len(provider.asked)) == (0, 0, made, 8)
    assert main(["experiment", str(questions), "--live", "model", "--model", "unheard-of", "--budget", "1"]) == 1
    assert "the model 'unheard-of' has no list price" in capsys.readouterr().err


def test_a_regression_against_a_kept_result_fails(question: Path, agent: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded run fails the check, and so does the kept candidate's fix once it is undone."""
    against = (str(question), "--check", "grep -q 'in Lyon, France'", "--against", "fix")
    assert main(["experiment", *against]) == 1
    assert "kept: none" in capsys.readouterr().err
    agent.edit("return ask(f", "return 'It is in Lyon, France'; ask(f")
    code, found = experiment(capsys, *against[:3], "--as", "fix")
    assert (code, share(found, "fixes"), found["rows"][0]["passed"]) == (0, (1, 1), True)
    assert experiment(capsys, *against)[0] == 0
    agent.edit("return 'It is in Lyon, France'; ask(f", "return ask(f")
    code, found = experiment(capsys, *against)
    assert (code, share(found, "breaks"), found["against"]) == (3, (1, 1), "fix")
    assert experiment(capsys, *against, "--max-broken", "1")[0] == 0


def test_a_provider_that_does_not_answer_says_nothing_about_a_candidate_and_is_asked_again(
    question: Path, provider: Provider, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = os.environ["OPENAI_BASE_URL"]
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    code, found = experiment(capsys, str(question), *LIVE, "--model", "wordy")
    assert (code, found["rows"][0]["refused"], found["rows"][0]["passed"]) == (125, True, None)
    assert "did not answer" in found["rows"][0]["why"]
    assert "the same command makes them again" in found["notes"][0]
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    code, found = experiment(capsys, str(question), *LIVE, "--model", "wordy")
    assert (code, found["rows"][0]["passed"], len(provider.asked)) == (0, True, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--check", "no-such-command-at-all"), "cannot be started"),
        (("--candidate", "a", "--candidate", "b="), "expected NAME=OPTIONS"),
        (("--candidate", "a=", "--candidate", "a="), "found 'a' twice"),
        (("--candidate", "a=--modle x"), "--candidate a: unrecognized arguments: --modle x"),
        (("--candidate", "a=--code nowhere"), "neither a folder nor a commit"),
        (("--candidate", "a=--fix-tool track=Lyon"), "expected NAME=JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_line_is_refused_with_what_was_expected(
    arguments: tuple[str, ...], message: str, question: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", str(question), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_candidates_of_a_commit_and_of_a_folder_run_beside_the_checkout(
    question: Path, agent: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commit holds the recorded code, the folder breaks it, and the checkout stays as it is."""
    shutil.copytree(agent.root, agent.root.parent / "broken", ignore=shutil.ignore_patterns("one", "set"))
    broken = Folder(root=agent.root.parent / "broken")
    broken.edit("return ask(f", "return 'nowhere'; ask(f")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "-q"), ("add", "agent.py"), ("commit", "-qm", "a")):
        subprocess.run(["git", *who, *arguments], cwd=agent.root, check=True)
    agent.edit("import httpx", "import httpx_that_is_not_there")
    code, found = experiment(
        capsys,
        *(str(question), "--check", "grep -q Lyon"),
        *("--candidate", "commit=--code HEAD", "--candidate", "folder=--code ../broken", "--candidate", "here="),
    )
    assert code == 3
    assert [each["rows"][0]["passed"] for each in found["candidates"]] == [True, False, None]
    assert [each["candidate"] for each in found["candidates"][:2]] == ["code of HEAD", "code of ../broken"]
    listed = subprocess.run(["git", "worktree", "list"], cwd=agent.root, check=True, capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1
