"""A replay that went on live is kept as a separate run: from then on the fix replays offline, whatever client asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from capture_provider import Provider

from freezeframe_redaction import Redactor, TenantKey, load_or_create_keys, load_policy
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import HERMETIC, ReplayPolicy
from freezeframe_replay.process.kept import kept_run
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import genai
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts the program again

LIVE = ReplayPolicy(live=frozenset({Kind.MODEL}))

AGENT = """
import asyncio, datetime, os, random, uuid
import freezeframe

freezeframe.instrument()
URL = os.environ["OPENAI_BASE_URL"]

def body(text):
    return {"model": "m", "messages": [{"role": "user", "content": text}]}

def streamed(text):
    import openai
    client = openai.OpenAI(base_url=URL + "/v1", api_key="sk-x")
    chunks = client.chat.completions.create(**body(text), stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

def message(text):
    import anthropic
    client = anthropic.Anthropic(base_url=URL, api_key="sk-x")
    return client.messages.create(**body(text), max_tokens=9).content[0].text

def by_requests(text):
    import requests
    return requests.post(URL + "/v1/chat/completions", json=body(text)).json()["choices"][0]["message"]["content"]

async def by_aiohttp(text):
    import aiohttp
    async with aiohttp.ClientSession() as session, session.post(URL + "/v1/chat/completions", json=body(text)) as answer:
        return (await answer.json())["choices"][0]["message"]["content"]

def by_botocore(text):
    import botocore.session
    client = botocore.session.get_session().create_client(
        "bedrock-runtime", "eu-west-1", endpoint_url=URL, aws_access_key_id="a", aws_secret_access_key="b"
    )
    answer = client.converse(modelId="m", messages=[{"role": "user", "content": [{"text": text}]}])
    return str(answer["ResponseMetadata"]["HTTPStatusCode"])

@freezeframe.tool
def orders(name):
    return ["AC-1", "AC-2"]

@freezeframe.run
def answer(question):
    said = [CLIENTS[0](question)]
    order = orders(name="keller")[0]
    for ask in CLIENTS:
        said.append(ask(f"{order} {uuid.uuid4()} {drawn()} {len(said)}"))
    return said

def drawn():
    return f"{random.random()} {datetime.datetime.now().isoformat()}"

def aio(text):
    return asyncio.run(by_aiohttp(text))

CLIENTS = [CLIENTS_HERE]

if __name__ == "__main__":
    print(answer("where is it? ask Maria Keller, maria.keller@example.org"))
"""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider that never gives an answer twice, told to agents as OpenAI's."""
    with Provider() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def record(folder: Path, clients: Sequence[str]) -> None:
    """Write the agent and let it run; its spans are in ``spans.jsonl``."""
    (folder / "agent.py").write_text(AGENT.replace("CLIENTS_HERE", ", ".join(clients)))
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=folder, env=environment, check=True, timeout=400, capture_output=True)


def fix(folder: Path, old: str = '"keller")[0]', new: str = '"keller")[1]') -> None:
    source = (folder / "agent.py").read_text()
    assert old in source
    (folder / "agent.py").write_text(source.replace(old, new))


def keep(origin: Fixture, folder: Path, policy: ReplayPolicy = LIVE) -> tuple[Report, Fixture]:
    """Replay, and keep the result."""
    spans = folder / "kept.jsonl"
    report = reenact(origin, cwd=folder, policy=policy, spans=spans)
    return report, kept_run(origin, spans, report)


@pytest.mark.parametrize(
    "clients",
    [
        pytest.param(["streamed", "message", "by_requests", "aio"], id="http", marks=pytest.mark.proof),
        pytest.param(["by_botocore"], id="botocore"),
    ],
)
def test_a_fix_proven_live_replays_offline_from_the_answers_that_it_got(
    provider: Provider, tmp_path: Path, clients: list[str]
) -> None:
    record(tmp_path, clients)
    origin = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    fix(tmp_path)
    report, made = keep(origin, tmp_path)
    assert len(report.live) == len(clients), report
    provider.stop()
    again = reenact(made, cwd=tmp_path)
    assert verdict(again) is Verdict.IDENTICAL, again
    assert again.outcome == report.outcome == made.entry.output
    assert len(again.served) == len(clients) + 2
    assert made.forked_from == origin.run_id != made.run_id
    assert made.edits[0].endswith("answered live in place of step 3")


