"""Words by rule: docstrings, limits, and names of data. Exceptions are counted, and the counts only go down."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "instrumentation", "collector", "replay", "tests/support")
CLAUSE = r'[ ]*r?"""(?:What|Whether|How|Where|Which|Who|Whose|That|If) '
OF_A_DEFINITION = re.compile(rf":\n{CLAUSE}")
OF_ANYTHING = re.compile(rf"^{CLAUSE}", re.MULTILINE)
DEFINED = re.compile(r"^[ ]*(?:(?:async )?def |class |(?=\w+(?:: [^=\n]+)? = ))(\w+)", re.MULTILINE)
LIMIT = re.compile(r"_?(?:MOST|LEAST|LARGEST|FEWEST|SMALLEST)(?:_[A-Z]+)*")
SPEECH = re.compile(r"(?:^|_)(?:asked|heard|said|told|given|taken|tells?|says?|hears?)(?:_|$)")

CLAUSES_OF_FIELDS = 0
"""Docstrings of fields and constants that begin with a clause."""
NAMES_OF_SPEECH = 53
"""Functions, classes and variables named after what is asked, told, said, heard or given."""


@cache
def sources() -> dict[str, str]:
    """Return the text of every module, by path."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


@cache
def names() -> list[tuple[str, str]]:
    """Return path and name of every definition and assignment."""
    return [(path, name) for path, text in sources().items() for name in DEFINED.findall(text)]


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    """Write "Return ...", "Check ..." or "Limits of ...", never "What ...", "Whether ..." or "How ..."."""
    assert [path for path, text in sources().items() if OF_A_DEFINITION.search(text)] == []


def test_ever_fewer_fields_are_described_by_a_clause() -> None:
    """A field's docstring names the thing, too. Lower the number with each one that you rewrite."""
    assert sum(len(OF_ANYTHING.findall(text)) for text in sources().values()) <= CLAUSES_OF_FIELDS


def test_limits_are_named_max_and_min() -> None:
    """A limit has the field's word."""
    assert [item for item in names() if LIMIT.fullmatch(item[1])] == []


def test_ever_fewer_names_say_that_code_speaks() -> None:
    """Data is a request, an answer, matches; code records, reports and logs. Lower the number with each one that you rename."""
    assert len([name for _, name in names() if SPEECH.search(name)]) <= NAMES_OF_SPEECH
