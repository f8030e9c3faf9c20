"""Runs from other backends: the spans of one trace, from any receiver of the agent's OTLP.

A replay needs only the spans, so any backend that returns every attribute unchanged will do. `BACKENDS` has
those that are read over HTTP, with the functions that list their newest runs; filters and SQL need our own
tables.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from uuid import UUID

from freezeframe_replay.sources.foreign import in_conventions
from freezeframe_replay.sources.http_door import credentials, headers_in, opener
from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_replay.sources.recordings.http_calls import iso_time
from freezeframe_replay.sources.recordings.langfuse import langfuse_span
from freezeframe_replay.sources.recordings.langsmith import langsmith_span
from freezeframe_replay.sources.recordings.mlflow import mlflow_resource, mlflow_span
from freezeframe_replay.sources.retyped import retyped
from freezeframe_replay.sources.span_file import runs_of_spans
from freezeframe_replay.sources.store import connect, query_rows
from freezeframe_schemas.address import shown_address, split_address
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RetryableStoreError, RunError, WireError
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.run import Run
from freezeframe_schemas.span import Event, Link, Resource, Scope, SpanKind, SpanRecord, StatusCode
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, as_objects, as_text, dump

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SELECT: Final = """
SELECT
    TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, StatusCode, StatusMessage,
    toUnixTimestamp64Nano(Timestamp) AS Start, Duration,
    ResourceAttributes, ScopeName, ScopeVersion, SpanAttributes,
    arrayMap(moment -> toUnixTimestamp64Nano(moment), Events.Timestamp) AS EventTimes,
    Events.Name AS EventNames, Events.Attributes AS EventAttributes,
    Links.TraceId AS LinkTraces, Links.SpanId AS LinkSpans, Links.TraceState AS LinkStates, Links.Attributes AS LinkAttributes
FROM {table} WHERE TraceId = {{trace_id:String}} LIMIT 1 BY SpanId
"""


_LIST: Final = """
SELECT
    TraceId AS trace_id, toUnixTimestamp64Nano(min(Timestamp)) AS start_time_unix_nano,
    argMin(SpanName, (ParentSpanId != '', Timestamp)) AS name,
    argMin(Duration, (ParentSpanId != '', Timestamp)) / 1e6 AS ms,
    argMin(StatusCode, (ParentSpanId != '', Timestamp)) = 'Error' AS failed
