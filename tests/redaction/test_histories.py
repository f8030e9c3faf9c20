"""Agents send their history with every turn: what it becomes does not depend on what is remembered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from bare_spans import bare_span
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.redacting.histories import MIN_HISTORY_LENGTH
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

_KEY = TenantKey(id="test/1", secret=b"k" * 32)
_LONG = "Please be brief, polite and exact. " * (MIN_HISTORY_LENGTH // 30)
_SAID = (
    "My name is Maria Keller, mail maria.keller@corp-mail.io", "thanks, Maria!", "Keller called again", "nothing to see",
    'a "quoted" word \\ and },{"role":"x"}] in a text', "card 4111 1111 1111 1111", "été à Köln \u2028 日本語", "]", "},", "",
    "Dear Thompson,\n\nregards,\nPriya Sharma", '{"customer": "Priya Sharma", "phone": "+49 30 9012345"}', "\x7f/",
    "phone", "030 9012345", "And your date of birth?", "July 9th, 1974",
)  # fmt: skip


@st.composite
def _messages(draw: st.DrawFn) -> list[Any]:
    shapes: list[Any] = []
    for said in draw(st.lists(st.sampled_from(_SAID), min_size=2, max_size=7)):
        other = draw(st.sampled_from(_SAID))
        shapes.append(
            draw(
                st.sampled_from(
                    (
                        {"role": "user", "content": said},
                        {"role": "assistant", "parts": [{"type": "text", "content": said}, {"text": other}]},
                        {"name": said[:30], "value": other},
                        {"delta": {"content": said}, "index": 0},
                        {},
                        said,
                        [said, other],
                    )
                )
            )
        )
    return shapes


_BODIES: tuple[Callable[[list[Any]], Any], ...] = (
    lambda messages: messages,
    lambda messages: {"model": "gpt-5", "messages": messages},
    lambda messages: {"messages": messages, "user": "maria.keller@corp-mail.io", "tools": [{"function": {"name": "find"}}]},
    lambda messages: {"customer": messages, "notes": [{"text": "thanks, Maria!"}], "name": "phone", "value": "x"},
    lambda messages: {"input": {"messages": messages}, "messages": [{"content": "]"}]},
    lambda messages: [{"role": "system", "content": "thanks, Keller"}, *messages],
    lambda messages: {"": messages, "x": "},]"},
    lambda messages: {"system": _LONG, "messages": messages[1:]},
    lambda messages: {"messages": messages, "count": len(messages) % 10},
)
_SPELLINGS: tuple[dict[str, Any], ...] = (
    {},
    {"ensure_ascii": False},
    {"separators": (",", ":")},
    {"indent": 1, "ensure_ascii": False},
)


def _span(name: str, text: str | bytes) -> SpanRecord:
    return bare_span({name: text})


@pytest.mark.proof
@pytest.mark.long
@given(
    _messages(),
    st.sampled_from(_BODIES),
    st.sampled_from(_SPELLINGS),
    st.sampled_from((genai.INPUT_MESSAGES, genai.REQUEST_BODY, "customer")),
    st.integers(1, 3),
    st.booleans(),
)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_history_that_grows_becomes_what_it_becomes_as_a_whole(
    messages: list[Any], body: Any, spelling: dict[str, Any], name: str, step: int, named_beside: bool
) -> None:
    """The law of `histories`: turn by turn through one redactor, and each turn through one that has seen nothing."""
    long = Redactor(load_policy(), _KEY)
    begun = [{"role": "system", "content": _LONG}]
    for turn in range(0, len(messages) + 1, step):
        text = json.dumps(body([*begun, *messages[:turn]]), **spelling)
        span = _span(name, text.encode() if name == genai.REQUEST_BODY else text)
        if named_beside and turn > step:
            span = replace(span, status_message="It is about Maria Keller")
        fresh = Redactor(load_policy(), _KEY).redact_span(span)
        assert long.redact_span(span) == fresh


def test_only_what_is_new_of_a_history_is_read() -> None:
    redactor = Redactor(load_policy(), _KEY)
    histories = redactor._texts.histories  # pyright: ignore[reportPrivateUsage] -- what it reads shows nowhere else
    messages = [{"role": "user", "content": f"{_LONG} {number}"} for number in range(6)]
    for turn in range(2, 7, 2):
        text = json.dumps({"messages": messages[:turn], "model": "gpt-5"})
        span = _span(genai.REQUEST_BODY, text)
        growth = histories.grown(span.trace_id, genai.REQUEST_BODY, text, "")
        assert (growth is None) == (turn == 2)
        if growth is not None:
            assert (growth.key, json.loads(growth.added)) == ("messages", messages[turn - 2 : turn])
        redactor.redact_span(span)
        assert histories.recall(span.trace_id, genai.REQUEST_BODY, text) is not None


def _agree(*texts: str) -> None:
    redactor = Redactor(load_policy(), _KEY)
    for text in texts:
        span = _span(genai.INPUT_MESSAGES, text)
        assert redactor.redact_span(span) == Redactor(load_policy(), _KEY).redact_span(span)


def test_a_bracket_in_a_text_ends_no_list() -> None:
    """The earlier text goes on with a bracket at a position that is inside a string."""
    head = '{"messages":[{"content":"' + _LONG + '"},"a }'
    _agree(head + '] b"]}', head + ',{",":","}] b"]}')


def test_a_key_that_comes_twice_does_not_hide_the_key_of_a_list() -> None:
    head = '{"n":0,"phone":[{"x":"' + _LONG + '"}'
    _agree(head + '],"b":1,"n":2}', head + ',{"value":"030 9012345"}],"b":1,"n":2}')


def test_a_pair_of_texts_that_grows_is_no_pair_any_more() -> None:
    """``["phone", "9012345"]`` is a phone number because of the text before it."""
    pair = '["phone","9012345 ' + _LONG + '"'
    _agree(pair + "]", pair + ',{"a":1}]')
    _agree('[{"a":"' + _LONG + '"}]', '[{"a":"' + _LONG + '"},"phone","9012345 or so"]')


def test_what_changes_behind_the_list_is_seen() -> None:
    head = '{"messages":[{"x":"' + _LONG + '"}'
    _agree(head + '],"card":4111111111111111}', head + ',{"x":""}],"card":4012888888881881}', head + ',{"x":""},{}],"n":1}')


def test_a_name_found_turns_ago_is_found_in_what_is_new() -> None:
    turns = ["My name is Maria Keller", "I see", "Go on", "the Keller file"]
    messages = [{"content": _LONG}, *({"content": turn} for turn in turns)]
    _agree(*(json.dumps(messages[: end + 1]) for end in range(1, 5)))
