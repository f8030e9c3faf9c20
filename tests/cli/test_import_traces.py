"""`freezeframe import`: traces that other backends exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_files import ALL, TRACES, run_of, written

from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.wire.document import JsonObject


@pytest.mark.long
def test_an_exported_trace_is_asked_again_by_an_sdk_and_a_changed_question_gets_no_answer() -> None:
    from meaning_agents import by_chat, first_question, reworded

    from freezeframe_replay.process.served_run import ServedRun
    from freezeframe_replay.process.wire_server import serve_wire
    from freezeframe_schemas.errors import ReplayMiss
    from freezeframe_schemas.verdict import Verdict, verdict

    fixture = freeze(run_of("langfuse", ALL["langfuse"]))
    assert [step.exchange.kind for step in fixture.steps] == [Kind.MODEL, Kind.TOOL, Kind.MODEL]
    served = ServedRun(fixture)
    session = served.session
    with serve_wire([served]) as url:
        assert by_chat(url, session, first_question(fixture), streamed=True).startswith("Hello Langfuse")
    assert verdict(session.report()) is Verdict.SAME_IN_MEANING
    served = ServedRun(fixture)
    session = served.session
    with serve_wire([served]) as url, pytest.raises((Exception, ReplayMiss), match="REPLAY"):
        by_chat(url, session, reworded(first_question(fixture)), streamed=True)
    assert not session.report().served


def test_an_exported_trace_keeps_its_ids_and_what_only_langfuse_says(tmp_path: Path) -> None:
    observation = {
        "id": "b" * 16,
        "traceId": "a" * 32,
        "type": "GENERATION",
        "name": "llm",
        "startTime": "2026-01-01T00:00:00.5Z",
        "input": '[{"role": "user", "content": "hi"}]',
        "output": "hello",
        "model": "m",
        "usageDetails": {"input": 3, "output": 4},
    }
    run = run_of("langfuse", written(tmp_path, json.dumps({"observations": [observation]})))
    (span,) = run.spans
    assert (span.trace_id, span.span_id) == ("a" * 32, "b" * 16)
    assert span.start_time_unix_nano == 1_767_225_600_500_000_000
    (step,) = freeze(run).steps
    asked, answered = json.loads(step.exchange.request.body), json.loads(step.exchange.response.body)
    assert asked["messages"] == [{"role": "user", "text": "hi"}]
    assert answered["parts"] == [{"type": "text", "content": "hello"}]
    assert (answered["input_tokens"], answered["output_tokens"], asked["model"]) == (3, 4, "m")


@pytest.mark.parametrize(("kind", "answer"), [("mlflow", "It rains."), ("langsmith", "It rains.")])
def test_a_trace_of_another_backend_is_reconstructed_with_its_tools(kind: str, answer: str) -> None:
    run = run_of(kind, TRACES[kind])
    steps = freeze(run).steps
    assert [step.exchange.name for step in steps if step.exchange.kind is Kind.TOOL] == ["weather"]
    last = json.loads(steps[-1].exchange.response.body)
    assert last["parts"] == [{"type": "text", "content": answer}]
    assert {span.trace_id for span in run.spans} == {run.trace_id}


def test_our_own_exchanges_come_out_of_what_phoenix_exports_with_their_bytes() -> None:
    run = run_of("phoenix", TRACES["phoenix"])
    assert [exchange.kind for exchange in run.exchanges] == [Kind.MODEL, Kind.TOOL]
    assert len(run.exchanges[0].response.chunks) == 9
    assert run.entry.target == "__main__:answer"


@given(
    st.one_of(
        st.text(), st.integers(-(2**53), 2**53), st.booleans(), st.sampled_from(['"a"', "1", "[1]", "{}", "null", "true"])
    )
)
def test_an_attribute_that_mlflow_kept_is_what_was_sent(value: str | int | bool) -> None:
    """As MLflow writes it: objects, arrays and quoted texts stay, everything else is quoted. Only quotes may be lost."""
    from freezeframe_replay.sources.recordings.mlflow import mlflow_span

    def is_kept(text: str) -> bool:
        try:
            return isinstance(json.loads(text), str | dict | list)
        except ValueError:
            return False

    kept = value if isinstance(value, str) and is_kept(value) else json.dumps(value)
    item: JsonObject = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "start_time_unix_nano": 1, "attributes": {"note": kept}}
    found = mlflow_span(item).attributes["note"]
    quoted = isinstance(json.loads(kept), str)
    assert found == (json.loads(kept) if quoted else value)
