"""What `show` and the page say about a run, from spans built by hand."""

from __future__ import annotations

import datetime as dt
import gzip
from dataclasses import replace
from typing import Any

import pytest
from handmade_runs import make_run, model_call, tool_call
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.operations.failures import failures_text
from freezeframe_replay.operations.runs import runs_text
from freezeframe_replay.report.characters import JOINERS, columns, first_of
from freezeframe_replay.report.outline import outline_fixture, outline_run
from freezeframe_replay.report.render import WIDTH, outline_text, printable, short, table_text, tree_text
from freezeframe_replay.report.tagged import call_text, error_text, input_text, outcome_text
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_replay.sources.run_list import RunPage
from freezeframe_replay.sources.store import RunRow
from freezeframe_replay.web.markup import script
from freezeframe_replay.web.run_pages import TABS, run_page
from freezeframe_replay.web.step_pages import find_step, step_page
from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Response
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord, StatusCode

HOSTILE = "\x1b[2J</pre><script>alert(1)</script>\r\n\u202e"


def lookup_run() -> list[SpanRecord]:
    """A model call, a tool with an HTTP call inside, an answer."""
    spans = make_run(
        model_call("where is it?", "call track"),
        tool_call("track", {"place": "Lyon"}, order="AC-1"),
        model_call("which place?", "Lyon"),
        model_call("it is in Lyon", "Lyon", lane=(0, 2)),
        inside={2: 1},
    )
    first = spans[1].with_attributes(
        {genai.REQUEST_MODEL: "gpt-x", genai.USAGE_INPUT_TOKENS: 1204, genai.USAGE_OUTPUT_TOKENS: 33}
    )
    return [spans[0], first, *spans[2:]]


def test_the_tree_shows_steps_status_tokens_and_lanes() -> None:
    """The whole text, as a user sees it. Steps are numbered as the replay's report numbers them."""
    shown = outline_text(outline_run(build_run(lookup_run())))
    assert (
        shown
        == """\
run           abababababababababababababababab  ok
started       1970-01-01 00:00:01Z, took 99.00 s
entry         agent:answer  (function)
input         answer("where is it?")
outcome       returned "here"
python        3.11.7
time zone     UTC

step  kind   name                                   time  status  tokens      lane
      run    answer                              99.00 s  ok
   1  model    POST /v1/chat/completions  gpt-x   1.00 s  200     1,204 > 33  root
   2  tool     track(order="AC-1")                1.00 s  ok                  root
   3  model      POST /v1/chat/completions        1.00 s  200     unknown     in step 2
   4  model    POST /v1/chat/completions          1.00 s  200     unknown     task 1

ready         L3, completions frozen
  carries L2  tool_request, tool_response
  carries L3  model_request, model_response, model_chunks, model_completion, entry_point, entry_input
  carries L4  endpoint
  carries L5  python_version, time_zone, environment, flags
  lacks L4    model_requested (model id asked for), 1 of 3 spans have it
  lacks L4    provider (who was asked), 0 of 3 spans have it
  lacks L5    commit (commit of the agent's code), 0 of 1 spans have it
  lacks L5    commit_dirty (whether the code differed from the commit), 0 of 1 spans have it
  lacks L5    package_versions (versions of SDKs and frameworks), 0 of 1 spans have it
  lacks L5    random_state (state of `random` at entry), 0 of 1 spans have it"""
    )


def test_tokens_that_nobody_counted_are_unknown_and_not_zero() -> None:
    """In a run where others are known; a call that failed took none, and a call of a tool has none."""
    failed = replace(model_call("x", "y"), response=Response(status=429))
    spans = make_run(model_call("a", "b"), model_call("c", "d"), failed, tool_call("track", 1))
    counted = {genai.USAGE_INPUT_TOKENS: 12, genai.USAGE_OUTPUT_TOKENS: 3}
    run = build_run([spans[0], spans[1].with_attributes(counted), *spans[2:]])
    outline = outline_run(run)
    tokens = [("12 > 3" in line, "unknown" in line) for line in tree_text(outline.nodes).splitlines()[2:]]
    assert tokens == [(True, False), (False, True), (False, False), (False, False)]
    page = run_page(run, outline)
    assert page.count("<span>tokens unknown</span>") == 1
    assert "<dd>12 → 3, and of 1 call unknown</dd>" in page
    assert "unknown" not in tree_text(outline_run(build_run([spans[0], *spans[2:]])).nodes)


