"""One conversation as HTML text: its runs in order, with what each was asked and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freezeframe_replay.report.render import counted, duration
from freezeframe_replay.report.tagged import input_text
from freezeframe_replay.sources.costs import Cost
from freezeframe_replay.sources.labels import Label
from freezeframe_replay.sources.run_list import RunPage
from freezeframe_replay.web.markup import render, session_link
from freezeframe_schemas.lifecycle import RunStatus


def session_page(session: str, page: RunPage, labels: Mapping[str, Label], *, version: str) -> str:
    """Return the page of the runs of a session, the first one first; `version` is its value when the script asks for news."""
    rows = page.rows
    failed = sum(row.status == RunStatus.FAILED for row in rows)
    tokens = sum(row.input_tokens for row in rows), sum(row.output_tokens for row in rows)
    paid = [page.costs[row.trace_id] for row in rows if row.trace_id in page.costs]
    unknown = sum(cost.unknown for cost in paid)
    return render(
        "session.html",
        session=session,
        page=page,
        labels=labels,
        version=version,
        inputs=[input_text(row.input) for row in rows],
        failed_steps=[max(row.errors - (row.status == RunStatus.FAILED), 0) for row in rows],
        tokens=tokens if any(tokens) else None,
        cost=Cost(usd=sum(cost.usd for cost in paid), calls=sum(cost.calls for cost in paid), unknown=unknown)
        if paid
        else None,
        failed=counted(failed, "run") if failed else "",
        lasted=duration((rows[-1].start_time - rows[0].start_time).total_seconds() * 1000 + rows[-1].ms) if rows else "",
        here=session_link(session),
    )
