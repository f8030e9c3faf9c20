"""The differences between two JSON values, each as a path and two short texts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

ABSENT: Final = "<absent>"
CONTEXT: Final = 60
WHOLE: Final = 10_000
"""Characters shown on each side of the first difference: in short excerpts, and in whole texts."""
MAX_PARTS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """First difference of two values. `path` is a JSON path such as ``$.body.messages[3].content``."""

    path: str
    recorded: str
    live: str


def first_difference(recorded: Any, live: Any, path: str = "$") -> Difference | None:
    """Return the first difference in the order of the recorded value, or None if both are equal."""
    return next(differences(recorded, live, path), None)


def differences(recorded: Any, live: Any, path: str = "$", context: int = CONTEXT) -> Iterator[Difference]:
    """Yield every difference, in the order of the recorded value; items of lists are compared place by place.

    `context`: characters kept before and after the first differing one of two long texts.
    """
    if recorded is _MISSING or live is _MISSING or type(recorded) is not type(live):
        yield Difference(path=path, recorded=shorten(recorded, 2 * context), live=shorten(live, 2 * context))
    elif isinstance(recorded, dict):
        for key in [*recorded, *(key for key in live if key not in recorded)]:
            yield from differences(recorded.get(key, _MISSING), live.get(key, _MISSING), f"{path}.{key}", context)
    elif isinstance(recorded, list):
        for index in range(max(len(recorded), len(live))):
            yield from differences(_item(recorded, index), _item(live, index), f"{path}[{index}]", context)
    elif isinstance(recorded, str):
        if recorded != live:
            yield from _text_differences(recorded, live, path, context)
    elif repr(recorded) != repr(live):  # not ==: NaN is NaN here, and 0.0 is not -0.0
        yield Difference(path=path, recorded=shorten(recorded, 2 * context), live=shorten(live, 2 * context))


def described(recorded: Any, live: Any) -> dict[str, Any] | None:
    """Return the first difference as the fields of a `Divergence`, with its whole texts if they are longer."""
    found, whole = (next(differences(recorded, live, context=context), None) for context in (CONTEXT, WHOLE))
    if found is None or whole is None:
        return None
    is_cut = (whole.recorded, whole.live) != (found.recorded, found.live)
    texts = {"whole_recorded": whole.recorded, "whole_live": whole.live} if is_cut else {}
    return {"path": found.path, "recorded": found.recorded, "live": found.live, **texts}


def texts_apart(recorded: Any, live: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts at one place that differ, in the order of the recorded value."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        for name, item in recorded.items():
            yield from texts_apart(item, live.get(name))
    elif isinstance(recorded, list) and isinstance(live, list):
        for was, now in zip(recorded, live, strict=False):
            yield from texts_apart(was, now)
    elif isinstance(recorded, str) and isinstance(live, str) and recorded != live:
        yield recorded, live


def hunks(recorded: Sequence[str], live: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield the parts of two texts side by side, in order: equal parts, and the parts between them.

    Differing stretches of more than `MAX_PARTS` parts are not split.
    """
    begin = 0
    while begin < min(len(recorded), len(live)) and recorded[begin] == live[begin]:
        begin += 1
    end = 0
    while end < min(len(recorded), len(live)) - begin and recorded[-1 - end] == live[-1 - end]:
        end += 1
    was, now = recorded[begin : len(recorded) - end], live[begin : len(live) - end]
    yield recorded[:begin], live[:begin]
    if max(len(was), len(now)) > MAX_PARTS:
        yield was, now
    else:
        for _, start, stop, first, last in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
            yield was[start:stop], now[first:last]
    yield recorded[len(recorded) - end :], live[len(live) - end :]


def json_or_text(text: str) -> Any:
    """Return the JSON value that a text holds; a text that is not JSON unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def shorten(value: Any, limit: int = 2 * CONTEXT) -> str:
    """Return the value as one line of JSON, cut in the middle if it is long."""
    if value is _MISSING:
        return ABSENT
    text = value if isinstance(value, str) and value == ABSENT else json.dumps(value, ensure_ascii=False)
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


class _Missing:
    pass


_MISSING: Final = _Missing()


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _MISSING


def _text_differences(recorded: str, live: str, path: str, context: int) -> Iterator[Difference]:
    """Compare JSON inside text by its content; otherwise show the surroundings of the first differing character."""
    inner_recorded, inner_live = _json_in(recorded), _json_in(live)
    if inner_recorded is not None and inner_live is not None:
        inner = list(differences(inner_recorded, inner_live, f"{path}|json", context))
        if inner:
            yield from inner
            return
    start = next((i for i, pair in enumerate(zip(recorded, live, strict=False)) if pair[0] != pair[1]), None)
    if start is None:
        start = min(len(recorded), len(live))
    yield Difference(path=path, recorded=_around(recorded, start, context), live=_around(live, start, context))


def _json_in(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _around(text: str, start: int, context: int) -> str:
    begin, end = max(0, start - context), min(len(text), start + context)
    shown = json.dumps(text[begin:end], ensure_ascii=False)
    return f"{'...' if begin else ''}{shown}{'...' if end < len(text) else ''}"
