"""Whatever a JSON text looks like, a redacted one differs from it only in the values that were found."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.leaves import splice, tree, walk
from freezeframe_redaction.leaves.key_context import KeyContexts

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
MAILS = ("bob.smith@gmail.com", "e.lang@corp-mail.io")


class Chunk(NamedTuple):
    """A piece of text, and whether it is a value that must go."""

    text: str
    is_value: bool = False


Chunks = list[Chunk]
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\x08": "\\b"}
_WAYS = ("utf-8", "ascii", "any")


def _spell_char(char: str, way: str, rnd: st.DataObject) -> str:
    """Return one spelling of a character in a JSON string: as Python's writers have it, or any that JSON allows."""
    codes = char.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join(f"\\u{codes[at : at + 4]}" for at in range(0, len(codes), 4))
    if way != "any":
        return json.dumps(char, ensure_ascii=way == "ascii")[1:-1]
    ways = [escaped, escaped.upper().replace("\\U", "\\u")]
    ways += [_SHORT[char]] if char in _SHORT else [char] if char >= " " else []
    ways += ["\\/"] if char == "/" else []
    return rnd.draw(st.sampled_from(ways))


def _string(chunks: Chunks, way: str, rnd: st.DataObject) -> Chunks:
    """Return the chunks of the JSON string that spells these chunks."""
    spelled = [Chunk("".join(_spell_char(char, way, rnd) for char in text), is_value) for text, is_value in chunks]
    return [Chunk('"'), *spelled, Chunk('"')]


_HARMLESS = (
    "", " ", "a", "ok ", "assistant", ", ", ": ", '", "', "\\", '\\"', "c:\\temp\\ ", "a/b ", "tab\there ", "line\nline ", "\x08\x1b ", "\x7f ",
    "été ", "日本 ", "🎉 ", "\ud800 ", "\\u0041 ", "{}", "[1] ", ": 1, ", ", 12, ", "null, ", "say \"hi\" ", "'q' ",
)  # fmt: skip
_NUMBERS = (
    "0",
    "12",
    "-1",
    "1.50",
    "1e5",
    "-2.5E-3",
    "12345678901234567890123",
    "NaN",
    "-Infinity",
    "Infinity",
    "true",
    "null",
)
_KEYS = ("content", "text", "x", "a b", "value", "name", "é", "n", MAILS[0])


def _leaf(rnd: st.DataObject) -> Chunks:
    chunks = [Chunk(rnd.draw(st.sampled_from(_HARMLESS)))]
    if rnd.draw(st.booleans()):
        value = rnd.draw(st.sampled_from(MAILS))
        chunks += [Chunk(" "), Chunk(value, is_value=True), Chunk(" "), Chunk(rnd.draw(st.sampled_from(_HARMLESS)))]
    return chunks


def _document(rnd: st.DataObject, way: str, depth: int = 0) -> Chunks:
    """Return the chunks of a JSON text: any nesting, repeated keys, odd white space, JSON in strings."""
    kind = rnd.draw(st.sampled_from(("string", "string", "number", "list", "object", "json") if depth else ("list", "object")))
    if kind == "number":
        return [Chunk(rnd.draw(st.sampled_from(_NUMBERS)))]
    if kind == "string" or depth > 3:
        return _string(_leaf(rnd), way, rnd)
    if kind == "json":
        return _string(_document(rnd, rnd.draw(st.sampled_from(_WAYS)), depth + 1), way, rnd)
    parts: Chunks = []
    for _ in range(rnd.draw(st.integers(0, 3))):
        parts.append(Chunk("," + rnd.draw(st.sampled_from(("", " ", "\n  "))) if parts else ""))
        if kind == "object":
            key = rnd.draw(st.sampled_from(_KEYS))
            parts += [
                *_string([Chunk(key, is_value=key in MAILS)], way, rnd),
                Chunk(rnd.draw(st.sampled_from((":", ": ", " :\t")))),
            ]
        parts += _document(rnd, way, depth + 1)
    return [Chunk("{"), *parts, Chunk("}")] if kind == "object" else [Chunk("["), *parts, Chunk("]")]


