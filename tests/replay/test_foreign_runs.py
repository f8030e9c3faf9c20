"""Runs that other instrumentations recorded, re-enacted by real SDKs over a loopback socket from what their spans tell.

The golden file says of each recorded scenario how many of its runs a small agent re-enacted, and each row of the ledger;
``docs/other-instrumentations.md`` is made from it. To accept a change: ``python tests/replay/test_foreign_runs.py`` writes
it; read the difference as code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bare_spans import bare_span

from freezeframe.export.records import record_from_span
from freezeframe.seams import Call
from freezeframe_redaction import load_policy
from freezeframe_redaction.keyring.keys import TenantKey
from freezeframe_redaction.redactor import Redactor
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.reconstruct import can_be_reconstructed, reconstruct
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import genai, values
from freezeframe_schemas.divergence import DivergenceKind, Relaxed, Report
from freezeframe_schemas.errors import ReplayMiss, RunError
from freezeframe_schemas.exchange import Kind, Request
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.otlp.decode import decode_traces
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.run import Run, build_run
from freezeframe_schemas.span import AttributeValue, Resource, SpanRecord
from freezeframe_schemas.vendors.normalise import normalise
from freezeframe_schemas.verdict import Verdict, headline, judged_to_json, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "data" / "otlp"
GOLDEN = TESTS / "golden" / "foreign_runs.json"
KEY = TenantKey(id="test/1", secret=b"k" * 32)
SCENARIOS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def runs_of(scenario: str) -> Iterator[Run]:
    yield from (run for run in load_runs_of_file(RECORDED / scenario) if can_be_reconstructed(run))


def fixture_of(scenario: str) -> Fixture:
    (run,) = runs_of(scenario)
    return freeze(run)


def asked_by_an_sdk(fixture: Fixture, api: str, *, streamed: bool, changed: bool = False) -> tuple[str, Report]:
    """Return what the agent came to, and the report of its replay."""
    from meaning_agents import AGENTS, by_chat, first_question, reworded

    answering = ServedRun(fixture)
    session = answering.session
    asked = first_question(fixture)
    try:
        with serve_wire([answering]) as url:
            said = AGENTS.get(api, by_chat)(url, session, reworded(asked) if changed else asked, streamed=streamed)
    except (Exception, ReplayMiss) as error:
        said = f"{type(error).__name__}: {error}"
    return said, session.report()


def last_answer(fixture: Fixture) -> str:
    """Return the text of the run's last model call, in the form in which the agents return it."""
    asked = [step.exchange for step in fixture.steps if step.exchange.kind is Kind.MODEL]
    told: dict[str, Any] = json.loads(asked[-1].response.body)
    return "".join(part["content"] for part in told.get("parts", ()) if part["type"] == "text")


