"""The replay kit: everything that a run depended on, from a real application through spans and a file to a fixture on the disk.

One row per field; each row reads the fixture that was loaded again, and nothing else. Below, each field of `KIT` is broken by
hand in the same run, one at a time, and readiness and `freezeframe show` must name it.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from capture_provider import Provider

import freezeframe
from freezeframe import _instrument, seams
from freezeframe._config import load_settings
from freezeframe.context.environment import environment_attributes
from freezeframe.export.tracing import make_provider
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.report.render import outline_text
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.fixture import Fixture, Step, load_fixture, write_fixture
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import KIT, OPERATION_IN, KitField, KitScope, Run, build_run, readiness
from freezeframe_schemas.wire.registry import region_of

pytestmark = pytest.mark.long

QUESTION = 'Wo ist "AC-1"?  \n\tünï 🙂'
SYSTEM = "You help customers.\n" + "Rule: be kind. " * 40
TOOLS: Any = [{"type": "function", "function": {"name": "get_order", "strict": True, "parameters": {"type": "object"}}}]
CHUNKS = [({"id": "chunk-7", "text": "Returns within 30 days."}, 0.91), ({"id": "chunk-9", "text": "Shipping is free."}, 0.4)]
SEED = 1234


def application(provider: str) -> Callable[[str], str]:
    """Return an agent that has everything in it: tools, a retriever, faults of the provider, a stream, retries."""
    client = openai.OpenAI(base_url=f"{provider}/v1", api_key="sk-secret", max_retries=1)

    @freezeframe.tool
    def get_order(order_id: str) -> dict[str, Any]:
        return {"id": order_id, "price": 49.9, "note": "ünï"}

    @freezeframe.tool
    def refund(order_id: str) -> None:
        raise PermissionError(f"{order_id}: not allowed")

    @freezeframe.tool
    def price(sku: str) -> int:
        return httpx.get(f"{provider}/prices/{sku}").status_code

    @freezeframe.retriever
    def search(query: str) -> list[Any]:
        client.embeddings.create(model="text-embedding-3-small", input=query)
        return CHUNKS

    @freezeframe.run(id="run-1", user="u-1", tenant="acme", session="s-1", flags={"tone": "kind"})
    def answer(question: str) -> str:
        freezeframe.flag("discount", 0.25)
        search(question)
        messages: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        sampling: Any = {"temperature": 0.3, "top_p": 0.9, "seed": 7, "max_tokens": 50, "extra_body": {"mirostat": 2}}
        client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS, **sampling)
        get_order("AC-1")
        with contextlib.suppress(PermissionError):
            refund("AC-1")
        with contextlib.suppress(httpx.HTTPError):
            price("PS-11")  # a 429 that is cut in the middle
        client.chat.completions.create(model="gpt-4o", messages=messages)  # 500 first, then 200
        for _ in client.chat.completions.create(model="gpt-4o", messages=messages, stream=True):
            pass
        random.random()
        raise LookupError("AC-1: it is another customer's")

    return answer


def git(*arguments: str, cwd: Path) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(["git", *identity, *arguments], cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened, twice: as the application knows it, and as the fixture does."""

    fixture: Fixture
    run: Run
    commit: str
    random_state: str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Run the application in a separate repository; write its spans to a file and its fixture to a folder."""
    home = tmp_path_factory.mktemp("agent")
    (home / "agent.py").write_text("# the agent\n")
    git("init", "-q", cwd=home)
    git("add", ".", cwd=home)
    git("commit", "-q", "-m", "agent", cwd=home)
    (home / "agent.py").write_text("# changed since\n")
    with pytest.MonkeyPatch.context() as patch, Provider() as provider:
        patch.chdir(home)
        patch.setenv("OPENAI_BASE_URL", "https://gateway.example.org/v1")
        settings = load_settings({"root": "never", "file": str(home / "spans.jsonl")}, environ={})
        exporter = _instrument.make_exporter(settings)
        agent = make_provider("shop")
        handle = _instrument.start_recording(settings, exporter, provider=agent, environment=environment_attributes)
        seams.install()
        random.seed(SEED)
        state = json.dumps(random.getstate())
        answer = application(provider.url)
        provider.faults = ["", "", "429-cut", "500"]  # of the third and the fourth request
        with pytest.raises(LookupError):
            answer(QUESTION)
        handle.uninstrument()
    lines = (home / "spans.jsonl").read_text().splitlines()
    run = build_run(span for line in lines for span in spans_from_otlp_json(json.loads(line)))
    write_fixture(freeze(run), home / "fixture")
    return Story(fixture=load_fixture(home / "fixture"), run=run, commit=git("rev-parse", "HEAD", cwd=home), random_state=state)


def steps(fixture: Fixture, kind: Kind, name: str = "") -> list[Step]:
    return [step for step in fixture.steps if step.exchange.kind is kind and name in step.exchange.name]


def chats(fixture: Fixture) -> list[Step]:
    return steps(fixture, Kind.MODEL, "/chat/completions")


def asked(step: Step) -> Any:
    return json.loads(step.exchange.request.body)


def answered(step: Step) -> Any:
    return json.loads(step.exchange.response.body)


FIELDS: dict[str, Callable[[Story], bool]] = {
    "entry point": lambda s: s.fixture.entry.target.endswith("application.<locals>.answer") and bool(s.fixture.entry.file),
    "its input": lambda s: values.decode(s.fixture.entry.input or "") == {"args": [], "kwargs": {"question": QUESTION}},
    "run id": lambda s: s.fixture.run_id == s.run.trace_id and s.fixture.entry.run_id == "run-1",
    "parent span id": lambda s: chats(s.fixture)[0].exchange.parent_span_id == s.fixture.entry.span_id,
    "a nested call's parent": lambda s: _embedding(s).inside == steps(s.fixture, Kind.RETRIEVAL)[0].number,
    "user": lambda s: s.fixture.entry.user == "u-1",
    "tenant": lambda s: s.fixture.entry.tenant == "acme",
    "session": lambda s: s.fixture.entry.session == "s-1",
    "input message, byte-exact": lambda s: (
        json.dumps(QUESTION, ensure_ascii=False).encode() in chats(s.fixture)[0].exchange.request.body
    ),
    "full system prompt": lambda s: asked(chats(s.fixture)[0])["messages"][0] == {"role": "system", "content": SYSTEM},
    "tool schemas as sent": lambda s: asked(chats(s.fixture)[0])["tools"] == TOOLS,
    "their version": lambda s: len(_span_text(s, chats(s.fixture)[0], genai.TOOL_DEFINITIONS_HASH)) == 16,
    "retrieval query": lambda s: QUESTION in values.decode(_body(steps(s.fixture, Kind.RETRIEVAL)[0]))["kwargs"].values(),
    "chunk ids, content and scores": lambda s: values.decode(_result(steps(s.fixture, Kind.RETRIEVAL)[0])) == CHUNKS,
    "embedding model": lambda s: _embedding(s).model == "text-embedding-3-small",
    "its version as answered": lambda s: answered(_embedding(s))["model"] == "text-embedding-3-small",
    "model requested": lambda s: chats(s.fixture)[0].model == "gpt-4o",
    "model answered": lambda s: answered(chats(s.fixture)[0])["model"] == "gpt-4o-2024-08-06",
    "provider": lambda s: chats(s.fixture)[0].provider == "openai",
    "endpoint": lambda s: chats(s.fixture)[0].exchange.request.url.startswith("http://127.0.0.1:"),
    "base URL of the environment": lambda s: (
        json.loads(s.fixture.entry.environment or "{}")["OPENAI_BASE_URL"] == "https://gateway.example.org/v1"
    ),
    "temperature": lambda s: asked(chats(s.fixture)[0])["temperature"] == 0.3,
    "top_p": lambda s: asked(chats(s.fixture)[0])["top_p"] == 0.9,
    "seed": lambda s: asked(chats(s.fixture)[0])["seed"] == 7,
    "every other parameter": lambda s: asked(chats(s.fixture)[0])["mirostat"] == 2,
    "system fingerprint": lambda s: answered(chats(s.fixture)[0])["system_fingerprint"] == "fp_1",
    "tool request": lambda s: values.decode(_body(_tool(s, "get_order"))) == {"args": [], "kwargs": {"order_id": "AC-1"}},
    "the model's call that it answers": lambda s: _tool(s, "get_order").exchange.call_id == _call_id(s),
    "tool response, byte-exact": lambda s: values.decode(_result(_tool(s, "get_order")))["note"] == "ünï",
    "a tool's exception": lambda s: (
        _error(_tool(s, "refund")) == ("PermissionError", "AC-1: not allowed")
        and _tool(s, "refund").exchange.response.completion is Completion.NONE
    ),
    "an error with half a body": lambda s: (
        _prices(s).exchange.response.status == 429
        and _prices(s).exchange.response.body == b'{"error": {"message": "Rate limit reached for'
        and _prices(s).exchange.response.completion is Completion.BROKEN
    ),
    "every attempt of a retry": lambda s: [step.exchange.response.status for step in chats(s.fixture)] == [200, 500, 200, 200],
    "stream chunks with borders": lambda s: len(chats(s.fixture)[3].exchange.response.chunks) == 6,
    "their offsets": lambda s: _rises([chunk.offset_ns for chunk in chats(s.fixture)[3].exchange.response.chunks]),
    "start, first token, end": lambda s: (
        0
        < chats(s.fixture)[3].exchange.response.chunks[0].offset_ns
        <= chats(s.fixture)[3].exchange.end_time_unix_nano - chats(s.fixture)[3].exchange.start_time_unix_nano
    ),
    "commit": lambda s: s.fixture.environment[genai.VCS_REVISION] == s.commit,
    "dirty mark": lambda s: s.fixture.environment[genai.VCS_DIRTY] == "true",
    "flags with their values": lambda s: values.decode(s.fixture.entry.flags or "") == {"tone": "kind", "discount": 0.25},
    "wall clock": lambda s: 0 < s.fixture.entry.start_time_unix_nano < s.fixture.entry.end_time_unix_nano,
    "time zone": lambda s: bool(s.fixture.environment[genai.TIMEZONE]),
    "random state": lambda s: s.fixture.entry.random_state == s.random_state,
    "version of Python": lambda s: s.fixture.environment[genai.RUNTIME_VERSION].startswith("3."),
    "versions of SDKs": lambda s: json.loads(s.fixture.environment[genai.PACKAGES])["openai"] == openai.__version__,
    "version of this library": lambda s: s.fixture.environment[genai.LIBRARY_VERSION] == freezeframe.__version__,
    "exception that left the run": lambda s: "another customer" in (s.fixture.entry.error or ""),
}
"""What a run must carry -> whether the fixture has it."""


def _span_text(story: Story, step: Step, name: str) -> str:
    return next(span for span in story.run.spans if span.span_id == step.exchange.span_id).text(name) or ""


def _embedding(story: Story) -> Step:
    return steps(story.fixture, Kind.MODEL, "/embeddings")[0]


def _body(step: Step) -> str:
    return step.exchange.request.body.decode()


def _result(step: Step) -> str:
    return step.exchange.response.body.decode()


def _tool(story: Story, name: str) -> Step:
    return steps(story.fixture, Kind.TOOL, name)[0]


def _prices(story: Story) -> Step:
    return steps(story.fixture, Kind.HTTP, "/prices")[0]


def _call_id(story: Story) -> str:
    return answered(chats(story.fixture)[0])["choices"][0]["message"]["tool_calls"][0]["id"]


def _error(step: Step) -> tuple[str, str]:
    error = values.decode_exception(step.exchange.error or "")
    return type(error).__name__, str(error)


def _rises(numbers: list[int]) -> bool:
    return numbers == sorted(numbers) and len(set(numbers)) > 1


@pytest.mark.proof
@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_the_kit_survives_from_the_application_to_the_fixture(field: str, story: Story) -> None:
    assert FIELDS[field](story)


@pytest.mark.proof
def test_the_run_is_complete_and_no_secret_is_in_it(story: Story) -> None:
    assert readiness(story.run).missing == ()
    assert readiness(story.run).blocking == (GapKind.ENTRY_UNREACHABLE.value,)  # it is nested in `application`
    assert "sk-secret" not in repr(story.run) + repr(story.fixture)


@pytest.mark.proof
@pytest.mark.parametrize("field", [field for field in KIT if field.scope not in OPERATION_IN], ids=lambda field: field.name)
def test_a_field_that_is_missing_is_named(field: KitField, story: Story) -> None:
    broken = build_run(_without(story.run, field))
    found = readiness(broken)
    assert field.name in [missing.field.name for missing in found.missing]
    assert found.level < field.level
    shown = outline_text(outline_run(broken, full=False), full=False, width=120)
    assert field.name in shown


def _without(run: Run, field: KitField) -> Iterator[Any]:
    """Yield the run's spans with the field broken, as a sender that does not know it would leave it."""
    for span in run.spans:
        if field.scope is KitScope.RESOURCE:
            kept = {name: value for name, value in span.resource.attributes.items() if name not in field.attributes}
            yield replace(span, resource=replace(span.resource, attributes=kept))
            continue
        gone = set(field.attributes)
        if genai.RESPONSE_BODY in gone:  # chunk borders without their body would contradict themselves
            gone |= {genai.RESPONSE_CHUNK_SIZES}
        kept = {name: value for name, value in span.attributes.items() if name not in gone}
        of_this_kind = field.scope is KitScope.ENTRY or span.text(genai.EXCHANGE_KIND) == field.scope.value
        yield replace(span, attributes=kept) if of_this_kind else span


@pytest.mark.proof
@pytest.mark.parametrize(
    ("host", "headers", "region"),
    [
        ("bedrock-runtime.eu-central-1.amazonaws.com", (), "eu-central-1"),
        ("bedrock-runtime-fips.us-east-1.amazonaws.com", (), "us-east-1"),
        ("europe-west4-aiplatform.googleapis.com", (), "europe-west4"),
        ("acme.openai.azure.com", (("X-MS-Region", "Sweden Central"),), "Sweden Central"),
        ("api.openai.com", (("x-request-id", "1"),), None),
    ],
)
def test_the_host_or_the_answer_shows_the_region(host: str, headers: Any, region: str | None) -> None:
    assert region_of(host, {name.lower(): value for name, value in headers}) == region
