"""Runs are built from their spans alone, and say by name what keeps them from being re-enacted."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from handmade_runs import TRACE, make_run, model_call, told, tool_call
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai, values
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.exchange import Exchange, Kind, Request
from freezeframe_schemas.gaps import CEILINGS, Gap, GapKind, gaps_to_json
from freezeframe_schemas.lifecycle import NO_PARENT, RunStatus
from freezeframe_schemas.run import (
    KIT,
    LEVELS,
    NO_EXCHANGES,
    NOT_VERIFIED,
    OPERATION_IN,
    Entry,
    EntryKind,
    KitField,
    KitScope,
    Readiness,
    build_run,
    readiness,
)
from freezeframe_schemas.span import AttributeValue, SpanRecord, StatusCode

RETRIEVAL = Exchange(
    kind=Kind.RETRIEVAL,
    name="orders",
    seam="decorator",
    request=Request(body=values.encode({"args": ["late"], "kwargs": {}}).encode()),
    response=tool_call("x", [{"id": "c1", "score": 0.5}]).response,
)
PINNED: Mapping[str, AttributeValue] = {genai.REQUEST_MODEL: "gpt-x", genai.PROVIDER_NAME: "openai"}
ENVIRONMENT: Mapping[str, AttributeValue] = {
    genai.VCS_REVISION: "0" * 40,
    genai.VCS_DIRTY: False,
    genai.RUNTIME_VERSION: "3.11.7",
    genai.PACKAGES: "{}",
    genai.TIMEZONE: "UTC",
}


def complete_run() -> list[SpanRecord]:
    """Return the spans of a run that carries all of the kit: a model call, a tool call, a retrieval."""
    entry, model, *others = make_run(model_call("where?", "here"), tool_call("lookup", {"id": 1}, "AC-1"), RETRIEVAL)
    entry = entry.with_attributes({genai.ENTRY_RANDOM_STATE: "[3, [], null]"})
    spans = [entry, model.with_attributes(PINNED), *others]
    return [replace(span, resource=replace(span.resource, attributes=ENVIRONMENT)) for span in spans]


def scope_of(span: SpanRecord) -> str:
    return KitScope.ENTRY if genai.ENTRY_KIND in span.attributes else str(span.attributes[genai.EXCHANGE_KIND])


def without(spans: list[SpanRecord], attributes: tuple[str, ...], scope: KitScope) -> list[SpanRecord]:
    """Return the spans with the attributes taken away wherever the kit asks for them."""
    if scope is KitScope.RESOURCE:
        return [replace(span, resource=replace(span.resource, attributes=less(ENVIRONMENT, attributes))) for span in spans]
    return [replace(span, attributes=less(span.attributes, attributes)) if scope_of(span) == scope else span for span in spans]


def less(attributes: Mapping[str, AttributeValue], names: tuple[str, ...]) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if name not in names}


def ready(spans: list[SpanRecord]) -> Readiness:
    return readiness(build_run(spans, verified=True))


def test_a_run_that_carries_the_whole_kit_can_be_hermetic() -> None:
    assert ready(complete_run()) == Readiness(level=6, missing=())


def test_a_run_whose_replay_nobody_saw_is_not_hermetic_and_says_so() -> None:
    """No reading of a recording sees everything that the run reached; what else it lacks comes first."""
    found = readiness(build_run(complete_run()))
    assert found == Readiness(level=5, missing=(), blocking=(NOT_VERIFIED,))
    assert found.means == "environment recorded, not verified"
    lacking = without(complete_run(), (genai.FLAGS,), KitScope.ENTRY)
    assert [readiness(build_run(lacking, verified=each)).blocking for each in (True, False)] == [("flags",)] * 2


@pytest.mark.parametrize("field", [field for field in KIT if field.scope not in OPERATION_IN], ids=lambda field: field.name)
def test_each_field_of_the_kit_is_missed_by_name(field: KitField) -> None:
    """One field broken by hand: the level falls below the field's, and the field is named with the spans that lack it."""
    attributes = field.attributes
    if genai.RESPONSE_BODY in attributes:  # chunk sizes without the chunks would be a contradiction, not a missing field
        attributes = (*attributes, genai.RESPONSE_CHUNK_SIZES)
    found = ready(without(complete_run(), attributes, field.scope))
    expected = {other.name for other in KIT if other.scope is field.scope and set(other.attributes) <= set(attributes)}
    assert {item.field.name for item in found.missing} == expected
    assert all(len(item.span_ids) == 1 for item in found.missing)
    assert found.level == field.level - 1
    assert found.cold == (field.level <= 3)


