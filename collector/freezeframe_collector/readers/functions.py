"""Which of the engine's functions a reader may call: those of `functions.txt`, and SQL's own forms.

What reads files, dictionaries or the host, calls a service, waits, or is the engine's internal business is not in it. The file
was made for one version of the engine: first what is allowed, then, after an empty line, what else that engine has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

ENGINE: Final = "26.9.0"
"""The version of chdb-core whose functions the file lists."""
ALLOWED, ELSE = (frozenset(part.split()) for part in Path(__file__).with_name("functions.txt").read_text().split("\n\n"))
_FORMS: Final = frozenset({"lambda", "exists", "grouping", "untuple"})
"""Written as functions in a tree, but not in the engine's list."""
_COMBINATORS: Final = re.compile(
    r"(?:if|array|map|state|merge|simplestate|foreach|distinct|ordefault|ornull|resample|argmin|argmax|tuple|null)$"
)


def is_allowed(name: str) -> bool:
    """Return whether a function may be called: it is in the list, or an aggregate function of it with combinators."""
    name = name.lower()
    while name not in ALLOWED and name not in _FORMS:
        shorter = _COMBINATORS.sub("", name)
        if name in ELSE or shorter == name:
            return False
        name = shorter
    return True


def _installed() -> str:
    try:
        return version("chdb-core")
    except PackageNotFoundError:
        return ""


_KNOWS_ENGINE: Final = _installed() == ENGINE


def refused_among(names: Iterable[str], handle: Any) -> set[str]:
    """Return those that are names of the engine's functions and not allowed: ``arrayMap(file, ...)`` takes one by its name.

    An engine of another version is asked for its functions, which costs some 30 ms.
    """
    refused = {name.lower() for name in names} - ALLOWED
    if _KNOWS_ENGINE or not refused:
        return refused & ELSE
    listed = handle.query("SELECT lower(name) FROM system.functions", "TSV").bytes().decode()
    return refused & set(listed.split())