def row_of(scenario: str) -> dict[str, Any]:
    """Return what becomes of a scenario: re-enacted, refused, and what its spans do not hold."""
    _, api, _ = scenario.split("-")
    found: Counter[str] = Counter()
    ledger: dict[str, int] = Counter()
    for position, run in enumerate(runs_of(scenario)):
        found["runs"] += 1
        ledger |= Counter(f"{loss.field}: {loss.source}" for loss in reconstruct(run).ledger[3:])
        try:
            fixture = freeze(run)
        except RunError:
            found["refused"] += 1
            continue
        streamed = (SCENARIOS.index(scenario) + position) % 2 == 1
        said, report = asked_by_an_sdk(fixture, api, streamed=streamed)
        if verdict(report) is Verdict.SAME_IN_MEANING and last_answer(fixture) in said:
            found["reenacted"] += 1
        _, report = asked_by_an_sdk(fixture, api, streamed=streamed, changed=True)
        found["answered_if_changed"] += len(report.served)
    return {name: found[name] for name in ("runs", "reenacted", "refused", "answered_if_changed")} | {"ledger": sorted(ledger)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_foreign_run_is_asked_again_by_a_real_client_and_a_changed_question_gets_no_answer(scenario: str) -> None:
    found = row_of(scenario)
    assert found["answered_if_changed"] == 0
    assert found == json.loads(GOLDEN.read_text(encoding="utf-8"))[scenario]


@pytest.mark.parametrize("api", ["chat", "resp", "msg"])
@pytest.mark.parametrize("scenario", ["openai-resp-oi", "anthropic-msg-tl", "pydanticai-chat-native"])
def test_one_trace_serves_every_dialect_whole_and_streamed(scenario: str, api: str) -> None:
    """The recording holds meaning: whoever asks the same question gets the answer in the words of its own API."""
    fixture = fixture_of(scenario)
    for streamed in (False, True):
        said, report = asked_by_an_sdk(fixture, api, streamed=streamed)
        assert verdict(report) is Verdict.SAME_IN_MEANING, headline(report)
        assert said == last_answer(fixture)


def tool_call(name: str, **arguments: object) -> Call:
    body = values.encode({"args": [], "kwargs": arguments})
    return Call(kind=Kind.TOOL, name=name, seam="decorator", request=Request(body=body.encode()))


@pytest.mark.proof
def test_a_tool_is_answered_by_name_and_arguments_and_nothing_else() -> None:
    """Not by its place, and not if a number became a text."""
    fixture = fixture_of("oaiagents-resp-oi")
    for call in (tool_call("add", a=2, b=4), tool_call("add", a="2", b="3"), tool_call("subtract", a=2, b=3)):
        session = ReplaySession(fixture)
        with pytest.raises(ReplayMiss):
            session.respond(call)
        assert not session.report().served
    answer = ReplaySession(fixture).respond(tool_call("multiply", b=3, a=2.0))
    assert answer is not None
    assert values.decode(answer.response.body.decode()) == "6"


def test_a_result_that_the_program_changed_is_named_at_the_next_model_call() -> None:
    import openai

    fixture = fixture_of("openai-chat-oi")
    answering = ServedRun(fixture)
    session = answering.session
    with serve_wire([answering]) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        messages: list[Any] = [
            {"role": "system", "content": "You're a helpful assistant."},
            {"role": "user", "content": "What's the weather in Seattle and San Francisco today?"},
        ]
        message = client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message
        calls = message.tool_calls or []
        messages.append(message.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "51 degrees and raining"} for call in calls]
        with pytest.raises(openai.APIStatusError, match="51 degrees"):
            client.chat.completions.create(model="gpt-4o-mini", messages=messages)
    first = session.report().first
    assert first is not None
    assert (first.kind, first.path) == (DivergenceKind.REQUEST_CHANGED, "$.body.messages[3].result")


def test_swapped_results_of_parallel_calls_are_not_the_same_question() -> None:
    """Each result belongs to its call; the order in which the calls ended does not matter."""
    import openai

    fixture = fixture_of("openai-chat-tl")
    results = [json.loads(step.exchange.response.body)["result"] for step in fixture.steps if step.exchange.kind is Kind.TOOL]
    assert len(set(results)) == 2
    for told, backwards, served in ((results, True, 2), (results[::-1], False, 1)):
        answering = ServedRun(fixture)
        session = answering.session
        with serve_wire([answering]) as url:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
            asked = json.loads(fixture.steps[0].exchange.request.body)
            messages: list[Any] = [{"role": "system", "content": asked["system"]}]
            messages += [{"role": item["role"], "content": item["text"]} for item in asked["messages"]]
            message = client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            answers: list[Any] = [
                {"role": "tool", "tool_call_id": call.id, "content": text}
                for call, text in zip(message.tool_calls or [], told, strict=True)
            ]
            messages += answers[::-1] if backwards else answers
            if served == 2:
                client.chat.completions.create(model="gpt-4o-mini", messages=messages)
            else:
                with pytest.raises(openai.APIStatusError):
                    client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        assert sum(item.how == "exact" for item in session.report().served) == served


@pytest.mark.proof
def test_a_tool_that_no_seam_saw_is_named_and_not_missed() -> None:
    """It ran for real, and the model was told the recorded result."""
    from meaning_agents import by_chat, first_question

    fixture = fixture_of("openai-chat-oi")
    answering, of_tools = ServedRun(fixture), ReplaySession(fixture)
    session = answering.session
    with serve_wire([answering]) as url:
        by_chat(url, of_tools, first_question(fixture), streamed=False)
    report = session.report()
    assert verdict(report) is Verdict.SAME_IN_MEANING
    assert report.relaxations[Relaxed.FROM_HISTORY] == 2
    assert "tools seen only in what the model received in 2 steps" in headline(report)


