"""A private value in a live request is compared with the recorded one, or named as not compared: never just called the same.

Each program asks a provider on loopback, and its run is redacted. Where the process is part of the claim, run and replay are
processes (`Stage.apart`); all others are replayed here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from answered_here import answering
from capture_provider import Provider

from freezeframe.testing import capture
from freezeframe_redaction import Redactor, find_key, load_or_create_keys, load_policy
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind, Report, Why
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict, why_incomparable

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_python"),
]  # starts programs, one of them with an SDK

ANNA, BERT, CLEO = "anna.kirsch@harbour-post.com", "bert.lorenz@north-quay.org", "cleo.marten@mill-lane.net"
STREET, OTHER_STREET = "Lindenstraße 14, 50674 Köln", "Ahornweg 3, 80331 München"
AGENT = """
import multiprocessing, os, sys, threading
import freezeframe, httpx

freezeframe.instrument()

def ask(text):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    if "SDK" in os.environ:
        import openai
        with openai.OpenAI(base_url=os.environ["PROVIDER_BASE_URL"] + "/v1", api_key="sk-x", max_retries=0) as client:
            return client.chat.completions.create(**body).choices[0].message.content
    answer = httpx.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=body, timeout=400)
    return answer.json()["choices"][0]["message"]["content"]

@freezeframe.tool
def customer(number):
    return [{"email": "dora.engel@west-gate.io", "phone": "+49 30 83921734"}, {"email": "emil.frank@oak-hill.de"}][number]

@freezeframe.run
def answer(question):
    BODY

