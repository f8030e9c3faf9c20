"""The first difference is found where it is, and none is found if there is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.compare import first_difference

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_equal_values_have_no_difference(value: Any) -> None:
    assert first_difference(value, value) is None


@given(json_values, json_values)
def test_there_is_a_difference_exactly_when_the_values_differ(one: Any, other: Any) -> None:
    same = one == other and repr(one) == repr(other)
    found = first_difference(one, other)
    if found is None:
        assert one == other
    if same:
        assert found is None


@pytest.mark.parametrize(
    ("recorded", "live", "path"),
    [
        ({"a": 1}, {"a": 2}, "$.a"),
        ({"a": [1, 2]}, {"a": [1]}, "$.a[1]"),
        ({"a": 1}, {"a": 1, "b": 2}, "$.b"),
        ({"m": [{"c": "x"}]}, {"m": [{"c": "y"}]}, "$.m[0].c"),
        ({"c": '{"n": 1}'}, {"c": '{"n": 2}'}, "$.c|json.n"),
        (1, "1", "$"),
    ],
)
def test_the_path_names_the_place(recorded: Any, live: Any, path: str) -> None:
    found = first_difference(recorded, live)
    assert found is not None
    assert found.path == path


def test_long_texts_are_shown_around_their_first_difference() -> None:
    found = first_difference("x" * 500 + "A" + "y" * 500, "x" * 500 + "B" + "y" * 500)
    assert found is not None
    assert "A" in found.recorded and "B" in found.live
    assert len(found.recorded) < 200