@pytest.mark.proof
def test_what_was_served_is_kept_as_it_was_recorded(provider: Provider, tmp_path: Path) -> None:
    record(tmp_path, ["streamed", "by_requests"])
    origin = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    fix(tmp_path, '{len(said)}"', '{len(said)}" + "!" * (len(said) > 1)')
    report, made = keep(origin, tmp_path)
    assert [call.step for call in report.live] == [4]
    for old, new in zip(origin.steps[:3], made.steps[:3], strict=True):
        assert (new.key, new.ordinal, new.exchange.lane) == (old.key, old.ordinal, old.exchange.lane)
        assert new.exchange.response == old.exchange.response
        assert new.exchange.request.body == old.exchange.request.body
        assert new.exchange.end_time_unix_nano == old.exchange.end_time_unix_nano
    assert made.steps[3].exchange.request.body != origin.steps[3].exchange.request.body
    times = [step.exchange.start_time_unix_nano for step in made.steps]
    assert times == sorted(times)


def test_a_tool_that_ran_live_is_kept_with_what_it_asked(provider: Provider, tmp_path: Path) -> None:
    record(tmp_path, ["by_requests"])
    origin = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    fix(tmp_path, 'orders(name="keller")', 'orders(name="kellner")')
    fix(tmp_path, 'return ["AC-1", "AC-2"]', 'return [by_requests("which?"), "AC-2"]')
    policy = replace(LIVE, allow_tools=frozenset({"orders"}))
    report, made = keep(origin, tmp_path, policy)
    assert [call.name for call in report.live] == ["orders", "POST /v1/chat/completions"]
    assert [(step.exchange.name, step.inside) for step in made.steps] == [
        ("POST /v1/chat/completions", None),
        ("orders", None),
        ("POST /v1/chat/completions", 2),
        ("POST /v1/chat/completions", None),
    ]
    provider.stop()
    assert verdict(reenact(made, cwd=tmp_path)) is Verdict.IDENTICAL


