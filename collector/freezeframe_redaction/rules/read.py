"""The tables of rules, a TOML file for each family in ``rules/``: patterns are data, so that any engine can read them.

A pattern is a text, or a list of texts that follow one another. ``⟨name⟩`` in it stands for an entry of ``[words]``, whose
lines are alternatives, or of ``[forms]``, of the same file or of ``common.toml``. Examples show their value in brackets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

_NAMED: Final = re.compile("⟨([a-z0-9_]+)⟩")
Pattern = str | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row: cheap triggers, and the required text around the end of one."""

    name: str
    class_: str
    row: str
    """Description of the row, for people."""
    triggers: tuple[str, ...]
    shows: tuple[str, ...]
    """Examples, each with its value in brackets; a text without brackets is a near miss of the one before it."""
    others: tuple[str, ...] = ()
    """Further classes that it finds."""
    find: str = ""
    """The family's own check, if no grammar expresses it."""
    after: re.Pattern[str] | None = None
    """The form of the value right after the trigger."""
    around: re.Pattern[str] | None = None
    """The form of the value around the trigger's end."""
    reach: tuple[int, int] = (0, 0)
    """Characters before and after the trigger's end in which it must be."""
    group: int = 1
    """Number of the form's group with the value; -1: the last one that matched."""
    begun: bool = False
    """True if the value must begin before the trigger's end."""
    kind: str = ""
    take: str = ""
    """Function that makes findings from the match, unless its group is the finding."""
    words: tuple[tuple[str, ...], ...] = ()
    """Tests of the words that the form's groups hold (`people.classes`): they are a name if one row of tests holds for them."""
    each: bool = False
    """Each of the words is a separate name."""
    where: str | list[Any] = ""
    """The check of the value: its name, or its steps (`national_checks`)."""
    before: re.Pattern[str] | None = None
    """A word that must be before the value, in lower case."""
    behind: re.Pattern[str] | None = None
    """A word before the trigger's end, after which the value begins; the trigger ends in the value."""
    unless: re.Pattern[str] | None = None
    """Text that must not be before the trigger's end."""
    within: int = 0
    """Characters before it in which such a word is searched."""


class Forms:
    """The patterns of a family by their names in its tables (``forms.house_number``), each compiled when it is first used."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if not self._rules.has(name):
            raise AttributeError(name)
        made = self._rules.form(name)
        setattr(self, name, made)
        return made


class Rules:
    """The tables of one family."""

    def __init__(self, family: str, made: Mapping[str, str] | None = None) -> None:
        """`made` are further entries, which code makes of word lists."""
        self._texts = {**_texts(_read("common")), **_texts(read := _read(family)), **(made or {})}
        self._tables = read
        self._file = f"rules/{family}.toml"
        self.forms = Forms(self)

    def has(self, name: str) -> bool:
        """Return whether ``[words]`` or ``[forms]`` has the entry."""
        return name in self._texts

    def text(self, name: str) -> str:
        """Return an entry of ``[words]`` or ``[forms]``, with its references filled in."""
        return self.filled(self._texts[name])

    def form(self, name: str) -> re.Pattern[str]:
        """Return an entry of ``[forms]`` or ``[words]`` as a pattern."""
        return re.compile(self.text(name))

    def table(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a table, each with the names of its columns; a shorter row lacks the last ones."""
        table = self._tables[name]
        for row in table["rows"]:
            yield dict(zip(table["columns"], row, strict=False))

    def surrogate(self) -> dict[str, Any] | None:
        """Return the table's rule for surrogates of its class, if it defines the class."""
        made = self._tables.get("surrogate")
        return made and {"name": self._tables["class"], **made, "keys": tuple(made.get("keys", ()))}

    def entries(self, name: str) -> Mapping[str, Any]:
        return self._tables[name]

    def rows(self, name: str) -> Iterable[Mapping[str, Any]]:
        """Return a list of tables, as ``[[name]]`` makes one."""
        return self._tables[name]

    def filled(self, pattern: Pattern) -> str:
        """Return a pattern with its references filled in."""
        return _NAMED.sub(lambda match: self.text(match[1]), pattern if isinstance(pattern, str) else "".join(pattern))

    def rules(self) -> Iterator[Rule]:
        """Yield the rows of detectors, in their order."""
        for row in self._tables.get("rule", ()):
            made = {name: _READERS[name](self, value) if name in _READERS else value for name, value in row.items()}
            class_ = made.pop("class", self._tables.get("class", ""))
            form = made.get("after") or made.get("around")
            if form is not None and not form.groups:
                made["group"] = 0
            yield Rule(class_=class_, row=self.describe(row), **made)

    def describe(self, row: Mapping[str, Any]) -> str:
        """Describe a row for people: its place, and its entries except names, triggers and examples."""
        fields = (f"{name} = {_short(value)}" for name, value in row.items() if value and name not in _NOT_TOLD)
        return f"{self._file}: {'; '.join(fields)}"

    def _pattern(self, given: Pattern) -> re.Pattern[str]:
        return re.compile(self.filled(given))

    def _patterns(self, given: Iterable[Pattern]) -> tuple[str, ...]:
        return tuple(map(self.filled, given))


def _row_of_tests(given: Iterable[str]) -> tuple[str, ...]:
    return tuple(given)


_READERS: Final[Mapping[str, Callable[[Rules, Any], Any]]] = {
    "triggers": Rules._patterns,
    **dict.fromkeys(("shows", "others", "reach"), lambda _, given: tuple(given)),
    "words": lambda _, given: tuple(map(_row_of_tests, given)),
    **dict.fromkeys(("after", "around", "before", "behind", "unless"), Rules._pattern),
}


_NOT_TOLD: Final = frozenset(["name", "class", "triggers", "trigger", "fires", "shows", "example", "others", "country"])
_MAX_REPORTED: Final = 100


def _short(value: Any) -> str:
    is_pattern = isinstance(value, list) and isinstance(value[0], str)
    text = "".join(value) if is_pattern else value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MAX_REPORTED else f"{text[:_MAX_REPORTED]}..."


@cache
def _read(family: str) -> Mapping[str, Any]:
    return tomllib.loads((files("freezeframe_redaction") / "rules" / f"{family}.toml").read_text("utf-8"))


def _texts(tables: Mapping[str, Any]) -> dict[str, str]:
    forms: Mapping[str, Pattern] = tables.get("forms", {})
    words: Mapping[str, str] = tables.get("words", {})
    return {
        **{name: form if isinstance(form, str) else "".join(form) for name, form in forms.items()},
        **{name: "|".join(listed.strip("\n").split("\n")) for name, listed in words.items()},
    }
