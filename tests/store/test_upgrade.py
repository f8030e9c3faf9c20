"""A database that an earlier version filled: brought to today's schema, it gives back what went in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import agent_loops
import pytest
from serving import serving

import freezeframe_collector.store.migrate as migrating
from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.run import build_run, readiness
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables import CutMemory, rows_from_spans
from freezeframe_schemas.tables.ddl import migrations
from freezeframe_schemas.tables.native import encode_block
from freezeframe_schemas.tables.templates import Cut

DATABASE = "of_version_0004"

pytestmark = pytest.mark.long


@pytest.fixture
def old(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A database with the first four migrations, before pieces lost their stored names."""
    made = Store(store.engine, database=DATABASE)
    with monkeypatch.context() as patched:
        patched.setattr(migrating, "migrations", lambda: migrations()[:4])
        patched.setattr(migrating, "views", list[tuple[str, str]])
        patched.setattr(migrating, "run_rows_sql", str)  # the feed of then, as the first migrations made it
        made.migrate()
    yield made
    store.engine.command(f"DROP DATABASE {DATABASE}")


class OfThen(CutMemory):
    """Cuts values as before templates: their pieces joined are the value."""

    def cut(self, trace_id: str, attribute: str, raw: bytes) -> Cut:
        return Cut("", *self.joined.split(trace_id, attribute, raw))


def insert_as_then(store: Store, spans: list[SpanRecord]) -> None:
    """Insert spans in the layout of the fourth migration: names of pieces stored, two columns of previews."""
    rows = rows_from_spans(spans, memory=OfThen())
    pieces = dict(rows.payloads.columns)
    del pieces["start_time"]
    pieces["hash"] = ("FixedString(12)", [digest for _, digest in rows.pieces])
    columns = dict(rows.spans.columns)
    del columns["templates"], columns["begun"], columns["stored_at"]
    _, previews = columns.pop("previews")
    for index, name in enumerate(("input_preview", "output_preview")):
        columns[name] = ("String", [pair[index] if pair else "" for pair in previews])
    for table, block in (("payload_rows", pieces), ("span_rows", columns)):
        store.engine.insert(f"{DATABASE}.{table}", list(block), encode_block(block), f"then/{table}")


def load_spans(store: Store, trace_id: str) -> list[SpanRecord]:
    with serving(store) as url, closing(open_runs(f"{url}?database={DATABASE}")) as runs:
        return runs.load_spans(trace_id)


def test_runs_of_an_earlier_layout_are_read_whole_after_the_upgrade(old: Store) -> None:
    spans = agent_loops.agent_run(31, turns=4)
    insert_as_then(old, spans)
    applied = [migration.name for migration in old.migrate()]
    assert applied[: len(migrations()) - 4] == [name for name, _ in migrations()[4:]]
    assert load_spans(old, spans[0].trace_id) == spans
    _, rows = old.query(f"SELECT spans, input != '', input_tokens FROM {DATABASE}.runs")
    assert rows == [[len(spans), 1, sum(span.integer(genai.USAGE_INPUT_TOKENS) or 0 for span in spans)]]
    _, rows = old.query(f"SELECT level, missing, gaps FROM {DATABASE}.readiness")
    expected = readiness(build_run(spans))
    assert rows == [[expected.level, [missing.field.name for missing in expected.missing], []]]
    assert old.migrate() == []


def test_the_upgrade_may_stop_after_any_statement_and_run_again(old: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = agent_loops.agent_run(32, turns=3)
    insert_as_then(old, spans)
    run = old.engine.command
    total = 0
    while True:
        left = total = total + 1

        def stop_after_some(sql: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise InterruptedError
            run(sql)

        monkeypatch.setattr(old.engine, "command", stop_after_some)
        try:
            old.migrate()
            break
        except InterruptedError:
            continue
        finally:
            monkeypatch.setattr(old.engine, "command", run)
    _, rows = old.query(f"SELECT (SELECT count() FROM {DATABASE}.spans), (SELECT spans FROM {DATABASE}.runs)")
    assert rows == [[len(spans), len(spans)]]
    _, rows = old.query(f"SELECT level FROM {DATABASE}.readiness")
    assert rows == [[readiness(build_run(spans)).level]]
    _, pieces = old.query(f"SELECT count(), uniqExact(hash) FROM {DATABASE}.payloads")
    assert pieces == [[len(rows_from_spans(spans, memory=OfThen()).pieces)] * 2]
