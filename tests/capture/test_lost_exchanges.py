"""A run says how many calls it made, so that a call whose span was lost on the way is noticed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable

import pytest

import freezeframe
from freezeframe.runs import process_root
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord


def missed(spans: Iterable[SpanRecord]) -> list[str]:
    return [gap.text.partition(" that")[0] for gap in build_run(spans).gaps if gap.kind is GapKind.EXCHANGES_LOST]


@freezeframe.tool
def look(item: str) -> str:
    return f"{item} is there"


@freezeframe.tool
def look_around() -> str:
    return look("what lies inside")


def in_turn() -> None:
    look("a")
    look_around()


def in_threads() -> None:
    threads = [threading.Thread(target=look, args=(item,)) for item in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_a_run_inside() -> None:
    look("a")
    freezeframe.run(name="inner")(look)("b")
    look("c")


@pytest.mark.parametrize("program", [in_turn, in_threads, in_a_run_inside])
def test_whichever_call_is_lost_it_is_missed(program: Callable[[], None]) -> None:
    with capture() as captured:
        freezeframe.run(program)()
    spans = captured.spans
    assert missed(spans) == []
    exchanges = [span for span in spans if genai.EXCHANGE_KIND in span.attributes]
    assert len(exchanges) == 3
    for lost in exchanges:
        others = [span for span in spans if span is not lost]
        assert missed(others) == ["1 of the 3 calls"]
        assert readiness(build_run(others)).level <= 2


def test_a_call_that_outlives_its_run_is_not_counted_as_lost() -> None:
    go_on, waiting = threading.Event(), threading.Event()

    @freezeframe.tool
    def slow() -> None:
        waiting.set()
        go_on.wait(300)

    def leaves_a_thread() -> None:
        look("a")
        threads.append(threading.Thread(target=slow))
        threads[0].start()
        waiting.wait(300)

    threads: list[threading.Thread] = []
    with capture() as captured:
        freezeframe.run(leaves_a_thread)()
        before = captured.spans
        go_on.set()
        threads[0].join()
    assert len(captured.spans) == len(before) + 1
    assert missed(before) == missed(captured.spans) == []


def test_two_runs_under_one_span_of_the_applications_count_what_both_made() -> None:
    with capture() as captured, captured.provider.get_tracer("app").start_as_current_span("request"):
        freezeframe.run(in_turn)()
        freezeframe.run(in_threads)()
    spans = captured.spans
    assert missed(spans) == []
    lost = next(span for span in spans if genai.EXCHANGE_KIND in span.attributes)
    assert missed(span for span in spans if span is not lost) == ["1 of the 6 calls"]


def test_a_scripts_first_calls_are_one_run_though_threads_make_them_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody = threading.Barrier(3)

    def slow_entry() -> EntryPoint:
        with contextlib.suppress(threading.BrokenBarrierError):
            everybody.wait(0.2)  # long enough for the others to get here as well, if they can
        return command_entry()

    command_entry = process_root.command_entry
    monkeypatch.setattr(process_root, "command_entry", slow_entry)
    monkeypatch.setattr(process_root, "is_script", lambda: True)
    monkeypatch.setattr(process_root, "SERVERS", frozenset())  # an earlier test may have loaded one
    with capture(root="auto") as captured:
        in_threads()
        captured.handle.uninstrument()
        spans = captured.spans
    assert len({span.trace_id for span in spans}) == 1
    assert len([span for span in spans if genai.EXCHANGE_KIND in span.attributes]) == 3