def test_messages_that_the_sdk_dropped_are_read_out_of_the_providers_own_json() -> None:
    """A span may have 128 attributes; OpenInference writes several for each message, and the first ones go."""
    from meaning_agents import first_question

    (run,) = runs_of("openai-chat-oi")
    known = first_question(freeze(run))
    kept = {"output.value", "input.value", "openinference.span.kind", genai.OPERATION_NAME}
    spans = [
        replace(
            span,
            attributes={name: value for name, value in span.attributes.items() if name in kept},
            dropped_attributes_count=9,
        )
        for span in run.spans
    ]
    fixture = freeze(build_run(spans))
    assert first_question(fixture) == known
    assert [loss.source for loss in fixture.ledger if loss.field == "messages"] == ["the provider's JSON in the span"] * 2
    said, report = asked_by_an_sdk(fixture, "chat", streamed=False)
    assert (verdict(report), said) == (Verdict.SAME_IN_MEANING, last_answer(fixture))


@pytest.mark.proof
def test_a_run_without_its_content_is_refused_with_what_to_switch_on() -> None:
    (run,) = runs_of("adk-gemini-native")
    with pytest.raises(RunError, match="do not hold the content of steps 1, 2") as refused:
        freeze(run)
    assert "CAPTURE_MESSAGE_CONTENT" in (refused.value.do or "")


def test_a_reconstructed_fixture_is_kept_in_files_with_its_ledger(tmp_path: Path) -> None:
    fixture = fixture_of("langgraph-chat-oi")
    write_fixture(fixture, tmp_path)
    assert load_fixture(tmp_path) == fixture
    assert {"step": 1, "field": "response id", "source": "made up"} in json.loads((tmp_path / "manifest.json").read_text())[
        "ledger"
    ]


@pytest.mark.proof("verdict same in meaning, reconstructed")
def test_no_reconstructed_replay_is_called_identical() -> None:
    _, report = asked_by_an_sdk(fixture_of("vercelai-chat-aisdk6"), "chat", streamed=False)
    assert headline(report).startswith("same in meaning, reconstructed")
    assert "identical" not in judged_to_json(report)


def redacted(scenario: str, words: str) -> tuple[Fixture, dict[str, Any]]:
    """Return the scenario as the collector stores it, with `words` in its question, and the question as it was asked."""
    from meaning_agents import first_question

    (run,) = runs_of(scenario)
    asked = first_question(freeze(run))["messages"][0]["text"]

    def edited(value: Any) -> Any:
        return value.replace(asked, f"{asked} {words}") if isinstance(value, str) else value

    spans = [replace(span, attributes={name: edited(value) for name, value in span.attributes.items()}) for span in run.spans]
    redactor = Redactor(load_policy("strict"), KEY)
    stored = freeze(build_run([redactor.redact_span(span) for span in spans]))
    return stored, first_question(freeze(build_run(spans)))


def test_a_redacted_run_is_asked_with_the_originals_and_another_value_is_seen_with_the_key() -> None:
    """Without the key, a private value is paired and counted; with it, compared."""
    from meaning_agents import by_chat

    fixture, asked = redacted("openai-chat-logfire", "Write to anna.keller@example.com.")
    assert "anna.keller" not in fixture.steps[0].exchange.request.body.decode()
    message = asked["messages"][0]
    other = {**asked, "messages": [{**message, "text": message["text"].replace("anna.keller", "otto.maier")}]}
    for question, key, served, uncompared in ((asked, None, 4, 1), (asked, KEY, 4, 0), (other, KEY, 0, 0)):
        answering = ServedRun(fixture, key=key)
        session = answering.session
        with serve_wire([answering]) as url:
            if served:
                by_chat(url, session, question, streamed=False)
            else:
                with pytest.raises(Exception, match="REPLAY-101"):
                    by_chat(url, session, question, streamed=False)
        report = session.report()
        assert (len(report.served), len(report.uncompared)) == (served, uncompared)


def retriever_span(query: str, *documents: dict[str, Any]) -> SpanRecord:
    attributes: dict[str, AttributeValue] = {"openinference.span.kind": "RETRIEVER", "input.value": query}
    for number, document in enumerate(documents):
        attributes |= {f"retrieval.documents.{number}.document.{name}": value for name, value in document.items()}
    return bare_span(attributes, name="VectorStoreRetriever")


