"""The first difference is found where it is, and none is found if there is none."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.compare import described, differences, first_difference, json_or_text, shorten

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)

trees = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
"""Each place has a path of its own."""


@given(json_values)
def test_equal_values_have_no_difference(value: Any) -> None:
    assert first_difference(value, value) is None


@given(json_values, json_values)
def test_there_is_a_difference_exactly_when_the_values_differ(one: Any, other: Any) -> None:
    """As JSON: ``1`` is not ``1.0``, and the order of keys does not count."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (first_difference(one, other) is None) == same


@given(value=trees, data=st.data())
def test_every_difference_has_its_path_and_both_values(value: Any, data: st.DataObject) -> None:
    places = dict(leaves(value, "$"))
    edited = {path: {"edited": path} for path in sorted(places) if data.draw(st.booleans())}
    live = with_leaves(value, "$", edited)
    assert {item.path: (item.recorded, item.live) for item in differences(value, live)} == {
        path: (shorten(places[path]), shorten(new)) for path, new in edited.items()
    }


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield path and value of whatever holds no other value."""
    if isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    else:
        yield path, value


def with_leaves(value: Any, path: str, edited: Mapping[str, Any]) -> Any:
    if isinstance(value, list) and value:
        return [with_leaves(item, f"{path}[{index}]", edited) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: with_leaves(item, f"{path}.{key}", edited) for key, item in reversed(value.items())}
    return edited.get(path, value)


@pytest.mark.parametrize("limit", [20, 21, 120])
def test_a_value_is_shown_whole_if_it_fits_else_its_beginning_and_end(limit: int) -> None:
    fits = string.printable[: limit - 2]  # with the quotes
    assert shorten(fits, limit) == json.dumps(fits)
    for more in (1, 2, 30):
        whole = json.dumps(string.ascii_letters * 3)[: limit + more - 1] + '"'
        shown = shorten(json.loads(whole), limit)
        begin, end = shown.split(" ... ")
        assert whole.startswith(begin) and whole.endswith(end) and len(begin) == len(end)
        assert limit - 1 <= len(shown) <= limit


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


@pytest.mark.parametrize(
    ("recorded", "live", "shown"),
    [
        ("é" * 60 + "A", "é" * 60 + "B", '"' + "é" * 60 + 'A"'),
        ("é" * 61 + "A", "é" * 61 + "B", '..."' + "é" * 60 + 'A"'),
        ("A" + "é" * 59, "B", '"A' + "é" * 59 + '"'),
        ("A" + "é" * 60, "B", '"A' + "é" * 59 + '"...'),
        ("AB", "A", '"AB"'),
        ('{"a": 1}', '{"a":1}', '"{\\"a\\": 1}"'),
        ('{"a": 1}', "[1", '"{\\"a\\": 1}"'),
        ("[" * 100_000, "[" * 100_001, '..."' + "[" * 60 + '"'),
    ],
)
def test_a_text_is_shown_60_characters_around_the_place(recorded: str, live: str, shown: str) -> None:
    """Also where both are JSON and say the same, or one of them is none."""
    [found] = differences(recorded, live)
    assert (found.path, found.recorded) == ("$", shown)


def test_what_is_missing_on_one_side_is_said_to_be_absent() -> None:
    [found] = differences({"a": [1]}, {"a": [1, "<absent>"]})
    assert (found.recorded, found.live) == ("<absent>", "<absent>")
    assert shorten("<other>") == '"<other>"'
    assert shorten({"é": "<absent>"}) == '{"é": "<absent>"}'


def test_a_described_difference_has_the_whole_texts_only_if_they_say_more() -> None:
    assert described({"a": 1}, {"a": 1}) is None
    assert described({"a": 1}, {"a": 2}) == {"path": "$.a", "recorded": "1", "live": "2"}
    long = "x" * 400
    found = described({"a": f"{long}1"}, {"a": f"{long}2"})
    assert found is not None
    assert (found["whole_recorded"], found["whole_live"]) == (json.dumps(f"{long}1"), json.dumps(f"{long}2"))
    assert len(found["recorded"]) < 400


def test_of_two_types_each_is_shown_at_twice_the_context() -> None:
    (found,) = differences("x" * 500, ["y" * 500], context=50)
    assert (found.recorded, found.live) == (shorten("x" * 500, 100), shorten(["y" * 500], 100))
    (found,) = differences(10**150, 10**151, context=50)
    assert (found.recorded, found.live) == (shorten(10**150, 100), shorten(10**151, 100))


@pytest.mark.parametrize(("text", "value"), [('{"a": 1}', {"a": 1}), ("not JSON", "not JSON")])
def test_a_text_that_is_not_json_stays_a_text(text: str, value: Any) -> None:
    assert json_or_text(text) == value
