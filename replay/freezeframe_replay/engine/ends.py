"""Ends: the input that a replayed program was given and its outcome, compared with the recorded ones.

Keeps the extent of each comparison (`Check`), so that no verdict claims more. Not thread-safe: the session is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Generator, Iterable
from typing import Any

from freezeframe_replay.engine.compare import described
from freezeframe_replay.engine.pairs import Settled
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Relaxed
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.gaps import NOT_COMPARED
from freezeframe_schemas.keys import without_identity
from freezeframe_schemas.run import Entry
from freezeframe_schemas.values import TAG, is_opaque

Settle = Callable[[Any, Any], Any]
"""Takes a recorded and a live JSON value; returns the live one with its clock's times replaced by the recorded ones."""


class _OtherRun(ReplayMiss):
    """Ends the import of a script once it has defined everything that its first run needed."""


class Ends:
    """Input and outcome of one replay.

    Args:
        entry: the recorded ones.
        values: compares private values.
        settle: applied to the outcome before it is compared.
        gaps: those of the run; some name uncompared parts of its outcome.
    """

    def __init__(self, entry: Entry, *, values: PrivateValues, settle: Settle, gaps: Iterable[str] = ()) -> None:
        self._entry = entry
        self._values = values
        self._settle = settle
        self._is_loading = False
        is_known = entry.output is not None or entry.error is not None
        self.input_check = Check.NOT_RECORDED if entry.input is None else Check.NOT_SEEN
        self.outcome_check = Check.NOT_SEEN if is_known else Check.NOT_RECORDED
        self.input_relaxed: tuple[Relaxed, ...] = ()
        """Tolerated differences in the input."""
        self.outcome_relaxed: tuple[Relaxed, ...] = ()
        """Tolerated differences in the outcome."""
        self.unheard = tuple(gap.removeprefix(NOT_COMPARED) for gap in gaps if gap.startswith(NOT_COMPARED))
        """Uncompared effects of an entry point, in words."""
        self.outcome_changed: Divergence | None = None
        self.raised_instead = False
        """True if the program raised although the recorded run returned."""

    @contextlib.contextmanager
    def loading(self) -> Generator[None]:
        """Import the script of the entry point in this block: up to where it begins another run than the recorded one."""
        self._is_loading = True
        try:
            with contextlib.suppress(_OtherRun):
                yield
        finally:
            self._is_loading = False

    def compare_input(self, target: str, live: str) -> tuple[Settled | None, Divergence | None]:
        """Compare the entry point's input, tagged JSON; return the comparison, and the difference.

        Another name for the same function is not a difference.
        """
        if self._entry.input is None:
            return None, None
        recorded, now = self._both(self._entry.input, live)
        settled = self._values.settle(recorded, now)
        found = self._described(recorded, settled)
        is_other = found is not None or target != self._entry.target or self.input_check is Check.SAME
        if self._is_loading and is_other:
            raise _OtherRun("the script begins another run than the recorded one")
        if found is None:
            if self.input_check is not Check.CHANGED:
                self.input_check = Check.SAME
                self.input_relaxed = (Relaxed.OBJECTS,) if is_opaque(self._entry.input) else ()
            return settled, None
        self.input_check = Check.CHANGED
        return None, Divergence(
            kind=DivergenceKind.INPUT_CHANGED,
            name=self._entry.name,
            **found,
            note=self._values.note(recorded, settled),
        )

    def compare_outcome(self, output: str | None, error: str | None, unseen: Iterable[str] = ()) -> Settled | None:
        """Compare the entry point's result or exception, tagged JSON; return the comparison if it is as recorded."""
        self.unheard = tuple(dict.fromkeys((*self.unheard, *unseen)))
        if self.outcome_check is Check.NOT_RECORDED:
            return None
        (returned, output_tree), (raised, error_tree) = (
            self._both(was, now) for was, now in ((self._entry.output, output), (self._entry.error, error))
        )
        recorded, now = _outcome(returned, raised), _outcome(output_tree, error_tree)
        settled = self._values.settle(recorded, now)
        live = settled.tree
        settled.tree = self._settle(recorded, live)
        found = self._described(recorded, settled)
        if found is not None:
            computed = self._values.settle(recorded, now, with_computed=True)
            if computed.agrees:
                settled, live, found = computed, computed.tree, None
        if found is None:
            is_object = isinstance(recorded["returned"], dict) and recorded["returned"].get(TAG) == "opaque"
            self.outcome_check = Check.OPAQUE if is_object else Check.SAME
            has_objects = not is_object and is_opaque(self._entry.output or json.dumps(recorded["raised"]))
            tried = (
                (Relaxed.CLOCK, settled.tree != live),
                (Relaxed.NAMES, settled.has_words),
                (Relaxed.OBJECTS, has_objects),
            )
            self.outcome_relaxed = tuple(which for which, is_so in tried if is_so)
            return settled
        self.outcome_check = Check.CHANGED
        self.raised_instead = error is not None and self._entry.error is None
        self.outcome_changed = Divergence(
            kind=DivergenceKind.OUTCOME_CHANGED,
            name=self._entry.name,
            **found,
            note=(_of_the_caller(recorded["raised"]) if error is None else "") or self._values.note(recorded, settled),
        )
        return None

    def _described(self, recorded: Any, settled: Settled) -> dict[str, Any] | None:
        """Return the first difference in the form for reports: without any of the program's own values."""
        found = described(recorded, settled.tree)
        if found is None:
            return None
        return described(self._values.show_tree(recorded), self._values.show_tree(settled.tree)) or found

    def was_cut_off(self) -> bool:
        """Return whether the recorded run was ended by its caller."""
        error = self._entry.error
        return error is not None and bool(_of_the_caller(_class_and_text(_tree(self._values.mark(error)))))

    def _both(self, recorded: str | None, live: str | None) -> tuple[Any, Any]:
        """Return two texts as trees, for `PrivateValues.settle`: texts that are equal need no search for private values."""
        if recorded is not None and recorded == live:
            self._values.take_over(recorded)
            return _tree(recorded), _tree(recorded)
        was, now = (None if text is None else _tree(self._values.mark(text)) for text in (recorded, live))
        return was, now


