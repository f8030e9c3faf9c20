"""Assertions on a replayed program's calls and outcome: each returns the fault, or None.

Pure; the pytest plugin has no others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import ndiff
from typing import Any

from freezeframe_replay.report.spent import spent_by
from freezeframe_schemas.divergence import Made, Report
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.keys import with_defaults
from freezeframe_schemas.verdict import why_incomparable


def path(report: Report, expected: Sequence[str]) -> str | None:
    """Compare the calls, in order, by name; a model call is ``model``."""
    found = [_label(call) for call in report.made]
    if found == list(expected):
        return _open_end(report)
    return "\n".join(
        ["the program took a different path (- expected, + found)", *(f"  {line}" for line in ndiff(expected, found))]
    )


def tool_called(report: Report, name: str, arguments: Mapping[str, Any]) -> str | None:
    """Look for a call of the function with at least these arguments."""
    calls = [call for call in report.made if call.call_kind != Kind.MODEL and call.name == name]
    if not calls:
        return f"{name} was never called; the calls were {', '.join(dict.fromkeys(map(_label, report.made))) or 'none'}"
    calls_arguments = [_arguments(call) for call in calls]
    if any(all(key in one and one[key] == value for key, value in arguments.items()) for one in calls_arguments):
        return None
    shown = "\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in calls_arguments)
    return f"{name} was never called with {json.dumps(dict(arguments), ensure_ascii=False)}, but with\n{shown}"


def at_most(report: Report, name: str, times: int) -> str | None:
    """Count the calls of a function or kind."""
    found = sum(1 for call in report.made if name in (call.name, call.call_kind))
    return _open_end(report) if found <= times else f"{name} was called {found} times, expected at most {times}"


def grounded(report: Report, fixture: Fixture, text: str) -> str | None:
    """Look for the text in the outcome, and in a served answer of a tool, retriever, MCP or HTTP call."""
    if text not in _plain(report.outcome or ""):
        return f"the outcome does not say {text!r}"
    served = {item.step for item in report.served}
    sources = [step for step in fixture.askable if step.number in served and step.exchange.kind is not Kind.MODEL]
    if any(text in _plain(step.exchange.response.body.decode(errors="replace")) for step in sources):
        return None
    return f"the outcome says {text!r}, and none of the {len(sources)} results that the program was given does"


def took_at_most(report: Report, fixture: Fixture, seconds: float) -> str | None:
    """Sum the time of the calls, as recorded."""
    found = spent_by(fixture, {item.step for item in report.served}).ms / 1000
    if found > seconds:
        return f"the calls took {found:g} s, expected at most {seconds:g} s"
    return _open_end(report)


def cost_at_most(report: Report, fixture: Fixture, usd: float) -> str | None:
    """Sum the costs of the calls at list price; a cost that is not known is a fault."""
    found = spent_by(fixture, {item.step for item in report.served})
    if found.usd > usd:
        return f"the calls cost ${found.usd:.6f}, expected at most ${usd:g}"
    if found.unknown:
        return f"the cost of {found.unknown} calls is not known: no list price for the model, or no count of tokens"
    return _open_end(report)


def _open_end(report: Report) -> str | None:
    """Return why the program's further calls are unknown, or None if it ran to its end."""
    why = why_incomparable(report)
    if why is not None:
        return f"what the program calls is unknown: {why}"
    if any(call.how == "missed" for call in report.made):
        return "what the program calls after this one is unknown: the recording cannot answer it, and the replay ended there"
    return None


def _label(call: Made) -> str:
    return call.call_kind if call.call_kind == Kind.MODEL else call.name


def _arguments(call: Made) -> dict[str, Any]:
    """Return a function's arguments by name; positional ones by index, ``0``, ``1``."""
    data: Any = with_defaults(json.loads(call.arguments or "{}"))
    if not isinstance(data, dict):
        return {}
    positional = {str(index): value for index, value in enumerate(data.get("args") or [])}
    return {**positional, **(data.get("kwargs") or {})}


def _plain(text: str) -> str:
    """Return JSON text without escapes, so that its content can be searched."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return text