FROM {table} GROUP BY TraceId ORDER BY start_time_unix_nano DESC LIMIT {{limit:UInt32}}
"""


def load_exported_spans(url: str, trace_id: str) -> list[SpanRecord]:
    """Return the spans of a trace from the table that ``?table=`` names, each once.

    Raises:
        ConfigError: the table's name is not valid.
        StoreError: the server does not answer, has no such table, or it is of the exporter's JSON kind.
    """
    rows = _query(url, _SELECT, {"trace_id": trace_id})
    if any(not isinstance(text, str) for row in rows for text in row["SpanAttributes"].values()):
        raise PermanentStoreError(
            f"store: {shown_address(url)}: found attributes of type JSON, expected Map(String, String)",
            do="export to a table without `json: true`",
        )
    return [_span(row) for row in rows]


def list_exported_runs(url: str, limit: int) -> list[dict[str, Any]]:
    """Return id, start, name, duration and failure of the newest traces; raises as `load_exported_spans`."""
    return _query(url, _LIST, {"limit": limit})


def _query(url: str, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    table = parse_qs(urlsplit(url).query).get("table", [""])[0]
    if not _NAME.fullmatch(table):
        raise ConfigError(f"store: ?table={table}: expected the name of a table, for example otel_traces")
    client = connect(url, database="default")
    try:
        return query_rows(client, query.format(table=table), parameters)
    finally:
        client.close()


def _span(row: dict[str, Any]) -> SpanRecord:
    return SpanRecord(
        trace_id=row["TraceId"],
        span_id=row["SpanId"],
        parent_span_id=row["ParentSpanId"],
        trace_state=row["TraceState"],
        name=row["SpanName"],
        kind=SpanKind[row["SpanKind"].upper()],
        start_time_unix_nano=row["Start"],
        end_time_unix_nano=row["Start"] + row["Duration"],
        attributes=retyped(row["SpanAttributes"]),
        status_code=StatusCode[row["StatusCode"].upper()],
        status_message=row["StatusMessage"],
        events=tuple(
            Event(time_unix_nano=moment, name=name, attributes=retyped(texts))
            for moment, name, texts in zip(row["EventTimes"], row["EventNames"], row["EventAttributes"], strict=True)
        ),
        links=tuple(
            Link(trace_id=trace, span_id=span, trace_state=state, attributes=retyped(texts))
            for trace, span, state, texts in zip(
                row["LinkTraces"], row["LinkSpans"], row["LinkStates"], row["LinkAttributes"], strict=True
            )
        ),
        resource=Resource(attributes=retyped(row["ResourceAttributes"])),
        scope=Scope(name=row["ScopeName"], version=row["ScopeVersion"]),
    )


HEADERS_VARIABLE: Final = "FREEZEFRAME_STORE_HEADERS"
"""Headers of the requests, ``name=value,name=value`` with percent-encoding, as ``OTEL_EXPORTER_OTLP_HEADERS``."""

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SECONDS: Final = re.compile(r"\d+(\.\d+)?s")
_PAGE: Final = 1000
_TIMEOUT_S: Final = 60.0

_CLICKHOUSE: Final = frozenset({"clickhouse", "clickhouses"})

LAST: Final = "last"


class Get(Protocol):
    """Makes a request."""

    def __call__(self, url: str, *, post: JsonObject | None = None) -> Any:
        """Return the JSON value at the URL, requested with POST if there is a body."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run in a backend's list, with the facts that the list shows."""

    trace_id: str
    start_time_unix_nano: int
    name: str = ""
    ms: float = 0.0
    failed: bool = False
    input: str = ""


def _otlp(base: str, path: str, trace_id: str, get: Get) -> Iterator[Any]:
    yield get(f"{base}{path}/{trace_id}")


def _phoenix(base: str, path: str, trace_id: str, get: Get) -> Iterator[Any]:
    project = quote(path.strip("/") or "default", safe="")
    cursor = ""
    while True:
        query = urlencode({"trace_id": trace_id, "limit": _PAGE, **({"cursor": cursor} if cursor else {})})
        page = get(f"{base}/v1/projects/{project}/spans/otlpv1?{query}")
        yield page
        cursor = as_object(page).get("next_cursor")
        if not cursor:
            return


def _phoenix_runs(base: str, path: str, limit: int, get: Get) -> Iterator[ListedRun]:
    project = quote(path.strip("/") or "default", safe="")
    query = urlencode({"sort": "start_time", "order": "desc", "limit": limit, "include_spans": "true"})
    for item in as_objects(as_object(get(f"{base}/v1/projects/{project}/traces?{query}")).get("data")):
        spans = as_objects(item.get("spans"))
        root = next((span for span in spans if not span.get("parent_id")), {})
        yield _listed(
            item.get("trace_id"),
            (item.get("start_time"), item.get("end_time")),
            name=root.get("name"),
            failed=root.get("status_code") == "ERROR",
        )


def _mlflow(base: str, path: str, trace_id: str, get: Get) -> Iterator[Any]:
    del path
    named = f"tr-{trace_id}"
    trace = as_object(as_object(get(f"{base}/api/3.0/mlflow/traces/get?trace_id={named}")).get("trace"))
    resource = mlflow_resource(as_object(as_object(trace.get("trace_info")).get("tags")))
    # the spans of the call above have lost which texts were numbers; these are as they are stored
    kept = as_object(get(f"{base}/ajax-api/3.0/mlflow/get-trace-artifact?request_id={named}"))
    yield spans_to_otlp_json(mlflow_span(item, resource) for item in as_objects(kept.get("spans")))


