"""One page: what a replay found, where it left the recording, and what to type next. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from freezeframe_replay.report.outline import outline_fixture
from freezeframe_replay.report.render import report_text, unquoted
from freezeframe_replay.report.tagged import outcome_text
from freezeframe_replay.web.markup import SYSTEM, render
from freezeframe_schemas.divergence import Divergence, Made, Report
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import headline, verdict

_MARKS: Final = {"exact": "good", "relaxed": "good", "live": "muted"}
_MEANS: Final = {
    "exact": "as recorded",
    "relaxed": "as recorded, asked at another place",
    "live": "made for real",
    "missed": "not in the recording",
    "stopped": "stopped here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A recorded step beside the call of the replay that it answered, or that was made in its place."""

    step: int | None = None
    kind: str = ""
    name: str = ""
    detail: str = ""
    changed: bool = False
    """Whether its answer was changed before the replay."""
    made: Sequence[Made] = field(default=())


def replay_page(
    report: Report,
    fixture: Fixture,
    folder: Path,
    *,
    origin: str = "",
    kept_as: Mapping[str, str] | None = None,
    changed: int | None = None,
    theme: str = SYSTEM,
) -> str:
    """Return the page of one replay.

    Args:
        report: what the replay found.
        fixture: what it answered from.
        folder: where the code ran.
        origin: the run that the fixture was forked from; empty if it is the run itself.
        kept_as: fields of the form that downloads the fork.
        changed: the step whose answer was changed.
        theme: one of `THEMES`.
    """
    found = verdict(report)
    outcome = "" if report.outcome is None else outcome_text(report.outcome)
    return render(
        "replay.html",
        theme=theme,
        report=report,
        run_id=origin or report.run_id,
        edits=fixture.edits if origin else (),
        kept_as=kept_as or {},
        keep="identical" if found.agrees else "changed",
        agrees=found.agrees,
        verdict=found.value,
        headline=headline(report),
        folder=str(folder),
        divergences=[_divergence(item) for item in report.divergences],
        rows=aligned(fixture, report, changed=changed),
        marks=_MARKS,
        means=_MEANS,
        # if our own exception ended the program, the divergence above has said so
        outcome="" if outcome.startswith("raised ReplayMiss") else outcome,
        text=report_text(report),
    )


def aligned(fixture: Fixture, report: Report, *, changed: int | None = None) -> list[Row]:
    """Return the recorded steps in order, each with the calls that it answered.

    A call that no step answered stands beside the step that it was compared with, if that answered no other call; else in a
    row of its own, after the call before it.
    """
    made: dict[int, list[Made]] = {}
    for call in report.made:
        if call.step is not None:
            made.setdefault(call.step, []).append(call)
    near = [item.step for item in report.divergences if item.step is not None and item.step not in made]
    after: dict[int, list[Made]] = {}
    last = 0
    for call in report.made:
        if call.step is not None:
            last = call.step
        elif near:
            last = near.pop(0)
            made[last] = [call]
        else:
            after.setdefault(last, []).append(call)
    rows = [Row(made=[call]) for call in after.get(0, ())]
    for node in outline_fixture(fixture).nodes:
        if node.inside is None and node.step is not None:
            calls = made.get(node.step, ())
            is_changed = node.step == changed
            rows.append(Row(step=node.step, kind=node.kind, name=node.name, detail=node.detail, changed=is_changed, made=calls))
            rows += [Row(made=[call]) for call in after.get(node.step, ())]
    return rows


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
