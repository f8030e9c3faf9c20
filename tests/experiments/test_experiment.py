"""A dataset of recorded runs against candidates: changed code, another model, another prompt; structure and meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import pytest
from agent_folder import Folder

from freezeframe_replay.cli import main
from freezeframe_replay.experiments.dataset import load_dataset, write_dataset
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.fixture import Fixture, write_fixture

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again


class Provider(Protocol):
    asked: list[dict[str, Any]]


@pytest.fixture
def questions(agent: Folder, provider: Provider, recordings: tuple[Fixture, Fixture], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of two recorded runs; the working directory is the agent's."""
    monkeypatch.chdir(agent.root)
    return write_dataset(agent.root / "set", [(run, "") for run in recordings], chosen_by="by hand").directory


@pytest.fixture
def question(questions: Path, recordings: tuple[Fixture, Fixture]) -> Path:
    """A dataset of the first of them alone."""
    return write_dataset(questions.parent / "one", [(recordings[0], "")], chosen_by="by hand").directory


def experiment(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["experiment", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.proof("command experiment")
def test_unchanged_code_changes_nothing_and_asks_nobody(
    questions: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = experiment(capsys, str(questions))
    assert code == 0
    assert [(row["finding"], row["why"].partition(":")[0]) for row in found["rows"]] == [("same", "identical")] * 2
    assert provider.asked == []


@pytest.mark.parametrize("names", [("one",), ("late", "early"), ("a.b", "ü")], ids=len)
def test_a_folder_of_fixtures_is_a_dataset_of_all_of_them(
    names: tuple[str, ...],
    agent: Folder,
    recordings: tuple[Fixture, Fixture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As `fixture -o tests/regressions/NAME` leaves it; other files beside them do no harm."""
    monkeypatch.chdir(agent.root)
    for name, run in zip(names, recordings, strict=False):
        write_fixture(run, tmp_path / "kept" / name)
    (tmp_path / "kept" / "notes.txt").write_text("")
    (tmp_path / "kept" / "empty").mkdir()
    code, found = experiment(capsys, str(tmp_path / "kept"))
    assert (code, sorted(row["name"] for row in found["rows"])) == (0, sorted(names))
    assert {row["finding"] for row in found["rows"]} == {"same"}


def test_a_folder_without_any_fixture_says_what_makes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["experiment", str(tmp_path)])
    assert code != 0
    assert "no folders that are fixtures" in capsys.readouterr().err


@pytest.mark.proof
def test_code_that_tracks_another_order_changes_the_target_and_nothing_else(
    question: Path, agent: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.edit("place = track(order,", "place = track(found[1],")
    code, found = experiment(capsys, str(question))
    assert code == 3
    assert {row["structure"]["aspect"] for row in found["rows"]} == {"target"}
    assert found["rows"][0]["why"] == (
        'target at step 3: track(order="AC-1", note="asked by Ann") > track(order="AC-2", note="asked by Ann")'
    )


@pytest.mark.parametrize(
    ("edit", "aspect", "why"),
    [
        # The call cannot be answered from the recording, which is reported, and is not a change of target.
        (('note=f"asked by {question}"', 'note=f"on behalf of {question}"'), "cut", "asks something else at step 3"),
        ((', note=f"asked by {question}"', ""), "shape", ""),
        (('found = orders("keller")', 'found = ["AC-1", "AC-2"]'), "path", ""),
    ],
    ids=["another argument", "no argument", "no call"],
)
def test_changed_code_is_told_by_the_aspect_that_changed(
    edit: tuple[str, str], aspect: str, why: str, question: Path, agent: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.edit(*edit)
    _, found = experiment(capsys, str(question))
    assert {row["structure"]["aspect"] for row in found["rows"]} == {aspect}
    assert why in found["rows"][0]["why"]


def test_code_that_does_not_start_says_nothing_about_the_runs(
    question: Path, agent: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.edit("import httpx", "import httpx_that_is_not_there")
    code, found = experiment(capsys, str(question))
    assert code == 125
    assert found["counts"] == {"same": 0, "changed": 0, "incomparable": 1}


@pytest.mark.proof
def test_another_model_is_asked_live_with_frozen_tools(
    question: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = experiment(capsys, str(question), "--model", "other-order", "--live", "model")
    assert code == 3
    assert {row["structure"]["aspect"] for row in found["rows"]} == {"target"}
    assert {body["model"] for body in provider.asked} == {"other-order"}


def test_gates_decide_in_place_of_single_changes(question: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was live is counted as it was now; the result is kept in the dataset under its name."""
    live = (str(question), "--model", "wordy", "--live", "model")
    code, found = experiment(capsys, *live, "--max-changed", "1", "--max-p95", "600", "--as", "wordy")
    assert (code, [(gate["name"], gate["passed"]) for gate in found["gates"]]) == (
        0,
        [("changed", True), ("p95 seconds", True)],
    )
    (row,) = found["rows"]
    assert row["finding"] == "changed" and row["spent"]["ms"] > 0 and row["recorded"]["ms"] > 0
    assert json.loads((question / "results" / "wordy.json").read_bytes()) == found
    assert experiment(capsys, *live, "--max-changed", "0")[0] == 3
    assert experiment(capsys, str(question), "--max-cost", "9")[0] == 125, "no list price for the stand-in's model"
    assert main(["experiment", str(question), "--as", "../up"]) == 1
    for gate in ("--max-changed", "--max-p95", "--max-cost"):
        assert main(["experiment", str(question), gate, "nan"]) == 2
        assert "found 'nan', expected a" in capsys.readouterr().err


def test_an_edited_request_without_consent_to_go_live_is_refused(question: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", str(question), "--model", "wordy"]) == 1
    assert "add --live model" in capsys.readouterr().err


def test_a_system_prompt_and_a_parameter_reach_the_model(
    question: Path, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = experiment(capsys, str(question), "--system", "Be brief.", "--set", "temperature=0", "--live", "model")
    assert code == 0
    assert {body["messages"][0]["content"] for body in provider.asked} == {"Be brief."}
    assert {body["temperature"] for body in provider.asked} == {0}
    assert len(provider.asked) == 2


JUDGES = """
import os
import httpx
from freezeframe_replay.experiments.judge import Case, Judgement

def place(case: Case) -> Judgement:
    same = case.recorded.split()[-1] in case.candidate
    return Judgement(passed=same, score=float(same), reason="names the place")

def model(case: Case) -> bool:
    body = {"model": "judge", "messages": [{"role": "user", "content": f"say that yes {case.candidate}"}]}
    said = httpx.post(os.environ["OPENAI_BASE_URL"] + "/v1/chat/completions", json=body).json()
    return said["choices"][0]["message"]["content"].startswith("yes")
"""


def test_other_words_are_a_change_until_a_judge_says_that_they_mean_the_same(
    question: Path, agent: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    (agent.root / "judges_of_words.py").write_text(JUDGES)
    wordy = (str(question), "--model", "wordy", "--live", "model")
    code, found = experiment(capsys, *wordy)
    assert (code, found["rows"][0]["outcome"]["live"]) == (3, '"Your order: AC-1 is in Lyon."')
    code, found = experiment(capsys, *wordy, "--judge", "judges_of_words:place")
    assert code == 0
    assert found["rows"][0]["judgement"] == {"passed": True, "score": 1.0, "reason": "names the place"}


def test_a_judge_that_asks_a_model_is_recorded_and_its_verdict_is_repeated_offline(
    question: Path, agent: Folder, provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    (agent.root / "judges_by_model.py").write_text(JUDGES)
    wordy = (str(question), "--model", "wordy", "--live", "model", "--judge", "judges_by_model:model")
    assert main(["experiment", *wordy, "--quiet"]) == 1
    assert "--judge-live" in capsys.readouterr().err
    code, _ = experiment(capsys, *wordy, "--judge-live")
    assert code == 0
    assert sum(body["model"] == "judge" for body in provider.asked) == 1
    provider.asked.clear()
    code, found = experiment(capsys, *wordy)
    assert code == 0
    assert [row["judgement"]["passed"] for row in found["rows"]] == [True]
    assert not any(body["model"] == "judge" for body in provider.asked)


def test_the_table_lists_what_changed_and_counts_the_rest(
    questions: Path, agent: Folder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    agent.edit("place = track(order,", 'place = track(found[question == "Bob"],')
    assert main(["experiment", str(questions), "--jobs", "2", "-o", "result.json"]) == 3
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "1 same, 1 changed; candidate: the code in the working tree"
    assert "target at step 3" in lines[2]
    assert [line.strip() for line in lines[3:]] == ['- "AC-1"', '+ "AC-2"']
    assert "of 2" not in printed.err, "progress is for terminals"
    assert json.loads((agent.root / "result.json").read_text())["counts"] == {"same": 1, "changed": 1, "incomparable": 0}


def test_a_dataset_refuses_a_fixture_that_is_not_the_pinned_one(questions: Path) -> None:
    one, other = load_dataset(questions).rows
    dataset = load_dataset(questions)
    write_fixture(dataset.load(other), dataset.directory_of(one))
    with pytest.raises(FixtureError, match="a different recording"):
        dataset.load(one)


def test_a_dataset_of_another_version_or_with_a_path_for_a_name_is_refused(questions: Path) -> None:
    manifest = questions / "dataset.json"
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "version": 9}))
    with pytest.raises(FixtureError, match="version 9, this library reads version 1"):
        load_dataset(questions)
    data["rows"][0]["name"] = "../elsewhere"
    manifest.write_text(json.dumps(data))
    with pytest.raises(FixtureError, match="found a path"):
        load_dataset(questions)


def test_a_dataset_is_made_of_runs_by_name(questions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixtures = [str(questions / "runs" / row.name) for row in load_dataset(questions).rows]
    assert main(["experiment", "dataset", *fixtures, "-o", "copy"]) == 0
    assert "wrote copy: 2 runs" in capsys.readouterr().out
    assert load_dataset(Path("copy")).rows == load_dataset(questions).rows
    assert main(["experiment", "dataset", "-o", "none"]) == 1
    assert "choose runs in exactly one way" in capsys.readouterr().err