def _outcome(returned: Any, raised: Any) -> dict[str, Any]:
    return {"raised": _class_and_text(raised), "returned": returned}


def _tree(text: str) -> Any:
    try:
        return without_identity(json.loads(text))
    except ValueError:
        return text


def _class_and_text(error: Any) -> Any:
    """Keep class and text of an exception, those of a group, and the items of a generator before it raised.

    Attributes may hold addresses and times.
    """
    if not isinstance(error, dict):
        return error
    parts = {"class": error.get("class"), "text": error.get("text")}
    inner = [_class_and_text(item) for item in _members(error)]
    yields = {"yields": error["yields"]} if "yields" in error else {}
    return {**parts, **({"inner": inner} if inner else {}), **yields}


def _members(error: dict[str, Any]) -> list[Any]:
    """Return the exceptions of an exception group: its second argument, in order; nothing for any other exception."""
    arguments: Any = error.get("value")
    members: Any = arguments[1] if isinstance(arguments, list) and len(arguments) == 2 else None
    if isinstance(members, dict) and members.get(TAG) == "tuple":
        members = members.get("value")
    if not isinstance(members, list) or not all(isinstance(item, dict) for item in members):
        return []
    return members if all(item.get(TAG) == "exception" for item in members) else []


def _of_the_caller(raised: Any) -> str:
    """Return the note for a recorded run that its caller ended; a replay's caller does not."""
    ended = str(raised.get("class", "")).rpartition(":")[2] if isinstance(raised, dict) else ""
    if ended not in {"CancelledError", "GeneratorExit", "KeyboardInterrupt"}:
        return ""
    return f"the recorded run was ended from outside ({ended}): its caller went away or gave up, which a replay does not do"
