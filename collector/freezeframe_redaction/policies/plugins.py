"""Detectors of other packages: functions that a policy names, found by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any, Final, cast

from freezeframe_schemas.errors import ConfigError, FreezeframeError

GROUP: Final = "freezeframe.detectors"
Find = Callable[[str], Iterable[tuple[int, int]]]
"""Returns where in a text values of the class are: start and end, in characters. A pure function: results are remembered."""


def load_detector(name: str) -> Find:
    """Return the detector of an installed package.

    Raises:
        ConfigError: there is none of the name, or it cannot be imported.
    """
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        names = ", ".join(sorted(one.name for one in entry_points(group=GROUP))) or "none"
        raise ConfigError(
            f"detector {name!r}: no installed package has it, found {names}",
            do=f"install the package with the entry point in {GROUP}",
        )
    try:
        return cast("Find", found.load())
    except Exception as error:
        raise ConfigError(f"detector {name!r}: cannot be imported: {type(error).__name__}") from error


def found_by(name: str, find: Find, text: str) -> Iterator[tuple[int, int]]:
    """Yield what a detector finds in a text.

    Raises:
        FreezeframeError: it failed, or returned anything other than places in the text. The span is refused then.
    """
    try:
        found: list[Any] = list(find(text))
    except Exception as error:
        raise FreezeframeError(f"detector {name!r} failed: {type(error).__name__}") from None  # its message may hold the text
    for one in found:
        if not (isinstance(one, tuple) and [type(part) for part in cast("tuple[Any, ...]", one)] == [int, int]):
            raise FreezeframeError(f"detector {name!r}: expected pairs of start and end, found {type(one).__name__}")
        start, end = cast("tuple[int, int]", one)
        if not 0 <= start < end <= len(text):
            raise FreezeframeError(f"detector {name!r}: found {start} to {end} in a text of {len(text)} characters")
        yield start, end