@pytest.mark.parametrize("attribute", [genai.REQUEST_BODY_OMITTED, genai.RESPONSE_BODY_OMITTED])
@pytest.mark.parametrize(("kind", "level"), [(Kind.MODEL, 2), (Kind.TOOL, 1), (Kind.RETRIEVAL, 1)])
def test_a_body_that_was_not_kept_makes_a_cold_case(kind: Kind, level: int, attribute: str) -> None:
    """The attribute is there but empty; the body is gone."""
    spans = [
        span.with_attributes({attribute: "over limit: 41943040 bytes"}) if scope_of(span) == kind else span
        for span in complete_run()
    ]
    found = ready(spans)
    assert (found.level, found.cold) == (level, True)
    assert len(build_run(spans).gaps) == 1


def test_a_run_without_exchanges_is_a_log() -> None:
    """Topology from another vendor shows the steps and re-enacts none of them."""
    found = ready(make_run())
    assert (found.level, found.cold, found.blocking) == (1, True, (NO_EXCHANGES,))


def test_a_foreign_run_with_the_input_and_output_of_its_tools_has_them_frozen() -> None:
    found = ready(told(complete_run()))
    assert (found.level, found.cold, found.blocking) == (2, True, (NO_EXCHANGES,))


@pytest.mark.parametrize("field", [field for field in KIT if field.scope in OPERATION_IN], ids=lambda field: field.name)
def test_a_foreign_run_is_a_log_if_input_or_output_of_a_tool_is_not_told(field: KitField) -> None:
    found = ready([replace(span, attributes=less(span.attributes, field.attributes)) for span in told(complete_run())])
    assert found.level == 1
    assert field.name in {item.field.name for item in found.missing}


def test_what_another_instrumentation_tells_beside_our_exchanges_does_not_decide() -> None:
    beside = [
        replace(span, span_id=f"f{span.span_id[1:]}", attributes={genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL})
        for span in complete_run()[1:]
    ]
    assert ready([*complete_run(), *beside]).level == 6


def test_tool_output_frozen_is_not_said_of_a_run_without_tools() -> None:
    spans = [span for span in complete_run() if scope_of(span) in (KitScope.ENTRY, KitScope.MODEL)]
    assert ready(spans).level == 6
    found = ready(without(spans, (genai.ENTRY_TARGET,), KitScope.ENTRY))
    assert (found.level, found.blocking) == (1, ("entry_point",))


@pytest.mark.parametrize("kind", GapKind)
def test_a_gap_that_was_seen_while_recording_bounds_the_level(kind: GapKind) -> None:
    seen = gaps_to_json([Gap(kind=kind, text="reads orders.csv (agent.py:41)", do="mark `load` with @freezeframe.tool")])
    entry, *others = complete_run()
    spans = [entry.with_attributes({genai.ENTRY_GAPS: seen}), *others]
    assert build_run(spans).gaps == (
        Gap(kind=kind, text="reads orders.csv (agent.py:41)", do="mark `load` with @freezeframe.tool"),
    )
    found = ready(spans)
    assert (found.level, found.blocking) == (CEILINGS[kind], (kind.value,))


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"kind": "file_read"}]', '{"kind": "x", "text": ""}', "null"])
def test_a_list_of_gaps_that_cannot_be_read_is_a_gap(text: str) -> None:
    entry, *others = complete_run()
    assert ready([entry.with_attributes({genai.ENTRY_GAPS: text}), *others]).blocking == (GapKind.UNSEEN.value,)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), KeyboardInterrupt("stop")])
def test_a_run_that_its_caller_ended_is_not_hermetic(error: BaseException) -> None:
    """A replay does not end it there: it may ask what the recording does not hold."""
    entry, *others = complete_run()
    spans = [entry.with_attributes({genai.ERROR_CHAIN: values.encode_exception(error)}), *others]
    assert ready(spans).blocking == (GapKind.CALLER_LEFT.value,)
    own = [entry.with_attributes({genai.ERROR_CHAIN: values.encode_exception(TimeoutError())}), *others]
    assert ready(own).blocking == ()


def test_a_span_that_was_not_read_in_time_keeps_a_run_from_being_re_enacted() -> None:
    """Except if no replay asks for that span."""
    entry, *others = complete_run()
    unread = {genai.REDACTION_UNREAD: "redaction took too long"}
    found = ready([entry.with_attributes(unread), *others])
    assert (found.level, found.blocking) == (2, (GapKind.UNREAD.value,))
    bystander = replace(entry, span_id="b" * 16, parent_span_id=entry.span_id, attributes=unread)
    assert ready([entry, *others, bystander]).blocking == (GapKind.ATTRIBUTES_DROPPED.value,)


