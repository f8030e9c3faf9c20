"""Answers out of earlier runs: only what the model said, and only to the same request at the same host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from freezeframe_replay.process.cached_answers import CachedAnswers
from freezeframe_schemas import genai
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.exchange import Chunk, Exchange, Kind, Request, Response, exchange_attributes
from freezeframe_schemas.span import SpanRecord

REQUEST = Request(
    method="POST",
    url="https://api.openai.com/v1/chat/completions",
    headers=(("content-type", "application/json"),),
    body=b'{"model":"gpt-4o","messages":[{"role":"user","content":"Where?"}],"user":"u-1"}',
)


class Store:
    def __init__(self, **attributes: Any) -> None:
        response = Response(status=200, chunks=(Chunk(data=b"{}"),))
        exchange = Exchange(kind=Kind.MODEL, name="", seam="proxy", request=REQUEST, response=response)
        told = {genai.REQUEST_MODEL: "gpt-4o", genai.USAGE_INPUT_TOKENS: 1_000_000, genai.USAGE_OUTPUT_TOKENS: 0}
        span = SpanRecord(trace_id="1" * 32, span_id="2" * 16, name="chat", start_time_unix_nano=1, end_time_unix_nano=2)
        self.span = span.with_attributes({**exchange_attributes(exchange), **told, **attributes})

    def sql(self, query: str, parameters: Any) -> tuple[list[str], list[Any]]:
        del query
        return ["trace_id"], [(self.span.trace_id,)] if parameters["model"] == "gpt-4o" else []

    def load_spans(self, run: str) -> list[SpanRecord]:
        assert run == self.span.trace_id
        return [self.span]


def cached(**attributes: Any) -> CachedAnswers:
    store: Any = Store(**attributes)
    return CachedAnswers(store)


def test_an_equal_request_is_answered_and_what_it_saves_is_counted() -> None:
    cache = cached()
    asked = replace(REQUEST, body=REQUEST.body.replace(b"u-1", b"u-2"))  # who asks does not decide
    found = cache.find(asked)
    assert found is not None
    assert (found.response.body, cache.saved.calls, cache.saved.input_tokens, cache.saved.unpriced) == (b"{}", 1, 1_000_000, 0)
    assert cache.saved.cost_usd > 0


@pytest.mark.parametrize(
    "changed",
    [
        {"body": REQUEST.body.replace(b"Where", b"Who")},
        {"body": REQUEST.body.replace(b"gpt-4o", b"gpt-5")},
        {"url": "https://gateway.example/v1/chat/completions"},
    ],
    ids=["question", "model", "host"],
)
def test_another_request_is_not(changed: dict[str, Any]) -> None:
    cache = cached()
    assert cache.find(replace(REQUEST, **changed)) is None
    assert cache.saved.calls == 0


@pytest.mark.parametrize(
    "attributes",
    [
        {genai.REDACTION_SURROGATES: '{"Nils Amsel": "PERSON"}'},
        {genai.REDACTION_UNREAD: "1"},
        {genai.HTTP_RESPONSE_STATUS_CODE: 500},
        {genai.RESPONSE_COMPLETION: "broken"},
        {genai.RESPONSE_BODY_OMITTED: "over limit"},
    ],
    ids=["redacted", "unread", "refused", "cut", "omitted"],
)
def test_what_the_model_did_not_say_so_is_never_given(attributes: dict[str, Any]) -> None:
    assert cached(**attributes).find(REQUEST) is None


def test_a_store_that_cannot_be_read_lets_the_request_go_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cached()

    def refuse(self: Store, query: str, parameters: Any) -> Any:
        raise PermanentStoreError("store: gone")

    monkeypatch.setattr(Store, "sql", refuse)
    assert (cache.find(REQUEST), cache.fault) == (None, "store: gone")
