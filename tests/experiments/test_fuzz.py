"""Small perturbations of a run: what they change, that a seed repeats them, and which of them flip the code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from agent_folder import Folder
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.perturb import Aim, perturbations
from freezeframe_schemas.exchange import Chunk
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run


class Provider(Protocol):
    asked: list[dict[str, Any]]


@pytest.fixture
def run() -> Fixture:
    """A run with a streamed answer and two concurrent tools."""
    streamed = model_call("a", "1")
    body = streamed.response.body
    chunks = tuple(Chunk(data=body[at : at + 9]) for at in range(0, len(body), 9))
    streamed = replace(streamed, response=replace(streamed.response, chunks=chunks))
    fixture = freeze(
        build_run(
            make_run(
                streamed,
                tool_call("look", ["x", "y"], lane=(0,)),
                tool_call("count", {"n": 3}, lane=(1,)),
                model_call("b", "2"),
            )
        )
    )
    # the tools run side by side
    one, two = (
        replace(step.exchange, start_time_unix_nano=7, end_time_unix_nano=8 + step.number) for step in fixture.steps[1:3]
    )
    steps = (
        fixture.steps[0],
        replace(fixture.steps[1], exchange=one),
        replace(fixture.steps[2], exchange=two),
        fixture.steps[3],
    )
    return replace(fixture, steps=steps)


@pytest.fixture
def folder(agent: Folder, recordings: tuple[Fixture, Fixture], monkeypatch: pytest.MonkeyPatch) -> Folder:
    """The agent's folder, in which we are, with the fixture `run`."""
    monkeypatch.chdir(agent.root)
    write_fixture(recordings[0], Path("run"))
    return agent


def told(run: Fixture, seed: int, *aims: Aim) -> list[tuple[Aim, int | None, str]]:
    return [(item.aim, item.step, item.text) for item in perturbations(run, seed=seed, aims=aims or tuple(Aim))]


def test_each_aim_is_met_and_the_same_seed_gives_the_same_perturbations(run: Fixture) -> None:
    assert {aim for aim, _, _ in told(run, 1)[:4]} == set(Aim)
    assert told(run, 1) == told(run, 1)
    assert told(run, 1) != told(run, 2)


def test_a_perturbed_run_is_a_fork_under_an_id_of_its_own(run: Fixture) -> None:
    made = list(perturbations(run, seed=1))
    assert all(item.fixture.forked_from == run.run_id for item in made)
    assert len({item.fixture.run_id for item in made}) == len(made)


def test_other_borders_of_chunks_leave_the_bytes_alone(run: Fixture) -> None:
    made = list(perturbations(run, seed=1, aims=(Aim.CHUNKS,)))
    assert len(made) == 3
    for item in made:
        before, after = run.steps[0].exchange.response, item.fixture.steps[0].exchange.response
        assert after.body == before.body
        assert after.chunks != before.chunks


def test_the_order_of_two_answers_is_swapped_only_where_they_were_concurrent(run: Fixture) -> None:
    assert told(run, 1, Aim.ORDER) == [(Aim.ORDER, 2, "the answers of steps 2 and 3 come in the opposite order")]
    (item,) = perturbations(run, seed=1, aims=(Aim.ORDER,))
    ends = [step.exchange.end_time_unix_nano for step in item.fixture.steps[1:3]]
    assert ends == [step.exchange.end_time_unix_nano for step in run.steps[2:0:-1]]


def test_results_lose_an_item_turn_empty_or_fail(run: Fixture) -> None:
    texts = {text for _, _, text in told(run, 1, Aim.RESULT)}
    assert {"look: an empty list", "look: the list in reverse", "look: fails with TimeoutError"} <= texts
    assert {"count: the object without 'n'", "count: null for 'n'", "count: nothing (null)"} <= texts


def test_no_two_perturbations_are_alike_and_none_is_the_recorded_run() -> None:
    """Small letters have no lower case, equal items have no other order, two bytes have no other border."""
    short = model_call("a", "1")
    short = replace(short, response=replace(short.response, chunks=(Chunk(data=b"{"), Chunk(data=b"}"))))
    run = freeze(build_run(make_run(short, tool_call("look", ["x", "x"]))))
    entry = replace(run.entry, input=json.dumps({"question": "where is it?"}))
    texts = [text for _, _, text in told(replace(run, entry=entry), 1)]
    assert "question: a space before it" in texts
    assert not {"question: all in lower case", "look: the list in reverse"} & set(texts)
    assert [text for text in texts if text.endswith(("all in one", "bytes", "elsewhere"))] == [
        "POST /v1/chat/completions: all in one"
    ]


@pytest.mark.proof("command experiment fuzz")
@pytest.mark.long
@pytest.mark.usefixtures("warm_python", "folder")
def test_what_the_code_makes_of_a_perturbed_result_is_found_and_can_be_replayed(
    provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's words stay; this agent takes the first order of the list itself."""
    assert main(["experiment", "fuzz", "run", "--aim", "result", "--rounds", "90", "-o", "flips", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    by_text = {effect["text"]: effect for effect in found["effects"]}
    # the agent tracks what the model said, so another order of the list makes no difference ...
    assert by_text["orders: the list in reverse"]["effect"] == "none"
    # ... and a list that never came ends it.
    failed = by_text["orders: fails with TimeoutError"]
    assert (failed["flips"], failed["step"]) == (True, 1)
    assert provider.asked == []
    assert len(list(Path("flips").iterdir())) == found["flipped"]
    assert main(["replay", f"flips/{failed['number']:03}-result", "--quiet"]) == 3


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_code_that_leaves_the_recording_by_itself_is_not_fuzzed(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.edit('orders("keller")', 'orders("miller")')
    assert main(["experiment", "fuzz", "run", "--rounds", "1"]) == 125
    assert "without any perturbation its replay is not identical" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("warm_python", "folder")
def test_a_run_with_fewer_perturbations_than_were_asked_for_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "fuzz", "run", "--aim", "chunks"]) == 125  # its answers came whole: nothing was tried
    assert "there are no more; --rounds asked for 20" in capsys.readouterr().out
