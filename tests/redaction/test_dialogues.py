"""A question says what its answer is: in a transcript, and in the messages of a chat."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bare_spans import bare_span
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_schemas import genai

KEY = TenantKey(id="test/1", secret=b"k" * 32)
SPEAKERS = st.sampled_from(["Agent", "Caller", "A", "客服", "Operadora", "> Support", "**Me**"])
ASKED = [
    ("What is your date of birth?", "July 9th, 1974"),
    ("And your passport number?", "it is G2884190"),
    ("Your account number, please.", "62418830917"),
    ("¿Me confirma un teléfono?", "222 417 90 36"),
    ("To verify you, please give me your SIN.", "418 532 446"),
    ("And the three digits on the back?", "482"),
    ("what is the wifi password?", "mango-Tree-2291"),
]
OTHERS = [
    ("Which flight do you mean?", "July 9th, 1974"),
    ("How many are left?", "62418830917"),
    ("Which build?", "mango-Tree-2291"),
]


def redacted(text: str) -> str:
    return str(Redactor(load_policy(), KEY).redact(text).value)


@pytest.mark.parametrize(("question", "answer"), ASKED)
@given(asks=SPEAKERS, answers=SPEAKERS)
def test_an_answer_in_a_transcript_is_what_was_asked_for(question: str, answer: str, asks: str, answers: str) -> None:
    made = redacted(f"{asks}: {question}\n{answers}: {answer}\n{asks}: thank you")
    assert answer.removeprefix("it is ") not in made
    assert made.startswith(f"{asks}: {question}\n{answers}: ")


@pytest.mark.parametrize(("question", "answer"), OTHERS)
def test_an_answer_to_another_question_stays(question: str, answer: str) -> None:
    transcript = f"Agent: {question}\nMe: {answer}"
    assert redacted(transcript) == transcript
    chat = json.dumps([{"role": "assistant", "content": question}, {"role": "user", "content": answer}])
    assert redacted(chat) == chat


@pytest.mark.parametrize(("question", "answer"), [pair for pair in ASKED if pair[0].endswith("?")])
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_user_answers_what_the_model_asked_in_the_message_before(question: str, answer: str, *, in_parts: bool) -> None:
    def part(text: str) -> Any:
        return [{"type": "text", "text": text}] if in_parts else text

    asked = {"role": "assistant", "content": part(f"Sure, I can help. {question}")}
    made = redacted(json.dumps([asked, {"role": "user", "content": part(answer)}]))
    assert answer.removeprefix("it is ") not in made
    alone = json.dumps([asked, {"role": "tool", "content": part("done")}, {"role": "user", "content": part("no idea")}])
    assert redacted(alone) == alone


@pytest.mark.parametrize("order", [("role", "content"), ("content", "role")])
def test_an_answer_added_to_a_history_is_read_with_its_question(order: tuple[str, str]) -> None:
    """The question was redacted with the turn before: what is remembered of it changes nothing."""
    long = "Some of the many words that come before what matters here, and mean nothing. " * 8
    said = [("system", long), ("user", "Hello?"), ("assistant", "And your date of birth?"), ("user", "July 9th, 1974")]
    messages = [{key: {"role": role, "content": text}[key] for key in order} for role, text in said]
    redactor, made = Redactor(load_policy(), KEY), None
    for turn in (2, 3, 4):
        span = bare_span(attributes={genai.INPUT_MESSAGES: json.dumps(messages[:turn])})
        made = redactor.redact_span(span)
        assert made == Redactor(load_policy(), KEY).redact_span(span)
    assert "1974" in str(made) and "July" not in str(made)