def _mlflow_runs(base: str, path: str, limit: int, get: Get) -> Iterator[ListedRun]:
    place: JsonObject = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": path.strip("/") or "0"}}
    query: JsonObject = {"locations": [place], "max_results": min(limit, 500), "order_by": ["timestamp_ms DESC"]}
    for item in as_objects(as_object(get(f"{base}/api/3.0/mlflow/traces/search", post=query)).get("traces")):
        took = as_text(item.get("execution_duration")) or ""
        yield _listed(
            (as_text(item.get("trace_id")) or "").removeprefix("tr-"),
            (item.get("request_time"), None),
            name=as_object(item.get("tags")).get("mlflow.traceName"),
            ms=float(took.removesuffix("s")) * 1000 if _SECONDS.fullmatch(took) else 0.0,
            failed=item.get("state") == "ERROR",
            asked=item.get("request_preview"),
        )


def _langfuse(base: str, path: str, trace_id: str, get: Get) -> Iterator[Any]:
    del path
    trace = as_object(get(f"{base}/api/public/traces/{trace_id}"))
    yield spans_to_otlp_json(langfuse_span(item) for item in as_objects(trace.get("observations")))


def _langfuse_runs(base: str, path: str, limit: int, get: Get) -> Iterator[ListedRun]:
    del path
    query = urlencode({"limit": min(limit, 100), "orderBy": "timestamp.desc"})
    for item in as_objects(as_object(get(f"{base}/api/public/traces?{query}")).get("data")):
        latency = item.get("latency")
        yield _listed(
            item.get("id"),
            (item.get("timestamp"), None),
            name=item.get("name"),
            ms=latency * 1000 if isinstance(latency, int | float) else 0.0,
            asked=item.get("input"),
        )


def _langsmith(base: str, path: str, trace_id: str, get: Get) -> Iterator[Any]:
    del path
    query: JsonObject = {"trace": str(UUID(trace_id)), "limit": 100}
    while True:
        page = as_object(get(f"{base}/api/v1/runs/query", post=query))
        yield spans_to_otlp_json(langsmith_span(item) for item in as_objects(page.get("runs")))
        cursor = as_object(page.get("cursors")).get("next")
        if not cursor:
            return
        query = {**query, "cursor": cursor}


def _langsmith_runs(base: str, path: str, limit: int, get: Get) -> Iterator[ListedRun]:
    query: JsonObject = {"session": [path.strip("/")], "is_root": True, "limit": min(limit, 100), "order": "desc"}
    for item in as_objects(as_object(get(f"{base}/api/v1/runs/query", post=query)).get("runs")):
        yield _listed(
            str(item.get("trace_id")).replace("-", ""),
            (item.get("start_time"), item.get("end_time")),
            name=item.get("name"),
            failed=bool(item.get("error")),
            asked=item.get("inputs"),
        )


def _otlp_runs(base: str, path: str, limit: int, get: Get) -> Iterator[ListedRun]:
    """Jaeger and Tempo have special paths for searches."""
    if path.endswith("/api/v3/traces"):
        yield from _jaeger_runs(f"{base}{path}", limit, get)
        return
    if "/api/v2/traces" not in path:
        raise ConfigError(f"store: {base}{path} cannot list runs", do="name the run by its trace id")
    for item in as_objects(as_object(get(f"{base}/api/search?limit={limit}")).get("traces")):
        took, start = item.get("durationMs"), as_text(item.get("startTimeUnixNano")) or ""
        yield ListedRun(
            trace_id=(as_text(item.get("traceID")) or "").rjust(32, "0"),
            start_time_unix_nano=int(start) if start.isdecimal() else 0,
            name=as_text(item.get("rootTraceName")) or "",
            ms=took if isinstance(took, int | float) else 0.0,
        )


def _jaeger_runs(traces: str, limit: int, get: Get) -> Iterator[ListedRun]:
    """Jaeger lists the traces of a named service, whole."""
    now = dt.datetime.now(dt.UTC).isoformat().replace("+00:00", "Z")
    times = {"query.start_time_min": "1970-01-01T00:00:00Z", "query.start_time_max": now, "query.search_depth": limit}
    spans: dict[str, SpanRecord] = {}
    for service in as_list(as_object(get(f"{traces.removesuffix('/traces')}/services")).get("services")):
        try:
            found = get(f"{traces}?{urlencode({'query.service_name': service, **times})}")
        except RunError:  # how it says that this service has none
            continue
        spans.update((f"{span.trace_id} {span.span_id}", span) for span in spans_of_document(found))
    for run in reversed(runs_of_spans(spans.values())):
        yield listed_run(run)


