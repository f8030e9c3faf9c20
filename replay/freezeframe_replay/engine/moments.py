"""Moments: times and durations that a program read from its clocks, replaced by the recorded ones before a comparison.

In a replay the clock starts at the run's start and is moved with each step, so the program's readings are right
to within the time that the recorded code took, but not to the microsecond. Two times at the same place of both
requests are one moment if they differ by no more than that. The same goes for a number that the program
measured: the time between two of its readings. Times that the program received (in its input, from a tool, from
the model) are content: they are compared unchanged. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_MOMENT: Final = re.compile(
    r"""
    \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\ ?(?:Z|UTC|[+-]\d\d:?\d\d))?   # ISO 8601
    |\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b                                                      # time of day
    |\b1\d{9}(?:\.\d{1,9})?\b | \b1\d{12}\b | \b1\d{15}\b | \b1\d{18}\b                      # since 1970: s, ms, us, ns
    """,
    re.VERBOSE,
)
_READ: Final = re.compile(rf"({_MOMENT.pattern}|(?<![\w.])\d+(?:\.\d+)?(?:e-\d+)?)", re.VERBOSE)
"""A moment, or a number that may be a duration."""
_DAY_S: Final = 86_400
_MINUTE_S: Final = 60
_NEAR_NOW_S: Final = 32 * _DAY_S
"""A number or date further from the run than this was not read from its clock: it may be an order number, not a moment."""
_IN_TEXT: Final = re.compile(r"\d+\.\d+(?:e-\d+)?|\d+e-\d+|\d{3,}")
_AS_NUMBER: Final = re.compile(r"\d+\.\d{4,}(?:e-\d+)?|\d+(?:\.\d+)?e-\d+")
"""Numbers with enough digits that one equals a duration hardly by chance. Shorter ones are often parameters, such as 0.75."""

_SHORT_S: Final = 0.05
"""Durations may differ by this much, or by half of the longer one: a replay takes the run's time plus its own."""
_TINY_S: Final = 0.001
"""Durations below this may differ by half only: nearly any number equals some microseconds between two readings of a clock."""
_TIMES: Final = 100
"""Maximum ratio of two durations: seconds do not match milliseconds."""
_FAR: Final = "too far from that of the run; round it, or leave it out"
_SHORT: Final = "but so short a number is compared as it is: leave it out"
_OWN: Final = "but the program's code, its environment or what it was given holds the number too: leave it out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number that a replayed program measured, and the bounds of the run's measurement there."""

    per_s: float
    """Number of its units in a second: 1000 for milliseconds."""
    least_s: float
    most_s: float
    """Bounds of the run's measurement: the recording shows the calls between which it read its clock."""
    is_own: bool
    """True if the program's code, its environment or its command line contains the number, too."""


