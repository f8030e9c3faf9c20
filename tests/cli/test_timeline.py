"""The waterfall of a run: bars at their times, first chunks, retries joined, and failures seen from above."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.web.markup import Links
from freezeframe_replay.web.run_pages import FAILED, timeline
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Exchange
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord


def shown(spans: list[SpanRecord], *, only: str = "") -> dict[str, Any]:
    run = build_run(spans)
    return timeline(run, outline_run(run), Links(run), 1, only=only)


def streamed(after_s: float) -> Exchange:
    """Return a model call whose answer came in two chunks, the first after some seconds."""
    call = model_call("Where?", "In Lyon.")
    (whole,) = call.response.chunks
    chunks = (Chunk(data=whole.data[:9], offset_ns=int(after_s * 1e9)), Chunk(data=whole.data[9:], offset_ns=900_000_000))
    return replace(call, response=replace(call.response, chunks=chunks))


def test_the_wait_for_the_first_chunk_is_a_part_of_the_bar() -> None:
    """A run of 99 s is drawn 1000 wide: half a second is 5."""
    rows = shown(make_run(streamed(0.5), tool_call("track", 1)))["rows"]
    assert [(row["bar"]["waited"], row["bar"]["first"]) for row in rows] == [("", ""), ("5", "500 ms"), ("", "")]
    assert rows[0]["bar"] == {"x": "0", "width": "1000", "waited": "", "first": "", "mark": "run"}


def test_a_retry_is_joined_to_the_attempt_before_it() -> None:
    """By its count of sendings; another call of the same address is none."""
    spans = make_run(*(model_call("Where?", "In Lyon.") for _ in range(3)))
    again = replace(spans[2], attributes={**spans[2].attributes, genai.HTTP_REQUEST_RESEND_COUNT: 1})
    rows = shown([*spans[:2], again, spans[3]])["rows"]
    assert [str(row["node"].attempt or "") for row in rows] == ["", "attempt 1 of 2", "attempt 2 of 2", ""]
    assert rows[2]["joined"]["x"] == f"{float(rows[1]['bar']['x']) + float(rows[1]['bar']['width']):.0f}"


def test_what_is_above_a_failed_call_says_so() -> None:
    """The outer tool caught it; the tool beside them knows nothing of it."""
    inner = replace(tool_call("inner", 2), error=values.encode_exception(LookupError("lost")))
    found = make_run(tool_call("outer", 1), inner, tool_call("beside", 3), inside={1: 0})
    rows = shown(found)["rows"]
    names = {row["node"].name for row in rows if row["above_failed"]}
    assert names >= {"outer"} and not names & {"inner", "beside"}
    assert [row["node"].name for row in shown(found, only=FAILED)["rows"]] == ["inner"]
    assert [item["count"] for item in shown(found)["filters"] if item["name"] in ("tool", FAILED)] == [3, 1]