def test_a_whole_program_is_kept_too_with_what_it_printed(provider: Provider, tmp_path: Path) -> None:
    record(tmp_path, ["aio"])
    fix(tmp_path, "@freezeframe.run\n", "")
    environment = {**os.environ, "FREEZEFRAME_FILE": "whole.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=environment, check=True, timeout=400, capture_output=True)
    origin = freeze(load_run_of_file(tmp_path / "whole.jsonl"))
    fix(tmp_path)
    report, made = keep(origin, tmp_path)
    assert len(report.live) == 1, "each task and thread has the place that it had in the run"
    assert [step.exchange.lane for step in made.steps] == [step.exchange.lane for step in origin.steps]
    provider.stop()
    again = reenact(made, cwd=tmp_path)
    assert verdict(again) is Verdict.IDENTICAL, again
    assert made.entry.output == report.outcome and "Answer 3" in (report.outcome or "")


def test_what_a_redacted_run_came_to_is_redacted_as_it_was(provider: Provider, tmp_path: Path) -> None:
    record(tmp_path, ["by_requests"])
    redactor = Redactor(load_policy("strict"), TenantKey(id="t-1", secret=b"k" * 32))
    bare = load_run_of_file(tmp_path / "spans.jsonl")
    origin = freeze(build_run([redactor.redact_span(span) for span in bare.spans]))
    fix(tmp_path)
    fix(
        tmp_path,
        "for ask in CLIENTS:\n",
        'for ask in CLIENTS:\n        ask("write to Peter Sommer, peter.sommer@example.net")\n',
    )
    _, made = keep(origin, tmp_path)
    assert made.redaction.policy == origin.redaction.policy
    assert made.redaction.key_id != origin.redaction.key_id, "nobody has given its key"
    write_fixture(made, tmp_path / "made")
    text = (tmp_path / "made" / "steps.json").read_text() + (tmp_path / "made" / "manifest.json").read_text()
    for private in ("keller@", "peter.sommer", "Sommer"):
        assert private not in text
    assert made.steps[0].exchange.request.body == origin.steps[0].exchange.request.body
    provider.stop()
    fix(
        tmp_path,
        "Peter Sommer, peter.sommer@example.net",
        json.loads(made.steps[2].exchange.request.body)["messages"][0]["content"].removeprefix("write to "),
    )
    again = reenact(made, cwd=tmp_path)
    assert verdict(again) is Verdict.IDENTICAL, again


def test_the_runs_own_key_gives_its_own_surrogates(provider: Provider, tmp_path: Path) -> None:
    """A name that is also in the code is the same person in what was served and in what was asked live."""
    record(tmp_path, ["by_requests"])
    ring = load_or_create_keys(tmp_path / "keys")
    redactor = Redactor(load_policy("strict"), ring.current())
    bare = load_run_of_file(tmp_path / "spans.jsonl")
    origin = freeze(build_run([redactor.redact_span(span) for span in bare.spans]))
    fix(tmp_path, "for ask in CLIENTS:\n", 'for ask in CLIENTS:\n        ask("write to maria.keller@example.org")\n')
    spans = tmp_path / "kept.jsonl"
    report = reenact(origin, cwd=tmp_path, policy=LIVE, spans=spans)
    made = kept_run(origin, spans, report, keys=tmp_path / "keys")
    assert made.redaction.key_id == origin.redaction.key_id
    (email,) = (value for value, kind in origin.redaction.surrogates.items() if kind == "EMAIL")
    assert f"write to {email}".encode() in made.steps[2].exchange.request.body
    assert len(report.live) >= 1


def test_a_replay_that_was_cut_short_is_not_kept(provider: Provider, tmp_path: Path) -> None:
    record(tmp_path, ["by_requests"])
    origin = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    fix(tmp_path, 'orders(name="keller")', 'orders(name="kellner")')
    with pytest.raises(FixtureError, match="cut short at orders"):
        keep(origin, tmp_path)


def test_a_hermetic_replay_can_be_kept(provider: Provider, tmp_path: Path) -> None:
    """What the recording of the replay itself does, at its fences, is not an act of the program."""
    record(tmp_path, ["by_requests"])
    origin = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    fix(tmp_path)
    report, made = keep(origin, tmp_path, replace(LIVE, fences=HERMETIC))
    assert len(report.live) == 1
    assert made.environment[genai.RUNTIME_VERSION] == origin.environment[genai.RUNTIME_VERSION]


def test_calls_of_forked_workers_are_kept(provider: Provider, tmp_path: Path) -> None:
    record(tmp_path, ["by_requests"])
    fix(tmp_path, "CLIENTS = [by_requests]", "CLIENTS = [pooled]")
    pooled = (
        "import multiprocessing\n\ndef pooled(text):\n    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        return pool.apply(by_requests, (text,))\n\nCLIENTS ="
    )
    fix(tmp_path, "CLIENTS =", pooled)
    (tmp_path / "spans.jsonl").unlink()
    environment = {**os.environ, "FREEZEFRAME_FILE": "spans.jsonl"}
    subprocess.run([sys.executable, "agent.py"], cwd=tmp_path, env=environment, check=True, timeout=400, capture_output=True)
    origin = freeze(load_run_of_file(tmp_path / "spans.jsonl"))
    fix(tmp_path)
    report, made = keep(origin, tmp_path)
    assert len(report.live) == 1, report
    provider.stop()
    again = reenact(made, cwd=tmp_path)
    assert verdict(again) is Verdict.IDENTICAL, again


def test_the_command_writes_the_fixture_and_says_what_to_type_next(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    record(tmp_path, ["by_requests"])
    fix(tmp_path)
    assert main(["replay", "spans.jsonl", "--live", "model", "-o", "fixed"]) == 3
    shown = capsys.readouterr().out
    made = load_fixture(tmp_path / "fixed")
    assert f"wrote fixed: 3 steps of run {made.run_id}, 1 call made for real" in shown
    assert "freezeframe replay fixed needs no network" in shown
    provider.stop()
    assert main(["replay", "fixed"]) == 0
    assert main(["fixture", "fixed", "-o", "fixed", "--pytest", "--expect", "identical"]) == 0
    assert load_fixture(tmp_path / "fixed") == made
