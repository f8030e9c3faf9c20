"""Colours of a report on a terminal: the verdict's word, and the recorded and present values.

Only a terminal gets them, unless NO_COLOR is set (https://no-color.org) or TERM is ``dumb``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final

_RED, _GREEN, _YELLOW = "\x1b[31m", "\x1b[32m", "\x1b[33m"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_RULES: Final = (
    (re.compile(r"\A(identical|same|alike)\b"), _BOLD + _GREEN),
    (re.compile(r"\A(REPLAY-\d+ \w+|diverged|different)\b"), _BOLD + _RED),
    (re.compile(r"\A(incomparable)\b"), _BOLD + _YELLOW),
    (re.compile(r"^( +- .*)$", re.MULTILINE), _RED),
    (re.compile(r"^( +\+ .*)$", re.MULTILINE), _GREEN),
    (re.compile(r"^( +warning:)", re.MULTILINE), _YELLOW),
    (re.compile(r"^(gate .*: exceeded\b.*)$", re.MULTILINE), _RED),
    (re.compile(r"^(gate .*: not known\b.*)$", re.MULTILINE), _YELLOW),
)


def show(text: str) -> None:
    """Print a report, in colours if a person reads it."""
    print(coloured(text) if has_colours(os.environ, is_terminal=sys.stdout.isatty()) else text)


def has_colours(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    return is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Return a report with colours and otherwise unchanged text."""
    for pattern, colour in _RULES:
        text = pattern.sub(rf"{colour}\1{_PLAIN}", text)
    return text
