"""Scores of a run, from the store's view ``scores``: verdicts of judges on it and on its steps, and labels by hand."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from dataclasses import dataclass
from typing import Final

HAND: Final = "hand"
"""`RunScore.by` of a label. A judge that calls itself so has the name of its instrumentation scope instead."""
MAX_SCORES: Final = 1_000
COLUMNS: Final = "of, step, span_id, name, value, label, explanation, by, author, toUnixTimestamp64Milli(at)"
"""The columns of the view, in the order of the fields of `RunScore`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """A verdict on a run, a step or a session. All of its texts are the judge's."""

    of: str
    """``run``, ``step`` or ``session``."""
    step: int | None
    span_id: str
    """Span that was judged; empty for the run as a whole."""
    name: str
    value: float | None
    label: str
    explanation: str
    """The reason; the note of a label by hand."""
    by: str
    author: str
    """User name of a label's author."""
    at: dt.datetime

    @property
    def is_label(self) -> bool:
        """Return whether it was given by hand."""
        return self.by == HAND

    @property
    def verdict(self) -> str:
        """Return number and word, the ones that were given: ``0.25 fail``."""
        return " ".join(filter(None, ["" if self.value is None else f"{self.value:.4g}", self.label]))

    @property
    def place(self) -> str:
        """Return the judged thing in words."""
        return self.of if self.step is None else f"step {self.step}"

    def is_on(self, step: int | None, span_id: str) -> bool:
        """Return whether it judges this step. A judge may name a step by its answer, so the span need not be the step's."""
        return self.step is not None and (self.span_id == span_id or self.step == step)


def score_of_row(text: str) -> RunScore:
    """Return the score of a row that `COLUMNS` made."""
    *rest, at = json.loads(text)
    values = dict(zip((field.name for field in dataclasses.fields(RunScore)), rest, strict=False))
    return RunScore(**values, at=dt.datetime.fromtimestamp(at / 1000, dt.UTC))
