"""Colours of a report: for a person at a terminal only, and never other words."""

from __future__ import annotations

import re

import pytest

from freezeframe_replay.cli.colour import coloured, has_colours

REPORT = """REPLAY-101 diverged at step 2 (tool track, lane root)
  $.kwargs.order
  - "A-1057"
  + "A-1042"
  warning: it may matter now
next: freezeframe replay last"""


def test_colours_change_no_word() -> None:
    shown = coloured(REPORT)
    assert re.sub(r"\x1b\[\d+m", "", shown) == REPORT
    red, green = '\x1b[31m  - "A-1057"\x1b[0m', '\x1b[32m  + "A-1042"\x1b[0m'
    assert red in shown and green in shown and shown.startswith("\x1b[1m\x1b[31mREPLAY-101 diverged\x1b[0m at")
    assert coloured("identical: 2 of 2 steps").startswith("\x1b[1m\x1b[32midentical\x1b[0m")


@pytest.mark.parametrize(
    ("environ", "is_terminal", "has"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_only_a_terminal_gets_colours_and_none_if_they_are_not_wanted(
    environ: dict[str, str], is_terminal: bool, has: bool
) -> None:
    assert has_colours(environ, is_terminal=is_terminal) is has
