"""Track answers of models across the runs of a process, to find a later run that depends on an earlier one's conversation.

Wherever the program keeps the conversation (an object, a framework's memory, a session of a library), a replay
of the later run alone does not have it. The run's requests and output show it. They are examined while spans
are exported, off the application's path.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange, Kind, Response
from freezeframe_schemas.gaps import KEPT_ANSWER, NOT_REPEATED, Gap, GapKind
from freezeframe_schemas.span import AttributeValue

_MIN_LENGTH: Final = 8
"""Characters of an answer above which equality is hardly chance."""
_MAX_KNOWN: Final = 50_000
_MAX_GIVEN: Final = 1_000_000
"""Number of texts that a process remembers (as hashes), and bytes of results that a run does: the newest."""
_WORDS: Final = re.compile(r"[A-Za-z0-9]{3,}")
_MAX_WORDS: Final = 30
_ASSISTANT: Final = "assistant"
_DECODER: Final = json.JSONDecoder()

KnownTexts = dict[int, bool]
"""Hash of a text -> whether a model answered it before the program first used it in a request."""


class Answers:
    """Answers of one run's models, results of its calls, and inputs that repeat the answers of earlier runs."""

    __slots__ = ("_carried", "_given", "_given_bytes", "_own")

    def __init__(self) -> None:
        self._own: set[int] = set()
        self._carried: list[str] = []
        self._given: deque[Response] = deque()
        self._given_bytes = 0

    def note(self, exchange: Exchange, attributes: Mapping[str, AttributeValue], known: KnownTexts) -> None:
        """Note an exchange with its GenAI attributes, in the order in which they ended; `known` is of the whole process."""
        if exchange.kind is Kind.MODEL:
            self._note_model(attributes, known)
        else:
            self._note_result(exchange.response)

    def _note_model(self, attributes: Mapping[str, AttributeValue], known: KnownTexts) -> None:
        for text in _input_texts(attributes):
            key = hash(text)
            if key in self._own:  # what a program keeps comes before it
                break
            if known.setdefault(key, False):
                self._carried.append(text)
        for text in _answered(attributes):
            self._own.add(hash(text))
            known.setdefault(hash(text), True)
        while len(known) > _MAX_KNOWN:
            del known[next(iter(known))]

    def _note_result(self, response: Response) -> None:
        """Note another call's result: a run may get the conversation from a tool or a database."""
        self._given.append(response)
        self._given_bytes += len(response.body)
        while self._given_bytes > _MAX_GIVEN:
            self._given_bytes -= len(self._given.popleft().body)

    def gaps(self, given: str, output: str | None, known: KnownTexts) -> Iterator[Gap]:
        """Yield the gap of a run whose requests or output contain an earlier answer that was not among its inputs.

        `given` and `output` are tagged JSON.
        """
        returned = [text for text in _leaves(output) if known.get(key := hash(text)) and key not in self._own]
        for verb, texts in (("asked with", self._carried), ("returned", returned)):
            if texts and not self._may_be_input(texts, given):
                yield Gap(
                    kind=GapKind.CARRIED_OVER,
                    text=f"the program {verb} {KEPT_ANSWER}, {NOT_REPEATED}",
                    do="pass it as an argument, or read it in a function marked with @freezeframe.tool",
                )

    def _may_be_input(self, texts: list[str], given: str) -> bool:
        from freezeframe_schemas.wire import decode_body

        sources = [given.encode(), *(decode_body(each.body, each.headers) for each in self._given)]
        return all(any(_may_hold(source, text) for source in sources) for text in texts)


def _leaves(text: str | None) -> Iterator[str]:
    """Yield the texts in JSON, and in JSON that is a text in it."""
    waiting: list[Any] = [] if text is None else [json.loads(text)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and len(found := value.strip()) >= _MIN_LENGTH:
            yield found
            if found[0] in "[{":
                with suppress(ValueError):
                    waiting.append(json.loads(found))


def _input_texts(attributes: Mapping[str, AttributeValue]) -> Iterator[str]:
    """Yield the parts of a request that come from answers: the assistant's texts, ids of tool calls and the previous answer."""
    before = attributes.get(genai.REQUEST_PREVIOUS_RESPONSE_ID)
    if isinstance(before, str):
        yield before
    yield from _texts(attributes, genai.INPUT_MESSAGES)


def _answered(attributes: Mapping[str, AttributeValue]) -> Iterator[str]:
    yield from _texts(attributes, genai.OUTPUT_MESSAGES)
    own = attributes.get(genai.RESPONSE_ID)
    if isinstance(own, str):
        yield own


def _texts(attributes: Mapping[str, AttributeValue], name: str) -> Iterator[str]:
    content = attributes.get(name)
    if not isinstance(content, str) or _ASSISTANT not in content:
        return
    for message in _messages(attributes.get(name)):
        for part in message.get("parts", ()) if message.get("role") == _ASSISTANT else ():
            found = part.get("id" if part.get("type") == "tool_call" else "content")
            if isinstance(found, str) and len(text := found.strip()) >= _MIN_LENGTH:
                yield text


def _messages(text: AttributeValue) -> Iterator[dict[str, Any]]:
    """Yield the messages of an attribute, each parsed on demand: most of a long request never is."""
    at = 0
    while isinstance(text, str) and (at := text.find("{", at)) >= 0:
        message, at = _DECODER.raw_decode(text, at)
        yield message


def _may_hold(source: bytes, text: str) -> bool:
    """Return whether a text may occur in JSON, in any spelling: whether its words do."""
    words = _WORDS.findall(text, 0, 10_000)[:_MAX_WORDS]
    return all(word.encode() in source for word in words) if words else json.dumps(text)[1:-1].encode() in source