def test_a_list_of_runs_has_no_tokens_without_a_model_and_unknown_ones_where_nobody_counted() -> None:
    """As the page does."""
    fields: dict[str, Any] = dict.fromkeys(RunRow.__dataclass_fields__, "")
    fields |= dict.fromkeys(("spans", "exchanges", "steps", "tool_calls", "errors", "level", "ms", "model_calls"), 0)
    fields |= {"status": "ok", "start_time": dt.datetime(2026, 11, 24, tzinfo=dt.UTC)}
    counts: tuple[dict[str, Any], ...] = ({"input_tokens": 12, "output_tokens": 3}, {"model_calls": 1}, {})
    rows: list[dict[str, Any]] = [{**fields, "input_tokens": 0, "output_tokens": 0, **count} for count in counts]
    page = RunPage(rows=[RunRow(**row) for row in rows])
    lines = runs_text(page, width=WIDTH).splitlines()[1:]
    assert [("12 > 3" in line, "unknown" in line, "0 > 0" in line) for line in lines] == [
        (True, False, False),
        (False, True, False),
        (False, False, False),
    ]


def test_a_fixture_shows_the_same_steps_as_its_run() -> None:
    """Numbers, names, lanes and nesting survive being written to files."""
    run = build_run(lookup_run())
    from_run = [node for node in outline_run(run).nodes if node.step is not None]
    from_fixture = outline_fixture(freeze(run)).nodes
    assert [(n.step, n.kind, n.name, n.lane, n.inside, n.status) for n in from_run] == [
        (n.step, n.kind, n.name, n.lane, n.inside, n.status) for n in from_fixture
    ]


def test_full_shows_what_was_asked_and_answered() -> None:
    """Each exchange is followed by its request and its response."""
    shown = outline_text(outline_run(build_run(lookup_run()), full=True), full=True)
    assert '        > {"model":"gpt-x","messages":[{"role":"user","content":"where is it?"}]}' in shown
    assert '        < {"place": "Lyon"}' in shown


def test_a_compressed_body_is_shown_as_it_reads() -> None:
    """The recording keeps the wire's bytes; a user wants the text, and is told if there is none."""
    packed, broken = model_call("hi", ""), model_call("hi", "")
    gzipped = Chunk(data=gzip.compress(b'{"answer": "Lyon"}'))
    packed = replace(packed, response=Response(status=200, headers=(("content-encoding", "gzip"),), chunks=(gzipped,)))
    broken = replace(broken, response=Response(status=200, chunks=(gzipped,)))
    _, first, second = outline_run(build_run(make_run(packed, broken)), full=True).nodes
    assert first.response == '{"answer": "Lyon"}'
    assert "bytes that are not text" in (second.response or "")


def test_a_run_without_exchanges_is_a_cold_case() -> None:
    """Topology alone can be looked at, not re-enacted, and the fields to add are named."""
    entry = replace(lookup_run()[0], attributes={})
    outline = outline_run(build_run([entry]))
    assert outline.cold
    assert "ready         L1, steps logged: a cold case, it cannot be re-enacted" in outline_text(outline)
    assert {"entry_point", "entry_input"} <= set(outline.missing)


def test_what_another_instrumentation_tells_is_shown() -> None:
    """Its spans are named after what they report; in full, the outline has the messages and results that they carry."""
    entry, first, second, *_ = (replace(span, attributes={}) for span in lookup_run())
    told = [
        entry,
        first.with_attributes(
            {genai.OPERATION_NAME: genai.OP_CHAT, genai.INPUT_MESSAGES: '[{"role":"user"}]', genai.OUTPUT_MESSAGES: "[]"}
        ),
        second.with_attributes({genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL, genai.TOOL_CALL_RESULT: '"Lyon"'}),
    ]
    nodes = outline_run(build_run(told), full=True).nodes
    assert [(node.kind, node.step) for node in nodes] == [("run", None), ("model", None), ("tool", None)]
    assert [(node.request, node.response) for node in nodes] == [(None, None), ('[{"role":"user"}]', "[]"), (None, '"Lyon"')]
    assert outline_run(build_run(told)).nodes[1].request is None


