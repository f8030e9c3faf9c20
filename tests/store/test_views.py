"""The views against the values that they show: Python and SQL say the same about the same run."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import agent_loops
import pytest
from handmade_runs import moved, told
from tables_page import tables_page

from freezeframe_collector.store import Store
from freezeframe_collector.store.retention import note_replay
from freezeframe_replay.cli import main
from freezeframe_replay.sources.store import RunStore, open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.errors import RunError
from freezeframe_schemas.gaps import Gap, GapKind, gaps_to_json
from freezeframe_schemas.run import KIT, OPERATION_IN, KitScope, build_run, readiness, spans_in_scope
from freezeframe_schemas.span import Resource, SpanRecord
from freezeframe_schemas.tables.ddl import DATABASE, TABLES, checksum, described, migrations
from freezeframe_schemas.tables.views import VIEW_NAME, view_columns, views

pytestmark = pytest.mark.long  # a store is filled for each broken field

TENANT = "views"


@pytest.fixture(scope="module")
def runs(facade_url: str) -> Iterator[RunStore]:
    opened = open_runs(facade_url, tenant=TENANT)
    yield opened
    opened.close()


def kept(number: int, trace_id: str) -> list[SpanRecord]:
    """Return a run under another id, of this test's tenant."""
    return [
        replace(span, trace_id=trace_id).with_attributes({genai.TENANT: TENANT, genai.RUN_ID: f"view-{number}"})
        for span in agent_loops.agent_run(number, turns=4)
    ]


def without(span: SpanRecord, names: tuple[str, ...]) -> SpanRecord:
    """Return the span and its resource without some attributes."""
    if genai.RESPONSE_BODY in names:  # chunks of a body that is not there would be a damaged span
        names = (*names, genai.RESPONSE_CHUNK_SIZES, genai.RESPONSE_CHUNK_OFFSETS_NS)
    attributes = {name: value for name, value in span.attributes.items() if name not in names}
    carried = {name: value for name, value in span.resource.attributes.items() if name not in names}
    return replace(span, attributes=attributes, resource=Resource(attributes=carried, schema_url=span.resource.schema_url))


def asked(runs: RunStore, trace_id: str) -> tuple[int, set[str]]:
    _, rows = runs.sql("SELECT level, missing FROM readiness WHERE trace_id = {t:String}", {"t": trace_id})
    return rows[0][0], set(rows[0][1])


RECORDED = [index for index, field in enumerate(KIT) if field.scope not in OPERATION_IN]


@pytest.mark.proof
def test_readiness_in_sql_is_readiness_in_python_for_each_field_that_is_missing(store: Store, runs: RunStore) -> None:
    expected: dict[str, tuple[str, int, set[str]]] = {}
    spans: list[SpanRecord] = []
    for index in RECORDED:
        field, trace_id = KIT[index], f"{index + 1:032x}".replace("0", "d", 4)
        whole = kept(next(n for n in range(200) if has(n, field.scope)), trace_id)
        scope = {span.span_id for span in spans_in_scope(build_run(whole), field.scope)}
        assert scope
        broken = [without(span, field.attributes) if span.span_id in scope else span for span in whole]
        reached = readiness(build_run(broken))
        assert reached.missing
        expected[trace_id] = field.name, reached.level, {missing.field.name for missing in reached.missing}
        spans += broken
    store.insert(spans, token="a field is missing")
    _, rows = runs.sql(
        "SELECT trace_id, level, missing FROM readiness WHERE has({t:Array(String)}, trace_id)", {"t": [*expected]}
    )
    assert {trace_id: (expected[trace_id][0], level, set(missing)) for trace_id, level, missing in rows} == expected


def has(number: int, scope: KitScope) -> bool:
    """Return whether a generated run has spans of a scope, and no failure, whose error would count as an answer."""
    spans = agent_loops.agent_run(number, turns=4)
    clean = not any(genai.ERROR_TYPE in span.attributes for span in spans)
    return clean and bool(spans_in_scope(build_run(spans), scope))


