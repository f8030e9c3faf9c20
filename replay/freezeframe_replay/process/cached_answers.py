"""Answers of earlier runs to equal model requests, for development and evaluation. Never part of a replay.

An answer is used only if it is exactly the model's: whole, with status 200, and unchanged by redaction. The
request must be equal in all significant fields, and go to the same host.
"""

from __future__ import annotations

import datetime as dt
import threading
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from freezeframe_replay.engine.freeze import exchange_key
from freezeframe_replay.sources.store import RunStore
from freezeframe_schemas import genai
from freezeframe_schemas.errors import StoreError, WireError
from freezeframe_schemas.exchange import Completion, Exchange, Kind, Request, exchange_from_span
from freezeframe_schemas.prices import price_of
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables.previews import input_preview
from freezeframe_schemas.wire import find_dialect_of

_MAX_RUNS: Final = 200
"""Number of the newest runs with a similar first question that are searched."""
_RUNS: Final = """
    SELECT trace_id FROM spans WHERE exchange_kind = 'model' AND request_model = {model:String} AND http_status = 200
    AND input_preview = {begins:String} GROUP BY trace_id ORDER BY max(start_time) DESC LIMIT {most:UInt32}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Model requests that were saved."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Calls of a model without a price, or whose tokens are not known: they add nothing to the cost."""


class CachedAnswers:
    """Finds answers in a store. Safe to call from any thread."""

    def __init__(self, store: RunStore) -> None:
        self.saved = Saved()
        self.fault = ""
        """Reason why the store could not be read, if so: then requests are made for real."""
        self._store = store
        self._lock = threading.Lock()
        self._asked: set[tuple[str, str]] = set()
        self._runs: set[str] = set()
        self._answers: dict[tuple[str, str], tuple[Exchange, SpanRecord]] = {}

    def find(self, request: Request) -> Exchange | None:
        """Return the newest answer to the request, and count the savings, or None."""
        match = find_dialect_of(request)
        if match is None:
            return None
        requested = match.dialect.request_attributes(request.body)
        answers = {
            genai.INPUT_MESSAGES: str(requested.get(genai.INPUT_MESSAGES) or "").encode(),
            genai.REQUEST_BODY: request.body,
        }
        place = str(requested.get(genai.REQUEST_MODEL) or ""), input_preview(answers)
        call = Exchange(kind=Kind.MODEL, name="", seam="", request=request)
        with self._lock:
            if place not in self._asked:
                self._asked.add(place)
                try:
                    self._read(*place)
                except (StoreError, WireError) as error:
                    self.fault = error.message
            found = self._answers.get(_place(call))
            if found is None:
                return None
            exchange, span = found
            self.saved = _with(self.saved, span)
        return exchange

    def _read(self, model: str, begins: str) -> None:
        """Keep the answers of the newest runs with a question that begins like this one, by the store's preview."""
        _, rows = self._store.sql(_RUNS, {"model": model, "begins": begins, "most": _MAX_RUNS})
        for (trace_id,) in rows:
            if trace_id in self._runs:
                continue
            self._runs.add(trace_id)
            for span in self._store.load_spans(trace_id):
                exchange = exchange_from_span(span) if _is_unredacted(span) else None
                if exchange is not None and exchange.response.completion is Completion.COMPLETE:
                    self._answers.setdefault(_place(exchange), (exchange, span))


def _place(exchange: Exchange) -> tuple[str, str]:
    return urlsplit(exchange.request.url).netloc, exchange_key(exchange).digest


def _is_unredacted(span: SpanRecord) -> bool:
    """Return whether a span holds a model's whole answer, and redaction changed nothing in the span."""
    changed = span.text(genai.REDACTION_SURROGATES) not in (None, "", "{}") or genai.REDACTION_UNREAD in span.attributes
    omitted = {genai.REQUEST_BODY_OMITTED, genai.RESPONSE_BODY_OMITTED} & span.attributes.keys()
    is_answered = span.integer(genai.HTTP_RESPONSE_STATUS_CODE) == 200
    return span.text(genai.EXCHANGE_KIND) == Kind.MODEL.value and is_answered and not changed and not omitted


def _with(saved: Saved, span: SpanRecord) -> Saved:
    read, written = span.integer(genai.USAGE_INPUT_TOKENS), span.integer(genai.USAGE_OUTPUT_TOKENS)
    price = price_of(span.text(genai.REQUEST_MODEL) or "", dt.datetime.now(dt.UTC).date())
    known = price is not None and (read is not None or written is not None)
    cost = price.cost_usd(input_tokens=read or 0, output_tokens=written or 0) if price is not None else 0.0
    return replace(
        saved,
        calls=saved.calls + 1,
        input_tokens=saved.input_tokens + (read or 0),
        output_tokens=saved.output_tokens + (written or 0),
        cost_usd=saved.cost_usd + cost,
        unpriced=saved.unpriced + (not known),
    )
