"""Tagged JSON of arguments, results and exceptions, as a person writes them. Pure; nothing here raises on any text."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from freezeframe_schemas import values
from freezeframe_schemas.wire.document import as_object, parse

_CUT_ARGUMENTS: Final = re.compile(r'^\{"args": ?\[(?:\], ?"kwargs": ?\{"(?P<name>\w+)": ?)?')
_CUT_KEYWORDS: Final = re.compile(r'\], ?"?(?:k|kw|kwa|kwar|kwarg|kwargs(?:"|": ?|": ?\{|": ?\{\})?)?…$')
"""The end of a preview that is cut after the arguments, inside their envelope."""


def call_text(name: str, text: str) -> str:
    """Return recorded arguments (tagged JSON) as they would appear in a call: ``answer("Where?", user="u1")``."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return f"{name}({text})"
    if not isinstance(data, dict):
        return f"{name}({_plain(data)})"
    if "argv" in data:
        return " ".join(str(word) for word in data["argv"] or [])
    if set(data) <= {"args", "kwargs", "defaults", "settings", "id", "attempt"}:
        positional = [_plain(item) for item in data.get("args") or []]
        named = [f"{key}={_plain(item)}" for key, item in (data.get("kwargs") or {}).items()]
        return f"{name}({', '.join([*positional, *named])})"
    return f"{name}({', '.join(f'{key}={_plain(item)}' for key, item in data.items())})"


def input_text(text: str) -> str:
    """Return the preview of a recorded input without its envelope: ``"Where?", user="u1"``. A cut one is not valid JSON."""
    if text.endswith("…"):
        begun = _CUT_ARGUMENTS.match(text)
        if begun is None:
            return text
        return f"{begun['name']}={text[begun.end() :]}" if begun["name"] else _CUT_KEYWORDS.sub("…", text[begun.end() :])
    shown = call_text("", text)
    return shown[1:-1] if shown.startswith("(") else shown


def outcome_text(text: str | None, *, recorded_output: bool = True) -> str:
    """Return ``returned ...`` or ``raised ...`` for tagged JSON of an outcome; what a generator yielded is one text."""
    if text is None:
        return "not recorded"
    raised = error_text(text)
    if raised or not recorded_output:
        yields = as_object(parse(text)).get("yields")
        before = f"yielded {_plain(_joined(yields))}, then " if yields else ""
        return f"{before}raised {raised or text}"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return f"returned {text}"
    if isinstance(value, dict) and value.keys() == {"yields", "return"}:
        then = "" if value["return"] is None else f", then returned {_plain(value['return'])}"
        return f"yielded {_plain(_joined(value['yields']))}{then}"
    return f"returned {_plain(streamed(value))}"


def streamed(value: Any) -> Any:
    """Return a value with the texts that a stream yielded as one; the text alone if the stream returned nothing else."""
    if not isinstance(value, dict) or not isinstance(joined := _joined(value.get("yields")), str):
        return value
    return joined if value.keys() == {"yields", "return"} and value["return"] is None else {**value, "yields": joined}


def _joined(yields: Any) -> Any:
    """Return texts as one text, anything else unchanged."""
    is_text = isinstance(yields, list) and yields and all(isinstance(item, str) for item in yields)
    return "".join(yields) if is_text else yields


def error_text(text: str) -> str:
    """Return ``KeyError: 'x'`` for the tagged JSON of an exception; empty if it is not one."""
    node = as_object(parse(text))
    if node.get(values.TAG) != "exception":
        return ""
    name = str(node.get("class", "")).rpartition(":")[2]
    return f"{name}: {node.get('text', '')}".removesuffix(": ")


def _plain(value: Any) -> str:
    try:
        return json.dumps(untagged(value), ensure_ascii=False)
    except RecursionError:
        return "<nested too deep to be shown>"


def untagged(value: Any) -> Any:
    """Return a tagged JSON value as plain JSON: the tags of containers go, an opaque value is its text."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if values.TAG in value:
        return untagged(value.get("value"))
    return {key: untagged(item) for key, item in value.items()}