Measured = Callable[[str, Sequence[int]], Measurement | None]
"""(number, ns of each used step) -> the program's measurement; None if it did not measure it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """Allowed difference of two moments at one place of the run."""

    within_s: float
    """Maximum difference in seconds."""
    is_content: Callable[[str], bool]
    """True if the program had received a text by then."""
    now_s: float
    """The time in the run, in seconds since 1970."""


class Moments:
    """The moments of one replay: which live one matches which recorded one. A request also holds those of earlier ones.

    Args:
        measured: see `Measured`.
    """

    def __init__(self, measured: Callable[[str], Measurement | None] = lambda _: None) -> None:
        self._measured = measured
        self._known: set[tuple[str, str]] = set()
        self.apart: dict[str, str] = {}
        """Number that the program may have measured, but that does not count as the recorded duration -> reason."""

    def settle(self, recorded: Any, live: Any, slack: Slack) -> Any:
        """Return the live JSON value with each of its moments replaced by the recorded one at its place, if near enough.

        Shape: both any JSON value, for example ``{"messages": [{"content": "It is 14:05:17."}]}``.
        """
        if isinstance(recorded, dict) and isinstance(live, dict):
            return {name: self.settle(recorded[name], item, slack) if name in recorded else item for name, item in live.items()}
        if isinstance(recorded, list) and isinstance(live, list):
            rest = live[len(recorded) :]
            return [*(self.settle(was, now, slack) for was, now in zip(recorded, live, strict=False)), *rest]
        if isinstance(recorded, str) and isinstance(live, str):
            return self._text(recorded, live, slack)
        if _is_number(recorded) and _is_number(live):
            return recorded if self._same(str(recorded), str(live), slack, _AS_NUMBER) else live
        return live

    def _text(self, recorded: str, live: str, slack: Slack) -> str:
        if recorded == live:
            return live
        was, now = _READ.split(recorded), _READ.split(live)
        if len(was) == 1 or was[::2] != now[::2]:
            return live
        same = all(self._same(*pair, slack) for pair in zip(was[1::2], now[1::2], strict=True))
        return recorded if same else live

    def _same(self, recorded: str, live: str, slack: Slack, form: re.Pattern[str] = _IN_TEXT) -> bool:
        if recorded == live or (recorded, live) in self._known:
            return True
        was, now = _seconds(recorded), _seconds(live)
        if was is None or now is None:
            is_same = self._lasted(recorded, live, slack, form)
        elif slack.is_content(recorded):
            return False
        else:
            apart = abs(was - now)
            if ":" in recorded and "-" not in recorded:  # a time of day: midnight lies between 23:59:59 and 00:00:00
                apart = min(apart, _DAY_S - apart)
            is_far = was > _DAY_S and abs(was - slack.now_s) > _NEAR_NOW_S
            is_same = not is_far and apart <= slack.within_s + (0 if _has_seconds(recorded) else _MINUTE_S)
        if is_same:
            self._known.add((recorded, live))
        return is_same

    def _lasted(self, recorded: str, live: str, slack: Slack, form: re.Pattern[str]) -> bool:
        """Return whether two numbers are one duration, as the run and as the replay measured it."""
        found = self._measured(live)
        if found is None:
            return False
        was_s, now_s = float(recorded) / found.per_s, float(live) / found.per_s
        longest_s = max(was_s, now_s)
        off_by_s = longest_s / 2 if longest_s < _TINY_S else max(_SHORT_S, longest_s / 2)
        unit_s = 10.0 ** -len(recorded.partition(".")[2]) / found.per_s  # what rounds to nothing may be up to a unit
        is_near = abs(was_s - now_s) <= min(slack.within_s, off_by_s) and longest_s <= _TIMES * (min(was_s, now_s) + unit_s)
        is_near = is_near or found.least_s - unit_s <= was_s <= found.most_s + unit_s
        is_own = found.is_own or slack.is_content(recorded)
        has_form = form.fullmatch(recorded) or form.fullmatch(live)
        if is_near and has_form and not is_own:
            return True
        if is_near or not is_own:
            self.apart[live] = _OWN if is_own else _SHORT if is_near else _FAR
        return False


def holds(text: bytes, moment: str) -> bool:
    """Return whether a text contains a moment as a whole: 204 is not in 0.2041."""
    sought = moment.encode()
    return sought in text and re.search(rb"(?<![\d.])" + re.escape(sought) + rb"(?!\.?\d)", text) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has_seconds(text: str) -> bool:
    return text.count(":") != 1


def _seconds(text: str) -> float | None:
    """Return a moment in seconds, from 1970 or from midnight; None if the text is not a moment after all."""
    if not _MOMENT.fullmatch(text):
        return None
    if ":" not in text:
        whole = text.partition(".")[0]
        return float(text) / 10.0 ** (len(whole) - 10)
    try:
        if "-" not in text[:5]:
            clock = dt.time.fromisoformat(_iso(text))
            return clock.hour * 3600 + clock.minute * 60 + clock.second + clock.microsecond / 1e6
        moment = dt.datetime.fromisoformat(_iso(text))
    except ValueError:
        return None
    # Both texts have the same form, so a zone that neither names does not matter.
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


def _iso(text: str) -> str:
    """Return the text in the form that `fromisoformat` accepts: microseconds at most, a zone as an offset."""
    text = re.sub(r"\s?(?:UTC|Z)$", "+00:00", text.replace(",", ".")).replace(" +", "+").replace(" -", "-")
    return re.sub(r"\.(\d{1,9})", lambda match: "." + match[1][:6].ljust(6, "0"), text)
