"""Requests that differ only in names that redaction saw in one of them."""

from __future__ import annotations

from typing import Any

import pytest

from freezeframe_replay.engine.names import same_but_for_names


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("Raj Patel", "<PERSON#1> <PERSON#2>"),
        ("<PERSON#1> and Patel", "<PERSON#1> and <PERSON#2>"),
        ({"a": ["to <PERSON#1>", "<PERSON#1>!"]}, {"a": ["to Houston", "Houston!"]}),
        (["<PERSON#1>", "<PERSON#1>"], ["Houston", "<PERSON#4>"]),
        (["<PERSON#1>", "<PERSON#2>"], ["<PERSON#2>", "<PERSON#1>"]),
        (3, 3),
    ],
)
def test_a_name_seen_on_one_side_only_is_the_same_request(recorded: Any, live: Any) -> None:
    assert same_but_for_names(recorded, live)
    assert same_but_for_names(live, recorded)


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("refund <PERSON#1>", "cancel <PERSON#1>"),
        ("refund <PERSON#1>", "refund everybody"),
        ("refund <PERSON#1>", "refund 12"),
        ("refund <PERSON#1>", "refund Maria and Joe"),
        (["<PERSON#1>", "<PERSON#1>"], ["Houston", "Dallas"]),
        (["<PERSON#1>", "<PERSON#1>"], ["<PERSON#1>", "<PERSON#2>"]),
        ("Maria", "Clara"),
        ({"to": "<PERSON#1>"}, {"for": "<PERSON#1>"}),
        (["<PERSON#1>"], ["<PERSON#1>", "<PERSON#1>"]),
        (1, True),
        ("<EMAIL#1>", "Maria"),
    ],
)
def test_any_other_difference_is_a_difference(recorded: Any, live: Any) -> None:
    assert not same_but_for_names(recorded, live)
    assert not same_but_for_names(live, recorded)