def test_spans_that_name_each_other_as_parents_are_still_shown() -> None:
    """A broken tree loses no span, and ends."""
    entry, first, second, *_ = lookup_run()
    ring = [replace(first, parent_span_id=second.span_id), replace(second, parent_span_id=first.span_id)]
    nodes = outline_run(build_run([entry, *ring])).nodes
    assert {node.span_id for node in nodes} == {entry.span_id, first.span_id, second.span_id}


def test_a_failed_step_is_marked() -> None:
    """A 429 and a tool that raised stand out, with status or class."""
    refused = model_call("hi", "")
    refused = replace(refused, response=replace(refused.response, status=429))
    broken = replace(tool_call("track", None), error=values.encode_exception(KeyError("AC-1")))
    spans = make_run(refused, broken)
    spans[0] = replace(spans[0], status_code=StatusCode.ERROR)
    outline = outline_run(build_run(spans))
    assert outline.status is RunStatus.FAILED
    assert [node.status for node in outline.nodes if node.failed][1:] == ["429", "KeyError"]


@pytest.mark.parametrize(
    ("preview", "shown"),
    [
        ('{"args": [], "kwargs": {"question": "Where is…', 'question="Where is…'),
        ('{"args":["Where is my order", 3],"kwar…', '"Where is my order", 3…'),
        ('{"args":["Where is my order"], "kwargs": {…', '"Where is my order"…'),
        ('{"args": [], "kwargs": {"question": "Where?", "user": "u1"}}', 'question="Where?", user="u1"'),
        ('Where is {"args": [] in my ord…', 'Where is {"args": [] in my ord…'),
        ("", ""),
    ],
)
def test_a_preview_of_an_input_reads_as_a_call(preview: str, shown: str) -> None:
    """A cut one, which is not JSON, loses its envelope as well: a list has room for few words."""
    assert input_text(preview) == shown


def test_outcomes_read_as_a_person_would_say_them() -> None:
    """Tags of the encoding are not shown."""
    assert outcome_text(values.encode(("a", 1))) == 'returned ["a", 1]'
    assert outcome_text(values.encode_exception(ValueError("no order"))) == "raised ValueError: no order"
    assert outcome_text(None) == "not recorded"
    assert outcome_text(values.encode({"yields": ["Your ", "order"], "return": None})) == 'yielded "Your order"'
    assert outcome_text(values.encode({"yields": [1], "return": 2})) == "yielded [1], then returned 2"
    assert outcome_text(values.encode_exception(ValueError("x"), ["a", "b"])) == 'yielded "ab", then raised ValueError: x'
    assert outcome_text('{"status": 200, "yields": ["a", "b"]}') == 'returned {"status": 200, "yields": "ab"}'
    assert error_text(values.encode("fine")) == ""
    assert call_text("f", values.encode({"args": [1, None], "kwargs": {"at": b"x"}})) == 'f(1, null, at="eA==")'
    assert call_text("", '{"argv": ["agent.py", "--fast"], "env": {}}') == "agent.py --fast"


def test_nothing_recorded_steers_the_terminal_or_the_page() -> None:
    """Escape codes, line ends, direction marks and tags arrive as text, wherever they are in the run."""
    spans = make_run(tool_call(HOSTILE, HOSTILE, HOSTILE), question=HOSTILE, answer=HOSTILE)
    spans[0] = spans[0].with_attributes({genai.USER_ID: HOSTILE, genai.ENTRY_TARGET: HOSTILE})
    spans[1] = replace(spans[1], name=HOSTILE, dropped_attributes_count=1)
    run = build_run(spans)
    outline = outline_run(run, full=True)
    text = outline_text(outline, full=True)
    assert all(char.isprintable() or char == "\n" for char in text)
    step = find_step(outline, "1")
    assert step is not None
    for page in (*(run_page(run, outline, tab=tab) for tab in TABS), step_page(run, outline, step, {})):
        assert "<script" not in page.replace(f"<script>{script()}</script>", "", 1)
        assert not {"\x1b", "\u202e", "\r"}.intersection(page)


