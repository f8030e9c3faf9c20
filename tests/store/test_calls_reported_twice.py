"""Model calls that other instrumentations report, compared with what the provider really answered: each counts once.

The golden file says, for each recorded scenario, what differs from the truth, how many tool calls are reported, and by which
agents; ``docs/other-instrumentations.md`` is made from it. To accept a change: delete it, run the test, which writes it and
fails once, and read the difference as code.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from freezeframe_collector.store import Store
from freezeframe_collector.store import store as store_module
from freezeframe_collector.store.retention import Retention, expire, pin
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.otlp.decode import Limits, decode_traces
from freezeframe_schemas.otlp.logs import decode_json_logs, decode_logs
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanRecord
from freezeframe_schemas.vendors.normalise import normalise

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "data" / "otlp"
GOLDEN = TESTS / "golden" / "calls.json"
SCENARIOS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
TRUTH: dict[str, list[tuple[str, str, int, int, *tuple[float, ...]]]] = json.loads((RECORDED / "truth.json").read_text())
"""For each conversation: model asked for, model that answered, tokens in and out of every call; what it cost, if tokens were
cached or the sender says it."""
DATABASE = "reported_calls"
PRICES = {"gpt-4o-mini": (0.15, 0.6), "gpt-4o": (2.5, 10), "claude-sonnet-4": (3, 15), "gemini-2.5-flash": (0.3, 2.5)}


def truth_of(scenario: str) -> list[tuple[str, str, int, int, *tuple[float, ...]]]:
    client, api, _ = scenario.split("-")
    return TRUTH.get(f"{client}-{api}") or TRUTH[api]


def cost_of(calls: list[tuple[str, str, int, int, *tuple[float, ...]]]) -> float:
    usd = 0.0
    for asked, _, tokens_in, tokens_out, *said in calls:
        if said:
            usd += said[0]
            continue
        price = PRICES.get(max((name for name in PRICES if asked.startswith(name)), key=len, default=""), (0, 0))
        usd += (tokens_in * price[0] + tokens_out * price[1]) / 1e6
    return round(usd, 9)


def decoded_batches(scenario: str) -> Iterable[list[SpanRecord]]:
    """Yield what was sent, request by request."""
    for path in sorted((RECORDED / scenario).iterdir()):
        body = path.read_bytes()
        if path.name.endswith(".traces.pb"):
            spans = decode_traces(body).spans
        else:
            decode = decode_logs if path.suffix == ".pb" else decode_json_logs
            spans = decode(body, Limits()).events.spans
        yield [normalise(span) for span in spans]


@pytest.fixture(scope="module")
def stored(store: Store) -> Iterator[tuple[Store, dict[str, str]]]:
    """Put every recorded scenario into a database, all first requests, then the second ones; return each trace's scenario."""
    made = Store(store.engine, database=DATABASE)
    made.migrate()
    scenario_of: dict[str, str] = {}
    batches: dict[int, list[SpanRecord]] = defaultdict(list)
    for scenario in SCENARIOS:
        for number, spans in enumerate(decoded_batches(scenario)):
            batches[number] += spans
            scenario_of |= {span.trace_id: scenario for span in spans}
    for number, spans in batches.items():
        made.insert(spans, token=f"{number}")
    yield made, scenario_of
    store.engine.command(f"DROP DATABASE {DATABASE}")


@pytest.mark.proof
def test_each_call_of_a_model_counts_once_and_what_is_lost_of_it_is_written_down(stored: tuple[Store, dict[str, str]]) -> None:
    """An SDK's span, a framework's around it or in another trace, and a log record: calls, tokens and dollars count once."""
    store, scenario_of = stored
    _, rows = store.query(
        "SELECT trace_id, model_requested, model_answered, ifNull(input_tokens, 0), ifNull(output_tokens, 0), cost_usd,"
        f" request != '', response != '', notEmpty(finish_reasons), status FROM {DATABASE}.model_calls ORDER BY start_time"
    )
    calls: dict[str, list[Any]] = defaultdict(list)
    for trace_id, *row in rows:
        calls[scenario_of[trace_id]].append(row)
    _, runs = store.query(f"SELECT trace_id, tool_calls, agent FROM {DATABASE}.runs ORDER BY trace_id")
    found = {
        scenario: {
            "lost": _lost(calls[scenario], truth_of(scenario)),
            "tools": sum(row[1] for row in runs if scenario_of[row[0]] == scenario),
            "agents": sorted({row[2] for row in runs if scenario_of[row[0]] == scenario and row[2]}),
        }
        for scenario in SCENARIOS
    }
    if not GOLDEN.exists():
        GOLDEN.write_text(json.dumps(found, indent=1) + "\n")
        pytest.fail("wrote the golden file")
    assert found == json.loads(GOLDEN.read_text())


