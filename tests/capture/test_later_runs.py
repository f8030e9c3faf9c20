"""What may be a run costs nothing until its first call; then it is recorded as it was when it came."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from asgi_request import ask
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

import freezeframe
from freezeframe.context.current import RunContext
from freezeframe.runs.entry import EntryScope
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe.testing import capture
from freezeframe_schemas import genai, values
from freezeframe_schemas.run import EntryKind, build_run
from freezeframe_schemas.span import SpanRecord


@freezeframe.tool
def say(what: object) -> str:
    return str(what)


class Starts(SpanProcessor):
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        trace.get_current_span().get_span_context()  # as a processor may do that puts trace ids into logs
        self.names.append(span.name)

    def on_end(self, span: ReadableSpan) -> None:
        pass


def test_a_request_that_calls_nothing_starts_no_span_and_copies_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    async def health(scope: Any) -> None:
        del scope

    with capture() as captured:
        starts = Starts()
        captured.provider.add_span_processor(starts)
        monkeypatch.setattr(SHARED, "getstate", lambda: pytest.fail("a state was copied"))
        ask(health)
        assert starts.names == []


def test_a_request_is_recorded_as_it_came_though_the_application_changes_it() -> None:
    times: list[int] = []

    async def chat(scope: Any) -> None:
        times.append(time.time_ns())
        scope["path"] = "/changed"
        scope["headers"].append((b"accept", b"text/changed"))
        say("hello")

    with capture() as captured:
        captured.provider.add_span_processor(Starts())
        times.append(time.time_ns())
        ask(chat, headers=[(b"accept", b"text/plain"), (b"x-thread-id", b"t7")])
        run = build_run(captured.spans)
    assert times[0] <= run.entry.start_time_unix_nano <= times[1]
    given = values.decode(run.entry.input or "")
    assert (run.entry.name, given["path"], given["headers"]["accept"], run.entry.session) == (
        "GET /chat",
        "/chat",
        "text/plain",
        "t7",
    )


def test_a_request_without_headers_and_query_is_answered_and_recorded() -> None:
    async def chat(scope: Any) -> None:
        say(sorted(scope))

    with capture() as captured:
        ask(chat, headers=None, query_string=None)
        run = build_run(captured.spans)
    given = values.decode(run.entry.input or "")
    assert (given["path"], given["query"], given["headers"]) == ("/chat", "", {})


def test_a_span_of_another_instrumentation_is_below_the_request_that_calls_nothing() -> None:
    with capture() as captured:
        tracer = captured.provider.get_tracer("another")

        async def looks(scope: Any) -> None:
            del scope
            tracer.start_span("look").end()

        ask(looks)
        above, below = sorted(captured.spans, key=lambda span: span.name != "GET /chat")
    assert (above.name, below.name, below.parent_span_id) == ("GET /chat", "look", above.span_id)


class Runs:
    """Runs in progress, each in its own context; notes what each draws."""

    def __init__(self) -> None:
        self.drawn: dict[str, list[float]] = {}
        self._scopes: dict[str, EntryScope] = {}

    def do(self, act: str, name: str) -> None:
        if act == "outside":
            random.random()
        elif act == "seed":
            random.seed(name)
        elif act == "begin":
            point = EntryPoint(kind=EntryKind.REQUEST, name=name, target="m:app", file=None, input="{}")
            self._scopes[name] = EntryScope(lambda: point, RunContext(name=name, is_implied=True))
            self.drawn[name] = []
        elif act == "end":
            self._scopes.pop(name).finish(output="1")
        else:
            with self._scopes[name].inside():
                if act == "call":
                    say(name)
                else:
                    self.drawn[name].append(random.random())


def numbers_of(span: SpanRecord) -> list[float]:
    """Return what a replay of a run draws, by what was recorded of it."""
    state = span.attributes[genai.ENTRY_RANDOM_STATE]
    feeds: dict[str, list[str]] = json.loads(str(span.attributes.get(genai.CLOCK_READINGS, "{}")))
    numbers: list[float] = []
    for row in feeds.get("random  test_later_runs.py", []):
        where, _, count = row.partition(":")
        epoch, _, word = where.partition("+")
        generator = random.Random()
        if epoch == "0":
            version, internal, gauss = json.loads(str(state))
            generator.setstate((version, tuple(internal), gauss))
        else:
            (text,) = feeds[f"random-epoch {epoch}"]
            generator.setstate(state_from(text))
        for _ in range(int(word) // 2):
            generator.random()
        numbers += [generator.random() for _ in range(int(count) // 2 if count else 1)]
    return numbers


def state_from(text: str) -> Any:
    from freezeframe.seams.draws import drawn

    return vars(drawn)["_state_from_text"](text)


SCRIPTS = {
    "before and after the first call": "begin a, draw a, call a, draw a, end a",
    "others draw meanwhile": "begin a, begin b, draw b, outside x, call a, draw a, call b, draw b, end b, end a",
    "outside, between two runs": "begin a, draw a, call a, end a, outside x, outside x, begin b, draw b, call b, end b",
    "seeded before it draws": "begin a, seed s, call a, draw a, end a",
    "seeded while nothing counts": "outside x, seed s, outside x, begin a, call a, draw a, end a",
    "one ends while one without a call goes on": "begin b, begin a, draw a, call a, draw a, end a, end b",
    "one ends while another goes on": "begin a, begin b, draw a, end a, outside x, draw b, call b, draw b, end b",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_run_is_recorded_with_what_leads_to_the_numbers_that_it_drew(script: str) -> None:
    with capture() as captured:
        runs = Runs()
        for step in SCRIPTS[script].split(", "):
            runs.do(*step.split())
        found = {span.name: span for span in captured.spans if genai.ENTRY_KIND in span.attributes}
    called = {step.split()[1] for step in SCRIPTS[script].split(", ") if step.startswith("call")}
    assert {name: numbers_of(span) for name, span in found.items()} == {name: runs.drawn[name] for name in called}


def test_a_number_outside_any_run_costs_no_frame_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(frame: object) -> None:
        pytest.fail(f"it was counted for {frame}")

    with capture():
        draw = random.random  # as "from random import random" in a module that is imported later
        runs = Runs()
        for act in ("begin", "draw", "end"):
            runs.do(act, "a")
        draw()
        monkeypatch.setattr(SHARED, "come", counted)
        draw()
        monkeypatch.undo()
        for act in ("begin", "draw", "call", "end"):
            runs.do(act, "b")


@pytest.mark.parametrize("calls", [False, True])
def test_a_framework_s_own_spans_of_a_request_are_sent_only_with_a_run(calls: bool) -> None:
    """FastAPI makes them as soon as there is a provider, which may be ours."""
    with capture() as captured:
        fastapi = captured.provider.get_tracer("fastapi")

        async def answer(scope: Any) -> None:
            del scope
            fastapi.start_span("dependencies").end()
            if calls:
                say("x")
            fastapi.start_span("serialization").end()

        with fastapi.start_as_current_span("GET /chat"):
            ask(answer)
        spans = captured.spans
    names = sorted({span.name for span in spans})
    assert names == (["GET /chat", "dependencies", "execute_tool say", "serialization"] if calls else [])
    if calls:
        [root] = [span for span in spans if not span.parent_span_id]
        assert {span.parent_span_id for span in spans if span is not root} <= {span.span_id for span in spans}
