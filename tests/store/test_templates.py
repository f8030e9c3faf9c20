"""Templates of payloads: exact by construction, the same whatever was cut before, and one text in all its forms."""

from __future__ import annotations

import json
import time
from itertools import accumulate

import agent_loops
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.tables.columns import PIECE_LIMIT
from freezeframe_schemas.tables.templates import HOLE, Cut, CutMemory, cut, fill

TEXTS = st.one_of(
    st.text(max_size=300),
    st.text(alphabet='ab\\"[]{},\n\0', max_size=300),
    st.text(min_size=1, max_size=8).map(lambda text: text * 60),
)
DOCUMENTS = st.recursive(
    st.one_of(TEXTS, st.integers(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(["tools", "content", "role"]), inner, max_size=3)
    ),
    max_leaves=12,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": ")])
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": TEXTS}), max_size=6)


def filled(made: Cut) -> bytes:
    """Return the value of a cut, by the names of its pieces alone."""
    return fill(made.template, made.hashes, dict(zip(made.hashes, made.pieces, strict=True)))


@given(raw=st.one_of(st.binary(max_size=2000), TEXTS.map(str.encode)))
def test_any_bytes_come_out_as_they_went_in(raw: bytes) -> None:
    assert filled(cut(raw)) == raw


@given(document=DOCUMENTS, separators=SEPARATORS, ascii_only=st.booleans(), keep=st.integers(0, 100))
def test_json_comes_out_as_it_went_in_also_where_it_is_cut_off(
    document: object, separators: tuple[str, str], ascii_only: bool, keep: int
) -> None:
    raw = json.dumps(document, separators=separators, ensure_ascii=ascii_only).encode()
    for value in (raw, raw[: len(raw) * keep // 100], b"[" + raw):
        assert filled(cut(value)) == value


@given(
    events=st.lists(
        st.sampled_from(["data: ", "event: ", "id: ", ": "]).flatmap(lambda name: st.text().map(name.__add__)), min_size=1
    )
)
def test_a_streamed_answer_comes_back_whatever_its_events_are(events: list[str]) -> None:
    raw = "".join(f"{event}\n\n" for event in events).encode()
    for made in (cut(raw), CutMemory().cut("t", genai.RESPONSE_BODY, raw)):
        assert filled(made) == raw


def test_a_stream_above_the_limit_of_pieces_is_cut() -> None:
    raw = b'data: {"a": "b"}\n\n' * (PIECE_LIMIT // 10)
    made = cut(raw)
    assert filled(made) == raw
    assert max(map(len, made.pieces)) <= PIECE_LIMIT


@given(histories=st.lists(MESSAGES, min_size=2, max_size=4), separators=SEPARATORS, lose=st.integers(0, 40))
def test_a_memory_of_earlier_values_changes_no_cut(
    histories: list[list[dict[str, str]]], separators: tuple[str, str], lose: int
) -> None:
    memory = CutMemory()
    for said in accumulate(histories):
        tools = [{"name": "a", "required": ["b"], "description": "c" * 400}] * 3
        raw = json.dumps({"model": "m", "messages": said, "tools": tools}, separators=separators).encode()
        for value in (raw, raw[: len(raw) - lose]):
            assert memory.cut("t", genai.REQUEST_BODY, value) == cut(value)


def test_a_result_is_one_piece_in_every_form_it_comes_in() -> None:
    said = 'The order "A-1057" left the warehouse.\nIt is expected on Monday; the courier will ring twice. ' * 3
    forms = [
        json.dumps(said),
        json.dumps({"messages": [{"role": "tool", "content": said}]}, separators=(",", ":")),
        json.dumps([{"role": "tool", "parts": [{"type": "tool_call_response", "response": said}]}]),
    ]
    assert {tuple(cut(form.encode()).pieces) for form in forms} == {(json.dumps(said)[1:-1].encode(),)}


def test_the_tools_of_a_request_are_one_piece_and_that_of_the_attribute() -> None:
    tools = [{"name": "refund", "parameters": {"required": ["a"]}, "description": "]" * 200}, {"name": "b" * 200}]
    text = json.dumps(tools, separators=(",", ":"))
    memory = CutMemory()
    for body in (f'{{"messages":[],"tools":{text},"seed":7}}', f'{{"tools":{text}}}'):
        assert memory.cut("t", genai.REQUEST_BODY, body.encode()).pieces == [text[1:-1].encode()]
    assert memory.cut("t", genai.TOOL_DEFINITIONS, text.encode()) == Cut(
        f"[{HOLE}]", [text[1:-1].encode()], cut(f'{{"tools":{text}}}'.encode()).hashes
    )


def test_a_history_that_is_resent_adds_one_piece_for_each_text() -> None:
    spans = agent_loops.agent_run(1, turns=12)
    bodies = [str(span.attributes[genai.REQUEST_BODY]).encode() for span in spans if genai.REQUEST_MODEL in span.attributes]
    pieces = {piece for body in bodies for piece in cut(body).pieces}
    assert sum(map(len, pieces)) < 0.2 * sum(map(len, bodies))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"a":"' + b"x" * (2 * PIECE_LIMIT + 5) + b'"}', id="a string above the limit of pieces"),
        pytest.param(b'{"tools":[' + b"1," * PIECE_LIMIT + b"1]}", id="tools above it"),
        pytest.param(json.dumps([{"a": "b" * 50}] * 5000).encode(), id="a long history of short texts"),
    ],
)
def test_no_piece_and_no_template_is_large(raw: bytes) -> None:
    made = cut(raw)
    assert filled(made) == raw
    assert max(map(len, made.pieces)) <= PIECE_LIMIT
    assert len(made.template) <= 16 << 10


@pytest.mark.long
@pytest.mark.parametrize(
    "part",
    [b'"', b'\\"', b'\\\\"', b'"a",', b'"tools":[', b'"tools":[],', b'["' + b"x" * 200 + b'",', b"[", b"\\"],
)
def test_no_bytes_take_more_than_linear_time(part: bytes) -> None:
    """Judged by the ratio of two sizes: quadratic work would take sixteen times as long for four times the bytes."""

    def cpu_s(raw: bytes) -> float:
        taken: list[float] = []
        for _ in range(3):
            start = time.thread_time()
            assert filled(cut(raw)) == raw
            taken.append(time.thread_time() - start)
        return min(taken)

    small = b"[" + part * (50_000 // len(part))
    assert cpu_s(small * 4) < 10 * cpu_s(small) + 0.05