def some_run(seed: int) -> list[SpanRecord]:
    """Return a run with a few faults: gaps of any kind, attributes lost, no tools, reported by another instrumentation."""
    rng = random.Random(seed)
    spans = kept(rng.randrange(100), f"{seed:08x}" + "abcd" * 6)
    if rng.random() < 0.3:
        spans = [span for span in spans if span.text(genai.EXCHANGE_KIND) in (None, "model")]
    lost = rng.sample([name for field in KIT for name in field.attributes], rng.choice((0, 0, 1, 2)))
    spans = [without(span, tuple(lost)) if rng.random() < 0.7 else span for span in spans]
    if rng.random() < 0.4:
        seen = [Gap(kind=kind, text="somewhere") for kind in rng.sample(list(GapKind), rng.choice((1, 2)))]
        entry = rng.randrange(len(spans))
        spans[entry] = spans[entry].with_attributes({genai.ENTRY_GAPS: gaps_to_json(seen)})
    if rng.random() < 0.2:
        spans[-1] = replace(spans[-1], dropped_attributes_count=3)
    spans = told(spans) if rng.random() < 0.3 else spans
    return [span.with_attributes({genai.TENANT: "of all kinds"}) for span in spans]


def test_a_fixture_of_the_last_run_names_program_and_service_and_asks(
    store: Store, facade_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where several services send runs: there the last one may be somebody else's."""
    for number, service in enumerate(("shop", "desk")):
        trace_id = f"{number:08x}" + "5e41" * 6
        resource = Resource(attributes={genai.SERVICE_NAME: service})
        store.insert([replace(span, resource=resource) for span in moved(kept(1, trace_id), trace_id, 10**17)], token=trace_id)
    command = ["fixture", "last", "--store", facade_url, "-o"]
    assert main([*command, str(tmp_path / "taken")]) == 0
    assert re.search(r"the last run is .+ \(.+\) of the service (shop|desk), run 0000000", capsys.readouterr().err)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", str.lower)  # neither y nor yes
    assert main([*command, str(tmp_path / "refused")]) == 1
    assert not (tmp_path / "refused").exists()


def test_the_last_run_is_one_that_somebody_may_mean(store: Store, facade_url: str) -> None:
    """None without a step, and none of a program or a worker that a recorded program started, unless there is no other."""
    runs = open_runs(facade_url, tenant="last")

    def send(number: int, gap: GapKind | None = None, *, steps: bool = True) -> str:
        trace_id = f"{number:08x}" + "1a57" * 6
        spans = [span.with_attributes({genai.TENANT: "last"}) for span in moved(kept(1, trace_id), trace_id, number * 10**12)]
        if gap is not None:
            spans[0] = spans[0].with_attributes({genai.ENTRY_GAPS: gaps_to_json([Gap(kind=gap, text="by another")])})
        store.insert(spans if steps else spans[:1], token=trace_id)
        return trace_id

    others = [send(5, steps=False), send(4, GapKind.STARTED_BY), send(3, GapKind.WORKER)]
    assert runs.find("last") == others[0]
    assert runs.find(send(2, GapKind.HASH_SEED)[:8]) == runs.find("last") != others[0]
    newest = send(6)
    assert runs.find("last") == newest
    assert [runs.find(each) for each in others] == others
    runs.close()


def test_readiness_in_sql_is_readiness_in_python_for_runs_of_all_kinds(store: Store, runs: RunStore) -> None:
    expected: dict[str, tuple[object, ...]] = {}
    all_spans = [some_run(seed) for seed in range(120)]
    store.insert([span for spans in all_spans for span in spans], token="some runs")
    for seed, spans in enumerate(all_spans):
        run = build_run(spans, verified=bool(seed % 2))
        if run.verified:
            note_replay(store, run.trace_id)
        found = readiness(run)
        missing = sorted(item.field.name for item in found.missing)
        gaps = sorted({gap.kind.value for gap in run.gaps})
        expected[run.trace_id] = (
            found.level, found.means, found.cold, missing, list(found.blocking), gaps, len(run.exchanges)
        )  # fmt: skip
    _, rows = runs.sql(
        "SELECT trace_id, level, level_name, cold, arraySort(missing), missing_for_next, gaps, exchanges"
        " FROM readiness WHERE endsWith(trace_id, 'abcdabcd')"
    )
    assert {row[0]: (*row[1:],) for row in rows} == expected
    assert {row[1] for row in rows} >= {1, 2, 3, 4, 5, 6}
    _, causes = runs.sql(
        "SELECT trace_id, groupArray(cause) FROM cold_cases GROUP BY trace_id HAVING endsWith(trace_id, 'abcd')"
    )
    assert {trace: sorted(names) for trace, names in causes} == {trace: row[4] for trace, row in expected.items() if row[2]}


@pytest.mark.proof
def test_a_run_that_lacks_nothing_reaches_the_top(store: Store, runs: RunStore) -> None:
    spans = kept(next(n for n in range(200) if has(n, KitScope.RETRIEVAL)), "c" * 32)
    store.insert(spans, token="whole")
    assert asked(runs, "c" * 32) == (readiness(build_run(spans)).level, set())


@pytest.mark.proof
@pytest.mark.parametrize(
    ("change", "gap"),
    [
        ({"dropped_attributes_count": 2}, "attributes_dropped"),
        ({"parent_span_id": "0123456789abcdef"}, "orphan_spans"),
        ({"attributes": {genai.RESPONSE_BODY_OMITTED: "over limit"}}, "response_omitted"),
    ],
)
def test_a_gap_keeps_a_run_from_the_top(store: Store, runs: RunStore, change: dict[str, object], gap: str) -> None:
    trace_id = f"{len(gap):032x}".replace("0", "b", 9)
    spans = kept(0, trace_id)
    attributes = change.get("attributes")
    if isinstance(attributes, dict):
        spans[-1] = spans[-1].with_attributes(attributes)
    else:
        spans[-1] = replace(spans[-1], **change)  # pyright: ignore[reportArgumentType]  (fields by name, of the table above)
    store.insert(spans, token=gap)
    expected = readiness(build_run(spans))
    _, rows = runs.sql("SELECT level, gaps FROM readiness WHERE trace_id = {t:String}", {"t": trace_id})
    assert rows == [(expected.level, [gap])]


def test_an_exchange_whose_span_was_lost_is_missed(store: Store, runs: RunStore) -> None:
    spans = kept(0, "e7" * 16)
    exchanges = [at for at, span in enumerate(spans) if genai.EXCHANGE_KIND in span.attributes]
    entry = next(at for at, span in enumerate(spans) if genai.ENTRY_KIND in span.attributes)
    spans[entry] = spans[entry].with_attributes({genai.ENTRY_EXCHANGES: len(exchanges)})
    lost = spans.pop(exchanges[-1])
    asking = "SELECT level, gaps FROM readiness WHERE trace_id = {t:String}"
    for arrived, gaps in (([], ["exchanges_lost"]), ([lost], [])):
        spans += arrived
        store.insert(spans, token=f"lost {len(spans)}")
        run = build_run(spans)
        assert [gap.kind for gap in run.gaps] == gaps
        assert runs.sql(asking, {"t": "e7" * 16})[1] == [(readiness(run).level, gaps)]
        assert runs.sql("SELECT run_gaps FROM replay_kit WHERE trace_id = {t:String}", {"t": "e7" * 16})[1] == [(gaps,)]


def test_a_parent_that_comes_in_a_later_batch_leaves_no_orphans(store: Store, runs: RunStore) -> None:
    # as exporters send them: the root ends last
    spans = sorted(kept(0, "3" * 32), key=lambda span: not span.parent_span_id)
    gaps = "SELECT gaps FROM readiness WHERE trace_id = {t:String}"
    store.insert(spans[:-1], token="children")
    assert runs.sql(gaps, {"t": "3" * 32})[1] == [(["orphan_spans"],)]
    store.insert(spans[-1:], token="their parent")
    assert runs.sql(gaps, {"t": "3" * 32})[1] == [([],)]
    assert asked(runs, "3" * 32)[0] == readiness(build_run(spans)).level


@pytest.mark.proof
def test_runs_and_steps_count_what_is_there(store: Store, runs: RunStore) -> None:
    spans = kept(3, "9" * 32)
    run = build_run(spans)
    store.insert(spans[:3], token="first half")
    store.insert(spans[3:], token="second half")
    store.insert(spans, token="sent again under another token")
    row = runs.list_runs(where="trace_id = {t:String}", parameters={"t": "9" * 32})[0]
    assert (row.spans, row.exchanges) == (len(spans), len(run.exchanges))
    assert row.status == ("error" if run.failed else "ok")
    assert row.model_calls == sum(exchange.kind.value == "model" for exchange in run.exchanges)
    assert row.input_tokens == sum(span.integer(genai.USAGE_INPUT_TOKENS) or 0 for span in spans)
    _, steps = runs.sql("SELECT span_id, step FROM steps WHERE trace_id = {t:String} ORDER BY step", {"t": "9" * 32})
    assert steps == [(exchange.span_id, number) for number, exchange in enumerate(run.exchanges, 1)]
    assert len(runs.load_spans("9" * 32)) == len(spans)


@pytest.mark.proof
def test_contents_are_the_values_whole(store: Store, runs: RunStore) -> None:
    spans = kept(4, "8" * 32)
    store.insert(spans, token="contents")
    _, rows = runs.sql("SELECT span_id, attribute, body FROM contents WHERE trace_id = {t:String}", {"t": "8" * 32})
    found = {(span_id, attribute): body for span_id, attribute, body in rows}
    expected = {
        (span.span_id, name): span.attributes[name]
        for span in spans
        for name in (genai.REQUEST_BODY, genai.RESPONSE_BODY, genai.INPUT_MESSAGES)
        if span.attributes.get(name)
    }
    assert {key: found[key] for key in expected} == expected


def test_a_run_is_found_by_its_ways_of_naming_it(store: Store, runs: RunStore) -> None:
    store.insert(kept(5, "7a1e" + "0" * 28), token="find1")
    store.insert(kept(6, "7a1f" + "0" * 28), token="find2")
    assert runs.find("7a1e") == "7a1e" + "0" * 28
    assert runs.find("7A1E00") == "7a1e" + "0" * 28
    assert runs.find("view-6") == "7a1f" + "0" * 28
    assert runs.find("last") in {row.trace_id for row in runs.list_runs(limit=1)}
    with pytest.raises(RunError, match=r"not in the store.*7a1"):
        runs.find("7a10")
    with pytest.raises(RunError, match="expected a trace id"):
        runs.find("nothing like it")


@pytest.mark.parametrize("first", range(3))
def test_the_row_of_a_run_is_the_same_in_whatever_batches_its_spans_come(store: Store, runs: RunStore, first: int) -> None:
    row = "SELECT * EXCEPT (trace_id, run_hour) FROM runs WHERE trace_id = {t:String}"
    spans = kept(2, f"{first:x}a" * 16)
    whole = [replace(span, trace_id=f"{first:x}b" * 16) for span in spans]
    store.insert(whole, token=f"whole {first}")
    for part in range(3):
        store.insert(spans[(first + part) % 3 :: 3], token=f"part {first} {part}")
    assert runs.sql(row, {"t": spans[0].trace_id})[1] == runs.sql(row, {"t": whole[0].trace_id})[1]
    assert asked(runs, spans[0].trace_id) == asked(runs, whole[0].trace_id)


@pytest.mark.proof
def test_a_prefix_of_several_runs_is_refused_with_their_names(store: Store, runs: RunStore) -> None:
    store.insert(kept(5, "6b6b" + "1" * 28), token="amb1")
    store.insert(kept(6, "6b6b" + "2" * 28), token="amb2")
    with pytest.raises(RunError, match=r"names 2 runs: 6b6b1"):
        runs.find("6b6b")


@pytest.mark.proof
def test_a_tenant_sees_its_own_runs_only(store: Store, facade_url: str) -> None:
    store.insert(kept(7, "5" * 32), token="tenant")
    other = open_runs(facade_url, tenant="somebody else")
    with pytest.raises(RunError):
        other.load_spans("5" * 32)
    assert other.list_runs() == []
    other.close()


@pytest.mark.proof
def test_otel_traces_has_the_exporters_columns(store: Store, runs: RunStore) -> None:
    store.insert(kept(8, "4" * 32), token="otel")
    columns, rows = runs.sql("SELECT * FROM otel_traces WHERE TraceId = {t:String} AND SpanKind = 'Client'", {"t": "4" * 32})
    row = dict(zip(columns, rows[0], strict=True))
    assert row["SpanAttributes"][genai.OPERATION_NAME] == "chat"
    assert row["SpanAttributes"][genai.USAGE_INPUT_TOKENS].isdigit()
    assert row["ResourceAttributes"][genai.SERVICE_NAME] == row["ServiceName"]
    assert set(columns) >= {"Timestamp", "Duration", "StatusCode", "Events.Name", "Links.TraceId", "ScopeName"}


@pytest.mark.proof
def test_a_migrated_database_has_the_columns_that_the_code_names(store: Store) -> None:
    for table, columns in TABLES:
        _, rows = store.query(
            "SELECT name, type, comment FROM system.columns"
            f" WHERE database = '{DATABASE}' AND table = '{table}' ORDER BY position"
        )
        assert [tuple(row) for row in rows] == [(column.name, column.type, described(column)) for column in columns]


@pytest.mark.proof
def test_a_migrated_database_compresses_as_the_code_says(store: Store) -> None:
    for table, columns in TABLES:
        where = f"database = '{DATABASE}' AND table = '{table}'"
        _, rows = store.query(f"SELECT name, compression_codec FROM system.columns WHERE {where} ORDER BY position")
        assert {row[0]: row[1] for row in rows} == {
            column.name: column.codec and f"CODEC({column.codec})" for column in columns
        }
        _, [[created]] = store.query(f"SHOW CREATE TABLE {DATABASE}.{table}")
        blocks = [str(column.block_bytes) for column in columns if column.block_bytes]
        assert re.findall(r"SETTINGS \(min_compress_block_size = (\d+),", created) == blocks


def name_of(sql: str) -> str:
    name = VIEW_NAME.search(sql)
    assert name is not None
    return name[1]


@pytest.mark.proof
def test_every_column_and_table_says_what_it_is(store: Store) -> None:
    whole = ("prices", "pins", "audit", "policy_rows")
    ours = {name for name, _ in TABLES} | {*whole} | {name_of(sql) for _, sql in views()}
    _, rows = store.query(f"SELECT table, name FROM system.columns WHERE database = '{DATABASE}' AND comment = ''")
    assert [(table, name) for table, name in rows if table in ours] == []
    _, rows = store.query(
        f"SELECT name FROM system.tables WHERE database = '{DATABASE}' AND comment = '' AND name NOT LIKE '%feed'"
    )
    assert [name for (name,) in rows if name in ours - {"search"}] == []


@pytest.mark.proof
def test_the_page_of_tables_has_the_columns_that_views_have(store: Store) -> None:
    for _, sql in views():
        name = name_of(sql)
        _, rows = store.query(
            f"SELECT name FROM system.columns WHERE database = '{DATABASE}' AND table = '{name}' ORDER BY position"
        )
        if name != "search":  # whose columns depend on its parameter
            assert [column for (column,) in rows] == list(view_columns(sql)), name


@pytest.mark.proof
def test_the_page_of_tables_is_current() -> None:
    from pathlib import Path

    page = Path(__file__).parents[2] / "docs" / "tables.md"
    assert page.read_text(encoding="utf-8") == tables_page(), "run: python tests/support/tables_page.py > docs/tables.md"


@pytest.mark.proof
def test_migrations_are_named_by_number_and_have_checksums() -> None:
    names = [name for name, _ in migrations()]
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert len({checksum(sql) for _, sql in migrations()}) == len(names)