def test_a_kind_of_gap_of_a_later_version_is_a_gap() -> None:
    entry, *others = complete_run()
    later = '[{"kind": "weather", "text": "it rained", "do": ""}]'
    (gap,) = build_run([entry.with_attributes({genai.ENTRY_GAPS: later}), *others]).gaps
    assert (gap.kind, gap.text) == (GapKind.UNSEEN, "it rained")


def test_a_gap_keeps_a_run_from_being_hermetic() -> None:
    spans = [replace(span, dropped_attributes_count=1) for span in complete_run()]
    assert ready(spans).level == 5


def test_every_level_has_a_name_and_every_field_a_level() -> None:
    assert {field.level for field in KIT} <= set(LEVELS)
    assert len({field.name for field in KIT}) == len(KIT)


@given(seed=st.integers(), twice=st.booleans())
def test_the_order_of_arrival_does_not_matter(seed: int, twice: bool) -> None:
    """Exporters send in batches, retry, and resend."""
    spans = complete_run()
    shuffled = spans * (2 if twice else 1)
    random.Random(seed).shuffle(shuffled)
    assert build_run(shuffled) == build_run(spans)


def test_exchanges_stand_in_the_order_of_issue_not_of_their_ends() -> None:
    late, early = model_call("second", "b"), model_call("first", "a")
    spans = make_run(late, early)
    spans[1] = spans[1].with_attributes({genai.EXCHANGE_SEQUENCE: 9})
    assert [exchange.request.body for exchange in build_run(spans).exchanges] == [early.request.body, late.request.body]


def test_a_call_inside_a_call_belongs_to_the_outermost() -> None:
    """A replay answers the outer call, so neither of the inner ones is asked for."""
    run = build_run(make_run(tool_call("outer", 1), tool_call("middle", 2), model_call("inner", "x"), inside={1: 0, 2: 1}))
    outer, middle, inner = (exchange.span_id for exchange in run.exchanges)
    assert run.enclosing == {middle: outer, inner: outer}


def test_the_entry_is_the_marked_span_wherever_it_hangs() -> None:
    """A web framework's server span is the root; the function marked by `freezeframe.run` is below it."""
    entry, *others = complete_run()
    server = replace(entry, span_id="f" * 16, name="POST /ask", attributes={}, start_time_unix_nano=0)
    run = build_run([server, replace(entry, parent_span_id=server.span_id), *others])
    assert (run.entry.name, run.entry.target) == ("answer", "agent:answer")


def test_the_root_is_the_entry_where_none_is_marked() -> None:
    spans = [replace(span, attributes={} if span.span_id == "e" * 16 else span.attributes) for span in complete_run()]
    run = build_run(spans)
    assert (run.entry.span_id, run.entry.kind) == ("e" * 16, None)


def test_an_orphan_is_told() -> None:
    """Its parent was sampled away, or has not arrived yet."""
    spans = [replace(span, parent_span_id="9" * 16) if span.name == "lookup" else span for span in complete_run()]
    (gap,) = build_run(spans).gaps
    assert "lookup" in gap.text
    assert "parent" in gap.text


def test_a_result_that_cannot_be_rebuilt_is_told() -> None:
    (gap,) = build_run(make_run(tool_call("connect", object()))).gaps
    assert "connect" in gap.text


def test_a_circle_of_parents_ends() -> None:
    """No one sends one on purpose; a reader must not hang on it."""
    first, second = make_run(tool_call("a", 1), tool_call("b", 2))[1:]
    run = build_run([replace(first, parent_span_id=second.span_id), replace(second, parent_span_id=first.span_id)])
    assert len(run.exchanges) == 2


def test_a_run_failed_where_its_entry_did() -> None:
    spans = complete_run()
    assert not build_run(spans).failed
    assert build_run([replace(spans[0], status_code=StatusCode.ERROR), *spans[1:]]).failed
    tool_failed = [replace(span, status_code=StatusCode.ERROR) if span.name == "lookup" else span for span in spans]
    assert not build_run(tool_failed).failed


@pytest.mark.parametrize("kind", EntryKind)
def test_only_a_command_and_a_program_are_whole_processes(kind: EntryKind) -> None:
    assert kind.is_called == (kind not in {EntryKind.COMMAND, EntryKind.PROGRAM})