def listed_run(run: Run) -> ListedRun:
    """Return a run as a row of a list."""
    entry = run.entry
    return ListedRun(
        trace_id=run.trace_id,
        start_time_unix_nano=entry.start_time_unix_nano,
        name=entry.name,
        ms=(entry.end_time_unix_nano - entry.start_time_unix_nano) / 1e6,
        failed=run.failed,
        input=entry.input or "",
    )


def _listed(
    trace_id: JsonValue,
    times: tuple[JsonValue, JsonValue],
    *,
    name: JsonValue,
    ms: float = 0.0,
    failed: bool = False,
    asked: JsonValue = None,
) -> ListedRun:
    start = iso_time(times[0], "start time")
    return ListedRun(
        trace_id=as_text(trace_id) or "",
        start_time_unix_nano=start,
        name=as_text(name) or "",
        ms=ms or (max(iso_time(times[1], "end time") - start, 0) / 1e6 if times[1] else 0.0),
        failed=failed,
        input=asked if isinstance(asked, str) else "" if asked is None else dump(asked),
    )


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend that is read over HTTP, its fields in this order."""

    form: str
    """Form of its URL; ``+https`` instead of ``+http`` means TLS."""
    what: str
    documents: Callable[[str, str, str, Get], Iterator[Any]]
    """Scheme and host, path without a slash at its end, trace id -> documents with the trace's spans, as `otlp` reads them."""
    runs: Callable[[str, str, int, Get], Iterator[ListedRun]] | None = None
    """Scheme and host, path, maximum number -> the newest runs, the newest first; None if it lists none."""


BACKENDS: Final[Mapping[str, Backend]] = {
    "phoenix": Backend(
        "phoenix+http://HOST:6006/PROJECT", "Arize Phoenix (its project `default` without one)", _phoenix, _phoenix_runs
    ),
    "mlflow": Backend("mlflow+http://HOST:5000/EXPERIMENT_ID", "MLflow (experiment 0 by default)", _mlflow, _mlflow_runs),
    "langfuse": Backend("langfuse+https://PUBLIC_KEY:SECRET_KEY@HOST", "Langfuse", _langfuse, _langfuse_runs),
    "langsmith": Backend("langsmith+https://HOST/PROJECT_ID", "LangSmith", _langsmith, _langsmith_runs),
    "otlp": Backend(
        "otlp+http://HOST:PORT/PATH",
        "OTLP/JSON at PATH/TRACE_ID: Jaeger (`/api/v3/traces`), Tempo (`/api/v2/traces`)",
        _otlp,
        _otlp_runs,
    ),
}
"""The part before ``+http`` in the URL -> the backend."""

URLS: Final[Mapping[str, str]] = {
    **{backend.form: backend.what for backend in BACKENDS.values()},
    "clickhouse://HOST:8123/DATABASE?table=otel_traces": "the tables of the OpenTelemetry Collector's ClickHouse exporter",
}
"""Form of the URL -> the backend that it addresses. With TLS: ``+https``, ``clickhouses``."""


def load_backend_spans(url: str, run: str, *, environ: Mapping[str, str] = os.environ) -> list[SpanRecord]:
    """Return the spans of a trace, by start, with the GenAI attributes that their vendors' attributes imply.

    Args:
        url: a URL of a form in `URLS`.
        run: a trace id, or `last` if the backend lists its runs.
        environ: where `HEADERS_VARIABLE` is read.

    Raises:
        ConfigError: the URL has none of these forms.
        RunError: the name is not a trace id, or the backend does not have that trace.
        RetryableStoreError: it does not answer, or is not available at the moment.
        PermanentStoreError: it refuses, or answers with something other than spans.
        WireError: the spans have a form that OTLP does not allow.
    """
    trace_id = _newest(url, environ) if run == LAST else run.lower()
    if not _TRACE_ID.fullmatch(trace_id):
        raise RunError(
            f"run {run!r}: expected a trace id of 32 hex digits, or `{LAST}`",
            do=f"list them with `freezeframe runs --store URL`, or take it from the trace's page in {shown_address(url)}",
        )
    if split_address(url).scheme in _CLICKHOUSE:
        spans = load_exported_spans(url, trace_id)
    else:
        backend, base, path, get = _door(url, environ)
        try:
            spans = [span for document in backend.documents(base, path, trace_id, get) for span in spans_of_document(document)]
        except ValueError as error:
            raise WireError(f"{shown_address(url)}: run {run}: {error}") from None
    if not spans:
        raise RunError(
            f"run {run}: {shown_address(url)} has no spans of it", do="check the trace id and the project or path of the URL"
        )
    return in_conventions(sorted(spans, key=lambda span: (span.start_time_unix_nano, span.span_id)))


