"""What DBeaver, clickhouse-jdbc and Grafana's plugin ask of a store as they connect and draw, asked in their way.

The statements follow those programs' public sources of August 2026 (DBeaver: of October 2024): clickhouse-java's client-v2 and
`DatabaseMetaDataImpl`, DBeaver's org.jkiss.dbeaver.ext.clickhouse, Grafana's clickhouse-datasource (`CHDatasource.ts`,
`sqlGenerator.ts`) over clickhouse-go. A statement that is refused here is a window that stays empty there.
"""

from __future__ import annotations

import gzip
import http.client
from urllib.parse import urlencode, urlsplit

import agent_loops
import clickhouse_connect
import pytest

from freezeframe_collector.facade.blocks import decode_blocks
from freezeframe_collector.store import Store
from freezeframe_schemas import genai

pytestmark = pytest.mark.long

JDBC = {
    "greeting": "SELECT currentUser() AS user, timezone() AS timezone, version() AS version LIMIT 1",
    "version": "SELECT version() as server_version",
    "ping": "SELECT 1 FORMAT TabSeparated",
    "schemas": "SELECT name AS TABLE_SCHEM, '' AS TABLE_CATALOG FROM system.databases ORDER BY name",
    "catalogs": "SELECT 'local' AS TABLE_CAT  WHERE 1 = 0",
    "table types": "SELECT arrayJoin(['TABLE','VIEW','SYSTEM TABLE']) AS TABLE_TYPE ORDER BY TABLE_TYPE",
    "tables": """SELECT '' AS TABLE_CAT, t.database AS TABLE_SCHEM, t.name AS TABLE_NAME,
        if(t.is_temporary = 1, concat('Temporary', t.engine), t.engine) AS TABLE_TYPE, t.comment AS REMARKS,
        CAST(null as Nullable(String)) AS TYPE_CAT, d.engine AS TYPE_SCHEM, CAST(null as Nullable(String)) AS TYPE_NAME
        FROM system.tables t JOIN system.databases d ON system.tables.database = system.databases.name
        WHERE t.database LIKE 'freezeframe' AND t.name LIKE '%' AND (t.is_temporary = 0)""",
    "columns": """SELECT '' AS TABLE_CAT, database AS TABLE_SCHEM, table AS TABLE_NAME, name AS COLUMN_NAME,
        toInt32(1111) AS DATA_TYPE, type AS TYPE_NAME, toInt32(multiIf(character_octet_length IS NOT NULL,
        character_octet_length, system.columns.type == 'Int64', 8, numeric_precision IS NOT NULL, numeric_precision, 0))
        AS COLUMN_SIZE, toInt32(IF (numeric_scale == 0, NULL, numeric_scale)) as DECIMAL_DIGITS,
        toInt32(numeric_precision_radix) AS NUM_PREC_RADIX, toInt32(position(type, 'Nullable(') >= 1 ?1 : 0) as NULLABLE,
        system.columns.comment AS REMARKS, system.columns.default_expression AS COLUMN_DEF,
        character_octet_length::Nullable(Int32) AS CHAR_OCTET_LENGTH, toInt32(system.columns.position) AS ORDINAL_POSITION,
        position(upper(type), 'NULLABLE') >= 1 ? 'YES' : 'NO' AS IS_NULLABLE FROM system.columns
        WHERE database LIKE 'freezeframe' AND table LIKE 'runs' AND name LIKE '%'
        ORDER BY TABLE_SCHEM, TABLE_NAME, ORDINAL_POSITION""",
    "keys": """SELECT NULL::Nullable(String) AS TABLE_CAT, system.tables.database AS TABLE_SCHEM,
        system.tables.name AS TABLE_NAME, trim(c.1) AS COLUMN_NAME, c.2::Int16 AS KEY_SEQ FROM system.tables
        ARRAY JOIN arrayZip(splitByChar(',', primary_key), arrayEnumerate(splitByChar(',', primary_key))) as c
        WHERE system.tables.primary_key <> '' AND system.tables.database = 'freezeframe' ORDER BY COLUMN_NAME""",
    "types": """SELECT name AS TYPE_NAME, CAST(attrs.c2 AS Nullable(Int32)) AS PRECISION,
        CAST(not(dt.case_insensitive) AS Boolean) AS CASE_SENSITIVE, 3::Int16 AS SEARCHABLE,
        if(empty(alias_to), name, alias_to) AS LOCAL_TYPE_NAME FROM system.data_type_families dt
        LEFT JOIN (SELECT * FROM VALUES ( ('Bool',1,false,0,0),('Int8',3,true,0,0) ) ) as attrs ON (dt.name = attrs.c1)
        WHERE alias_to == '' ORDER BY name""",
    "functions": "SELECT name AS FUNCTION_NAME, CAST(1 AS Int16) AS FUNCTION_TYPE FROM system.functions WHERE name LIKE '%'",
    "dbeaver: engines": "SELECT name FROM system.table_engines",
    "dbeaver: table list": """SELECT name as TABLE_NAME, engine as TABLE_TYPE, database as TABLE_SCHEM,comment as REMARKS, *
        FROM system.tables WHERE database = 'freezeframe'""",
    "dbeaver: sizes": """select table,sum(bytes) as table_size, sum(rows) as table_rows, max(modification_time) as
        latest_modification,min(min_date) AS min_date,max(max_date) AS max_date FROM system.parts
        WHERE database='freezeframe' AND active GROUP BY table""",
    "dbeaver: source of a view": "SHOW CREATE TABLE freezeframe.runs",
    "dbeaver: rows of a view": "SELECT * FROM freezeframe.runs LIMIT 0, 200",
    "dbeaver: rows of a table": "SELECT * FROM freezeframe.span_rows LIMIT 0, 200",
}
GRAFANA = {
    "greeting": "SELECT displayName(), version(), revision(), timezone()",
    "ping": "SELECT 1",
    "health": "SELECT version()",
    "databases": "SHOW DATABASES",
    "tables": 'SHOW TABLES FROM "freezeframe"',
    "columns": 'DESC TABLE "freezeframe"."otel_traces"',
    "all columns": "SELECT name, type, table FROM system.columns WHERE database IN ('freezeframe') AND table = 'otel_traces'",
    "functions": """SELECT name, is_aggregate, case_insensitive, alias_to, origin, description,
        syntax, arguments, returned_value, examples, categories FROM system.functions LIMIT 10000""",
    "keys of a map": """SELECT DISTINCT arrayJoin(mapKeys("SpanAttributes")) as keys
        FROM (SELECT "SpanAttributes" FROM "freezeframe"."otel_traces" LIMIT 1000) LIMIT 1000""",
    "values of a key": """SELECT DISTINCT "SpanAttributes"['{key}'] FROM "freezeframe"."otel_traces"
        WHERE mapContains("SpanAttributes", '{key}') LIMIT 1000""",
    "services": 'select distinct "ServiceName" from "freezeframe"."otel_traces" limit 1000',
    "search of traces": """SELECT "TraceId" as traceID, "ServiceName" as serviceName, "SpanName" as operationName,
        "Timestamp" as startTime, multiply("Duration", 0.000001) as duration FROM "freezeframe"."otel_traces"
        WHERE ( Timestamp >= toDateTime64(1700000000000/1000, 3) AND Timestamp <= toDateTime64(1900000000000/1000, 3) )
        AND ( ParentSpanId = '' ) AND ( Duration > 0 ) ORDER BY Timestamp DESC, Duration DESC LIMIT 1000""",
    "one trace": """WITH '{trace_id}' as __gf_trace_id,
        (SELECT min(Start) FROM "freezeframe"."otel_traces_trace_id_ts" WHERE TraceId = __gf_trace_id) as __gf_trace_start,
        (SELECT max(End) + 1 FROM "freezeframe"."otel_traces_trace_id_ts" WHERE TraceId = __gf_trace_id) as __gf_trace_end
        SELECT "TraceId" as traceID, "SpanId" as spanID, "ParentSpanId" as parentSpanID, "ServiceName" as serviceName,
        "SpanName" as operationName, multiply(toUnixTimestamp64Nano("Timestamp"), 0.000001) as startTime,
        multiply("Duration", 0.000001) as duration,
        arrayMap(key -> map('key', key, 'value',"SpanAttributes"[key]), mapKeys("SpanAttributes")) as tags,
        arrayMap(key -> map('key', key, 'value',"ResourceAttributes"[key]), mapKeys("ResourceAttributes")) as serviceTags,
        if("StatusCode" IN ('Error', 'STATUS_CODE_ERROR'), 2, 0) as statusCode,
        arrayMap((name, timestamp, attributes) -> tuple(name, toString(toUnixTimestamp64Milli(timestamp)),
        arrayMap(key -> map('key', key, 'value', attributes[key]), mapKeys(attributes)))::Tuple(name String, timestamp String,
        fields Array(Map(String, String))), "Events".Name, "Events".Timestamp, "Events".Attributes) AS logs,
        arrayMap((traceID, spanID, attributes) -> tuple(traceID, spanID,
        arrayMap(key -> map('key', key, 'value', attributes[key]), mapKeys(attributes)))::Tuple(traceID String, spanID String,
        tags Array(Map(String, String))), "Links".TraceId, "Links".SpanId, "Links".Attributes) AS references,
        "SpanKind" as kind, "StatusMessage" as statusMessage, "ScopeName" as instrumentationLibraryName,
        "ScopeVersion" as instrumentationLibraryVersion, "TraceState" as traceState FROM "freezeframe"."otel_traces"
        WHERE traceID = __gf_trace_id AND "Timestamp" >= __gf_trace_start AND "Timestamp" <= __gf_trace_end""",
    "time series": """SELECT toStartOfInterval("start_time", INTERVAL 3600 second) as "time", model, count(*)
        FROM "freezeframe"."model_calls" GROUP BY model, time ORDER BY time ASC LIMIT 100000""",
}


