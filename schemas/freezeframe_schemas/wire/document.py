"""JSON from the wire, read without ever refusing: the one place that knows what orjson does not accept.

To orjson NaN, lone surrogates and broken UTF-8 are errors, and integers beyond 64 bits silently become floats. Providers and
models produce all four. These documents go to the standard library, so the common case stays fast and the odd one is still
read, digit by digit. Nothing here raises on any bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

import orjson

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

_MARK_DIGITS: Final = bytes(ord("0") if chr(byte).isdigit() and byte < 128 else ord(".") for byte in range(256))
_MAX_SAFE_DIGITS: Final = 18
"""Digits of a number that orjson keeps whole in any case; the first integer that it rounds has 19 (and a sign)."""
_STRIDE: Final = 6

_MAX_NESTING: Final = 200
"""Levels that we write; deeper values (no provider sends them) are not worth a stack overflow."""


def parse(data: bytes | str) -> JsonValue:
    """Return the JSON value, or None if `data` is not JSON.

    ``NaN`` and ``Infinity`` become the texts ``"NaN"`` and ``"Infinity"``, a number too long for Python stays text, and broken
    UTF-8 becomes U+FFFD. Of duplicate keys the last wins, as in every SDK.
    """
    try:
        value: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    else:
        if not _may_hold_long_number(data if isinstance(data, bytes) else data.encode("utf-8", "replace")):
            return value
    # An empty or HTML body is common (proxies, cut answers); the slow reader is only for data that looks like JSON.
    text = data if isinstance(data, str) else data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text, parse_constant=str, parse_int=_integer, strict=False)
    except (ValueError, RecursionError):
        return None


def _may_hold_long_number(data: bytes) -> bool:
    """Return whether there are 19 digits in a row. Every sixth byte is looked at first: such a run covers three of them."""
    if b"000" not in data[::_STRIDE].translate(_MARK_DIGITS):
        return False
    return b"0" * (_MAX_SAFE_DIGITS + 1) in data.translate(_MARK_DIGITS)


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # over sys.get_int_max_str_digits()
        return digits


def dump(value: JsonValue) -> str:
    """Return compact JSON text that is valid UTF-8 whatever the value holds; lone surrogates come out escaped."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # orjson.JSONEncodeError: an integer beyond 64 bits, a lone surrogate, nesting beyond 254
        pass
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(_cut(value, _MAX_NESTING), separators=(",", ":"))


def dump_canonical(value: JsonValue) -> str:
    """Return `dump` with sorted keys, for hashing."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return json.dumps(_cut(value, _MAX_NESTING), separators=(",", ":"), sort_keys=True)


def _cut(value: JsonValue, levels: int) -> JsonValue:
    """Return the value without anything deeper than `levels`, and with non-finite floats as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {key: _cut(item, levels - 1) for key, item in value.items()} if levels else "..."
    if isinstance(value, list):
        return [_cut(item, levels - 1) for item in value] if levels else "..."
    return value


def make_object(*parts: Mapping[str, JsonValue], **fields: JsonValue) -> JsonObject:
    """Return an object with the fields of `parts`, and `fields`; of two with the same name, the last wins."""
    made: JsonObject = {}
    for part in (*parts, fields):
        made.update(part)
    return made


def as_object(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects among the items of an array."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_text(value: JsonValue) -> str | None:
    """Return the value if it is text, else None."""
    return value if isinstance(value, str) else None


def as_integer(value: JsonValue) -> int | None:
    """Return the value if it is a whole number (Titan counts in ``28.0``), else None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
