"""What is read out of a run is kept for the next page of the same run, and for no other."""

from __future__ import annotations

from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.report.reading import LastReading
from freezeframe_replay.report.transcript import make_transcript
from freezeframe_replay.web.run_pages import TABS, run_page
from freezeframe_schemas.run import build_run


def test_the_reading_of_the_last_run_is_kept() -> None:
    """Until another run, or the same one read anew, is looked at."""
    spans = make_run(model_call("hi", "hello"), tool_call("track", 1))
    run, anew, last = build_run(spans), build_run(spans), LastReading()
    first = last.of(run)
    assert last.of(run) is first
    assert last.of(anew) is not first
    assert first.outline == outline_run(run)
    assert first.transcript == make_transcript(run)


def test_a_page_is_the_same_with_a_kept_transcript() -> None:
    reading = LastReading().of(build_run(make_run(model_call("hi", "hello"), tool_call("track", 1))))
    for tab in TABS:
        kept = run_page(reading.run, reading.outline, tab=tab, transcript=reading.transcript)
        assert kept == run_page(reading.run, reading.outline, tab=tab)