@pytest.fixture(scope="module")
def run(store: Store) -> str:
    """The trace id of a run in the store."""
    spans = agent_loops.agent_run(31_337, turns=4)
    store.insert(spans, token="desktop-clients")
    return spans[0].trace_id


def ask(url: str, sql: str, headers: dict[str, str], **parameters: str) -> tuple[http.client.HTTPResponse, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=400)
    connection.request("POST", "/?" + urlencode(parameters), body=sql.encode(), headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize("name", JDBC)
def test_dbeaver_is_answered_as_clickhouse_jdbc_asks(facade_url: str, run: str, name: str) -> None:
    headers = {
        "Content-Type": "text/plain; charset=UTF-8",
        "X-ClickHouse-Format": "RowBinaryWithNamesAndTypes",
        "X-ClickHouse-Database": "default",
        "Authorization": "Basic ZGVmYXVsdDo=",
    }
    answer, body = ask(facade_url, JDBC[name], headers, compress="1")
    assert answer.status == 200, body
    plain = decode_blocks(body, 1 << 30)
    columns = plain[0] if name != "ping" else 1
    assert columns >= 1
    assert answer.headers["X-ClickHouse-Format"] in {"RowBinaryWithNamesAndTypes", "TabSeparated"}


@pytest.mark.parametrize("name", GRAFANA)
def test_grafana_is_answered_as_clickhouse_go_asks(facade_url: str, run: str, name: str) -> None:
    sql = GRAFANA[name].replace("{trace_id}", run).replace("{key}", genai.REQUEST_MODEL)
    answer, body = ask(
        facade_url,
        sql,
        {"Accept-Encoding": "gzip", "X-ClickHouse-User": "default", "X-ClickHouse-Key": ""},
        database="default",
        default_format="Native",
        client_protocol_version="54483",
        enable_http_compression="1",
        max_execution_time="60",
    )
    assert answer.status == 200, body
    # a sequence of blocks: columns and rows of the first
    assert gzip.decompress(body)[0] >= 1


def test_grafana_draws_the_trace_with_its_tree_and_tags(facade_url: str, run: str) -> None:
    parts = urlsplit(facade_url)
    client = clickhouse_connect.get_client(host=parts.hostname, port=parts.port)
    rows = list(client.query(GRAFANA["one trace"].replace("{trace_id}", run)).named_results())
    client.close()
    spans = agent_loops.agent_run(31_337, turns=4)
    assert {(row["spanID"], row["parentSpanID"]) for row in rows} == {(span.span_id, span.parent_span_id) for span in spans}
    assert all(row["serviceTags"] for row in rows)
    asked = {span.span_id: span.text(genai.REQUEST_MODEL) for span in spans}
    tags = {row["spanID"]: {tag["key"]: tag["value"] for tag in row["tags"]} for row in rows}
    assert {span_id: tags[span_id].get(genai.REQUEST_MODEL) for span_id in tags} == asked
