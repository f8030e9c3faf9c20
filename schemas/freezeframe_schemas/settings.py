"""Settings: each is declared once, as a field of a dataclass, and is read, checked and documented from there.

    workers: int = setting(16, "Requests served at once.", whole(1, 256))

The agent and the collector share it, so it imports only the standard library. A fault never stops the reading:
it is added to the caller's list with its place, and the setting keeps its default.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueKind:
    """The allowed values of a setting, and their form in an environment variable."""

    expected: str
    """Description of valid values, for errors and the reference."""
    accepts: Callable[[Any], bool]
    parse: Callable[[str], object] = str
    """Reads a variable's text; raises ValueError or LookupError if it is not valid."""
    secret: bool = False
    """True if a fault leaves out the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One declared field."""

    name: str
    """The field's name; below a section `section.name`."""
    kind: ValueKind
    default: Any
    help: str
    variables: tuple[str, ...]
    """Standard environment variables with the same meaning."""

    def check(self, value: object, where: str, faults: list[str]) -> Any:
        """Return the value, or the default and a fault if it is not of the setting's kind."""
        if isinstance(self.default, float) and type(value) is int and abs(value) <= sys.float_info.max:
            value = float(value)
        if self.kind.accepts(value):
            return value
        found = "a value that is not shown" if self.kind.secret else repr(value)
        faults.append(f"{where}: found {found}, expected {self.kind.expected}")
        return self.default

    def read(self, text: str, where: str, faults: list[str]) -> Any:
        """Return the value of a variable's text, as `check` does."""
        try:
            value = self.kind.parse(text)
        except (ValueError, LookupError):
            value = text
        return self.check(value, where, faults)


def setting(default: Any, help_text: str, kind: ValueKind | None = None, *, variables: tuple[str, ...] = ()) -> Any:
    """Declare a field; without a kind, the annotation's kind. Typed as Any so that the field keeps its own type."""
    return field(default=default, metadata={"help": help_text, "kind": kind, "variables": variables})


def declared(config: type, prefix: str = "") -> dict[str, Setting]:
    """Return the settings of a dataclass by name, in order; a field that is a dataclass itself is a section."""
    found: dict[str, Setting] = {}
    hints = get_type_hints(config)
    for each in dataclasses.fields(config):
        name, hint = prefix + each.name, hints[each.name]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            found |= declared(hint, f"{name}.")
        elif each.metadata:  # without, it is found out, not set
            kind = each.metadata["kind"] or (one_of(*get_args(hint)) if get_origin(hint) is Literal else _OF_TYPE[hint])
            described = {key: each.metadata[key] for key in ("help", "variables")}
            found[name] = Setting(name=name, kind=kind, default=each.default, **described)
    return found


def no_such(where: str, name: str, known: Iterable[str]) -> str:
    """Return the fault for a name that is not a setting."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"{where}: no such setting" + (f"; did you mean {near[0]}?" if near else "")


def one_of(*choices: str) -> ValueKind:
    """Return the kind for a closed set of texts, which a variable may also have in upper case."""
    *others, last = choices
    return ValueKind(expected=f"{', '.join(others)} or {last}", accepts=lambda value: value in choices, parse=str.lower)


def whole(least: int, most: int | None = None) -> ValueKind:
    """Return the kind for whole numbers in a range."""
    return _numbers("a whole number", int, least, most)


def number(least: float, most: float | None = None, what: str = "a number") -> ValueKind:
    """Return the kind for finite numbers in a range."""
    return _numbers(what, float, least, most)


def _numbers(what: str, kind: type[int | float], least: float, most: float | None) -> ValueKind:
    bounds = f", at least {least:.10g}" if most is None else f" from {least:.10g} to {most:.10g}"
    highest = math.inf if most is None else most
    return ValueKind(
        expected=what + bounds,
        accepts=lambda value: type(value) is kind and least <= value <= highest and value != math.inf,
        parse=kind,
    )


_SWITCHES: Final[dict[str, bool]] = dict[str, bool](true=True, yes=True, on=True, false=False, no=False, off=False) | {
    "1": True,
    "0": False,
}

TEXT: Final = ValueKind(expected="text", accepts=lambda value: isinstance(value, str))
SWITCH: Final = ValueKind(
    expected="true or false", accepts=lambda value: isinstance(value, bool), parse=lambda text: _SWITCHES[text.lower()]
)
_OF_TYPE: Final[dict[object, ValueKind]] = {str: TEXT, bool: SWITCH}
