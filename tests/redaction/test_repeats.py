"""A name that one place of a value gives away is gone from all of it, and a replay still matches."""

from __future__ import annotations

import json

import pytest
from bare_spans import bare_span
from hypothesis import given
from hypothesis import strategies as st
from redacted_again import again

from freezeframe_redaction import Aliaser, Redactor, TenantKey, load_policy
from freezeframe_schemas import genai

POLICY = load_policy("strict")
REDACTOR = Redactor(POLICY, TenantKey.generate())
CONVERSATION = json.dumps(
    {
        "messages": [
            {"role": "user", "content": "Hi, this is Maria Keller. Where is my order?"},
            {"role": "assistant", "content": "Thanks for writing in, Maria! It ships today."},
            {"role": "tool", "content": '{"note": "Keller called, Maria\'s order is AC-1027"}'},
        ]
    }
)


def test_a_name_given_away_once_is_replaced_wherever_the_value_says_it() -> None:
    redacted = str(REDACTOR.redact(CONVERSATION).value)
    assert "Maria" not in redacted
    assert "Keller" not in redacted
    assert "AC-1027" in redacted
    json.loads(json.loads(redacted)["messages"][2]["content"])


def test_the_same_name_gets_the_same_surrogate_everywhere() -> None:
    redacted = REDACTOR.redact(CONVERSATION)
    assert len([name for name, class_ in redacted.surrogates.items() if class_ == "PERSON"]) == 2


def test_redacting_again_changes_nothing() -> None:
    once = REDACTOR.redact(CONVERSATION)
    assert again(REDACTOR, once) == once.value


def test_the_outcome_of_a_run_is_cleaned_by_what_its_input_gives_away() -> None:
    told = json.dumps({"args": ["Hi, this is Maria Keller."]})
    span = bare_span({genai.ENTRY_INPUT: told, genai.ENTRY_OUTPUT: json.dumps("Welcome back, Maria!")})
    redacted = REDACTOR.redact_span(span)
    assert "Maria" not in repr(redacted)


@pytest.mark.parametrize("word", ["Will", "May"])
def test_a_name_that_is_a_common_word_is_not_looked_for_by_itself(word: str) -> None:
    text = f"Hi, this is {word} Oakhurst. {word} it ship in {word}?"
    assert f"{word} it ship" in str(REDACTOR.redact(text).value)


@given(
    first=st.sampled_from(["Maria", "Tom", "Aisha", "Zoë"]),
    last=st.sampled_from(["Keller", "Becker", "O'Neil", "Nakamura"]),
    tail=st.lists(st.sampled_from(["thanks {f}", "ask {l} again", "AC-1027", "{f}'s order", "nothing here"]), max_size=4),
)
def test_the_alias_of_the_redacted_text_is_that_of_the_text(first: str, last: str, tail: list[str]) -> None:
    text = json.dumps([f"Hi, this is {first} {last}.", *(item.format(f=first, l=last) for item in tail)])
    redacted = REDACTOR.redact(text)
    aliaser = Aliaser(POLICY, redacted.surrogates)
    assert aliaser.alias(str(redacted.value)) == aliaser.alias(text)


@pytest.mark.parametrize("key", ["city", "home_city", "addressCity", "state", "country", "product", "status", "Department"])
def test_a_name_does_not_spread_under_a_key_that_says_something_else(key: str) -> None:
    made = REDACTOR.redact(
        json.dumps([{"name": "Austin Keller"}, {"name": "Jane Doe", key: "Austin"}, {"note": "Austin called"}])
    )
    _, other, note = json.loads(str(made.value))
    assert other[key] == "Austin"
    assert "Austin" not in note["note"]


def test_contacts_are_replaced_row_by_row_and_their_city_stays() -> None:
    rows = [{"name": f"Austin Keller{'abcdefgh'[i % 8]}", "email": f"a{i}@corp.io", "city": "Austin"} for i in range(60)]
    made = json.loads(str(REDACTOR.redact(json.dumps(rows)).value))
    assert [row["city"] for row in made] == ["Austin"] * 60
    assert not any("Austin" in row["name"] or "corp.io" in row["email"] for row in made)
