"""The start of a run's input in lists: the question of a request, the arguments of a task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from freezeframe_replay.report.tagged import input_text
from freezeframe_schemas import genai, values
from freezeframe_schemas.tables.previews import input_preview, output_preview

HEAD = {"method": "POST", "path": "/chat", "headers": [["content-type", "application/json"]], "client": None}


def shown(entry: dict[str, Any]) -> str:
    """Return what a list shows of an entry point's input."""
    return input_text(input_preview({genai.ENTRY_INPUT: values.encode(entry).encode()}))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (json.dumps({"user": "ann", "question": 'where is "it"?'}), 'where is "it"?'),
        (
            json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "où est-il?"}]}),
            "où est-il?",
        ),
        (json.dumps({"messages": ["odd"], "order": "AC-1"}), 'messages=["odd"], order="AC-1"'),
        ("where is it?", "where is it?"),
        ('{"body": "x"}, "body": "y"', '{"body": "x"}, "body": "y"'),
        ("", "/chat"),
    ],
)
def test_a_request_is_listed_by_what_it_asks(body: str, expected: str) -> None:
    assert shown({**HEAD, "body": body}) == expected


def test_a_request_without_a_body_is_listed_by_its_path() -> None:
    assert shown({**HEAD, "method": "GET", "path": "/orders/AC-1"}) == "/orders/AC-1"


def test_a_task_is_listed_by_its_arguments() -> None:
    task = {"by": "rq", "args": ["AC-1", 2], "kwargs": {"soon": True}, "id": "t1", "attempt": 0}
    assert shown(task) == '"AC-1", 2, soon=true'
    assert shown({**task, "args": ["where is my order? " * 9]}).startswith('"where is my order? where')


def test_a_long_question_is_cut() -> None:
    cut = shown({**HEAD, "body": json.dumps({"question": "where? " * 50})})
    assert (len(cut), cut[:7], cut[-1]) == (80, "where? ", "…")


@pytest.mark.parametrize(
    ("yields", "expected"),
    [
        (["Your ", "order \\", '"AC-1"', " is in\nLyon."], 'Your order \\"AC-1" is in Lyon.'),
        (list("word " * 400), f"{'word ' * 15}word…"),
        (["long " * 400], f"{'long ' * 15}long…"),
        ([1, 2], '{"yields": [1, 2], "return": null}'),
    ],
)
def test_a_stream_is_listed_by_the_text_that_it_spells(yields: list[Any], expected: str) -> None:
    """However many pieces it came in; items that are not texts stay as they are."""
    entry = values.encode({"yields": yields, "return": None}).encode()
    assert output_preview({genai.ENTRY_OUTPUT: entry}) == expected
