"""The source of a regression test for a fixture: plain Python that a person may edit. Pure.

Texts of the recording go into comments only, one printable line each, so that nothing recorded can become code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from freezeframe_replay.report.outline import outline_fixture
from freezeframe_replay.report.render import short, when
from freezeframe_schemas.fixture import Fixture


class Expect(StrEnum):
    CHANGED = "changed"
    """The program behaves differently than recorded: for a run that went wrong."""
    IDENTICAL = "identical"
    """The program re-enacts the run exactly: for a run to keep."""


def slug(name: str) -> str:
    """Return `name` as part of a Python name: ``late-order 7`` is ``late_order_7``."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower() or "run"


def regression_test(fixture: Fixture, name: str, *, expect: Expect, command: Sequence[str] | None = None) -> str:
    """Return the test's source. `command` is the program to start in place of the recorded entry point."""
    outline = outline_fixture(fixture)
    if expect is Expect.CHANGED:
        first = "Regression test of a recorded run: red while the code re-enacts the recorded failure, green once it does not."
        function, assertion = f"test_{slug(name)}_is_no_longer_reenacted", "assert_not_reenacted"
    else:
        first = "Regression test of a recorded run: green as long as the code re-enacts it exactly."
        function, assertion = f"test_{slug(name)}_is_reenacted_exactly", "assert_identical"
    notes = [
        f"# Recorded {when(outline.start_time_unix_nano)}, run {short(outline.run_id, 40)}, {len(fixture.askable)} steps.",
        f"# Entry point: {short(outline.entry_target or outline.name or 'none', 100)}",
    ]
    if outline.called_with:
        notes.append(f"# Called with: {short(outline.called_with, 100)}")
    notes.append(f"# Outcome: {short(outline.outcome, 100)}")
    marker = "" if not command else f"@pytest.mark.freezeframe(command={list(command)!r})\n"
    return "\n".join(
        [
            f'"""{first}',
            "",
            "Written by `freezeframe fixture`; edit it freely. The recording is next to this file: no store, no network.",
            '"""',
            "",
            *(["import pytest"] if command else []),
            "from freezeframe_replay.pytest_plugin import FrozenRun",
            "",
            *notes,
            "",
            "",
            f"{marker}def {function}(freezeframe_fixture: FrozenRun) -> None:",
            "    result = freezeframe_fixture.replay()",
            f"    result.{assertion}()",
            "",
        ]
    )
