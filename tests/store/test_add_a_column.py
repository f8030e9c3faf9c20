"""docs/extending/column.md, followed literally: a store of this version meets the page's column and view."""

from __future__ import annotations

from pathlib import Path

import pytest
from followed_page import ROOT, copy_package, follow, run_with

import freezeframe_schemas

pytestmark = pytest.mark.long

_STORE = """
import sys
from contextlib import closing
from dataclasses import replace
from handmade_runs import make_run, model_call
from serving import serving
from tables_page import tables_page
from freezeframe_collector.store import open_store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.tables.ddl import DATABASE, TABLES, described

def run(trace_id, *values):
    entry, *calls = make_run(*(model_call("where?", "there", model="gpt-4o") for _ in values))
    asked = [
        replace(call.with_attributes({genai.REQUEST_MODEL: "gpt-4o", genai.REQUEST_TOP_K: value}), start_time_unix_nano=number)
        for number, (call, value) in enumerate(zip(calls, values), entry.start_time_unix_nano)
    ]
    return [replace(span, trace_id=trace_id * 32) for span in (entry, *asked)]

OLD = run("a", 40, 7, 40)
store = open_store(f"chdb://{sys.argv[1]}")
applied = [step.name for step in store.migrate()]
"""

_BEFORE = """
store.insert(OLD, token="old")
store.close()
print(applied[0])
"""

_AFTER = """
assert {"view/010_spans", "view/061_sampling"} <= {*applied} and "0001_tables.sql" not in applied, applied
assert not any(name.startswith("feed/") for name in applied), "the rows of all runs are made anew"
assert store.migrate() == []
NEW = run("b", 40, "many", 2**70)
store.insert(NEW, token="new")
for table, columns in TABLES:
    where = f"database = '{DATABASE}' AND table = '{table}'"
    _, rows = store.query(f"SELECT name, type, comment, compression_codec FROM system.columns WHERE {where} ORDER BY position")
    codes = [column.codec and f"CODEC({column.codec})" for column in columns]
    named = [(column.name, column.type, described(column), code) for column, code in zip(columns, codes)]
    assert [tuple(row) for row in rows] == named, table
with serving(store, here=True) as url, closing(open_runs(url)) as runs:
    for spans in (OLD, NEW):
        assert sorted(runs.load_spans(spans[0].trace_id), key=lambda one: one.span_id) == sorted(
            spans, key=lambda one: one.span_id
        )
    asked = runs.sql("SELECT top_k, calls FROM sampling WHERE model = 'gpt-4o' ORDER BY top_k")[1]
    _, [[comment]] = runs.sql(
        "SELECT comment FROM system.columns WHERE database = currentDatabase() AND table = 'sampling' AND name = 'top_k'"
    )
assert "How many tokens" in comment
page = tables_page()
assert f"- `top_k` (Nullable(Int64)), from `{genai.REQUEST_TOP_K}`: How many tokens are sampled from" in page
assert "## sampling" in page and "How models were asked to sample." in page and "- `calls`: Model calls" in page
store.close()
print([*map(list, asked)])
"""


def test_the_page_on_adding_a_column_adds_one_and_a_view_to_a_store_that_is_filled(tmp_path: Path) -> None:
    """Two new or edited files. What was stored before has the column too, and every span is read back as it was sent."""
    copy_package(freezeframe_schemas, tmp_path / "code")
    assert follow("column.md", tmp_path / "code") == {
        "schemas/freezeframe_schemas/tables/columns.py",
        "schemas/freezeframe_schemas/sql/views/061_sampling.sql",
    }
    before = run_with([ROOT / "schemas"], _STORE + _BEFORE, str(tmp_path / "store"))
    assert before.stdout == "0001_tables.sql\n", before.stderr
    after = run_with([tmp_path / "code" / "schemas"], _STORE + _AFTER, str(tmp_path / "store"))
    assert after.stdout == "[[7, 1], [40, 3], [None, 2]]\n", after.stdout + after.stderr
