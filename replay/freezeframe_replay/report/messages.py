"""Messages, documents and values in a readable form, from any writer. Pure; nothing here raises on any value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from freezeframe_replay.report.tagged import untagged
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_list, as_object, parse

INSTRUCTIONS: Final = frozenset({"system", "developer"})
_TEXTS: Final = ("content", "text", "page_content", "document", "body")
_IDS: Final = ("id", "document_id", "doc_id", "source")
_SCORES: Final = ("score", "relevance_score", "similarity", "distance")
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGE: Final = 1_000_000
"""Characters of an image in base64."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LINE: Final = 100
"""Characters of JSON that fit on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDocument:
    """A chunk that a retriever found."""

    id: str
    score: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """Part of a message; `kind` is ``text``, ``reasoning``, or the name of a part that cannot be shown as text."""

    role: str
    kind: str
    text: str
    image: str = ""
    """The image as a ``data:`` URL, if it is one that every browser shows and that can hold no script."""


# -- messages -----------------------------------------------------------------------------------------------------------


def read_messages(text: str) -> list[JsonObject]:
    """Return the messages of an attribute; none if it is not a list."""
    found = parse(text) if text else None
    return [as_object(item) for item in found] if isinstance(found, list) else []


def instructions_of(messages: Iterable[JsonObject]) -> str:
    """Return the system prompt among the messages."""
    texts = [part.text for message in messages if message.get("role") in INSTRUCTIONS for part in parts_of(message)]
    return "\n\n".join(texts)


def parts_of(message: JsonObject) -> list[MessagePart]:
    role = str(message.get("role") or "")
    return [said for part in as_list(message.get("parts")) for said in parts_said(role, as_object(part))]


def parts_said(role: str, part: JsonObject) -> list[MessagePart]:
    """Return a part of a message; nothing if it is empty."""
    kind, content = str(part.get("type") or "part"), part.get("content")
    if kind in ("text", "reasoning"):
        text = content if isinstance(content, str) else readable(content)
        return [MessagePart(role=role, kind=kind, text=text)] if text else []
    if kind == "tool_call":
        called = f"{part.get('name')}({readable(plain(part.get('arguments')))})"
        return [MessagePart(role=role, kind="tool call", text=called)]
    if kind == "tool_call_response":
        return [MessagePart(role=role, kind="tool result", text=readable(plain(part.get("response"))))]
    if kind == "blob":
        mime = str(part.get("mime_type") or part.get("modality"))
        text = f"{len(str(content))} characters"
        return [MessagePart(role=role, kind=mime, text=text, image=_image(mime, str(content)))]
    rest: dict[str, JsonValue] = {name: value for name, value in part.items() if name != "type"}
    return [MessagePart(role=role, kind=kind.replace("_", " "), text=readable(rest))]


def _image(mime: str, content: str) -> str:
    is_shown = mime in _IMAGES and len(content) <= _MAX_IMAGE and _BASE64.fullmatch(content)
    return f"data:{mime};base64,{content}" if is_shown else ""


def message_key(message: JsonObject, *, ids: bool) -> str:
    """Return a key that is equal for the same message, in any client's notation."""
    parts: list[list[Any]] = []
    for part in map(as_object, as_list(message.get("parts"))):
        kind, content = part.get("type"), part.get("content")
        if kind == "text":
            text = content.strip() if isinstance(content, str) else ""
            parts += [["text", text]] if text else []
        elif kind == "tool_call":
            parts.append([kind, part.get("id") if ids else None, part.get("name"), plain(part.get("arguments"))])
        elif kind == "tool_call_response":
            parts.append([kind, part.get("id") if ids else None, plain(part.get("response"))])
        elif kind != "reasoning":  # which few clients send back
            parts.append([kind, part])
    try:
        return orjson.dumps([message.get("role"), parts], option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer beyond 64 bits, a lone surrogate, nesting that is too deep
        return repr([message.get("role"), parts])


# -- values -------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a value that may be JSON text as the value it represents, without the tags of recorded Python values."""
    found = parse(value) if isinstance(value, str) and value[:1] in ("{", "[", '"') else None
    try:
        return untagged(value if found is None else found)
    except RecursionError:  # nested too deep to be read: as it came
        return value if isinstance(value, str) else repr(value)


def arguments_by_name(value: Any) -> Any:
    """Return the arguments of a function by name, as a model writes them, if all were passed by name."""
    if isinstance(value, dict) and set(value) - {"defaults", "settings"} == {"args", "kwargs"} and not value["args"]:
        return value["kwargs"]
    return value


def readable(value: Any) -> str:
    """Return a value in a form for people: text as it is, JSON on one line if it is short, else one line for each item."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        line = json.dumps(value, ensure_ascii=False)
        if len(line) <= _LINE or not isinstance(value, list | dict):
            return line
        if isinstance(value, list):
            return "\n".join(["[", *(f"  {_item(item)}," for item in value), "]"]).replace(",\n]", "\n]")
        rows = [f"  {json.dumps(name, ensure_ascii=False)}: {_item(item)}," for name, item in value.items()]
        return "\n".join(["{", *rows, "}"]).replace(",\n}", "\n}")
    except RecursionError:
        return repr(value)


def _item(value: Any) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= 4 * _LINE:  # a record of some fields: it may wrap
        return line
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")


def read_documents(text: str) -> tuple[FoundDocument, ...]:
    """Return the chunks that a retriever found; none if the answer does not look like chunks."""
    value = plain(text)
    if isinstance(value, dict):
        value = next((item for item in value.values() if isinstance(item, list)), None)
    found = [_document(item) for item in value] if isinstance(value, list) else []
    known = [item for item in found if item is not None]
    return tuple(known) if len(known) == len(found) else ()


def _document(value: Any) -> FoundDocument | None:
    score: Any = None
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], int | float):  # LangChain: (document, score)
        value, score = value
    if isinstance(value, dict) and isinstance(value.get("node"), dict):  # LlamaIndex: NodeWithScore
        value = {**value["node"], **{name: item for name, item in value.items() if name != "node"}}
    if not isinstance(value, dict):
        return None
    text = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
    if text is None:
        return None
    score = next((value[name] for name in _SCORES if isinstance(value.get(name), int | float)), score)
    metadata = value["metadata"] if isinstance(value.get("metadata"), dict) else dict[str, Any]()
    identity = next((holder[name] for holder in (value, metadata) for name in _IDS if holder.get(name)), "")
    return FoundDocument(id=str(identity), score=score, text=text)
