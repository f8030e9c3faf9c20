"""Runs from backends other than ours: the spans of one trace, from wherever the agent's OTLP went.

A replay needs only the spans, so any backend will do that returns every attribute as it was sent. `BACKENDS` lists
those that are read over HTTP; the lists and the SQL of `runs`, `sql` and `store` need our own tables.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from freezeframe_replay.sources.exporter_tables import load_exported_spans
from freezeframe_replay.sources.foreign import in_conventions
from freezeframe_replay.sources.http_door import credentials, headers_in, opener
from freezeframe_replay.sources.otlp import spans_of_document
from freezeframe_schemas.address import shown_address, split_address
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RetryableStoreError, RunError
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import as_object

HEADERS_VARIABLE: Final = "FREEZEFRAME_STORE_HEADERS"
"""Headers of the requests, ``name=value,name=value`` with percent-encoding, as ``OTEL_EXPORTER_OTLP_HEADERS``."""

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_PAGE: Final = 1000
_TIMEOUT_S: Final = 60.0

Get = Callable[[str], Any]
"""URL -> the JSON value there."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A backend that is read over HTTP."""

    form: str
    """Form of its URL; ``+https`` instead of ``+http`` means TLS."""
    what: str
    documents: Callable[[str, str, str, Get], Iterator[Any]]
    """Scheme and host, path without a slash at its end, trace id -> documents with the trace's spans, as `otlp` reads them."""


BACKENDS: Final[Mapping[str, Backend]] = {
    "phoenix": Backend(
        form="phoenix+http://HOST:6006/PROJECT", what="Arize Phoenix (project `default` if none is named)", documents=_phoenix
    ),
    "otlp": Backend(
        form="otlp+http://HOST:PORT/PATH",
        what="OTLP/JSON at PATH/TRACE_ID: Jaeger (`/api/v3/traces`), Tempo (`/api/v2/traces`)",
        documents=_otlp,
    ),
}
"""The part before ``+http`` in the URL -> the backend."""

URLS: Final[Mapping[str, str]] = {
    **{backend.form: backend.what for backend in BACKENDS.values()},
    "clickhouse://HOST:8123/DATABASE?table=otel_traces": "the tables of the OpenTelemetry Collector's ClickHouse exporter",
}
"""Form of the URL -> what it addresses. With TLS: ``+https``, ``clickhouses``."""


def is_backend(url: str) -> bool:
    """Return whether the URL names a backend other than our own store."""
    parts = urlsplit(url)
    return "+" in parts.scheme or (parts.scheme.startswith("clickhouse") and "table" in parse_qs(parts.query))


def load_backend_spans(url: str, run: str, *, environ: Mapping[str, str] = os.environ) -> list[SpanRecord]:
    """Return the spans of a trace, by start, with the GenAI attributes that their vendors' attributes imply.

    Args:
        url: a URL of a form in `URLS`.
        run: a trace id; other backends know no other names of runs.
        environ: where `HEADERS_VARIABLE` is read.

    Raises:
        ConfigError: the URL has none of these forms.
        RunError: the name is not a trace id, or the backend does not have that trace.
        RetryableStoreError: it does not answer, or says that it cannot at the moment.
        PermanentStoreError: it refuses, or answers with something other than spans.
        WireError: the spans have a form that OTLP does not allow.
    """
    trace_id = run.lower()
    if not _TRACE_ID.fullmatch(trace_id):
        raise RunError(
            f"run {run!r}: expected a trace id of 32 hex digits", do=f"take it from the trace's page in {shown_address(url)}"
        )
    scheme = split_address(url).scheme
    name, _, protocol = scheme.partition("+")
    if scheme in {"clickhouse", "clickhouses"}:
        spans = load_exported_spans(url, trace_id)
    elif name in BACKENDS and protocol in {"http", "https"}:
        documents = _documents(BACKENDS[name], url, trace_id, {**credentials(url), **headers_in(environ, HEADERS_VARIABLE)})
        spans = [span for document in documents for span in spans_of_document(document)]
    else:
        raise ConfigError(f"store: found {shown_address(url)}, expected one of: " + "; ".join(URLS))
    if not spans:
        raise RunError(
            f"run {run}: {shown_address(url)} has no spans of it", do="check the trace id and the project or path of the URL"
        )
    return in_conventions(sorted(spans, key=lambda span: (span.start_time_unix_nano, span.span_id)))


def _documents(backend: Backend, url: str, trace_id: str, headers: Mapping[str, str]) -> Iterator[Any]:
    parts = urlsplit(url)
    base = f"{parts.scheme.partition('+')[2]}://{parts.netloc.rpartition('@')[2]}"
    return backend.documents(base, parts.path.rstrip("/"), trace_id, lambda url: _get(url, headers))


def _get(url: str, headers: Mapping[str, str]) -> Any:
    """Return the JSON value at the URL. The answer's text is not in any error: it may hold the run's content."""
    request = urllib.request.Request(url, headers={"accept": "application/json", **headers})  # noqa: S310  # http or https, above
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
