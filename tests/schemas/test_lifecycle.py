"""Pending spans: what a run looks like before its entry span comes, and after."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import (
    NO_PARENT,
    RunStatus,
    is_pending,
    replace_pending,
    status_of,
    status_sql,
    unfinished_entries,
)
from freezeframe_schemas.span import SpanRecord


def entry_span(number: int, parent: int | None) -> SpanRecord:
    return SpanRecord(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_span_id="" if parent is None else f"{parent:016x}",
        name=f"entry {number}",
        start_time_unix_nano=number,
        end_time_unix_nano=number + 1,
    )


def pending(span: SpanRecord) -> SpanRecord:
    """Return what goes out when the entry point of a span begins."""
    own = f"{int(span.span_id, 16) + 100:016x}"
    begun = {genai.ENTRY_BEGUN: span.parent_span_id or NO_PARENT}
    return replace(span, span_id=own, parent_span_id=span.span_id, attributes=begun)


@given(data=st.data(), began=st.dictionaries(st.integers(1, 9), st.none() | st.integers(10, 12), max_size=5))
def test_each_entry_point_has_one_span_and_it_is_pending_only_where_no_end_came(
    data: st.DataObject, began: dict[int, int | None]
) -> None:
    """Whatever the order of arrival, and where the pending span was lost too."""
    ended = {number: data.draw(st.booleans()) for number in began}
    both = {number: data.draw(st.booleans()) for number in began}
    spans = {number: entry_span(number, parent) for number, parent in began.items()}
    received = [span for number, span in spans.items() if ended[number]]
    received += [pending(span) for number, span in spans.items() if both[number] or not ended[number]]
    settled = replace_pending(iter(data.draw(st.permutations(received))))
    found = {span.span_id: span for span in settled}
    assert len(settled) == len(found) == len(began)
    for number, span in spans.items():
        assert is_pending(found[span.span_id]) is not ended[number]
        assert replace(found[span.span_id], attributes={}) == span
    assert unfinished_entries(settled) == {span.span_id for number, span in spans.items() if not ended[number]}


def test_a_pending_span_that_does_not_name_the_parent_of_its_entry_span_stands_for_one_without() -> None:
    [settled] = replace_pending([replace(pending(entry_span(1, 5)), attributes={genai.ENTRY_BEGUN: ""})])
    assert settled.parent_span_id == ""


def test_a_run_without_an_end_is_unfinished_whether_it_failed_or_not() -> None:
    assert [
        status_of(unfinished=unfinished, failed=failed, output=output)
        for unfinished in (True, False)
        for failed in (True, False)
        for output in ('{"exit": null, "stdout": "x"}', '{"stdout": "x"}')
    ] == [
        *[RunStatus.UNFINISHED] * 4,
        *[RunStatus.FAILED] * 2,
        RunStatus.ENDED,
        RunStatus.OK,
    ]
    assert status_sql(unfinished="u", failed="f", output="o") == (
        "multiIf(u, 'unfinished', f, 'error', startsWith(o, '{\"exit\": null, \"stdout\"'), 'ended', 'ok')"
    )
    assert [status.word for status in RunStatus] == ["ok", "failed", "ended", "unfinished"]