def test_a_retrieval_is_answered_by_its_query() -> None:
    """For a marked function as dicts, for LangChain as its documents."""
    (run,) = runs_of("openai-chat-oi")
    document = {"id": "d1", "content": "It rains in Seattle.", "score": 0.5}
    with_retrieval = replace(run, spans=(*run.spans, normalise(retriever_span("weather in Seattle", document))))
    fixture = freeze(with_retrieval)
    body = values.encode({"args": [], "kwargs": {"query": "weather in Seattle"}})
    call = Call(kind=Kind.RETRIEVAL, name="search", seam="decorator", request=Request(body=body.encode()))
    answer = ReplaySession(fixture).respond(call)
    assert answer is not None
    assert values.decode(answer.response.body.decode()) == [document]

    from langchain_core.documents import Document

    body = values.encode({"args": [], "kwargs": {"input": "weather in Seattle"}})
    asked = replace(call, name="VectorStoreRetriever", seam="langchain", request=Request(body=body.encode()))
    answer = ReplaySession(fixture).respond(asked)
    assert answer is not None
    assert values.decode(answer.response.body.decode()) == [Document(id="d1", page_content="It rains in Seattle.", metadata={})]
    with pytest.raises(ReplayMiss):
        ReplaySession(fixture).respond(replace(call, request=Request(body=body.replace("Seattle", "Lyon").encode())))


@pytest.mark.parametrize(
    ("given", "other"),
    [("late order", "late orders"), ([9906, 1917], [9906, 1918])],
    ids=["text", "token ids"],
)
def test_embeddings_that_openinference_recorded_are_answered_by_what_was_embedded_and_no_others(given: Any, other: Any) -> None:
    """Recorded by its instrumentation of the real SDK, against a provider on loopback that is gone afterwards."""
    import openai
    from any_provider import AnyProvider
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    def ask(url: str, *texts: Any) -> list[list[float]]:
        client = openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0)
        found = client.embeddings.create(model="text-embedding-3-small", input=[*texts]).data
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Where is it?"}])
        client.close()
        return [row.embedding for row in found]

    told, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(told))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with AnyProvider() as server, provider.get_tracer("test").start_as_current_span("run"):
            recorded = ask(server.url, given)
    finally:
        instrumentor.uninstrument()
    sent = [record_from_span(span, Resource()) for span in told.get_finished_spans()]
    run = build_run([normalise(span) for span in decode_traces(encode_traces(sent)).spans])
    fixture = freeze(run)
    assert [step.exchange.name for step in fixture.steps] == ["embeddings", "chat"]
    answering = ServedRun(fixture)
    with serve_wire([answering]) as url:
        assert ask(url, given) == recorded
        assert verdict(answering.report()) is Verdict.SAME_IN_MEANING
    with serve_wire([ServedRun(fixture)]) as url, pytest.raises(openai.APIStatusError, match="REPLAY-101"):
        ask(url, other)