def _written(chunks: Chunks) -> tuple[str, str]:
    """Return the text, and the same text with each value replaced by its surrogate."""
    surrogates = {mail: str(REDACTOR.redact(mail).value) for mail in MAILS}
    text, expected = "", ""
    for chunk in chunks:
        text += chunk.text
        plain = chunk.text
        while chunk.is_value and plain not in surrogates:
            plain = json.loads(f'"{plain}"')
        expected += surrogates[plain] if chunk.is_value else chunk.text
    return text, expected


@pytest.mark.proof
@pytest.mark.long
@given(rnd=st.data(), way=st.sampled_from(_WAYS))
@settings(max_examples=examples(300), deadline=None)
def test_every_byte_that_is_no_finding_stays(rnd: st.DataObject, way: str) -> None:
    """Repeated keys, any escapes, NaN, texts that look like JSON's own signs, JSON in JSON: each value goes, all else stays."""
    text, expected = _written(_document(rnd, way))
    assert REDACTOR.redact(text).value == expected


@given(rnd=st.data(), way=st.sampled_from(_WAYS))
@settings(max_examples=examples(100), deadline=None)
def test_each_finding_is_reported_where_it_stands(rnd: st.DataObject, way: str) -> None:
    """The text between the findings is the text between the values."""
    chunks = _document(rnd, way)
    text, _ = _written(chunks)
    at, kept = 0, ""
    for finding in REDACTOR.redact(text).findings:
        kept, at = kept + text[at : finding.start], finding.end
    assert kept + text[at:] == "".join(chunk.text for chunk in chunks if not chunk.is_value)


@pytest.mark.parametrize(
    "text",
    [
        '{"score": NaN, "to": [" bob.smith@gmail.com ", "x"], "y": "z"}',
        '{"a": -Infinity, "b": "bob.smith@gmail.com", "c": "bob.smith@gmail.com"}',
    ],
)
def test_numbers_that_only_python_writes_do_not_move_a_surrogate(text: str) -> None:
    """`json.dumps` writes NaN and Infinity, so tools' results hold them."""
    assert REDACTOR.redact(text).value == text.replace(MAILS[0], str(REDACTOR.redact(MAILS[0]).value))


def test_an_equal_text_in_another_spelling_does_not_stand_in_for_a_value() -> None:
    """The key makes one of two equal texts a value, and that one is spelled with an escape."""
    text = '{"note":"536904399","ssn":"53690439\\u0039"}'
    made = str(REDACTOR.redact(text).value)
    assert made.startswith('{"note":"536904399","ssn":"9')
    assert json.loads(made)["ssn"] != "536904399"


def _find_nothing(raw: str, pending: object) -> None:
    """Replace the search, so that every token is read."""
    del raw, pending


@pytest.mark.proof
@pytest.mark.long
@given(rnd=st.data(), way=st.sampled_from(_WAYS))
@settings(max_examples=examples(200), deadline=None)
def test_searching_and_counting_agree(rnd: st.DataObject, way: str) -> None:
    """Whichever leaves are changed, searching for their spelling writes what reading token by token writes."""
    text, _ = _written(_document(rnd, way))
    node = walk.parse_tree(text, KeyContexts())
    for leaf in tree.leaves_of(node):
        if rnd.draw(st.booleans()):
            start, end = sorted((rnd.draw(st.integers(0, len(leaf.text))), rnd.draw(st.integers(0, len(leaf.text)))))
            leaf.edits = [(start, end, "7" if leaf.is_number else 'Q"')]
    searched = splice.render(node)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splice, "_search", _find_nothing)
        assert splice.render(node) == searched


@pytest.mark.parametrize(
    "text",
    [
        '["xyz", 12, ", 12, "]',
        '["one text", "one te\\u0078t"]',
        '["one t\\u00e9xt", "one t\\u00E9xt"]',
        '["one/text", "one\\/text"]',
        '["one\\ttext", "one\\u0009text"]',
        '["one\x7ftext \\u00e9", "one\\u007ftext \\u00e9"]',
        '["one text", "one text"]',
        '["say \\"one text\\\\", "one text\\\\"]',
        '[{"one text": 1}, "one text"]',
    ],
)
def test_the_last_leaf_can_be_changed_alone(text: str) -> None:
    """Even if its text, or what looks like it, is in the document twice: as a key, spelled differently, between two strings."""
    node = walk.parse_tree(text, KeyContexts())
    leaf = node.leaves[-1]
    leaf.edits = [(0, len(leaf.text), "changed")]
    assert json.loads(splice.render(node)) == [*json.loads(text)[:-1], "changed"]
