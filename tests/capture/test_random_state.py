"""The state of `random`: recorded of a run that draws, also if it is killed, and of no other."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import is_pending
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord


@freezeframe.tool
def say(what: object) -> str:
    return str(what)


def record(agent: Callable[[], object]) -> list[SpanRecord]:
    """Return all that was sent, the pending span too."""
    with capture() as captured:
        freezeframe.run(agent)()
        return captured.sent


def told(spans: list[SpanRecord]) -> dict[str, str]:
    """Return what each span says of the state, by its kind."""
    return {
        "pending" if is_pending(span) else span.text(genai.EXCHANGE_KIND) or "entry": state
        for span in spans
        if (state := span.text(genai.ENTRY_RANDOM_STATE))
    }


def quiet() -> None:
    say("nothing")


def test_a_run_that_draws_nothing_says_so_in_place_of_a_state() -> None:
    spans = record(quiet)
    assert told(spans) == {"pending": genai.RANDOM_UNUSED, "entry": genai.RANDOM_UNUSED}
    assert "random_state" not in {item.field.name for item in readiness(build_run(spans)).missing}


def test_a_replay_of_such_a_run_draws_the_same_each_time_and_not_what_another_does() -> None:
    spans = record(quiet)
    others = [replace(span, trace_id="ab" * 16) for span in spans]
    states = [build_run(some).entry.random_state for some in (spans, spans, others)]
    assert states[0] == states[1] != states[2]
    version, words, gauss = json.loads(states[0] or "")
    random.Random().setstate((version, tuple(words), gauss))


def test_the_state_before_the_first_draw_is_kept_and_sent_with_the_next_call() -> None:
    def agent() -> None:
        say("before")
        random.random()
        say("after")
        say("later")

    state = json.dumps(random.getstate())
    spans = record(agent)
    assert told(spans) == {"pending": genai.RANDOM_UNUSED, "tool": state, "entry": state}
    assert sum(genai.ENTRY_RANDOM_STATE in span.attributes for span in spans) == 3
    assert build_run(spans).entry.random_state == state


def test_a_killed_run_that_drew_has_its_state() -> None:
    def agent() -> None:
        random.random()
        say("after")

    state = json.dumps(random.getstate())
    sent = [span for span in record(agent) if is_pending(span) or genai.EXCHANGE_KIND in span.attributes]
    run = build_run(sent)
    assert run.entry.unfinished
    assert run.entry.random_state == state


def test_a_state_that_something_else_changed_is_kept() -> None:
    """What drew is not known here: it may be code that the run called."""
    shared = vars(random)["_inst"]

    def agent() -> None:
        random.Random.random(shared)  # as code in C does, and a name that was imported before capture began

    state = json.dumps(random.getstate())
    assert told(record(agent))["entry"] == state


def test_reading_the_state_counts_as_drawing() -> None:
    state = json.dumps(random.getstate())
    assert told(record(lambda: random.getstate()))["entry"] == state