@pytest.mark.proof
def test_the_tools_of_a_foreign_run_are_served_over_mcp() -> None:
    served = ServedRun(fixture_of("langgraph-chat-oi"))
    listed: Any = served.tools.answer({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["get_current_weather"]

    def call(**arguments: str) -> Any:
        params: Any = {"name": "get_current_weather", "arguments": arguments}
        return served.tools.answer({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})

    assert call(location="Seattle, WA")["result"]["content"] == [{"type": "text", "text": "70 degrees and sunny"}]
    assert "REPLAY-101" in call(location="Lyon")["error"]["message"]


def test_a_retrieval_of_llamaindex_is_one_step_and_comes_back_as_its_nodes() -> None:
    """Its instrumentation reports the private half of a retrieval, too. The library itself was tried by hand."""
    (run,) = load_runs_of_file(TESTS / "data" / "otlp_agents" / "llamaindex-retrieval-oi")
    fixture = freeze(run)
    steps = [(step.exchange.name, step.inside) for step in fixture.steps]
    assert steps == [("embeddings", None), ("retrieval", None), ("embeddings", 2), ("chat", None)]
    body = values.encode({"args": [], "kwargs": {"query": "Does it rain in Lyon?"}})
    request = Request(body=body.encode())
    call = Call(kind=Kind.RETRIEVAL, name="VectorIndexRetriever", seam="llama_index", request=request)
    session = ReplaySession(fixture)
    answer = session.respond(call)
    assert answer is not None
    assert (session.report().steps, len(session.report().served)) == (2, 1), "its embeddings are made in the program"
    first, _ = json.loads(answer.response.body)
    assert (first["class"], first["value"]["score"]) == ("llama_index.core.schema:NodeWithScore", 1.0)
    assert first["value"]["node"] == {
        "$type": "model",
        "class": "llama_index.core.schema:TextNode",
        "set": ["id_", "metadata", "text"],
        "value": {"metadata": {"source": "weather"}, "text": "It rains in Lyon.", "id_": "d0"},
    }
    with pytest.raises(ReplayMiss):
        ReplaySession(fixture).respond(replace(call, request=Request(body=body.replace("Lyon", "Oslo").encode())))


SDK_AGENT = """
import json, sys
import freezeframe, openai

@freezeframe.tool
def get_current_weather(location: str) -> str:
    raise RuntimeError("a tool runs in a replay")

client = openai.OpenAI(api_key="x", max_retries=0)
messages = [{"role": "system", "content": "You're a helpful assistant."}, {"role": "user", "content": sys.argv[1]}]
while True:
    message = client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message
    if not message.tool_calls:
        break
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        told = get_current_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
"""
GRAPH_AGENT = """
import sys
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

@tool
def get_current_weather(location: str) -> str:
    "Get the current weather in a given location"
    raise RuntimeError("a tool runs in a replay")

agent = create_react_agent(ChatOpenAI(model="gpt-4o-mini", api_key="x", max_retries=0, streaming=True), [get_current_weather])
agent.invoke({"messages": [("user", sys.argv[1])]})
"""
QUESTION = "What's the weather in Seattle and San Francisco today?"


@pytest.mark.parametrize(
    ("scenario", "program"),
    [("openai-chat-v2old", SDK_AGENT), ("langgraph-chat-oi", GRAPH_AGENT)],
    ids=["sdk", "langgraph"],
)
def test_a_program_is_replayed_in_process_with_its_tools_frozen(
    scenario: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(program)
    command = ["replay", str(RECORDED / scenario), "--quiet", "--", sys.executable, str(agent)]
    assert main([*command, QUESTION]) == 0
    assert capsys.readouterr().out.startswith("same in meaning, reconstructed, except the input and the outcome (not recorded)")
    if program is SDK_AGENT:
        assert main([*command, QUESTION.replace("weather", "climate")]) == 3
        assert "REPLAY-101 diverged at step 1" in capsys.readouterr().out


def test_a_kept_replay_has_bytes_and_can_be_changed_where_the_reconstructed_run_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(SDK_AGENT)
    frozen, kept, fork = (str(tmp_path / name) for name in ("frozen", "kept", "fork"))
    program = ["--", sys.executable, str(agent), QUESTION]
    assert main(["fixture", str(RECORDED / "openai-chat-oi"), "-o", frozen]) == 0
    assert main(["fixture", "verify", frozen]) == 0
    assert "another version" not in capsys.readouterr().out
    edit = ["--step", "4", "--response", "It rains."]
    assert main(["experiment", "fork", frozen, *edit, "-o", fork]) == 1
    assert "replay RUN -o DIR" in capsys.readouterr().err
    assert main(["replay", frozen, "-o", kept, *program]) == 0
    made = load_fixture(Path(kept))
    assert (made.reconstructed, made.ignore, bool(made.ledger)) == (False, (), True)
    assert main(["experiment", "fork", kept, *edit, "-o", fork]) == 0


def test_serve_answers_a_program_in_another_process(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(SDK_AGENT.replace('raise RuntimeError("a tool runs in a replay")', "return RESULTS.pop(0)"))
    agent.write_text('RESULTS = ["50 degrees and raining", "70 degrees and sunny"]\n' + agent.read_text())
    command = [
        sys.executable,
        "-m",
        "freezeframe._cli",
        "replay",
        "serve",
        str(RECORDED / "openai-chat-oi"),
        "--",
        sys.executable,
    ]
    done = subprocess.run(
        [*command, str(agent), QUESTION], capture_output=True, text=True, timeout=120, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("same in meaning, reconstructed")


def test_show_prints_the_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    named = str(RECORDED / "langgraph-chat-oi")
    assert main(["show", named]) == 0
    shown = capsys.readouterr().out
    assert "  step 1, 4: response id: made up" in shown
    assert "freezeframe replay" in shown
    assert main(["show", named, "--json"]) == 0
    ledger = json.loads(capsys.readouterr().out)["ledger"]
    assert {"field": "response id", "source": "made up", "step": 1} in ledger


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS / "support"))
    GOLDEN.write_text(json.dumps({scenario: row_of(scenario) for scenario in SCENARIOS}, indent=1) + "\n", encoding="utf-8")
