"""Verdict: what a report says about the code that was replayed. Pure; the exit codes and the pytest plugin both ask here."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas import values
from freezeframe_schemas.divergence import Divergence, DivergenceKind, Report

_BROKEN_CODE: Final = frozenset(
    {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError"}
)
"""Exceptions that mean that the code could not be run, not that it decided otherwise."""


class Verdict(StrEnum):
    """The three things that a replay can say."""

    IDENTICAL = "identical"
    DIVERGED = "diverged"
    INCOMPARABLE = "incomparable"


EXIT_CODES: Final = {Verdict.IDENTICAL: 0, Verdict.DIVERGED: 3, Verdict.INCOMPARABLE: 125}
"""125 is what ``git bisect run`` skips."""


def verdict(report: Report) -> Verdict:
    """Return whether the replay re-enacted the recording, left it, or says nothing."""
    if not report.entered or asked_nothing(report):
        return Verdict.INCOMPARABLE
    return Verdict.DIVERGED if report.divergences else Verdict.IDENTICAL


def asked_nothing(report: Report) -> bool:
    """Tell whether the program ended without any call and without an outcome: it did not start, or is another program.

    A function that returns early has an outcome, and that is a change of behaviour.
    """
    missing = all(item.kind is DivergenceKind.MISSING_CALL for item in report.divergences)
    return bool(report.divergences) and missing and not report.served and report.outcome is None


def why_incomparable(report: Report) -> str | None:
    """Return why the report says nothing about a change of behaviour, or None where it does say something.

    Stricter than `verdict`: a regression test must not turn green because the input was another one, because the network was
    tried or a fence was run into, or because the code no longer starts.
    """
    if not report.entered:
        return "the program never reached the recorded entry point"
    if asked_nothing(report):
        return "the program asked for none of the recorded steps"
    first = report.first
    if first is None:
        return None
    if first.kind is DivergenceKind.INPUT_CHANGED:
        return "the entry point was called with other input than the recorded one"
    if first.kind is DivergenceKind.NETWORK:
        return f"a client that no seam covers tried to reach the network{_at(first)}"
    if first.kind is DivergenceKind.FENCED:
        return f"the program tried what a fence keeps it from ({first.call_kind}: {first.name})"
    broken = _broken_code(report.outcome)
    return None if broken is None else f"the code did not run: {broken}"


def _at(divergence: Divergence) -> str:
    target = divergence.live or divergence.name
    return f" ({target})" if target else ""


def _broken_code(outcome: str | None) -> str | None:
    """Return class and text of an exception in `outcome` (tagged JSON) that means broken code, else None."""
    if outcome is None:
        return None
    try:
        node: Any = json.loads(outcome)
    except ValueError:
        return None
    if not isinstance(node, dict) or node.get(values.TAG) != "exception":
        return None
    name = str(node.get("class", "")).rpartition(":")[2]
    return f"{name}: {node.get('text', '')}" if name in _BROKEN_CODE else None