def list_backend_runs(url: str, limit: int, *, environ: Mapping[str, str] = os.environ) -> list[ListedRun]:
    """Return the newest runs that a backend lists, the newest first.

    Raises:
        ConfigError: the URL has none of the forms, or such a backend lists no runs.
        WireError: the list has another form than it should.
        StoreError: as `load_backend_spans`.
    """
    if split_address(url).scheme in _CLICKHOUSE:
        return [ListedRun(**row) for row in list_exported_runs(url, limit)]
    backend, base, path, get = _door(url, environ)
    if backend.runs is None:
        raise ConfigError(f"store: {shown_address(url)} cannot list runs", do="name the run by its trace id")
    try:
        return list(backend.runs(base, path, limit, get))[:limit]
    except ValueError as error:
        raise WireError(f"{shown_address(url)}: the list of runs: {error}") from None


def _newest(url: str, environ: Mapping[str, str]) -> str:
    found = list_backend_runs(url, 1, environ=environ)
    if not found:
        raise RunError(f"run {LAST!r}: {shown_address(url)} has no runs", do="check the project or path of the URL")
    return found[0].trace_id


def _door(store: str, environ: Mapping[str, str]) -> tuple[Backend, str, str, Get]:
    """Return the backend of a URL, its scheme and host, the path, and the function that makes requests.

    Raises:
        ConfigError: the URL has none of the forms.
    """
    parts = split_address(store)
    name, _, protocol = parts.scheme.partition("+")
    if name not in BACKENDS or protocol not in {"http", "https"}:
        raise ConfigError(f"store: found {shown_address(store)}, expected one of: " + "; ".join(URLS))
    headers = {**credentials(store), **headers_in(environ, HEADERS_VARIABLE)}

    def get(url: str, *, post: JsonObject | None = None) -> Any:
        return _get(url, headers, post)

    return BACKENDS[name], f"{protocol}://{parts.netloc.rpartition('@')[2]}", parts.path.rstrip("/"), get


def _get(url: str, headers: Mapping[str, str], post: JsonObject | None = None) -> Any:
    """Return the JSON value at the URL. The answer's text is not in any error: it may hold the run's content."""
    body = None if post is None else dump(post).encode()
    sent = {"accept": "application/json", **({} if body is None else {"content-type": "application/json"}), **headers}
    request = urllib.request.Request(url, data=body, headers=sent)  # noqa: S310  # http or https, above
    shown = shown_address(url)
    try:
        with opener(urlsplit(url).hostname or "").open(request, timeout=_TIMEOUT_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise RunError(f"{shown}: HTTP 404: no such trace or project", do="check the trace id and the URL") from None
        if error.code in {401, 403}:
            raise PermanentStoreError(
                f"{shown}: HTTP {error.code}", do=f"give the backend's key in {HEADERS_VARIABLE}=authorization=Bearer%20KEY"
            ) from None
        kind = RetryableStoreError if error.code == 429 or error.code >= 500 else PermanentStoreError
        raise kind(f"{shown}: HTTP {error.code}") from None
    except OSError as error:
        raise RetryableStoreError(f"{shown}: does not answer: {error}", do="check the address in --store") from error
    except (ValueError, RecursionError):
        raise PermanentStoreError(f"{shown}: the answer is not JSON, expected OTLP/JSON", do="check the URL's path") from None