@pytest.mark.parametrize(
    ("entry", "outcome", "failed"),
    [
        (Entry(), None, False),
        (Entry(kind=EntryKind.FUNCTION, output='{"exit": 1}'), '{"exit": 1}', False),
        (Entry(kind=EntryKind.FUNCTION, output="1", error="2"), "2", True),
        (Entry(kind=EntryKind.COMMAND), None, False),
        (Entry(kind=EntryKind.COMMAND, output='{"exit": 0}'), '{"exit": 0}', False),
        (Entry(kind=EntryKind.COMMAND, output='{"exit": 1}'), '{"exit": 1}', True),
        (Entry(kind=EntryKind.PROGRAM, output='{"exit": 12}'), '{"exit": 12}', True),
        (Entry(output='{"exit": 1}'), '{"exit": 1}', False),
    ],
)
def test_an_entry_fails_by_its_exception_and_a_process_by_its_exit_status(
    entry: Entry, outcome: str | None, failed: bool
) -> None:
    assert (entry.outcome, entry.failed) == (outcome, failed)


def test_a_replay_begins_with_the_first_random_state_that_was_drawn_from() -> None:
    entry, *others = complete_run()
    entry = entry.with_attributes({genai.ENTRY_RANDOM_STATE: genai.RANDOM_UNUSED})
    states = (genai.RANDOM_UNUSED, "[3, [1], null]", "[3, [2], null]")
    drew = [span.with_attributes({genai.ENTRY_RANDOM_STATE: state}) for span, state in zip(others, states, strict=True)]
    assert build_run([entry, *drew]).entry.random_state == "[3, [1], null]"
    assert build_run(complete_run()).entry.random_state == "[3, [], null]"


def test_the_random_state_of_a_run_that_drew_nothing_is_made_of_its_id() -> None:
    entry, *others = complete_run()
    run = build_run([entry.with_attributes({genai.ENTRY_RANDOM_STATE: genai.RANDOM_UNUSED}), *others])
    assert json.loads(run.entry.random_state or "") == json.loads(json.dumps(random.Random(TRACE).getstate()))


def test_the_run_is_known_by_its_trace() -> None:
    assert build_run(complete_run()).trace_id == TRACE


def pending(entry: SpanRecord) -> SpanRecord:
    """Return what stands for an entry span until it comes."""
    return replace(entry, span_id="f" * 16, parent_span_id=entry.span_id, attributes={genai.ENTRY_BEGUN: NO_PARENT})


def test_a_run_is_unfinished_until_its_entry_span_comes() -> None:
    entry, *calls = complete_run()
    begun = build_run([pending(entry), *calls])
    assert (begun.status, [gap.kind for gap in begun.gaps]) == (RunStatus.UNFINISHED, [GapKind.UNFINISHED])
    assert begun.entry.end_time_unix_nano == max(span.end_time_unix_nano for span in (entry, *calls))
    ended = build_run([pending(entry), entry, *calls])
    assert (ended.status, ended.gaps) == (RunStatus.OK, ())
    failed = build_run([replace(entry, status_code=StatusCode.ERROR), *calls])
    assert failed.status is RunStatus.FAILED


@pytest.mark.parametrize(("kind", "is_last"), [("function", False), (genai.ENTRY_PROMPT, True)])
def test_a_finished_run_ends_with_its_entry_point_and_a_prompt_with_its_last_span(kind: str, is_last: bool) -> None:
    entry, *calls = complete_run()
    late = replace(calls[-1], end_time_unix_nano=entry.end_time_unix_nano + 5)
    run = build_run([entry.with_attributes({genai.ENTRY_KIND: kind}), *calls[:-1], late])
    assert run.entry.end_time_unix_nano == entry.end_time_unix_nano + (5 if is_last else 0)


@pytest.mark.parametrize(("made", "text"), [(2, None), (3, None), (4, "1 of the 4 calls that the run made are missing")])
def test_calls_that_the_run_made_and_that_are_missing_are_counted(made: int, text: str | None) -> None:
    entry, *calls = complete_run()
    gaps = build_run([entry.with_attributes({genai.ENTRY_EXCHANGES: made}), *calls]).gaps
    assert [(gap.kind, gap.text.partition(":")[0]) for gap in gaps] == ([(GapKind.EXCHANGES_LOST, text)] if text else [])


def test_the_spans_of_several_traces_are_no_run() -> None:
    spans = [replace(span, trace_id=f"{number}" * 32) for number, span in enumerate([*complete_run(), complete_run()[0]])]
    found = f"found 5: {', '.join(f'{number}' * 32 for number in range(3))}$"
    with pytest.raises(RunError, match=found):
        build_run(spans)
    with pytest.raises(RunError, match="found 0: none"):
        build_run([])