@given(st.text())
def test_printable_text_is_one_line_and_harmless(text: str) -> None:
    """For any text: one printable line, and nothing changed that need not be."""
    shown = printable(text)
    assert shown.translate(dict.fromkeys(map(ord, JOINERS))).isprintable()
    assert columns(short(text, 40)) <= 40
    if text.isprintable():
        assert shown == text


WHOLE = ("👩\u200d🚀", "🇫🇷", "👍🏽", "e\u0301", "❤\ufe0f", "कि", "日")


@pytest.mark.parametrize("one", WHOLE)
def test_a_character_of_several_code_points_stays_whole_wherever_a_text_is_cut(one: str) -> None:
    """An emoji that is joined of two, a flag, a tone, a letter with marks: shown as recorded, cut before or after."""
    text = one * 100
    assert printable(text) == text
    cuts = [first_of(text, width) for width in range(len(text))]
    cuts += [part for width in range(12, 100) for part in short(text, width).split(" ... ")]
    assert {part for cut in cuts for part in cut.split(one)} == {""}


def test_joiners_that_join_nothing_are_shown_as_escapes() -> None:
    """Between letters of ASCII, or in a row, they only hide what a text is."""
    assert printable("pay\u200dpal a\u200c \u200d🚀 🚀\u200d\u200d🚀 می\u200cخ") == (
        "pay\\u200dpal a\\u200c \\u200d🚀 🚀\\u200d\\u200d🚀 می\u200cخ"
    )


def test_a_table_counts_the_columns_that_wide_characters_take() -> None:
    """Two each, as a terminal shows them, so that the next column is straight."""
    assert table_text(("name", "n"), [("日本", "1"), ("👩\u200d🚀", "2"), ("abcd", "3")], right=(1,)) == (
        "name  n\n日本  1\n👩\u200d🚀    2\nabcd  3"
    )


def test_a_table_aligns_numbers_right_and_cuts_long_cells() -> None:
    """The form of every list that the command line prints."""
    assert table_text(("name", "n"), [("a", "1"), ("bbbbbbbbbbbb", "200")], right=(1,), cell_width=9) == (
        "name         n\na            1\nb ... bbb  200"
    )


@given(st.lists(st.tuples(*[st.text(max_size=90)] * 4), min_size=1, max_size=4), st.integers(60, 120))
def test_a_table_has_its_width_whatever_its_cells_hold(rows: list[tuple[str, ...]], width: int) -> None:
    """Of 12 columns for the id, and as many texts as may be cut: the id stays whole."""
    text = table_text(("run", "a", "b", "c", "d"), [("0123456789ab", *row) for row in rows], cut=(3, 1, 2, 4), width=width)
    lines = text.splitlines()
    assert max(map(columns, lines)) <= width
    assert all(line.startswith("0123456789ab") for line in lines[1:])


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_message_of_a_failure_is_cut_to_the_width_of_the_table(width: int) -> None:
    fields: dict[str, Any] = dict.fromkeys(FailureGroup.__dataclass_fields__, "")
    fields |= {"message": "no " * 60, "last": dt.datetime(2026, 11, 24, tzinfo=dt.UTC)}
    assert max(map(columns, failures_text([FailureGroup(**fields)], {}, width=width).splitlines())) <= width


NARROW = [
    (92, False, "   1  model    POST /v1/chat/completions  gpt-x   1.00 s  200     1,204 > 33  root"),
    (76, False, "   1  model    POST /v1/chat/completions  gpt-x   1.00 s  200     1,204 > 33"),
    (66, False, "   1  model    POST /v1/chat/completions  gpt-x   1.00 s  200"),
    (58, False, "   1  model    POST /v1/cha ... ns  gpt-x   1.00 s  200"),
    (76, True, "   1  model    POST /v1/chat/completions  gpt-x   1.00 s  200     root"),
]


@pytest.mark.parametrize(("width", "lanes", "line"), NARROW)
def test_a_narrow_terminal_leaves_out_what_can_be_missed_before_it_cuts_names(width: int, lanes: bool, line: str) -> None:
    """First the lane, if there is only one, then tokens; time and status stay, and no line is wider than the terminal."""
    nodes = outline_run(build_run(lookup_run())).nodes
    shown = tree_text([node if lanes else replace(node, lane="root") for node in nodes], width=width).splitlines()
    assert max(map(len, shown)) <= width
    assert line in shown
