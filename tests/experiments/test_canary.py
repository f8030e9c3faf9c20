"""Recorded questions asked again: what drifted is named, and a key goes to no host except the provider's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from handmade_runs import make_run, model_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas.exchange import SECRET_REMOVED, Exchange
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run


class Provider(Protocol):
    url: str
    asked: list[dict[str, Any]]
    fingerprint: str


def question(url: str = "https://api.openai.com/v1/chat/completions", **fields: Any) -> Exchange:
    """Return a call with the answer of the model on loopback."""
    call = model_call("say that all is well", "", model="m")
    body = json.dumps({**json.loads(call.request.body), **fields}).encode()
    answer = {
        "model": "m-2026",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "all is well"}, "finish_reason": "stop"}],
    }
    chunk = replace(call.response.chunks[0], data=json.dumps(answer).encode())
    headers = (("content-type", "application/json"), ("authorization", SECRET_REMOVED))
    return replace(
        call,
        request=replace(call.request, url=url, headers=headers, body=body),
        response=replace(call.response, chunks=(chunk,)),
    )


def pinned(folder: Path, *questions: Exchange) -> str:
    fixture: Fixture = freeze(build_run(make_run(*questions)))
    write_fixture(fixture, folder / "pinned")
    return str(folder / "pinned")


@pytest.mark.proof("command experiment canary")
def test_an_answer_as_recorded_is_steady(provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "canary", pinned(tmp_path, question(temperature=0))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 asked, 0 drifted, 0 unanswered"
    assert [body["temperature"] for body in provider.asked] == [0]


def test_a_new_fingerprint_is_a_drift_unless_it_is_ignored(
    provider: Provider, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.fingerprint = "fp_2"
    fixture = pinned(tmp_path, question())
    assert main(["experiment", "canary", fixture, "--json"]) == 3
    (asked,) = json.loads(capsys.readouterr().out)["asked"]
    assert asked["drifts"] == [{"what": "fingerprint", "recorded": '"fp_1"', "now": '"fp_2"'}]
    assert main(["experiment", "canary", fixture, "--ignore", "fingerprint", "--quiet"]) == 0


def test_other_words_count_only_where_the_request_asks_for_steady_ones(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(provider, "say", lambda body: "all is fine")  # pyright: ignore[reportUnknownLambdaType]
    assert main(["experiment", "canary", pinned(tmp_path, question(temperature=1))]) == 0
    assert "the request does not ask for reproducible output" in capsys.readouterr().out
    assert main(["experiment", "canary", pinned(tmp_path, question(temperature=0))]) == 3


def test_no_answer_is_neither_steady_nor_drifted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "canary", pinned(tmp_path, question()), "--base-url", "http://127.0.0.1:9/v1"]) == 125
    assert "no answer: run " in capsys.readouterr().out


def test_a_key_is_sent_to_no_host_that_the_recording_names_and_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    fixture = pinned(tmp_path, question("https://collects-keys.example.com/v1/chat/completions"))
    assert main(["experiment", "canary", fixture]) == 1
    assert "no key is sent there" in capsys.readouterr().err


def test_a_missing_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["experiment", "canary", pinned(tmp_path, question())]) == 1
    assert "$OPENAI_API_KEY: not set" in capsys.readouterr().err
