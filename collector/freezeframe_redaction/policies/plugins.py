"""Detectors of one's own: functions of other packages, found by their entry points; those behind HTTP are in `remote`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import urlsplit

from freezeframe_redaction.deadline import Deadline
from freezeframe_schemas.errors import ConfigError, FreezeframeError

GROUP: Final = "freezeframe.detectors"
Find = Callable[[str], Iterable[tuple[int, int]]]
"""Returns where in a text values of the class are: start and end, in characters. A pure function: results are remembered."""
FindAll = Callable[[Sequence[str], Deadline], Iterable[Iterable[tuple[int, int]]]]
"""The same for several texts at once."""
REPLACE, KEEP = ON_ERROR = ("replace", "keep")
"""Fates of texts that a detector did not read: they become keyed hashes, or stay as the other rules leave them."""
DEFAULT_TIMEOUT_S: Final = 1.0
MAX_TIMEOUT_S: Final = 10.0


class DetectorFailedError(FreezeframeError):
    """A detector behind HTTP did not answer in time and form. The message holds nothing of the texts or of the answer."""

    def __init__(self, url: str, on_error: str, reason: str, *, is_first: bool = True) -> None:
        super().__init__(f"detector {url.partition('?')[0]}: {reason}")
        self.detector = url, on_error
        self.keeps = on_error == KEEP
        self.is_first = is_first
        """It was asked; not so while it rests after a failure."""


def is_remote(detector: str) -> bool:
    """Return whether the name of a detector is an address."""
    return "://" in detector


def fault_of_address(url: str) -> str:
    """Return the fault of a detector's address, if any: texts leave this machine only encrypted."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return str(error)
    if host and parts.username is None and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))):
        return ""
    return "expected https, or http on this machine (127.0.0.1, ::1, localhost), without a login"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_detector(name: str) -> FindAll:
    """Return the detector of an installed package, for several texts.

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
        find = cast("Find", found.load())
    except Exception as error:
        raise ConfigError(f"detector {name!r}: cannot be imported: {type(error).__name__}") from error

    def find_all(texts: Sequence[str], deadline: Deadline) -> Iterator[Iterator[tuple[int, int]]]:
        for text in texts:
            deadline.check()
            yield found_by(name, find, text)

    return find_all


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