if __name__ == "__main__":
    answer(sys.argv[1])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A folder with the agent, a provider, and the key of its recordings."""

    folder: Path
    provider: Provider
    agent: str = AGENT
    is_apart: bool = False
    """Run and replay are processes."""

    def apart(self) -> Stage:
        """Return the stage for processes."""
        return replace(self, is_apart=True)

    def with_tools(self, tools: str) -> Stage:
        """Return the stage for an agent with more tools, which are written before its entry point."""
        return replace(self, agent=AGENT.replace("\n@freezeframe.run\ndef answer", tools))

    def write(self, body: str) -> None:
        text = self.agent.replace("BODY", body.strip().replace("\n", "\n    "))
        (self.folder / "agent.py").write_text(text, encoding="utf-8")

    def agent_here(self) -> Callable[..., Any]:
        """Return the entry point of the agent as it is written, in this process."""
        names: dict[str, Any] = {"__name__": "agent"}
        source = (self.folder / "agent.py").read_text(encoding="utf-8").replace("freezeframe.instrument()", "")
        exec(compile(source, "agent.py", "exec"), names)
        return names["answer"]

    def record(self, body: str, *, question: str = "hello", **variables: str) -> Fixture:
        """Record a run and redact it; the fixture holds no private value, and the key is in the folder `keys`."""
        self.write(body)
        redactor = Redactor(load_policy("strict"), load_or_create_keys(self.folder / "keys").current())
        if not self.is_apart:
            with capture() as captured:
                self.agent_here()(question)
                return freeze(build_run([redactor.redact_span(span) for span in captured.spans]))
        spans = self.folder / "spans.jsonl"
        environment = {**os.environ, "PROVIDER_BASE_URL": self.provider.url, "FREEZEFRAME_FILE": str(spans), **variables}
        command = [sys.executable, "agent.py", question]
        subprocess.run(command, cwd=self.folder, env=environment, check=True, timeout=300, capture_output=True)
        named = next(json.loads(line) for line in spans.read_text().splitlines() if '"answer"' in line)
        trace = named["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
        return freeze(build_run([redactor.redact_span(span) for span in load_run_of_file(spans, trace).spans]))

    def replay(self, fixture: Fixture, body: str | None = None, *, key: bool = False, **variables: str) -> Report:
        if body is not None:
            self.write(body)
        keys = self.folder / ("keys" if key else "no-keys")
        if not self.is_apart:
            found = find_key(keys, fixture.redaction.key_id, fixture.redaction.key_check) if key else None
            session = ReplaySession(fixture, key=found)
            given: dict[str, Any] = values.decode(fixture.entry.input or "{}")
            with answering(session), contextlib.suppress(ReplayMiss):
                self.agent_here()(*given["args"], **given["kwargs"])
            return session.report()
        return reenact(
            fixture, cwd=self.folder, env={"PROVIDER_BASE_URL": self.provider.url, **variables}, keys=keys, timeout_s=300
        )


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with Provider() as provider:
        monkeypatch.setenv("PROVIDER_BASE_URL", provider.url)
        yield Stage(folder=tmp_path, provider=provider)


def reasons(report: Report) -> list[tuple[str, Why]]:
    return [(item.class_name, item.why) for item in report.uncompared]


def surrogate_of(fixture: Fixture, class_name: str) -> str:
    (found,) = (text for text, name in fixture.redaction.surrogates.items() if name == class_name)
    return found


def without_originals(report: Report) -> str:
    """Return all that a report says about divergences, which must hold no value."""
    text = repr((report.divergences, report.uncompared, report.ambiguous))
    assert not [value for value in (ANNA, BERT, CLEO, "Lindenstra", "Ahornweg") if value in text]
    return text


def test_a_mailbox_changed_in_the_environment_is_a_divergence_with_the_key_and_counted_without(stage: Stage) -> None:
    stage = stage.apart()
    fixture = stage.record("return ask('send it to ' + os.environ['MAILBOX'])", MAILBOX=ANNA, SDK="1")
    without = stage.replay(fixture, MAILBOX=BERT)
    assert verdict(without) is Verdict.IDENTICAL
    assert reasons(without) == [("EMAIL", Why.KEY)]
    assert reasons(stage.replay(fixture, MAILBOX=ANNA, key=True)) == []
    with_key = stage.replay(fixture, MAILBOX=BERT, SDK="1", key=True)
    assert with_key.first is not None
    assert (with_key.first.kind, with_key.first.step) == (DivergenceKind.REQUEST_CHANGED, 1)
    assert with_key.first.path == "$.body.messages[0].content"
    assert surrogate_of(fixture, "EMAIL") in (with_key.first.recorded or "")
    assert "example.com" in (with_key.first.live or "")
    assert "a private value that differs" in with_key.first.note
    without_originals(with_key)


def test_require_values_makes_what_was_not_compared_incomparable(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_fixture(stage.apart().record(f"return ask('to {ANNA}')"), stage.folder / "fixture")
    monkeypatch.chdir(stage.folder)
    monkeypatch.setenv("PROVIDER_BASE_URL", stage.provider.url)
    command = ["replay", "fixture", "--data"]
    assert main([*command, "none"]) == 0
    expected = "except 1 private value that needs the key to compare: 1 of 1 step and the outcome"
    assert expected in capsys.readouterr().out.splitlines()[0]
    assert main([*command, "none", "--require-values"]) == 125
    assert "1 private value that needs the key to compare" in capsys.readouterr().out.splitlines()[0]
    assert main([*command, ".", "--require-values"]) == 0
    assert "except" not in capsys.readouterr().out.splitlines()[0]


def test_a_changed_street_is_a_divergence_with_the_key_and_counted_without(stage: Stage) -> None:
    body = f"return ask('our address: {STREET}')"
    fixture = stage.record(body)
    assert "ADDRESS" in fixture.redaction.surrogates.values()
    unchanged = stage.replay(fixture)
    assert verdict(unchanged) is Verdict.IDENTICAL
    assert {why for _, why in reasons(unchanged)} == {Why.KEY}
    assert stage.replay(fixture, key=True).uncompared == ()
    changed = body.replace(STREET, OTHER_STREET)
    assert stage.replay(fixture, changed).uncompared != ()
    with_key = stage.replay(fixture, changed, key=True)
    assert [item.kind for item in with_key.divergences] == [DivergenceKind.REQUEST_CHANGED]
    without_originals(with_key)


def test_the_values_that_a_replay_hands_out_are_compared_exactly(stage: Stage) -> None:
    body = """
