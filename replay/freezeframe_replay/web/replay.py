"""One page: what a replay found, where it left the recording, and what to type next. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from freezeframe_replay.report.render import report_text, unquoted
from freezeframe_replay.report.tagged import outcome_text
from freezeframe_replay.web.markup import SYSTEM, render
from freezeframe_schemas.divergence import Divergence, Report
from freezeframe_schemas.verdict import headline, verdict

_MARKS: Final = {"exact": "good", "relaxed": "good", "live": "muted"}
_MEANS: Final = {
    "exact": "as recorded",
    "relaxed": "as recorded, asked at another place",
    "live": "made for real",
    "missed": "not in the recording",
    "stopped": "stopped here",
}


def replay_page(report: Report, folder: Path, *, theme: str = SYSTEM) -> str:
    """Return the page of one replay; `folder` is where the code ran."""
    found = verdict(report)
    outcome = "" if report.outcome is None else outcome_text(report.outcome)
    return render(
        "replay.html",
        theme=theme,
        report=report,
        agrees=found.agrees,
        verdict=found.value,
        headline=headline(report),
        folder=str(folder),
        divergences=[_divergence(item) for item in report.divergences],
        marks=_MARKS,
        means=_MEANS,
        # if our own exception ended the program, the divergence above has said so
        outcome="" if outcome.startswith("raised ReplayMiss") else outcome,
        text=report_text(report),
    )


def _divergence(item: Divergence) -> dict[str, object]:
    place = "" if item.step is None else f" at step {item.step}"
    facts = {
        "differed": ", ".join(item.differed),
        "agreed": ", ".join(item.agreed),
        "would have returned": unquoted(item.would_have_returned or ""),
        "note": item.note,
    }
    return {
        "title": f"{item.kind.value}{place}: {f'{item.call_kind} {item.name}'.strip()}",
        "path": item.path,
        "recorded": item.recorded,
        "live": item.live,
        "facts": {name: text for name, text in facts.items() if text},
    }
