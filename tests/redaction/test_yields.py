"""What a streaming entry point or tool yields: pieces of one text are read as the text that they spell, values one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redacted_again import again

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_schemas import values

TEXT = "Dear Maria Keller, we wrote to maria.keller@corp.io and charged 4242 4242 4242 4242 today."
PRIVATE_KEY = (
    "-----BEGIN PRIVATE KEY-----",
    *("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",) * 3,
    "-----END PRIVATE KEY-----",
)
VALUES = ("Maria", "Keller", "maria.keller@corp.io", "4242 4242 4242 4242")


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))


def redacted(redactor: Redactor, yields: list[object]) -> list[object]:
    """Return what the yields of a run are stored as."""
    made = redactor.redact(json.dumps({"yields": yields, "return": None}))
    assert again(redactor, made) == made.value
    return json.loads(str(made.value))["yields"]


@given(cuts=st.sets(st.integers(1, len(TEXT) - 1), max_size=30), shape=st.sampled_from(["text", "content"]))
def test_pieces_spell_the_redacted_text_wherever_it_was_cut(redactor: Redactor, cuts: set[int], shape: str) -> None:
    """As long as one cut is at a space, as those of models are."""
    ends = [0, *sorted(cuts | {TEXT.index(" we")}), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(ends)]
    made = redacted(redactor, [piece if shape == "text" else {shape: piece} for piece in pieces])
    texts = [str(piece[shape]) if isinstance(piece, dict) else str(piece) for piece in made]
    assert len(texts) == len(pieces)
    assert "".join(texts) == redactor.redact(TEXT).value


SHAPES: dict[str, Callable[[str], object]] = {
    "text": str,
    "content": lambda piece: {"content": piece},
    "a key of one's own": lambda piece: {"chunk_no_17": piece},
    "deep": lambda piece: {"type": "delta", "message": {"parts": [{"text": piece, "n": 3}]}},
    "tuple": lambda piece: {"$type": "tuple", "value": ["answer", piece]},
    "set": lambda piece: {"$type": "set", "value": [piece]},
    "dict": lambda piece: {"$type": "dict", "value": [[1, piece]]},
    "dataclass": lambda piece: {"$type": "dataclass", "class": "app:Token", "value": {"spelled": piece, "logprob": -0.25}},
    "model": lambda piece: {"$type": "model", "class": "app:Chunk", "set": ["answer"], "value": {"answer": piece}},
    "pair": lambda piece: ["token", piece],
}
PROSE = "write to maria.keller@corp-mail.io or Maria Keller, card 4242 4242 4242 4242, key ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5 thanks"
IN_PROSE = ("maria.keller@corp-mail.io", "Maria Keller", "4242 4242 4242 4242", "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5")


def _said(item: object) -> Iterator[str]:
    """Yield the texts of a value, in order."""
    if isinstance(item, str):
        yield item
    elif isinstance(item, dict | list):
        for inner in item.values() if isinstance(item, dict) else item:
            yield from _said(inner)


@pytest.mark.parametrize("shape", SHAPES)
@given(cuts=st.sets(st.integers(1, len(PROSE) - 1), min_size=1, max_size=40))
@example(cuts={12, 18, 29})
@example(cuts=set(range(1, len(PROSE))))
@example(cuts={9, 16})
@example(cuts={15, 41})
def test_no_value_is_left_that_pieces_spell(redactor: Redactor, shape: str, cuts: set[int]) -> None:
    """Whatever the pieces are, wherever they are cut, and though no cut is at a space."""
    pieces = [PROSE[a:b] for a, b in pairwise([0, *sorted(cuts), len(PROSE)])]
    items = [SHAPES[shape](piece) for piece in pieces]
    made = redacted(redactor, items)
    constant = {"answer", "token", "delta", "tuple", "set", "dict", "dataclass", "model", "app:Token", "app:Chunk"}
    said = "".join(text for text in _said(made) if text not in constant)
    assert [value for value in IN_PROSE if value in said] == []
    assert said.startswith("write to ")
    assert said.endswith(" thanks")
    assert len(made) == len(items)


@pytest.mark.parametrize(
    "values",
    [
        ["Anna Keller", "Bob Smith", "Carla Ruiz"], ["anna@corp.io", "bob@corp.io"], ["4242 4242 4242 4242", "5500 0055 5555 5559"],
        ["ok", "anna@corp.io", "done"], ["415", "867", "5309"], ["https://a.io/x", "https://b.io/y"], ["1", "2", "3", "4"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES)
def test_values_of_a_list_keep_their_own_surrogates(redactor: Redactor, values: list[str], shape: str) -> None:
    expected = [SHAPES[shape](str(redactor.redact(value).value)) for value in values]
    assert redacted(redactor, [SHAPES[shape](value) for value in values]) == expected


def test_pieces_before_an_exception_spell_the_redacted_text(redactor: Redactor) -> None:
    pieces = ["charged 42", "42 4242 4242 ", "4242 today"]
    made = json.loads(str(redactor.redact(values.encode_exception(ValueError("no more"), pieces)).value))["yields"]
    assert "".join(made) == redactor.redact("".join(pieces)).value != "".join(pieces)


def test_values_that_are_yielded_one_by_one_stay_apart(redactor: Redactor) -> None:
    assert redacted(redactor, list(VALUES)) == [redactor.redact(value).value for value in VALUES]


def test_a_line_among_longer_values_does_not_join_them(redactor: Redactor) -> None:
    """What a program printed ends its line; the street before it does not go on in it."""
    values = ["Where is my order?", "The parcel goes to 12 Elm Street", "weight 0.9785991914272453\n", "Sent to 12 Elm Street"]
    made = redacted(redactor, [*values])
    assert made == [redactor.redact(value).value for value in values]
    assert str(made[1]).endswith(str(made[3]).removeprefix("Sent to "))


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_lines_are_one_text(redactor: Redactor, ends: str) -> None:
    """A key block is found though each of its lines is a piece."""
    lines = [f"{line}{ends}" for line in (*PRIVATE_KEY, "and so on")]
    assert "".join(map(str, redacted(redactor, [*lines]))) == redactor.redact("".join(lines)).value != "".join(lines)


def test_short_pieces_with_a_line_break_are_one_text(redactor: Redactor) -> None:
    """A language without spaces is streamed without spaces."""
    pieces = ["卡号：", "4242", "4242", "4242", "4242", "\n", "谢谢"]
    assert "4242" not in "".join(map(str, redacted(redactor, [*pieces])))


def test_two_generators_are_two_texts(redactor: Redactor) -> None:
    """What one ends with does not join what the next begins with."""
    one = {"yields": ["ring 415-", "867 ", "x"]}
    made = redactor.redact(json.dumps({"a": one, "b": {"yields": ["-3309", " y"]}})).value
    assert json.loads(str(made)) == {"a": one, "b": {"yields": ["-3309", " y"]}}
