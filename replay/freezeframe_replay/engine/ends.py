"""Ends: the input that a replayed program was given and the outcome that it came to, compared with the recorded ones.

Keeps how far each was compared (`Check`), so that no verdict claims more. Not safe for threads: the session is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from freezeframe_replay.engine.compare import first_difference
from freezeframe_replay.engine.freeze import Alias
from freezeframe_replay.engine.names import same_but_for_names
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Relaxed
from freezeframe_schemas.run import Entry

Settle = Callable[[Any, Any], Any]
"""Takes a recorded and a live JSON value; returns the live one with the times of its clock as recorded."""


class Ends:
    """Input and outcome of one replay.

    Args:
        entry: the recorded ones.
        alias: applied to every text before it is compared.
        settle: applied to the outcome before it is compared.
    """

    def __init__(self, entry: Entry, *, alias: Alias, settle: Settle) -> None:
        self._entry = entry
        self._alias = alias
        self._settle = settle
        is_known = entry.output is not None or entry.error is not None
        self.input_check = Check.NOT_RECORDED if entry.input is None else Check.NOT_SEEN
        self.outcome_check = Check.NOT_SEEN if is_known else Check.NOT_RECORDED
        self.outcome_relaxed: tuple[Relaxed, ...] = ()
        """What differed in the outcome and did not decide."""
        self.outcome_changed: Divergence | None = None
        self.raised_instead = False
        """Whether the program raised where the recorded run returned."""

    def compare_input(self, live: str) -> Divergence | None:
        """Compare what the entry point was called with, tagged JSON."""
        if self._entry.input is None:
            return None
        found = first_difference(self._comparable(self._entry.input), self._comparable(live))
        if found is None:
            if self.input_check is not Check.CHANGED:
                self.input_check = Check.SAME
            return None
        self.input_check = Check.CHANGED
        return Divergence(
            kind=DivergenceKind.INPUT_CHANGED,
            name=self._entry.name,
            path=found.path,
            recorded=found.recorded,
            live=found.live,
        )

    def compare_outcome(self, output: str | None, error: str | None) -> None:
        """Compare what the entry point returned or raised, tagged JSON."""
        if self.outcome_check is Check.NOT_RECORDED:
            return
        recorded = self._outcome(self._entry.output, self._entry.error)
        live = self._outcome(output, error)
        settled = self._settle(recorded, live)
        found = first_difference(recorded, settled)
        by_names = found is not None and same_but_for_names(recorded, settled)
        if found is None or by_names:
            self.outcome_check = Check.SAME
            tried = ((Relaxed.CLOCK, settled != live), (Relaxed.NAMES, by_names))
            self.outcome_relaxed = tuple(which for which, is_so in tried if is_so)
            return
        self.outcome_check = Check.CHANGED
        self.raised_instead = error is not None and self._entry.error is None
        self.outcome_changed = Divergence(
            kind=DivergenceKind.OUTCOME_CHANGED,
            name=self._entry.name,
            path=found.path,
            recorded=found.recorded,
            live=found.live,
            note=_of_the_caller(recorded["raised"]) if error is None else "",
        )

    def _outcome(self, output: str | None, error: str | None) -> dict[str, Any]:
        returned, raised = (None if text is None else self._comparable(text) for text in (output, error))
        return {"raised": _class_and_text(raised), "returned": returned}

    def _comparable(self, text: str) -> Any:
        aliased = self._alias(text)
        try:
            return json.loads(aliased)
        except ValueError:
            return aliased


def _class_and_text(error: Any) -> Any:
    """Keep what an exception is and says; its attributes may hold addresses and times."""
    return {"class": error.get("class"), "text": error.get("text")} if isinstance(error, dict) else error


def _of_the_caller(raised: Any) -> str:
    """Return what is to be said where the recorded run was ended by whoever called it, as a replay is not."""
    ended = str(raised.get("class", "")).rpartition(":")[2] if isinstance(raised, dict) else ""
    if ended not in {"CancelledError", "GeneratorExit", "KeyboardInterrupt"}:
        return ""
    return f"the recorded run was ended from outside ({ended}): its caller went away or gave up, which a replay does not do"
