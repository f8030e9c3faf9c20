"""Short readable starts of a span's request and answer, for lists of steps. Never read back into a span.

One line each: blanks and line ends become one space, and a JSON string is shown decoded. So a result looks the same as a
tool's answer and as the next request's last message, and is stored once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from freezeframe_schemas import genai

PREVIEW_CHARS: Final = 80
_INPUTS: Final = (
    genai.TOOL_CALL_ARGUMENTS,
    genai.RETRIEVAL_QUERY,
    genai.ENTRY_INPUT,
    genai.INPUT_MESSAGES,
    genai.REQUEST_BODY,
)
_OUTPUTS: Final = (
    genai.TOOL_CALL_RESULT,
    genai.ENTRY_OUTPUT,
    genai.OUTPUT_MESSAGES,
    genai.RETRIEVAL_DOCUMENTS,
    genai.RESPONSE_BODY,
    genai.ERROR_CHAIN,
)
_TASK: Final = b'{"by": '
_ARGUMENTS: Final = b'"args": '
_REQUEST: Final = b'{"method": '
_PATH: Final = b'"path": '
_BODY: Final = b', "body": "'
_MAX_BODY_BYTES: Final = 100_000
"""Bytes of a request's body up to which its question is looked for."""
_QUESTIONS: Final = ("question", "content", "message", "prompt", "query", "input", "text")
"""Fields of a request's body that hold its question."""
_MARK: Final = b'"content":'
_BLANKS: Final = b" \t\r\n"
_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*')
_YIELDS: Final = b'{"yields": ['
_ITEM: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"?')
_TEXTS: Final = re.compile(rb'(?:"[^"\\]*(?:\\.[^"\\]*)*"?(?:, )?)+')
_READ_BYTES: Final = 4 * PREVIEW_CHARS
_OFTEN_ENOUGH: Final = 100
"""Characters of a text that suffice for a whole preview, unless many are blanks."""
_DECODER: Final = json.JSONDecoder(strict=False)


def input_preview(large: Mapping[str, bytes]) -> str:
    """Return the start of the last question, from a span's content attributes."""
    for name in _INPUTS:
        if raw := large.get(name):
            if name == genai.INPUT_MESSAGES and (last := raw.rfind(_MARK)) >= 0:
                return _content(raw, last) or _head(raw)
            return (_of_entry(raw) if name == genai.ENTRY_INPUT else "") or _head(raw)
    return ""


def _of_entry(raw: bytes) -> str:
    """Return the question of a request, or the arguments of a task; empty for any other input."""
    if raw.startswith(_TASK) and (at := raw.find(_ARGUMENTS)) >= 0:
        return _head(b"{" + raw[at:])
    if not raw.startswith(_REQUEST):
        return ""
    at = raw.rfind(_BODY)
    if at >= 0 and len(raw) - at <= _MAX_BODY_BYTES:
        with suppress(ValueError, RecursionError):
            body: Any = json.loads(raw[at + len(_BODY) - 1 : raw.rindex(b"}")])
            if body:
                return _short(question_of(body))
            at = -1
    at = at if at >= 0 else raw.find(_PATH)
    return _text_of(raw[raw.index(b": ", at) + 2 :][:_READ_BYTES]) if at >= 0 else ""


def question_of(body: str) -> str:
    """Return what a request asks, from its body: the last message, or the text under a name that says so; else the body."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body
    fields: dict[str, Any] = found if isinstance(found, dict) else {}
    messages: Any = fields.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        fields = {**messages[-1]}
    texts = {name: text for name, text in fields.items() if isinstance(text, str) and text}
    return next((texts[name] for name in _QUESTIONS if name in texts), body)


def output_preview(large: Mapping[str, bytes]) -> str:
    """Return the start of the answer, from a span's content attributes."""
    for name in _OUTPUTS:
        if raw := large.get(name):
            if name == genai.OUTPUT_MESSAGES:
                return _content(raw, 0) or _head(raw)
            return (_of_stream(raw) if raw.startswith(_YIELDS) else "") or _head(raw)
    return ""


def _of_stream(raw: bytes) -> str:
    """Return the start of the texts that a stream yielded, as one; empty if its items are not texts."""
    begun = _TEXTS.match(raw[: 4 * _READ_BYTES], len(_YIELDS))
    return _text_of(b'"' + b"".join(_ITEM.findall(begun[0])) + b'"') if begun else ""


def _content(raw: bytes, start: int) -> str:
    at = raw.find(_MARK, start)
    return _text_of(raw[at + len(_MARK) : at + len(_MARK) + _READ_BYTES].lstrip(_BLANKS)) if at >= 0 else ""


def _head(raw: bytes) -> str:
    start = raw[:_READ_BYTES]
    return _text_of(start) or _short(start.decode(errors="ignore"))


def _text_of(quoted: bytes) -> str:
    """Return the start of a JSON string's text, or an empty result."""
    if not quoted.startswith(b'"'):
        return ""
    if b"\\" not in quoted:  # nearly all; the pattern costs several times as much
        return _short(quoted[1:].partition(b'"')[0].decode(errors="ignore"))
    found = _TEXT.match(quoted)
    text = found[0].decode(errors="ignore")[1:] if found else ""
    if "\\" not in text:
        return _short(text)
    try:
        text = _DECODER.decode(f'"{text}"')
    except ValueError:  # cut within an escape
        return _short(text)
    # a lone surrogate escape is valid JSON but not valid UTF-8
    return _short(text.encode(errors="replace").decode())


def _short(text: str) -> str:
    line = " ".join(text[:_OFTEN_ENOUGH].split())
    if len(line) <= PREVIEW_CHARS and len(text) > _OFTEN_ENOUGH:  # much of it was blank
        line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…"
