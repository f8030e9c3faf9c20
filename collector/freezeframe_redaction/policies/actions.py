"""Rules of a policy about its classes: what becomes of their values, each rule with its scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, cast

SURROGATE, REMOVE, MASK, KEEP = ACTIONS = ("surrogate", "remove", "mask", "keep")
"""Replace by a surrogate (the default), by the name of the class, or by stars with a rest of the value; leave it in clear."""
RULE_KEYS: Final = frozenset({"action", "services", "environments", "tools", "attributes", "under", "least"})
"""Keys of an entry about a class that make a rule."""
_SCOPED: Final = ("services", "environments", "tools", "attributes")
_JUDGED: Final = "PERSON"
"""The class whose findings have a score."""
_ALNUM: Final = re.compile(r"[^\W_]")
_OF_LIST: Final = re.compile(r"\[\*?\](?=\.|$)")
_MAX_SHOWN: Final = 4
_SIGN_OF_SURROGATE: Final = "rDx"
"""In each surrogate of a password, which may have stars of its own."""


class SpanPlace(NamedTuple):
    """Surroundings of a value that a rule's scope may name. Empty is unknown, as of a text without a span."""

    services: str = ""
    environments: str = ""
    tools: str = ""
    attributes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """One rule about a class. Each scope is a list of patterns (``lookup_*``); an empty one holds everywhere."""

    class_: str
    action: str = SURROGATE
    services: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    """Keys, or paths of keys, under which values stay; of a class of one's own that is replaced, the only ones."""
    least: float = 0.0
    """Evidence that a name needs where the learned evidence is asked."""

    @property
    def is_scoped(self) -> bool:
        """True if it does not hold everywhere."""
        return any(getattr(self, name) for name in (*_SCOPED, "under"))

    @property
    def meaning(self) -> list[object]:
        """Everything that decides what becomes of a value."""
        return [getattr(self, one.name) for one in fields(self)]

    def settings(self) -> dict[str, Any]:
        """Return what a policy file says of it, beside the name of the class."""
        held = {name: getattr(self, name) for name in ("action", *_SCOPED, "under", "least")}
        stated = {name: list(value) if isinstance(value, tuple) else value for name, value in held.items() if value}
        return stated if self.action != SURROGATE else {name: value for name, value in stated.items() if name != "action"}

    def holds(self, place: SpanPlace) -> bool:
        return all(
            not (patterns := getattr(self, name)) or any(fnmatchcase(getattr(place, name), one) for one in patterns)
            for name in _SCOPED
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Actions on the values of each class at one place. Equal content is equal."""

    by_class: tuple[tuple[str, str], ...] = ()
    """Class -> action, for those that do not get surrogates."""
    under: tuple[tuple[str, str], ...] = ()
    """Class, and a key under which its values stay."""
    only: tuple[tuple[str, str], ...] = ()
    """Class, and a key under which alone it is looked for."""
    least: float = 0.0

    def of(self, class_: str) -> str:
        return next((action for name, action in self.by_class if name == class_), SURROGATE)


EVERYWHERE: Final = Actions()


def actions_at(rules: Iterable[ClassRule], own: frozenset[str], place: SpanPlace) -> Actions:
    """Return what the rules say at a place: of each class the first that holds.

    Of a built-in class the others get surrogates; of one of the policy's `own` classes, nothing is found elsewhere.
    """
    first: dict[str, ClassRule | None] = {}
    for rule in rules:
        if rule.holds(place):
            first[rule.class_] = first.get(rule.class_) or rule
        elif rule.class_ in own:
            first.setdefault(rule.class_, None)
    held = [(name, rule) for name, rule in first.items() if rule is not None]
    under = [(name, key) for name, rule in held if rule.action == KEEP for key in rule.under]
    only = [(name, key) for name, rule in held if rule.action != KEEP for key in rule.under]
    kept_under = {name for name, _ in under}
    actions = {name: KEEP if rule is None else SURROGATE if name in kept_under else rule.action for name, rule in first.items()}
    judged = first.get(_JUDGED)
    return Actions(
        by_class=tuple(sorted((name, action) for name, action in actions.items() if action != SURROGATE)),
        under=tuple(sorted(under)),
        only=tuple(sorted(only)),
        least=0.0 if judged is None else judged.least,
    )


def replaced(action: str, class_: str, value: str) -> str:
    """Return what stands for a value that gets no surrogate."""
    if action == KEEP:
        return value
    return f"[{class_}]" if action == REMOVE else mask(value)


def is_shared(class_: str, text: str) -> bool:
    """Return whether a text that stands for values, as a surrogate does, may stand for several: none was made of the key."""
    return text == f"[{class_}]" or ("*" in text and _SIGN_OF_SURROGATE not in text)


def may_stand_for(class_: str, text: str, value: str) -> bool:
    """Return whether a text that is no surrogate may stand for a value."""
    return text in (f"[{class_}]", mask(value))


def mask(value: str) -> str:
    """Return the value in stars, but for at most a quarter of its end, of a word its first letter, of a mail its domain."""
    local, sign, domain = value.partition("@")
    if sign and domain:
        return f"{mask(local) if local.isalpha() else _stars(local)}@{domain}"
    if value.isalpha():
        return value[:1] + "*" * (len(value) - 1)
    shown = min(_MAX_SHOWN, len(_ALNUM.findall(value)) // 4)
    ends = [match.start() for match in _ALNUM.finditer(value)]
    at = ends[-shown] if shown else len(value)
    return _stars(value[:at]) + value[at:]


def _stars(text: str) -> str:
    return _ALNUM.sub("*", text)


def without_lists(key: str) -> str:
    """Return a path of keys without its signs of lists: ``patients[].mrn`` is ``patients.mrn``. Other keys stay."""
    return _OF_LIST.sub("", key) if "." in key else key


def parse_rule(class_: str, table: Mapping[str, Any], faults: list[str], *, is_own: bool) -> ClassRule | None:
    """Return the rule that an entry about a class makes, built in or the policy's own; None if it makes none."""
    if not RULE_KEYS & table.keys():
        return None
    action = table.get("action", SURROGATE)
    if action not in ACTIONS:
        faults.append(f"action: found {action!r}, expected one of {', '.join(ACTIONS)}")
        action = SURROGATE
    lists = {name: _texts(name, table.get(name, []), faults) for name in (*_SCOPED, "under")}
    lists["under"] = tuple(map(without_lists, lists["under"]))
    least = table.get("least", 0.0)
    if isinstance(least, bool) or not isinstance(least, int | float):
        faults.append(f"least: found {least!r}, expected a number")
        least = 0.0
    if least and class_ != _JUDGED:
        faults.append(f"least: only {_JUDGED} has a score")
    if lists["under"] and action != KEEP and not is_own:
        faults.append(f'under: expected action = "{KEEP}" with it')
    return ClassRule(class_=class_, action=action, least=float(least), **lists)


def _texts(name: str, value: Any, faults: list[str]) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(one, str) and one for one in cast("list[Any]", value)):
        return tuple(cast("list[str]", value))
    faults.append(f"{name}: expected a list of strings")
    return ()