def _lost(found: list[Any], truth: list[tuple[str, str, int, int, *tuple[float, ...]]]) -> list[str]:
    """Return what differs from the real calls, by name."""
    if len(found) != len(truth):
        return [f"{len(found)} calls of {len(truth)}"]
    ok = [row for row in found if row[-1] == "ok"]
    checks = {
        "model_requested": [row[0] for row in found] == [call[0] for call in truth],
        "model_answered": [row[1] for row in found] == [call[1] for call in truth],
        "tokens": [row[2:4] for row in found] == [list(call[2:4]) for call in truth],
        "cost": abs(sum(row[4] for row in found) - cost_of(truth)) < 1e-8,
        "request": all(row[5] for row in found),
        "response": all(row[6] for row in ok),
        "finish_reasons": all(row[7] for row in ok),
    }
    return [name for name, same in checks.items() if not same]


@pytest.mark.parametrize("view", ["runs", "steps"])
def test_runs_and_steps_count_the_calls_that_model_calls_has(stored: tuple[Store, dict[str, str]], view: str) -> None:
    """Three views, one definition of what reports the same call: they agree for every run."""
    store, _ = stored
    calls = (
        "trace_id, model_calls AS calls, input_tokens AS tokens_in, output_tokens AS tokens_out"
        if view == "runs"
        else "trace_id, countIf(kind = 'model') AS calls, sum(ifNull(input_tokens, 0)) AS tokens_in,"
        " sum(ifNull(output_tokens, 0)) AS tokens_out"
    )
    of_view = f"SELECT {calls} FROM {DATABASE}.{view} {'GROUP BY trace_id' if view == 'steps' else ''}"
    _, rows = store.query(f"SELECT * FROM ({of_view}) WHERE calls > 0 ORDER BY trace_id")
    _, expected = store.query(
        "SELECT trace_id, count(), sum(ifNull(input_tokens, 0)), sum(ifNull(output_tokens, 0))"
        f" FROM {DATABASE}.model_calls GROUP BY trace_id ORDER BY trace_id"
    )
    assert rows == expected


SAID = (
    "SELECT trace_id, span_id, parent_span_id, start_time, ms, operation, agent, model_requested, model_answered, response_id,"
    " input_tokens, output_tokens, finish_reasons, status, request, response FROM {}.model_calls ORDER BY ALL"
)


def test_the_order_in_which_spans_arrive_does_not_change_which_calls_are_told(
    own: Store, emptied: Callable[[str], Store]
) -> None:
    """Late spans, late traces, log records first: one batch in order and pieces in any order give the same result."""
    draw = random.Random(15)
    cases = [arbitrary_reports(draw, number) for number in range(50)]
    together, apart = own, emptied("another")
    together.insert([span for case in cases for span in case], token="all")
    batches: list[list[SpanRecord]] = [[] for _ in range(5)]
    for case in cases:
        for span in case:
            draw.choice(batches).append(span)
    for number, batch in enumerate(batches):
        draw.shuffle(batch)
        apart.insert(batch, token=str(number))
    of_each = [made.query(SAID.format(made.database))[1] for made in (together, apart)]
    assert of_each[1] == of_each[0]
    told, spans = len(of_each[0]), sum(map(len, cases))
    assert spans / 4 < told < spans * 3 / 4  # many are joined, and many are not


def arbitrary_reports(draw: random.Random, number: int) -> list[SpanRecord]:
    """Return spans and log records of one service that report calls, in up to three traces: similar, overlapping, nested."""
    spans: list[SpanRecord] = []
    traces = [f"{number * 3 + trace:032x}" for trace in range(draw.randint(1, 3))]
    for index in range(draw.randint(2, 9)):
        trace_id = draw.choice(traces)
        above = [span.span_id for span in spans if span.trace_id == trace_id]
        start_s = draw.randint(0, 12)
        is_event = draw.random() < 0.2
        attributes: dict[str, AttributeValue] = {genai.REQUEST_MODEL: "gpt-4o"}
        if not is_event or draw.random() < 0.5:
            attributes[genai.OPERATION_NAME] = genai.OP_CHAT
        if draw.random() < 0.4:
            attributes |= {genai.USAGE_INPUT_TOKENS: draw.randint(1, 2), genai.USAGE_OUTPUT_TOKENS: 7}
        if draw.random() < 0.3:
            attributes[genai.RESPONSE_ID] = f"answer-{draw.randint(1, 3)}"
        for name in (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES):
            if draw.random() < 0.4:
                part = {"type": "text", "content": f"text {draw.randint(1, 99)}"}
                attributes[name] = json.dumps([{"role": "user", "parts": [part]}])
        spans.append(
            SpanRecord(
                trace_id=trace_id,
                span_id=f"{number:08x}{index + 1:08x}",
                parent_span_id=draw.choice(["", *above, *above]),
                name="gen_ai.choice" if is_event else "chat",
                start_time_unix_nano=(1_700_000_000 + start_s) * 10**9,
                end_time_unix_nano=(1_700_000_000 + start_s + (0 if is_event else draw.randint(0, 5))) * 10**9,
                attributes=attributes,
                scope=Scope(name=draw.choice(["langchain", "openai", "agents"])),
                resource=Resource(attributes={genai.SERVICE_NAME: f"service-{number}"}),
            )
        )
    return spans


