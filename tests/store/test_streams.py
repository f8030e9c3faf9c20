"""Streamed answers folded, and unfolded by Python and by the views."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.tables.streams import MARKS, fold, unfold
from freezeframe_schemas.tables.templates import cut

SAID = 'The order left the warehouse on Monday, and the courier rings "twice", in Żółw … ' * 3
TOKENS = st.lists(st.text(max_size=8), min_size=8, max_size=40)
OPTIONS = st.fixed_dictionaries({name: st.booleans() for name in ("noise", "numbered", "ascii_only")})


def stream(tokens: list[str], *, noise: bool = False, numbered: bool = False, head: str = "", ascii_only: bool = True) -> bytes:
    """Return a stream as OpenAI's APIs send them."""
    out = [f"data: {json.dumps({'id': 'c-1', 'role': 'assistant', 'head': head})}\n\n"]
    for number, token in enumerate(tokens):
        event: dict[str, object] = {"id": "c-1", "choices": [{"delta": {"content": token}, "finish_reason": None}]}
        event |= {"sequence_number": number} if numbered else {}
        event |= {"obfuscation": f"{number * 7919:x}" * (number % 3 + 1)} if noise else {}
        out.append(f"data: {json.dumps(event, ensure_ascii=ascii_only)}\n\n")
    return "".join([*out, 'data: {"usage": {"total": 7}}\n\n', "data: [DONE]\n\n"]).encode()


def folded(raw: bytes) -> bytes | None:
    found = fold(raw)
    return None if found is None else b"".join(part for pair in zip(found.frames, found.texts, strict=True) for part in pair)


@given(tokens=TOKENS, options=OPTIONS, head=st.text(), lose=st.integers(0, 99))
def test_a_folded_stream_unfolds_to_the_same_bytes(tokens: list[str], options: dict[str, bool], head: str, lose: int) -> None:
    whole = stream(tokens, head=head, **options)
    for raw in (whole, whole[: len(whole) - lose], whole + whole, whole.replace(b"\n\n", b"\r\n\r\n")):
        if not any(mark in raw for mark in MARKS):
            found = folded(raw)
            assert found is None or unfold(found) == raw


def test_what_a_stream_says_is_the_piece_of_the_message_that_quotes_it() -> None:
    tokens = [SAID[at : at + 5] for at in range(0, len(SAID), 5)]
    raw = stream(tokens, noise=True)
    made = cut(raw)
    assert made.pieces == [json.dumps(SAID)[1:-1].encode()] == cut(json.dumps([{"content": SAID}]).encode()).pieces
    assert len(made.template) < len(raw) / 5


@pytest.mark.long
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize(("noise", "numbered"), [(False, False), (True, False), (True, True)])
def test_the_views_unfold_a_stream_as_a_replay_does(
    store: Store, facade_url: str, noise: bool, numbered: bool, ascii_only: bool
) -> None:
    """Differential: `contents` and `otel_traces` in SQL, `load_spans` in Python, and what was sent."""
    tokens = [SAID[at : at + 7] for at in range(0, len(SAID), 7)]
    trace_id = f"57{noise:d}{numbered:d}{ascii_only:d}{0:027x}"
    bodies = {
        "1" * 16: stream(tokens, noise=noise, numbered=numbered, ascii_only=ascii_only),
        "2" * 16: stream(["short"] * 9 + ["", "x"] * 9, noise=noise, numbered=numbered),
        "3" * 16: b"data: one\n\ndata: two\n\n" * 5,
    }
    spans = [
        SpanRecord(
            trace_id=trace_id, span_id=span_id, name="POST", start_time_unix_nano=10**18, end_time_unix_nano=10**18 + 1,
            attributes={genai.RESPONSE_BODY: body.decode()},
        )
        for span_id, body in bodies.items()
    ]  # fmt: skip
    store.insert(spans, token=trace_id)
    runs = open_runs(facade_url)
    assert runs.load_spans(trace_id) == spans
    runs.close()
    for sql in (
        f"SELECT span_id, body FROM contents WHERE trace_id = '{trace_id}'",
        f"SELECT SpanId, SpanAttributes['{genai.RESPONSE_BODY}'] FROM otel_traces WHERE TraceId = '{trace_id}'",
    ):
        _, rows = store.query(sql.replace("FROM ", f"FROM {store.database}."))
        assert {span_id: body.encode() for span_id, body in rows} == bodies
