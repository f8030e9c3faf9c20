"""The meaning of a value's key: ``{"phone": "4155550100"}`` is a phone number because of its key.

A key that does not look like an identifier may contain private data itself, and is then read like a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from freezeframe_redaction.rules.fields import field_of
from freezeframe_redaction.rules.read import Rules

_RULES = Rules("keys")
_SENSITIVE, _ORDER, _CODE, _NOBODY = (
    re.compile(_RULES.text(name), re.IGNORECASE) for name in ("telling", "order", "code", "nobody")
)
_GENERIC = frozenset(["name", "number", "no", "num", "value", "val", "id", "code", "nr", "type", "text", "content", "#"])
SPEAKS_FOR_PARENT: Final = frozenset(["value", "val"])
"""Keys that add nothing to the key around them."""
FIELD_VALUES: Final = frozenset(["value", "val", "number", "no", "num", "nr"])
"""Keys whose values may be named by a sibling."""
MIN_NUMBER: Final = 100
"""Smaller numbers are never private."""
_MIN_NAMED_NUMBER: Final = 10_000
_MIN_BARE_NUMBER: Final = 100_000_000_000
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.\-/:$ ]{0,40}$")
_PII_IN_KEY = re.compile(r"@|[0-9][0-9 .\-]{7}|[A-Z][a-z]+ [A-Z]|-----|eyJ|\.[0-9]{1,3}\.")
_MAX_KEYS: Final = 20_000
_KEY_BEFORE: Final = re.compile(r"""(?:<([^\W\d][\w.-]{0,40})>|(?<!\w)([^\W\d][\w.-]{0,40})["']?[ \t]?[:=][ \t]?["']?)\Z""")
_END_OF_FIELD: Final = re.compile(r"""["']?(?:\Z|\s*\n|[<;&|}]|[,\s]\s*["']?[^\W\d][\w.-]{0,40}["']?[ \t]?[:=])""")
_MAX_BEFORE: Final = 50


class KeyContext(NamedTuple):
    prefix: str
    """Its form as context before the value, ``"phone: "``; empty if it is not informative."""
    defers: bool
    """The key around it may be more informative: ``{"phone": {"number": ...}}``."""
    plain: bool
    """It is an identifier, which names a field and contains no private data."""
    least: int
    """Smaller numbers are not findings: codes have three digits, numbers of people five, cards without a word twelve."""
    is_nobodys: bool = False
    """Its value is not a person's name, although a person may have the same name: ``{"city": "Austin"}``."""


class KeyContexts(dict[str, KeyContext]):
    """Key -> its meaning, filled on demand, and emptied when it has grown too large."""

    def __init__(self, telling: frozenset[str] = frozenset()) -> None:
        """`telling` are keys that a policy or one of its classes names: they determine their value's class.

        One with dots (``customer.phone``) is also the path of nested keys, at any depth.
        """
        super().__init__()
        self._telling = telling
        self.paths: dict[str, Sequence[str]] = {}
        """Last key -> the named paths that end in it, longer ones first."""
        for path in sorted((key for key in telling if "." in key), key=lambda path: (-len(path), path)):
            last = path.rpartition(".")[2]
            self.paths[last] = (*self.paths.get(last, ()), path)
        self._base: KeyContexts | None = None
        self.wanted: frozenset[str] = frozenset()
        """Words that are leaves wherever they are a whole value: forms of the values in the run's cast."""

    def wanting(self, words: frozenset[str]) -> KeyContexts:
        """Return a copy that also looks for words."""
        made = KeyContexts()
        made._telling, made.paths, made._base, made.wanted = self._telling, self.paths, self, words
        return made

    def is_told(self, key: str) -> bool:
        """Return whether a policy or a class names the key."""
        return key in self._telling

    def path_of(self, place: str) -> str:
        """Return the longest named path that a place (its keys, joined by dots) ends in; empty if none."""
        ending = f".{place}"
        return next((path for path in self.paths.get(place.rpartition(".")[2], ()) if ending.endswith(f".{path}")), "")

    def is_inside_path(self, key: str) -> bool:
        """Return whether a named path goes through the key, and begins above it."""
        return bool(self.paths) and any(f".{key}." in f"{path}." for paths in self.paths.values() for path in paths)

    def __missing__(self, key: str) -> KeyContext:
        if len(self) >= _MAX_KEYS:
            self.clear()
        made = self[key] = self._read(key) if self._base is None else self._base[key]
        return made

    def _read(self, key: str) -> KeyContext:
        plain = _is_plain(key)
        if self.paths and (path := self.path_of(key)):
            return KeyContext(f"{path}: ", False, plain, _MIN_NAMED_NUMBER)
        if key in self._telling:
            return KeyContext(f"{key}: ", False, plain, MIN_NUMBER)
        if field_of(key) is not None:
            return KeyContext(f"{key}: ", False, plain, _MIN_NAMED_NUMBER)
        if len(key) > 64 or "\n" in key:
            return KeyContext("", False, plain, _MIN_BARE_NUMBER)
        generic = key.lower() in _GENERIC
        if _ORDER.search(key):
            return KeyContext(f"{key}: ", False, plain, _MIN_BARE_NUMBER)
        nobodys = _NOBODY.search(key) is not None
        if not _SENSITIVE.search(key):
            return KeyContext("", generic, plain, _MIN_BARE_NUMBER, nobodys)
        return KeyContext(f"{key}: ", generic, plain, MIN_NUMBER if _CODE.search(key) else _MIN_NAMED_NUMBER, nobodys)

    def prefix(self, key: str, parent: str) -> str:
        """Return the key and the key around it as context before a value."""
        held = self[key]
        around = self[parent] if held.defers and parent else None
        if around is None or not (around.prefix or around.is_nobodys):
            return held.prefix
        return around.prefix if key in SPEAKS_FOR_PARENT else f"{parent} {key}: "

    def is_nobodys(self, key: str, parent: str) -> bool:
        """Return whether the value is of a thing: ``{"city": "Austin"}``, ``{"product": {"name": "Austin"}}``."""
        held = self[key]
        return held.is_nobodys or (held.defers and self[parent].is_nobodys)

    def is_field_of_things(self, text: str, start: int, end: int) -> bool:
        """Return whether ``text[start:end]`` is all of a field whose key is written before it: ``city=Austin``."""
        key = _KEY_BEFORE.search(text, max(0, start - _MAX_BEFORE), start)
        return key is not None and self[key[1] or key[2]].is_nobodys and _END_OF_FIELD.match(text, end) is not None

    def least(self, key: str, parent: str) -> int:
        """Return the smallest number that may be private under the key."""
        held = self[key]
        return min(held.least, self[parent].least) if held.defers and parent else held.least


def _is_plain(key: str) -> bool:
    return (
        (len(key) <= 4 and '"' not in key)
        or (key.isidentifier() and key.isascii())
        or (_PII_IN_KEY.search(key) is None and _IDENTIFIER.match(key) is not None)
    )


def field_name(held: Mapping[str, Any], key: str, keys: KeyContexts) -> str:
    """Return the field name in ``{"name": "email", "value": ...}`` or ``{"type": "phone", "number": ...}``, else the key."""
    for name in ("name", "key", "field", "label"):
        name_value = held.get(name)
        if type(name_value) is str and len(name_value) < 40:
            return name_value
    for name in ("type", "kind", "system"):  # the last is FHIR's: ``{"system": "phone", "value": ...}``
        name_value = held.get(name)
        if type(name_value) is str and len(name_value) < 40 and keys[name_value].prefix:
            return name_value
    return key
