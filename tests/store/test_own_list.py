"""The list of runs is answered by the collector's own engine, with what a reader would answer, and only if it is that list."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Generator
from dataclasses import asdict, replace

import pytest
from handmade_runs import make_run, model_call, tool_call
from readers_here import ReadersHere

from freezeframe_collector.facade import own_statements
from freezeframe_collector.facade.own_statements import run_list_requested
from freezeframe_collector.facade.protocol import QueryRequest
from freezeframe_collector.readers.client import Reader
from freezeframe_collector.store import Store
from freezeframe_replay.sources.run_list import RunQuery, find_runs
from freezeframe_replay.sources.store import RUN_COLUMNS, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables.ddl import DATABASE
from freezeframe_schemas.tables.run_list import CHOICES, RunList, list_statement

CHOSEN = RunList(columns=RUN_COLUMNS, chosen=("tool",), begins="after")
ASKED = QueryRequest(
    sql=f"{list_statement(CHOSEN)}\n FORMAT Native".encode(),
    query_id="q",
    parameters={"_tool": "look FROM runs", "_cursor": "5a" * 16, CHOICES: json.dumps(asdict(CHOSEN))},
    database=DATABASE,
)


def changed(**changes: object) -> QueryRequest:
    """Return a request for the statement of other choices."""
    asked = replace(CHOSEN, **changes)  # pyright: ignore[reportArgumentType]  # each test gives the type of the field
    return replace(
        ASKED,
        sql=f"{list_statement(asked)} FORMAT Native".encode(),
        parameters={**ASKED.parameters, CHOICES: json.dumps(asdict(asked))},
    )


def test_a_value_becomes_a_quoted_text() -> None:
    """And never a part of the statement, whatever it says."""
    sql = run_list_requested(replace(ASKED, parameters={**ASKED.parameters, "_tool": "') OR sleep(3) --"}), DATABASE)
    assert sql is not None
    assert "has(tools, '\\') OR sleep(3) --')" in sql or "has(tools, ''') OR sleep(3) --')" in sql
    assert ":String}" not in sql


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(replace(ASKED, sql=ASKED.sql.replace(b"LIMIT 100", b"LIMIT 101")), id="another size than it says"),
        pytest.param(replace(ASKED, sql=ASKED.sql.replace(b"trace_id,", b"trace_id, sleep(3),", 1)), id="one more column"),
        pytest.param(changed(columns=("trace_id", "sleep(3)")), id="a column that is an expression"),
        pytest.param(changed(has_words=True, in_payloads=True), id="a search of payloads"),
        pytest.param(replace(ASKED, parameters={**ASKED.parameters, "_tool": "a\\'b"}), id="an escape"),
        pytest.param(replace(ASKED, parameters={**ASKED.parameters, "_more": "1"}), id="a parameter more"),
        pytest.param(replace(ASKED, parameters={CHOICES: ASKED.parameters[CHOICES]}), id="no values"),
        pytest.param(replace(ASKED, parameters={"_tool": "x", "_cursor": "y"}), id="no choices"),
        pytest.param(replace(ASKED, parameters={**ASKED.parameters, CHOICES: '{"columns": 1}'}), id="choices of another type"),
        pytest.param(
            replace(ASKED, parameters={**ASKED.parameters, CHOICES: ASKED.parameters[CHOICES].replace("-started", "x")}),
            id="an unknown order",
        ),
        pytest.param(replace(ASKED, settings={"max_threads": "64"}), id="a setting"),
        pytest.param(replace(ASKED, session_id="s"), id="a session"),
        pytest.param(replace(ASKED, database="system"), id="another database"),
    ],
)
def test_any_other_request_goes_to_a_reader(request_: QueryRequest) -> None:
    assert run_list_requested(ASKED, DATABASE) is not None
    assert run_list_requested(request_, DATABASE) is None


def recorded() -> list[SpanRecord]:
    """Return some runs that differ in what the list can be narrowed down by."""
    found: list[SpanRecord] = []
    for number in range(12):
        spans = make_run(
            model_call("Where?", "Here.", model=f"gpt-{number % 2}"),
            tool_call(f"tool-{number % 3}", number),
            question=f"it's {number}",
        )
        trace_id = random.Random(f"own-list-{number}").randbytes(16).hex()
        own = {genai.TENANT: f"tenant-{number % 2}", genai.FLAGS: json.dumps({"dense": number % 4 == 0})}
        for span in spans:
            resource = replace(
                span.resource,
                attributes={**span.resource.attributes, genai.SERVICE_NAME: "own-list", genai.VCS_REVISION: f"c{number % 3}"},
            )
            is_entry = not span.parent_span_id
            attributes = {**span.attributes, **{name: own[name] for name in own if is_entry or name == genai.TENANT}}
            moved = number * 10**9
            found.append(
                replace(
                    span,
                    trace_id=trace_id,
                    attributes=attributes,
                    resource=resource,
                    start_time_unix_nano=span.start_time_unix_nano + moved,
                    end_time_unix_nano=span.end_time_unix_nano + moved,
                )
            )
    return found


@pytest.mark.long
def test_the_list_is_the_same_with_and_without_a_reader(store: Store, facade_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each facet, order and place; and no reader is taken for it."""
    store.insert(recorded(), token="own-list")
    runs = open_runs(facade_url)
    service = {"service": "own-list"}
    first = find_runs(runs, RunQuery(chosen=service))
    assert first.total == 12
    assert {name: dict(values) for name, values in first.facets.items() if name in ("tool", "tenant", "commit", "flag")} == {
        "tool": {f"tool-{number}": 4 for number in range(3)},
        "tenant": {"tenant-0": 6, "tenant-1": 6},
        "commit": {f"c{number}": 4 for number in range(3)},
        "flag": {"dense = true": 3, "dense = false": 9},
    }
    level = first.facets["level"][0][0]
    queries = [
        RunQuery(),
        *(
            RunQuery(chosen={**service, name: value})
            for name, value in {"tool": "tool-1", "tenant": "tenant-1", "flag": "dense = true", "level": level}.items()
        ),
        RunQuery(chosen=service, sort="level", size=5, after=first.rows[3].trace_id),
        RunQuery(chosen=service, size=5, before=first.rows[8].trace_id),
        RunQuery(chosen={**service, "user": "nobody"}),
    ]
    taken: list[int] = []
    take = ReadersHere.take

    def counted(self: ReadersHere) -> Reader:
        taken.append(1)
        return take(self)

    monkeypatch.setattr(ReadersHere, "take", counted)
    by_itself = [find_runs(runs, query) for query in queries]
    assert not taken

    def asked_none(_: QueryRequest, __: str) -> None:
        return None

    monkeypatch.setattr(own_statements, "run_list_requested", asked_none)
    assert [find_runs(runs, query) for query in queries] == by_itself
    assert len(taken) == len(queries)
    assert [page.total for page in by_itself][1:] == [4, 6, 3, first.facets["level"][0][1], 12, 12, 0]


