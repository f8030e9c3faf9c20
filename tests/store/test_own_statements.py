"""A run by id is read by the collector's own statements, and nothing that a client writes becomes one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade_runs import make_run, model_call
from readers_here import ReadersHere

from freezeframe_collector.facade import own_statements
from freezeframe_collector.facade.own_statements import RequestedRun, run_requested
from freezeframe_collector.facade.protocol import QueryRequest
from freezeframe_collector.readers.client import Reader
from freezeframe_collector.readers.errors import ClickHouseError
from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import connect, open_runs, query_rows
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError, RunError
from freezeframe_schemas.span import Resource
from freezeframe_schemas.tables import run_statement
from freezeframe_schemas.tables.ddl import DATABASE

ID = "5a" * 16
STATEMENT = run_statement(tenant=False)
ASKED = QueryRequest(sql=f"{STATEMENT}\n FORMAT Native".encode(), query_id="q", parameters={"trace_id": ID}, database=DATABASE)


def test_the_statement_of_a_replay_names_a_run() -> None:
    assert run_requested(ASKED, DATABASE) == RequestedRun(trace_id=ID, tenant=None)
    given = replace(ASKED, sql=run_statement(tenant=True).encode(), default_format="Native")
    assert run_requested(replace(given, parameters={"trace_id": ID, "tenant": "a'b"}), DATABASE) == RequestedRun(
        trace_id=ID, tenant="a'b"
    )


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(replace(ASKED, sql=ASKED.sql.replace(b"rest", b"rest, sleep(3)")), id="one more column"),
        pytest.param(replace(ASKED, sql=f"{STATEMENT} UNION ALL SELECT 1 FORMAT Native".encode()), id="something behind it"),
        pytest.param(replace(ASKED, sql=STATEMENT.encode()), id="another format"),
        pytest.param(replace(ASKED, parameters={"trace_id": "' OR 1 --".ljust(32, "0")}), id="no trace id"),
        pytest.param(replace(ASKED, parameters={"trace_id": ID, "tenant": "acme"}), id="a tenant that it does not ask about"),
        pytest.param(replace(ASKED, parameters={}), id="no parameter"),
        pytest.param(replace(ASKED, parameters={"trace_id": ID, "more": "1"}), id="a parameter more"),
        pytest.param(
            replace(
                ASKED,
                sql=f"{run_statement(tenant=True)} FORMAT Native".encode(),
                parameters={"trace_id": ID, "tenant": "a\\'b"},
            ),
            id="an escape",
        ),
        pytest.param(replace(ASKED, settings={"max_threads": "64"}), id="a setting"),
        pytest.param(replace(ASKED, session_id="s"), id="a session"),
        pytest.param(replace(ASKED, database="system"), id="another database"),
    ],
)
def test_any_other_request_goes_to_a_reader(request_: QueryRequest) -> None:
    assert run_requested(request_, DATABASE) is None


@pytest.mark.long
@pytest.mark.parametrize("tenant", [None, "a'b"])
def test_a_reader_answers_the_same(store: Store, facade_url: str, monkeypatch: pytest.MonkeyPatch, tenant: str | None) -> None:
    resource = Resource(attributes={genai.TENANT: "a'b"})
    store.insert([replace(span, trace_id=ID, resource=resource) for span in make_run(model_call("?", "!" * 600))], token=ID)
    runs = open_runs(facade_url, tenant=tenant)
    ours = runs.load_spans(ID)

    def any_other(request: QueryRequest, database: str) -> None:
        """Return that the request does not ask for a run."""

    monkeypatch.setattr(own_statements, "run_requested", any_other)
    assert runs.load_spans(ID) == ours
    assert any(span.text(genai.RESPONSE_BODY) for span in ours)
    runs.close()


@pytest.mark.long
def test_a_run_is_loaded_without_a_readers_process_and_by_its_tenant_alone(
    store: Store, facade_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [replace(span, trace_id=ID) for span in make_run(model_call("where?", "there"))]
    store.insert(spans, token=ID)
    runs, others = open_runs(facade_url), open_runs(facade_url, tenant="acme")
    client = connect(facade_url, database=DATABASE)
    with pytest.raises(RunError):
        others.load_spans(ID)

    def refuse(host: ReadersHere) -> Reader:
        raise ClickHouseError(241, "MEMORY_LIMIT_EXCEEDED", "no reader here")

    monkeypatch.setattr(ReadersHere, "take", refuse)
    assert {span.span_id for span in runs.load_spans(ID)} == {span.span_id for span in spans}
    with pytest.raises(PermanentStoreError, match="no reader here"):
        query_rows(client, "SELECT 1", {})
    for one in (runs, others, client):
        one.close()
