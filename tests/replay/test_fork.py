"""A fork is the run with one thing changed: everything before it is served as recorded, and the code sees the change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answered_here import answering
from capture_provider import Provider
from handmade_runs import make_run, model_call, tool_call

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_replay.experiments.fork import Edit, Target, fork, set_at
from freezeframe_schemas import genai
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.frames import read_body
from freezeframe_schemas.wire.registry import dialect_of


@pytest.fixture
def run() -> Fixture:
    steps = model_call("a", "1"), tool_call("find", [{"id": "AC-1"}], "x"), model_call("nested", "2")
    return freeze(build_run(make_run(*steps, inside={2: 1})))


def result_of(fixture: Fixture, step: int) -> Any:
    return json.loads(fixture.steps[step - 1].exchange.response.body)


def test_a_fork_is_a_valid_fixture_that_names_its_origin(run: Fixture, tmp_path: Path) -> None:
    made = fork(run, [Edit(target=Target.RESULT, step=2, value=[])])
    write_fixture(made, tmp_path)
    read = load_fixture(tmp_path)
    assert read == made
    assert (read.forked_from, read.edits) == (run.run_id, ("step 2 result = []",))
    assert read.run_id != run.run_id and len(read.run_id) == 32


def test_one_field_of_a_result_is_changed_and_nothing_else(run: Fixture) -> None:
    made = fork(run, [Edit(target=Target.BODY, step=2, path="[0].id", value="AC-2")])
    assert result_of(made, 2) == [{"id": "AC-2"}]
    assert (made.steps[0], made.steps[2]) == (run.steps[0], run.steps[2])


def test_a_tool_that_failed_can_be_made_to_succeed(run: Fixture) -> None:
    step = run.steps[1]
    failed = replace(run, steps=(run.steps[0], replace(step, exchange=replace(step.exchange, error='{"$type": "exception"}'))))
    assert fork(failed, [Edit(target=Target.RESULT, step=2, value=1)]).steps[1].exchange.error is None


def test_the_input_is_changed_by_path(run: Fixture) -> None:
    made = fork(run, [Edit(target=Target.INPUT, path="args[0]", value="and now?")])
    assert json.loads(made.entry.input or "")["args"] == ["and now?"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (Edit(target=Target.RESULT, step=9, value=1), "has steps 1 to 3"),
        (Edit(target=Target.RESPONSE, step=3, value="x"), "inside step 2"),
        (Edit(target=Target.RESULT, step=1, value=1), "changed with --response TEXT"),
        (Edit(target=Target.RESPONSE, step=2, value="x"), "changed with --result JSON"),
        (Edit(target=Target.BODY, step=2, path="[3].id", value=1), "found 1 items"),
        (Edit(target=Target.BODY, step=2, path="[x", value=1), "not readable"),
    ],
)
def test_what_cannot_be_changed_says_why(run: Fixture, edit: Edit, message: str) -> None:
    with pytest.raises(FixtureError, match=message.replace("[", r"\[")):
        fork(run, [edit])


def test_a_path_of_a_report_can_be_set_inside_json_in_a_text() -> None:
    value = {"m": [{"content": '{"order": "AC-1", "n": 1}'}]}
    assert set_at(value, "$.m[0].content|json.order", "AC-2") == {"m": [{"content": '{"order": "AC-2", "n": 1}'}]}


CLIENTS = ["openai", "openai-stream", "anthropic", "anthropic-stream"]


def client_of(module: Any) -> Any:
    return module.DefaultHttpxClient(verify=False)  # loading certificates would be most of the test's time


def ask(url: str, client: str) -> str:
    import anthropic  # here: they take seconds, and the other tests need neither
    import openai

    messages: Any = [{"role": "user", "content": "hello"}]
    if client.startswith("openai"):
        chat = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, http_client=client_of(openai)).chat.completions
        if client == "openai":
            return chat.create(model="gpt-4o", messages=messages).choices[0].message.content or ""
        chunks = chat.create(model="gpt-4o", messages=messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    api = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, http_client=client_of(anthropic)).messages
    if client == "anthropic":
        return "".join(
            block.text for block in api.create(model="c", max_tokens=9, messages=messages).content if block.type == "text"
        )
    with api.stream(model="c", max_tokens=9, messages=messages) as stream:
        return stream.get_final_text()


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("client", CLIENTS)
def test_a_model_can_be_made_to_say_something_else_through_its_real_sdk(client: str) -> None:
    """In the format and the mode of the recorded answer; the id stays."""
    with Provider() as provider:
        url = provider.url
        with capture() as seen:
            freezeframe.run(ask)(url, client)
            recorded = freeze(build_run(seen.spans))
    made = fork(recorded, [Edit(target=Target.RESPONSE, step=1, value="Grüße")])
    with answering(ReplaySession(made)):
        assert ask(url, client) == "Grüße"


GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent"
CONVERSE = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse-stream"
ANSWERS = {
    "gemini-array": (GEMINI, {}, 200),
    "gemini-events": (f"{GEMINI}?alt=sse", {}, 200),
    "responses": ("https://api.openai.com/v1/responses", {"input": "hi", "stream": True}, 200),
    "converse": (CONVERSE, {}, 200),
    "ollama": ("http://localhost:11434/api/chat", {"messages": []}, 200),
    "a refused one": ("https://api.cohere.com/v2/chat", {"messages": [], "stream": True}, 429),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_another_text_is_written_in_the_form_of_the_recorded_answer(run: Fixture, case: str) -> None:
    """A refused request gets the form that it asked for."""
    url, body, status = ANSWERS[case]
    request = Request(method="POST", url=url, body=json.dumps(body).encode())
    dialect = dialect_of(request, None)
    assert dialect is not None
    recorded = dialect.write_answer(Answer(pieces=("old",), id="a1", model="m1"), request)
    if status != 200:
        recorded = dialect.write_error(status, "slow down")
    exchange = replace(run.steps[0].exchange, request=request, response=recorded, dialect=dialect.name)
    recording = replace(run, steps=(replace(run.steps[0], exchange=exchange), *run.steps[1:]))
    made = fork(recording, [Edit(target=Target.RESPONSE, step=1, value="Grüße")]).steps[0].exchange.response
    content_type = dict(made.headers)["content-type"]
    assert read_body(made.body, content_type).form is read_body(made.body, dialect.requested_form(request).value).form
    found = dialect.response_attributes(made.body, content_type=content_type, status=made.status or 0)
    assert "Grüße" in str(found[genai.OUTPUT_MESSAGES])
    assert (made.status, dialect.is_whole(made.body, content_type=content_type, streamed=True)) != (200, False)
    if status == 200:
        assert found.get(genai.RESPONSE_ID, "a1") == "a1"
        assert found.get(genai.RESPONSE_MODEL, "m1") == "m1"
        assert made.headers == recorded.headers


def test_a_text_where_none_fits_is_refused_with_what_to_do(run: Fixture) -> None:
    request = Request(method="POST", url="https://api.openai.com/v1/embeddings", body=b'{"input": "hi"}')
    exchange = replace(run.steps[0].exchange, request=request)
    recording = replace(run, steps=(replace(run.steps[0], exchange=exchange), *run.steps[1:]))
    with pytest.raises(
        FixtureError, match=r"an answer of openai\.embeddings gives vectors and nothing else\n.*--set PATH=JSON"
    ):
        fork(recording, [Edit(target=Target.RESPONSE, step=1, value="text")])