@pytest.mark.long
def test_what_the_commands_ask_of_runs_needs_no_reader(store: Store, facade_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest runs, failed ones, those since a time, a tenant's, a whole run, and whether it is settled."""
    spans = recorded()
    store.insert(spans, token="own-list")
    taken: list[int] = []
    take = ReadersHere.take

    def counted(self: ReadersHere) -> Reader:
        taken.append(1)
        return take(self)

    monkeypatch.setattr(ReadersHere, "take", counted)
    runs, of_tenant = open_runs(facade_url), open_runs(facade_url, tenant="tenant-1")
    long_ago = dt.datetime(1969, 1, 1, tzinfo=dt.UTC)
    newest = runs.list_runs(3)
    asked = [
        newest,
        runs.list_runs(500),
        runs.list_runs(500, since=long_ago),
        runs.list_runs(500, statuses=(RunStatus.FAILED,)),
        of_tenant.list_runs(500),
    ]
    assert runs.is_settled(newest[0].trace_id)
    assert runs.find("last") == newest[0].trace_id
    loaded = runs.load_spans(spans[0].trace_id)
    assert sorted(span.span_id for span in loaded) == sorted(
        span.span_id for span in spans if span.trace_id == spans[0].trace_id
    )
    assert not taken
    everything = "1"  # a condition of the caller's own is answered by a reader
    assert [
        runs.list_runs(3, where=everything),
        runs.list_runs(500, where=everything),
        runs.list_runs(500, since=long_ago, where=everything),
        runs.list_runs(500, statuses=(RunStatus.FAILED,), where=everything),
        of_tenant.list_runs(500, where=everything),
    ] == asked
    assert len(taken) >= 5
    assert {row.tenant for row in asked[-1]} == {"tenant-1"}


@pytest.mark.long
def test_a_list_that_reads_too_much_is_answered_by_a_reader(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is told by what the engine says before it reads."""
    store.insert(recorded(), token="own-list")
    plain = RunList(columns=("trace_id",))
    request = replace(
        ASKED, sql=f"{list_statement(plain)} FORMAT Native".encode(), parameters={CHOICES: json.dumps(asdict(plain))}
    )
    sql = run_list_requested(request, store.database)
    assert sql is not None

    def otherwise() -> Generator[bytes]:
        yield b"of a reader"

    few = sql.replace("max_rows_to_read = 200000", "max_rows_to_read = 1")
    assert list(own_statements.answer_list(store.engine, store.database, few, otherwise)) == [b"of a reader"]
    assert list(own_statements.answer_list(store.engine, store.database, sql, otherwise)) != [b"of a reader"]
