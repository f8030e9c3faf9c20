"""Blocks of the Native format are read back as they were written, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_schemas.tables.native import decode_blocks, encode_block

CELLS: dict[str, st.SearchStrategy[Any]] = {
    "String": st.text(),
    "UInt32": st.integers(0, 2**32 - 1),
    "Int64": st.integers(-(2**63), 2**63 - 1),
    "DateTime64(9, 'UTC')": st.integers(0, 2**63 - 1),
    "FixedString(12)": st.binary(min_size=12, max_size=12),
    "Array(UInt64)": st.lists(st.integers(0, 2**64 - 1)),
    "Map(String, String)": st.dictionaries(st.text(), st.text()),
    "Map(String, Array(FixedString(12)))": st.dictionaries(st.text(), st.lists(st.binary(min_size=12, max_size=12))),
}


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, tuple[str, list[Any]]]:
    rows = draw(st.integers(0, 5))
    return {type_: (type_, draw(st.lists(cells, min_size=rows, max_size=rows))) for type_, cells in CELLS.items()}


@settings(max_examples=examples(30))
@given(st.lists(blocks(), max_size=3), st.data())
def test_blocks_are_read_back_and_never_in_part(written: list[dict[str, tuple[str, list[Any]]]], data: st.DataObject) -> None:
    raws = [encode_block(block) for block in written]
    assert [*decode_blocks(b"".join(raws))] == [{name: cells for name, (_, cells) in block.items()} for block in written]
    if raws:
        with pytest.raises(ValueError, match=r"cut short|codec|found type"):
            _ = [*decode_blocks(raws[0][: data.draw(st.integers(1, len(raws[0]) - 1))])]


def test_text_stays_bytes_where_that_is_asked_for() -> None:
    raw = encode_block({"body": ("String", [b"\xff"])})
    assert [*decode_blocks(raw, binary={"body"})] == [{"body": [b"\xff"]}]
    with pytest.raises(ValueError, match="codec can't decode"):
        _ = [*decode_blocks(raw)]


def test_a_type_that_holds_no_span_is_named() -> None:
    with pytest.raises(ValueError, match=r"found type 'Nullable\(Int64\)'"):
        _ = [*decode_blocks(encode_block({"n": ("Nullable(Int64)", [None])}))]


def test_a_length_may_take_several_bytes() -> None:
    texts = ["x" * size for size in (127, 128, 20_000)]
    assert [*decode_blocks(encode_block({"t": ("String", texts)}))] == [{"t": texts}]
