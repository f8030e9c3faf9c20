"""Errors in ClickHouse's form: a code, a name, an HTTP status."""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"Code: (\d+)")
_STATUS_OF: Final = {
    **dict.fromkeys((192, 193, 497, 164), 403),
    **dict.fromkeys((516,), 401),
    **dict.fromkeys((60, 81, 46, 47, 50, 115, 63, 372), 404),
    **dict.fromkeys(
        (6, 20, 25, 26, 27, 33, 34, 36, 38, 41, 42, 43, 53, 62, 69, 70, 72, 117, 130, 131, 169, 386, 395, 441), 400
    ),
    **dict.fromkeys((271, 354, 452, 456, 457), 400),
    **dict.fromkeys((307, 308, 306, 396), 413),
    **dict.fromkeys((48, 344), 501),
    159: 408,
    **dict.fromkeys((202, 203, 209, 210, 439), 503),
}


class ClickHouseError(Exception):
    """An error to be answered as a ClickHouse server would."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.text = f"Code: {code}. DB::Exception: {message} ({name})\n"

    @property
    def http_status(self) -> int:
        """Return the status that ClickHouse answers this code with."""
        return _STATUS_OF.get(self.code, 500)


def from_engine(error: Exception) -> ClickHouseError:
    """Return the engine's error, its text kept."""
    if isinstance(error, ClickHouseError):
        return error
    text = str(error)
    found = _CODE.search(text)
    made = ClickHouseError(int(found[1]) if found else 1002, "UNKNOWN_EXCEPTION", text)
    if found:
        made.text = text[found.start() :].rstrip() + "\n"
    return made


def denied(what: str) -> ClickHouseError:
    """Return the error for something that readers may not do."""
    return ClickHouseError(497, "ACCESS_DENIED", f"{what} is not allowed here: this endpoint only reads the store")


def unknown_function(name: str) -> ClickHouseError:
    """Return the error for a function that the engine lacks, or that is not on the list of checked ones."""
    return ClickHouseError(46, "UNKNOWN_FUNCTION", f"Function with name `{name}` does not exist, or is not allowed here")
