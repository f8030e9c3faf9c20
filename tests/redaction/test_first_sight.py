"""Sets of texts that were written before anyone looked at how the redactor fares: what passed then passes still.

Each line of `tests/data/pii/first_sight/*.txt` is a text; ``{{...}}`` has to go, ``[[...]]`` has to stay, ``\\n`` is a line break.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from freezeframe_redaction import Redactor, TenantKey, load_policy

pytestmark = pytest.mark.long

FOLDER: Final = Path(__file__).parents[1] / "data" / "pii" / "first_sight"
MARK: Final = re.compile(r"(?s)\{\{(.+?)\}\}|\[\[(.+?)\]\]")
WORD: Final = re.compile(r"[^\W\d_]{3,}")
PASSED: Final = {
    "ward": (118, 118, 46),
    "bank": (124, 106, 53),
    "agent_log": (121, 91, 62),
    "letting": (107, 127, 98),
    "tools": (105, 148, 245),
    "line_breaks": (56, 63, 43),
    "office": (51, 514, 234),
    "world": (43, 346, 247),
    "traffic": (78, 347, 531),
    "afterwards": (29, 294, 157),
}
"""Texts (of 150 each; of 64 over line breaks, of 60 afterwards), values (of 145, 131, 118, 160, 182, 76, 658, 504, 394, 336) and things
to keep (of 53, 54, 66, 110, 265, 44, 264, 285, 611, 164) that passed at first."""


def passed(name: str) -> tuple[int, int, int]:
    """Return how many texts pass as a whole, how many values are gone and how many things have stayed."""
    redactor = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
    texts = gone = kept = 0
    for written in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        text = MARK.sub(lambda mark: mark[1] or mark[2], line := written.replace("\\n", "\n"))
        made = str(redactor.redact(text).value)
        left = set(WORD.findall(made))
        values = [mark[1] for mark in MARK.finditer(line) if mark[1]]
        things = [mark[2] for mark in MARK.finditer(line) if mark[2]]
        # of a name each word has to go, of anything else the value as it is written
        is_gone = [left.isdisjoint(WORD.findall(one)) if one.replace(" ", "").isalpha() else one not in made for one in values]
        has_stayed = [one in made for one in things]
        texts += all(is_gone) and all(has_stayed)
        gone += sum(is_gone)
        kept += sum(has_stayed)
    return texts, gone, kept


@pytest.mark.proof
@pytest.mark.parametrize("name", PASSED)
def test_what_passed_at_first_sight_passes_still(name: str) -> None:
    assert all(now >= then for now, then in zip(passed(name), PASSED[name], strict=True))