found = [customer(0), customer(1)]
return ask(f"{question}: {found[0]['email']}, {found[0]['phone']}") + ask("not " + found[1]["email"])
"""
    fixture = stage.record(body, question=f"write to {ANNA}")
    report = stage.replay(fixture)
    assert verdict(report) is Verdict.IDENTICAL
    assert report.uncompared == ()
    swapped = stage.replay(fixture, body.replace('not " + found[1]', 'not " + found[0]'))
    assert [item.kind for item in swapped.divergences] == [DivergenceKind.REQUEST_CHANGED]
    assert swapped.divergences[0].step == 4


def test_values_that_the_program_sorts_diverge_with_the_reason(stage: Stage) -> None:
    """Surrogates do not sort like their originals. Whether nothing else differs is not known, so it is not called identical."""
    body = "return ask(' '.join(sorted(customer(n)['email'] for n in (0, 1))))"
    fixture = stage.record(body)
    reports = [
        stage.replay(
            fixture, body.replace("(0, 1))", f"(0, 1)), reverse={way})").replace("sorted(customer", "sorted((customer")
        )
        for way in (False, True)
    ]
    (other,) = (report for report in reports if verdict(report) is not Verdict.IDENTICAL)
    assert "sort differently from their originals" in other.divergences[0].note


def test_a_value_made_from_a_surrogate_is_served_and_named_as_not_compared(stage: Stage) -> None:
    body = "return ask('ask ' + customer(0)['email'].split('@')[0] + '@corp-mail.net')"
    fixture = stage.record(body)
    for key in (False, True):
        report = stage.replay(fixture, key=key)
        assert verdict(report) is Verdict.IDENTICAL, report
        assert reasons(report) == [("EMAIL", Why.DERIVED)]


@pytest.mark.parametrize(
    "text",
    [
        "f'{len(email)} letters'",
        "f'{email[:12]} is all'",
        "f'host {email.split(chr(64))[1]}'",
        "str(sum(map(int, filter(str.isdigit, phone))))",
    ],
)
def test_what_was_computed_of_a_private_value_is_neither_identical_nor_diverged(stage: Stage, text: str) -> None:
    body = f"email, phone = customer(0).values()\nreturn ask({text}) + ask('and 3')"

    def sum_of_digits(phone: str) -> int:
        return sum(map(int, filter(str.isdigit, phone)))

    fixture = stage.record(body)
    while sum_of_digits(surrogate_of(fixture, "PHONE")) == sum_of_digits("+49 30 83921734"):  # with one key in thirty
        shutil.rmtree(stage.folder / "keys")
        fixture = stage.record(body)
    for key in (False, True):
        report = stage.replay(fixture, key=key)
        assert verdict(report) is Verdict.INCOMPARABLE, report
        assert "derived" in (why_incomparable(report) or "")
        assert (not report.divergences, {why for _, why in reasons(report)}) == (True, {Why.COMPUTED})
    for changed in (body.replace("and 3", "and 4"), body.replace(text, "'something else'")):
        assert verdict(stage.replay(fixture, changed)) is Verdict.DIVERGED


def test_a_house_number_cut_out_of_an_address_is_served_and_named_as_not_compared(stage: Stage) -> None:
    """Alone it is no private value, so the recording has the number as it was, and the replay that of the surrogate."""
    tools = """
@freezeframe.tool
def street(number):
    return {"street": "12 Elm Street, Springfield, IL 62704", "flat": number}

