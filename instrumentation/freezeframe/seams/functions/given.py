"""What a tool changed of what it was given: its arguments, and attributes of its object. A replay does not do that."""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from freezeframe_schemas.keys import with_defaults, without_identity

_FIXED: Final = frozenset({type(None), bool, int, float, str, bytes})
_GROWING: Final = frozenset({list, dict, set})
Encode = Callable[[tuple[Any, ...], dict[str, Any]], str]


def watch_arguments(
    encode: Encode, args: tuple[Any, ...], kwargs: dict[str, Any], before: str, *, has_object: bool
) -> Callable[[], Iterable[str]] | None:
    """Return what tells, after the call, what has changed; None if nothing can. `before` is what `encode` wrote of the call."""
    owner = args[0] if has_object and args and not isinstance(args[0], type) else None
    given = (*(args if owner is None else args[1:]), *kwargs.values())
    is_fixed = all(type(value) in _FIXED for value in given)
    if is_fixed and owner is None:
        return None
    picture = None if is_fixed else _picture(given)
    state = _state(owner)

    def changes() -> Iterator[str]:
        same = is_fixed or (picture is not None and picture == _picture(given))
        return _changes(None if same else encode(args, kwargs), before, owner, state)

    return changes


def _picture(given: tuple[Any, ...]) -> bytes | None:
    """Return bytes that differ if plain data differs, at a tenth of the cost of encoding it; None for anything else."""
    if any(type(value) not in _FIXED and type(value) not in _GROWING for value in given):  # an array would be copied
        return None
    try:
        return marshal.dumps(given, 2)
    except ValueError:
        return None


def _changes(after: str | None, before: str, owner: Any, state: Mapping[str, tuple[Any, int]]) -> Iterator[str]:
    if after is not None and after != before:
        was, now = (with_defaults(without_identity(json.loads(text))) for text in (before, after))
        yield from (f"its argument {name}" for name, value in now["kwargs"].items() if value != was["kwargs"].get(name))
        if now["args"] != was["args"]:
            yield "an argument"
    yield from (f"its object ({name})" for name, value in _state(owner).items() if _differs(value, state.get(name)))


def _state(owner: Any) -> dict[str, tuple[Any, int]]:
    """Return the attributes of an object that are plain data, each with its size: cheap, so what is deeper is not seen."""
    held: dict[str, Any] = getattr(owner, "__dict__", {})
    return {
        name: (value, len(value) if type(value) in _GROWING else 0)
        for name, value in list(held.items())
        if type(value) in _FIXED or type(value) in _GROWING
    }


def _differs(now: tuple[Any, int], was: tuple[Any, int] | None) -> bool:
    if was is None or now[1] != was[1] or type(now[0]) is not type(was[0]):
        return True
    return now[0] is not was[0] and (type(now[0]) in _GROWING or now[0] != was[0])