@pytest.mark.parametrize(
    ("inner", "outer", "calls"),
    [
        ({genai.RESPONSE_ID: "a"}, {genai.RESPONSE_ID: "a"}, 1),
        ({genai.RESPONSE_ID: "a"}, {genai.RESPONSE_ID: "b"}, 2),
        ({}, {}, 1),
        ({genai.USAGE_OUTPUT_TOKENS: 7}, {genai.USAGE_OUTPUT_TOKENS: 7}, 2),
    ],
)
def test_two_spans_side_by_side_are_one_call_if_one_is_within_the_other_and_both_have_its_answer_or_none(
    own: Store, inner: dict[str, AttributeValue], outer: dict[str, AttributeValue], calls: int
) -> None:
    """LangSmith writes the call of LangChain and that of the SDK so."""
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Where?"}]}])
    spans = [
        SpanRecord(
            trace_id="1" * 32,
            span_id=str(number) * 16,
            parent_span_id="9" * 16,
            name="chat",
            start_time_unix_nano=10**18 + number,
            end_time_unix_nano=10**18 + 100 - number,
            attributes={genai.OPERATION_NAME: genai.OP_CHAT, genai.INPUT_MESSAGES: asked, **attributes},
            scope=Scope(name="langsmith"),
        )
        for number, attributes in enumerate((outer, inner), 1)
    ]
    own.insert(spans, token="both")
    assert own.query(f"SELECT count() FROM {own.database}.model_calls")[1] == [[calls]]


def test_a_run_that_is_kept_keeps_its_calls(own: Store) -> None:
    """They are copied out of their day with its spans; what was blank next to them stays blank."""
    for number, spans in enumerate(decoded_batches("oaiagents-twice-oi")):
        own.insert(spans, token=f"{number}")
    before = own.query(SAID.format(own.database))
    pin(own, own.query(f"SELECT DISTINCT trace_id FROM {own.database}.model_calls")[1][0][0])
    swept = expire(own, Retention(), today=dt.date(2027, 3, 1))
    after = own.query(SAID.format(own.database))
    kept = own.query(f"SELECT DISTINCT kept FROM {own.database}.call_rows")[1]
    assert [day.kept_runs for day in swept] == [1]
    assert len(before[1]) == 2
    assert after == before
    assert kept == [[1]]


def test_a_session_that_is_resumed_days_later_is_one_run(own: Store) -> None:
    """Also by a collector that was started in between; its calls are joined from both parts."""
    first, *rest = decoded_batches("codexcli-resp-native")
    own.insert(first, token="first")  # up to the request that the next part answers
    days_ns = 3 * 24 * 3600 * 10**9
    later = [
        replace(
            span, start_time_unix_nano=span.start_time_unix_nano + days_ns, end_time_unix_nano=span.end_time_unix_nano + days_ns
        )
        for batch in rest
        for span in batch
    ]
    Store(own.engine, database=own.database).insert(later, token="later")
    _, runs = own.query(f"SELECT model_calls, toUInt32(input_tokens), spans FROM {own.database}.runs")
    _, calls = own.query(f"SELECT status, request, round(ms) FROM {own.database}.model_calls ORDER BY start_time")
    assert runs == [[5, 3800, 20]]
    answered_ms = days_ns / 1e6 + 321
    assert [list(call) for call in calls[:2]] == [
        ["error", "How many lamps did ada@example.com order?", 86],
        ["ok", "", answered_ms],
    ]


def test_spans_whose_calls_cannot_be_joined_are_stored(
    own: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise PermanentStoreError("Code: 386. DB::Exception: no common type of what Maria said")

    spans = next(iter(decoded_batches(SCENARIOS[0])))
    with monkeypatch.context() as broken:
        broken.setattr(store_module, "join_calls", fail)
        own.insert(spans, token="unjoined")
    assert own.holds(spans)
    assert "not joined, though their spans are stored: Code: 386" in caplog.text
    assert "Maria" not in caplog.text