@freezeframe.run
def answer"""
    body = "number = street(7)['street'].split()[0]\nreturn ask(f'{number} colours of 7')"
    at_home = stage.with_tools(tools)
    fixture = at_home.record(body)
    for key in (False, True):
        report = at_home.replay(fixture, key=key)
        assert verdict(report) is Verdict.IDENTICAL, report
        assert reasons(report) == [("ADDRESS", Why.DERIVED)]
    changed = at_home.replay(fixture, body.replace("of 7", "of 8"))
    assert [item.kind for item in changed.divergences] == [DivergenceKind.REQUEST_CHANGED]


def test_a_constant_pairs_with_one_surrogate_for_the_whole_run(stage: Stage) -> None:
    body = f"return ask('from {ANNA} to {BERT}') + ask('copy to {ANNA}')"
    fixture = stage.record(body)
    assert reasons(stage.replay(fixture)) == [("EMAIL", Why.KEY)] * 2
    broken = stage.replay(fixture, body.replace(f"copy to {ANNA}", f"copy to {BERT}"))
    assert [(item.kind, item.step) for item in broken.divergences] == [(DivergenceKind.REQUEST_CHANGED, 2)]
    assert "stands for" in broken.divergences[0].note
    assert "at step 1" in broken.divergences[0].note
    swapped = stage.replay(fixture, f"return ask('from {BERT} to {ANNA}') + ask('copy to {ANNA}')")
    assert [item.step for item in swapped.divergences] == [2]
    new = stage.replay(fixture, body.replace(f"copy to {ANNA}", f"copy to {CLEO}"))
    assert [item.step for item in new.divergences] == [2]
    for report in (broken, swapped, new):
        without_originals(report)


def test_one_value_in_the_place_of_two_surrogates_is_a_divergence(stage: Stage) -> None:
    body = f"return ask('from {ANNA} to {BERT}')"
    fixture = stage.record(body)
    for key in (False, True):
        report = stage.replay(fixture, body.replace(BERT, ANNA), key=key)
        assert [item.kind for item in report.divergences] == [DivergenceKind.REQUEST_CHANGED]
        without_originals(report)


def test_two_constants_swapped_are_a_divergence_with_the_key(stage: Stage) -> None:
    fixture = stage.record(f"return ask('from {ANNA} to {BERT}')")
    swapped = f"return ask('from {BERT} to {ANNA}')"
    assert len(stage.replay(fixture, swapped).uncompared) == 2
    report = stage.replay(fixture, swapped, key=True)
    assert [item.kind for item in report.divergences] == [DivergenceKind.REQUEST_CHANGED]


THREADS = """
threads = [threading.Thread(target=ask, args=(text,)) for text in ('one: ANNA', 'two: ANNA')]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
PROCESSES = """
context = multiprocessing.get_context('fork')
for text in ('one: ANNA', 'two: ANNA'):
    worker = context.Process(target=ask, args=(text,))
    worker.start()
    worker.join()
"""


@pytest.mark.parametrize("body", [THREADS, PROCESSES], ids=["threads", "processes"])
def test_a_pair_holds_in_every_thread_and_process(stage: Stage, body: str) -> None:
    stage = stage.apart()
    fixture = stage.record(body.replace("ANNA", ANNA))
    assert len(fixture.steps) == 2
    report = stage.replay(fixture)
    assert verdict(report) is Verdict.IDENTICAL, report
    assert reasons(report) == [("EMAIL", Why.KEY)]
    broken = stage.replay(fixture, body.replace("two: ANNA", f"two: {BERT}").replace("ANNA", ANNA))
    assert [item.kind for item in broken.divergences] == [DivergenceKind.REQUEST_CHANGED]
    assert "stands for" in broken.divergences[0].note


def test_a_changed_constant_in_the_outcome_is_compared_as_well(stage: Stage) -> None:
    body = f"ask('hi')\nreturn 'sent to {ANNA}'"
    fixture = stage.record(body)
    assert reasons(stage.replay(fixture)) == [("EMAIL", Why.KEY)]
    report = stage.replay(fixture, body.replace(ANNA, BERT), key=True)
    assert [item.kind for item in report.divergences] == [DivergenceKind.OUTCOME_CHANGED]
    without_originals(report)


