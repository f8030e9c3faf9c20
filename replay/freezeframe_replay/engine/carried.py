"""Check whether a later request differs from the recorded one only by a tool's new result. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from freezeframe_replay.engine.compare import hunks
from freezeframe_schemas import values

_PARTS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_FORMS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A tool's recorded and present results, in the forms in which a request may contain them."""

    was: frozenset[str]
    now: frozenset[str]
    was_error: bool = False
    """One of them is an exception: a program may wrap or replace its text with its own words."""

    @classmethod
    def of(cls, recorded: Any, live: Any) -> Carried:
        """Return the `Carried` of two outcomes, ``{"raised": ..., "returned": ...}``, of tagged JSON."""
        ended = [side.get("raised") is not None for side in (recorded, live)]
        return cls(was=_forms(recorded), now=_forms(live), was_error=ended[0] != ended[1])

    def explains(self, recorded: Any, live: Any) -> bool:
        """Return whether two JSON values are equal except for texts of the old result replaced by texts of the new one."""
        if isinstance(recorded, dict) and isinstance(live, dict):
            names = {*recorded, *live}
            return all(self.explains(recorded.get(name), live.get(name)) for name in names)
        if isinstance(recorded, list) and isinstance(live, list) and len(recorded) == len(live):
            return all(map(self.explains, recorded, live))
        if isinstance(recorded, str) and isinstance(live, str):
            return recorded == live or self._explains_text(recorded, live)
        if type(recorded) is type(live) and recorded == live:
            return True
        return all(_holds(self.was, text) for text in _leaves(recorded)) and all(
            _holds(self.now, text) for text in _leaves(live)
        )

    def _explains_text(self, recorded: str, live: str) -> bool:
        if self.was_error and (live in self.now or recorded in self.was):
            return True
        if self.was_error and any(form in recorded for form in self.was) and any(form in live for form in self.now):
            return True
        parts = [_PARTS.findall(text) for text in (recorded, live)]
        apart = (("".join(was), "".join(now)) for was, now in hunks(*parts))
        return all(was == now or (_holds(self.was, was) and _holds(self.now, now)) for was, now in apart)


def _holds(forms: frozenset[str], text: str) -> bool:
    return any(text in form for form in forms)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)


def _forms(outcome: Any) -> frozenset[str]:
    """Return the texts that a program may make from an outcome: its parts, and the whole in Python's and JSON's notation."""
    raised, returned = outcome.get("raised"), outcome.get("returned")
    if isinstance(raised, dict):
        name = str(raised.get("class", "")).rpartition(":")[2]
        text = str(raised.get("text", ""))
        return frozenset({each for each in (text, name, f"{name}: {text}", f"{name}({text!r})") if each})
    if raised is not None:
        return frozenset({str(raised)})
    plain = _plain(returned)
    found = {form for form in (_written(plain) if isinstance(plain, dict | list) else ()) if form}
    for leaf in _leaves(plain):
        if len(found) < _MAX_FORMS:
            found |= {leaf, repr(leaf), json.dumps(leaf)[1:-1]}
    found |= {str(plain), repr(plain), json.dumps(plain), json.dumps(plain, ensure_ascii=False)}
    return frozenset(form for form in found if form)


def _written(value: Any) -> Iterator[str]:
    for ascii_only in (True, False):
        yield json.dumps(value, ensure_ascii=ascii_only)
        yield json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
        yield json.dumps(value, ensure_ascii=ascii_only, indent=2)
    yield str(value)


def _plain(value: Any) -> Any:
    """Return tagged JSON without its tags, as `json.dumps` of the program's object."""
    if isinstance(value, dict):
        if values.TAG in value:
            return _plain(value.get("value"))
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
