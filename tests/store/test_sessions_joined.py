"""What a coding agent's log records say of one call, where only their times tell (rule 4 of `calls`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from freezeframe_collector.store.calls import CallReport, calls_of_run
from freezeframe_schemas.tables.columns import REPORTED_COLUMNS

MS = 1_000_000
NOTHING = {column.name: None if column.type.startswith(("Nullable", "Array")) else "" for column in REPORTED_COLUMNS}


def record(
    name: str, at_ms: int, *, took_ms: int = 0, tokens: int | None = None, failed: bool = False, **values: Any
) -> CallReport:
    """Return a record that was written at a time, and tells of something that took so long."""
    reports_call = tokens is not None or failed
    started_ns, ended_ns = (at_ms - took_ms) * MS, at_ms * MS
    own = {
        "span_id": f"{name} {at_ms}",
        "trace_id": "session",
        "name": f"codex.{name}",
        "status": "Error" if failed else "Unset",
        "start_time": started_ns,
        "ms": took_ms,
        "input_tokens": tokens,
        "output_tokens": tokens,
    }
    return CallReport(
        values={**NOTHING, **own, **values},
        scope="codex",
        is_event=not reports_call,
        reports_call=reports_call,
        started_ns=started_ns,
        ended_ns=ended_ns,
    )


def request(at_ms: int, took_ms: int = 0, asked: str = "") -> CallReport:
    return record("request", at_ms, took_ms=took_ms, request_model="m", input_preview=asked)


def joined(records: Sequence[CallReport]) -> list[tuple[int | None, float, str]]:
    """Return tokens, milliseconds and question of each call, by their beginning; in whatever order the records come."""
    found, backwards = calls_of_run(records), calls_of_run(records[::-1])
    assert sorted(call.place for call, _ in found) == sorted(call.place for call, _ in backwards)
    told = sorted((values for _, values in found), key=lambda values: values["start_time"])
    assert told == sorted((values for _, values in backwards), key=lambda values: values["start_time"])
    return [(values["input_tokens"], values["ms"], values["input_preview"]) for values in told]


def test_an_answer_without_a_time_ends_the_last_request() -> None:
    """A request that was interrupted has no answer, is no call, and lends none its time."""
    assert joined([request(100, 40), request(1000, 30), record("answer", 2000, tokens=7)]) == [(7, 1030, "")]


def test_an_answer_that_says_when_it_began_takes_the_request_of_that_time() -> None:
    """Two at once: each has its own question, though the second ends first."""
    records = [
        request(100, asked="first"),
        request(400, asked="second"),
        record("answer", 900, took_ms=495, tokens=2),
        record("answer", 3000, took_ms=2895, tokens=1),
    ]
    assert joined(records) == [(1, 2900, "first"), (2, 500, "second")]


def test_a_failure_that_is_a_request_itself_takes_no_other_request() -> None:
    records = [request(500, 480), record("request", 520, took_ms=490, failed=True), record("answer", 900, tokens=3)]
    assert joined(records) == [(3, 880, ""), (None, 490, "")]


def test_a_prompt_is_what_the_first_call_after_it_was_asked() -> None:
    """Not what a call was asked that was under way; of two prompts before a call, the last."""
    records = [
        record("answer", 1000, took_ms=900, tokens=1),
        record("user_prompt", 500, input_preview="one"),
        record("user_prompt", 1100, input_preview="two"),
        record("answer", 2000, took_ms=800, tokens=2),
        record("answer", 3000, took_ms=800, tokens=3),
    ]
    assert joined(records) == [(1, 900, ""), (2, 800, "two"), (3, 800, "")]


@pytest.mark.parametrize("written_first", [True, False])
def test_the_text_of_an_answer_is_found_by_its_response_id(written_first: bool) -> None:
    text = record("assistant_response", 1999 if written_first else 2001, output_preview="hello", response_id="r2")
    records = [record("answer", 1000 * n, took_ms=10, tokens=n, response_id=f"r{n}") for n in (1, 2, 3)]
    [told] = [values for _, values in calls_of_run([*records, text]) if values["output_preview"]]
    assert (told["response_id"], told["output_preview"]) == ("r2", "hello")