def test_the_callers_own_input_stands_for_the_recorded_one_throughout(stage: Stage) -> None:
    """A program that is started with the original input says the original everywhere, and the surrogate where it was served."""
    body = "return ask('about ' + question) + ask('again ' + question)"
    fixture = stage.apart().record(body, question=f"mail of {ANNA}")
    command = [sys.executable, "agent.py", f"mail of {ANNA}"]
    environment = {"PROVIDER_BASE_URL": stage.provider.url}
    report = reenact(fixture, command, cwd=stage.folder, env=environment, keys=stage.folder / "none", timeout_s=300)
    assert verdict(report) is Verdict.IDENTICAL, report
    assert reasons(report) == [("EMAIL", Why.INPUT)]
    with_key = reenact(fixture, command, cwd=stage.folder, env=environment, keys=stage.folder / "keys", timeout_s=300)
    assert verdict(with_key) is Verdict.IDENTICAL
    assert with_key.uncompared == ()
    command[-1] = f"mail of {BERT}"
    other = reenact(fixture, command, cwd=stage.folder, env=environment, keys=stage.folder / "keys", timeout_s=300)
    assert other.divergences[0].kind is DivergenceKind.INPUT_CHANGED
    without_originals(other)


def test_the_key_of_another_tenant_of_the_same_name_is_not_used(stage: Stage) -> None:
    fixture = stage.record(f"return ask('to {ANNA}')")
    (stage.folder / "keys" / "default.1.key.json").unlink()
    load_or_create_keys(stage.folder / "keys")
    report = stage.replay(fixture, key=True)
    assert verdict(report) is Verdict.IDENTICAL
    assert reasons(report) == [("EMAIL", Why.KEY)]


LOOKUP = """
ANSWERS = [{"last_name": "Quillfeather"}, {"orders": 3}]

@freezeframe.tool
def lookup(word):
    return ANSWERS.pop(0)

@freezeframe.tool
def open_safe(pin):
    return pin == 4711

@freezeframe.run
def answer"""


@pytest.mark.parametrize("named", [1, 2])
def test_equal_requests_that_redaction_made_different_get_their_own_answers_and_are_named(stage: Stage, named: int) -> None:
    """A name is seen in one span only, since the answer there says whose it is: the requests are no longer equal."""
    agent = stage.with_tools(LOOKUP if named == 1 else LOOKUP.replace("pop(0)", "pop()"))
    fixture = agent.record("return [lookup('Quillfeather'), lookup('Quillfeather')]")
    requests = [step.exchange.request.body for step in fixture.steps]
    assert [b"Quillfeather" in request for request in requests] == [named == 2, named == 1]
    report = agent.replay(fixture)
    assert report.divergences == ()
    assert reasons(report) == [("PERSON", Why.KEY)]
    (only,) = report.ambiguous
    assert only.steps == (1, 2)
    assert "redaction saw a private value in one of them only" in only.why
    with_key = agent.replay(fixture, key=True)
    assert with_key.divergences == with_key.uncompared == ()
    assert [item.steps for item in with_key.ambiguous] == [(1, 2)]


def test_different_requests_that_redaction_made_equal_are_named(stage: Stage) -> None:
    agent = stage.with_tools(LOOKUP)
    fixture = agent.record("return [open_safe(pin=4711), open_safe(pin=1208)]")
    assert fixture.steps[0].exchange.request == fixture.steps[1].exchange.request
    report = agent.replay(fixture, key=True)
    assert report.divergences == ()
    assert {why for _, why in reasons(report)} == {Why.SHARED}
    (only,) = report.ambiguous
    assert only.steps == (1, 2)
    assert "share a surrogate" in only.why
