"""Pieces of payloads: exact by construction, the same whatever was split before, and shared by the turns of a run."""

from __future__ import annotations

import json
from itertools import accumulate

import agent_loops
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import genai
from freezeframe_schemas.tables.columns import PIECE_LIMIT
from freezeframe_schemas.tables.pieces import SplitMemory, piece_hash, split

MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": st.text(max_size=400)}), max_size=12
)


@given(raw=st.one_of(st.binary(max_size=2000), MESSAGES.map(lambda value: json.dumps(value).encode())))
def test_pieces_joined_are_the_value(raw: bytes) -> None:
    assert b"".join(split(raw)) == raw


@given(
    histories=st.lists(MESSAGES, min_size=2, max_size=4),
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
    tail=st.sampled_from(["", "xyz"]),
)
def test_a_memory_of_earlier_values_changes_no_piece(
    histories: list[list[dict[str, str]]], separators: tuple[str, str], tail: str
) -> None:
    memory = SplitMemory()
    for said in accumulate(histories):
        content = {"model": "m", "messages": said, "tools": [{"a": "b" * 200}] * 100}  # so long that it is remembered
        raw = (json.dumps(content, separators=separators) + tail).encode()
        pieces, hashes = memory.split("t", "a", raw)
        assert pieces == split(raw)
        assert hashes == [piece_hash(piece) for piece in pieces]


def test_a_history_that_is_resent_adds_little() -> None:
    spans = agent_loops.agent_run(1, turns=12)
    bodies = [str(span.attributes[genai.REQUEST_BODY]).encode() for span in spans if genai.REQUEST_MODEL in span.attributes]
    pieces = {piece for body in bodies for piece in split(body)}
    assert sum(map(len, pieces)) < 0.3 * sum(map(len, bodies))


def test_a_value_without_cuts_is_cut_by_size() -> None:
    raw = b"x" * (2 * PIECE_LIMIT + 5)
    assert [len(piece) for piece in split(raw)] == [PIECE_LIMIT, PIECE_LIMIT, 5]
