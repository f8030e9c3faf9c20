"""Ages, as in "runs of the last 15m". Pure."""

from __future__ import annotations

import re
from typing import Final

from freezeframe_schemas.errors import ConfigError

_AGE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_MAX_WEEKS: Final = 5000
"""Ages beyond it would lead to dates that Python or ClickHouse does not have."""


def age_s(text: str) -> float:
    """Return the seconds that ``90s``, ``15m``, ``1h``, ``7d`` or ``2w`` stands for.

    Raises:
        ConfigError: the text has none of these forms, or is more than 5,000 weeks.
    """
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"found {text!r}, expected a number with s, m, h, d or w, for example 15m")
    found = float(match[1]) * _SECONDS[match[2]]
    if found > _MAX_WEEKS * _SECONDS["w"]:
        raise ConfigError(f"found {text!r}, expected at most {_MAX_WEEKS}w")
    return found
