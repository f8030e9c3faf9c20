"""The list of runs, and the pages with a message instead of runs, as HTML text. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from freezeframe_replay.report.render import counted, duration, size_text
from freezeframe_replay.report.tagged import input_text
from freezeframe_replay.sources.costs import Cost
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_replay.sources.labels import Label
from freezeframe_replay.sources.run_list import RunPage, RunRow
from freezeframe_replay.web.markup import render, session_link
from freezeframe_replay.web.replay import Noted
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.tables.run_list import FACETS, MAX_TIMES, MAX_VALUES, NEWEST, SORTS

FILTERS: Final = ("words", "since", "status", "sort", "columns", "live", *FACETS)
"""Parameters of the list's address."""
_TABS: Final = {
    "": "All",
    "failed": "Failed",
    "partly": "Ok, with failed steps",
    "unfinished": "Unfinished",
    "ended": "Ended, exit status unknown",
    "ok": "Ok",
}
_COLUMNS: Final = {
    "started": "started",
    "run": "entry",
    "result": "",
    "steps": "steps",
    "failed": "failed steps",
    "tokens": "tokens",
    "cost": "",
    "time": "time",
    "level": "level",
    "status": "status",
    "service": "service",
    "agent": "",
    "user": "user",
    "session": "",
    "tenant": "",
    "commit": "",
    "models": "",
    "tools": "",
}
"""Column -> its sort key."""
_SHOWN: Final = tuple(_COLUMNS)[:10]
"""Columns of the list unless others are chosen."""
_ALWAYS: Final = ("started", "run")
_NUMBERS: Final = frozenset({"steps", "failed", "tokens", "cost", "time", "level"})


def runs_page(
    page: RunPage,
    filters: Mapping[str, str],
    *,
    now: dt.datetime,
    wrong: str = "",
    labels: Mapping[str, Label] = {},
    version: str = "",
    views: Mapping[str, str] = {},
    wrong_views: str = "",
    token: str = "",
    sets: Sequence[str] = (),
    data: str = "",
) -> str:
    """Return a page of the list below the form that filters it.

    Args:
        page: the matching runs.
        filters: the parameters of the address.
        now: the time, for the ages of runs.
        wrong: the fault of a filter.
        labels: trace id -> a reader's label of the run.
        version: the value by which the script checks for news; empty if it need not.
        views: name -> filters, order and columns of a kept view.
        wrong_views: why the views cannot be read.
        token: the value that the forms for views and sets send back.
        sets: names of the existing datasets.
        data: the data directory, which a recorded program has to know.
    """
    kept = {name: filters.get(name, "") for name in FILTERS}
    rows = page.rows
    named = [name for name in kept["columns"].split(",") if name in _COLUMNS] or _SHOWN
    shown = [name for name in _COLUMNS if name in named or name in _ALWAYS]
    here = _link(kept, live="")
    return render(
        "runs.html",
        page=page,
        data=data,
        filters=kept,
        asked=any(text for name, text in kept.items() if name not in ("sort", "columns", "live")),
        now=now,
        wrong=wrong,
        labels=labels,
        version=version,
        may_follow=may_follow(filters),
        shown=shown,
        columns=[_column(name, _COLUMNS[name], kept["sort"] or NEWEST, kept) for name in shown],
        choices=[{"name": name, "chosen": name in shown, "link": _with(kept, name, shown)} for name in [*_COLUMNS][2:]],
        views=[{"name": name, "query": query, "chosen": here == f"/?{query}"} for name, query in views.items()],
        wrong_views=wrong_views,
        query=here.removeprefix("/").removeprefix("?"),
        token=token,
        sets=sets,
        statuses=_statuses(page.counts, kept),
        facets=[facet for name in FACETS if (facet := _facet(name, page.facets.get(name, ()), kept))],
        times=time_bars(page.times, lambda name, text: _link(kept, **{name: text})),
        links=_links(kept, rows, followed=bool(version)),
        inputs=[input_text(row.input) for row in rows],
        failed_steps=[max(row.errors - (row.status == RunStatus.FAILED), 0) for row in rows],  # the entry point is not a step
    )


def _links(kept: Mapping[str, str], rows: Sequence[RunRow], *, followed: bool) -> dict[str, str]:
    return {
        "first": _link(kept),
        "live": _link(kept, live="" if followed else "1"),
        "previous": _link(kept, before=rows[0].trace_id) if rows else "",
        "next": _link(kept, after=rows[-1].trace_id) if rows else "",
    }


def _statuses(counts: Mapping[str, int], kept: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        {"name": name, "count": counts.get(key, 0), "chosen": key == kept["status"], "link": _link(kept, status=key)}
        for key, name in _TABS.items()
        if counts.get(key) or key in ("", "failed", kept["status"])
    ]


def _with(filters: Mapping[str, str], name: str, shown: Sequence[str]) -> str:
    """Return the address of the list with a column that it lacks, or without one that it has."""
    changed = [column for column in _COLUMNS if (column in shown) != (column == name)]
    return _link(filters, columns="" if tuple(changed) == _SHOWN else ",".join(changed))


def may_follow(filters: Mapping[str, str]) -> bool:
    """Return whether new runs would be at the top of this page of the list."""
    return not (filters.get("after") or filters.get("before")) and filters.get("sort", "") in ("", NEWEST)


def closed_page(here: str) -> str:
    """Return the page for a browser that did not use a link of this service; `here` is the address that it requested."""
    return _message("Open this page with its link", closed_at=here)


def error_page(message: str, do: str | None = None, *, heading: str = "This page cannot be shown") -> str:
    """Return the page shown instead of one that could not be built."""
    return _message(heading, message=message, do=do)


def _message(heading: str, *, message: str = "", do: str | None = None, closed_at: str = "") -> str:
    return render("message.html", title=heading, heading=heading, message=message, do=do, closed_at=closed_at)


def _column(name: str, key: str, sort: str, filters: Mapping[str, str]) -> dict[str, object]:
    """Return a column's header. A click sorts by it, largest first; a second click reverses the order."""
    chosen = bool(key) and sort.removeprefix("-") == key
    down = sort.startswith("-")
    first = key if key in ("entry", "status", "service", "user") else f"-{key}"
    turned = key if chosen and down else f"-{key}" if chosen else first
    return {
        "name": name,
        "number": name in _NUMBERS,
        "sorted": ("descending" if down else "ascending") if chosen else "",
        "link": _link(filters, sort=turned) if key in SORTS else "",
    }


def _facet(name: str, values: Sequence[tuple[str, int]], filters: Mapping[str, str]) -> dict[str, object] | None:
    """Return the values of a facet as links; None if it does not distinguish runs. A click on the chosen one clears it."""
    chosen = filters[name]
    if len(values) < (1 if name == "label" else 2) and not chosen:  # most runs have no label
        return None
    links = [
        {
            "text": text,
            "count": number,
            "chosen": text == chosen,
            "link": _link(filters, **{name: "" if text == chosen else text}),
        }
        for text, number in values
    ]
    return {
        "name": name,
        "chosen": chosen,
        "values": links,
        "without": _link(filters, **{name: ""}),
        "more": len(values) >= MAX_VALUES,
    }


def _link(filters: Mapping[str, str], **changes: str) -> str:
    query = {name: text for name, text in {**filters, **changes}.items() if text and (name, text) != ("sort", NEWEST)}
    if not may_follow(query):
        query.pop("live", None)
    return f"/?{urlencode(query)}" if query else "/"


# -- One page: how the services do. Pure -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A part of the data directory."""

    name: str
    size: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of the services and their data."""

    status: Any
    """The collector's own report; None if it does not answer."""
    wrong: str
    """Reason why the store does not answer."""
    redactions: Sequence[Sequence[Any]]
    """Class, places, surrogates, runs."""
    rejects: Sequence[Sequence[Any]]
    """Reason, spans."""
    tables: Sequence[Sequence[Any]]
    """Name, rows, bytes."""
    sizes: Sequence[Size]
    versions: Mapping[str, str]


def health_page(health: Health) -> str:
    status: Any = health.status or {}
    return render(
        "health.html",
        health=health,
        strip=_strip(status) if status else {},
        up_since=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=float(status.get("uptime_s") or 0)),
        facts=_facts(status) if status else {},
        why=str(status.get("not_ready_because") or ""),
        ready=bool(status.get("ready")),
        since_start={**(status.get("rejected_by_reason") or {})},
        dialects={**(status.get("spans_by_dialect") or {})},
        sizes=[(item.name, size_text(item.size), item.files) for item in health.sizes],
        tables=[(name, rows or 0, size_text(int(size or 0))) for name, rows, size in health.tables],
    )


def _strip(status: Mapping[str, Any]) -> dict[str, str]:
    spans, rates, log = (status.get(name) or {} for name in ("audit", "rates", "log"))
    return {
        "received": f"{rates.get('received', 0):,.1f} spans/s",
        "stored": f"{rates.get('stored', 0):,.1f} spans/s",
        "lag": duration(float(status.get("lag_s") or 0) * 1000),
        "log": size_text(int(log.get("bytes", 0))),
        "rejected": f"{spans.get('rejected', 0):,} spans",
        "missing": f"{spans.get('missing', 0) or 0:,} spans",
    }


def _facts(status: Mapping[str, Any]) -> dict[str, str]:
    spans, log, writer, readers = (status.get(name) or {} for name in ("audit", "log", "writer", "readers"))
    admission = status.get("admission") or {}
    rows = {
        "spans": ", ".join(
            f"{spans.get(key, 0):,} {word}"
            for key, word in (
                ("received", "received"),
                ("stored", "stored"),
                ("in_log", "in the log"),
                ("duplicate", "sent twice"),
            )
        ),
        "accounts": "balanced: each received span was stored, is in the log, was rejected or was sent twice"
        if spans.get("balanced")
        else "not balanced: `freezeframe status` shows what is missing or lost",
        "log": f"{log.get('segments', 0):,} segments, {log.get('failures', 0):,} failed writes, "
        f"{log.get('damaged_files', 0):,} damaged files, {size_text(int(log.get('disk_free_bytes', 0)))} free on its disk",
        "writer": f"{writer.get('spans', 0):,} spans in {writer.get('segments', 0):,} segments, "
        f"{writer.get('retries', 0):,} retries, {writer.get('set_aside', 0):,} set aside",
        "requests": f"{size_text(int(admission.get('in_flight_bytes', 0)))} in flight of "
        f"{size_text(int(admission.get('limit_bytes', 0)))}, {admission.get('refused', 0):,} refused",
        "readers": "sandboxed by the kernel" if readers.get("sandboxed") else str(readers.get("why_not") or ""),
        "last error": str(writer.get("last_error") or ""),
    }
    return {name: text for name, text in rows.items() if text}


# -- One page: similar failures in groups. Pure ------------------------------------------------------------------------


BARS: Final = 28
"""Bars of the small chart of each group."""
_HEIGHT: Final = 20


def failures_page(
    groups: Sequence[FailureGroup],
    bars: Mapping[str, Sequence[int]],
    replays: Mapping[str, Noted],
    *,
    since: str,
    token: str,
    wrong: str = "",
) -> str:
    """Return the page.

    Args:
        groups: those of most runs first.
        bars: signature -> failures in each of `BARS` equal parts of the time.
        replays: run -> its last replay.
        since: the time, as typed.
        token: the value that the form of our own page sends back.
        wrong: the fault of `since`.
    """
    runs = list(dict.fromkeys(group.newest for group in groups))
    return render(
        "failures.html",
        groups=groups,
        charts={signature: _chart(counts) for signature, counts in bars.items()},
        replays=replays,
        runs=runs,
        running=any(not replay.has_ended for replay in replays.values()),
        since=since,
        token=token,
        wrong=wrong,
    )


def _chart(counts: Sequence[int]) -> list[dict[str, int]]:
    most = max(counts, default=0) or 1
    heights = [max(round(count / most * _HEIGHT), 2) if count else 0 for count in counts]
    return [{"x": 4 * place, "y": _HEIGHT - height, "height": height} for place, height in enumerate(heights) if height]


# -- sessions ------------------------------------------------------------------------------------------------------------
# One conversation as HTML text: its runs in order, with what each was asked and how it ended. Pure.


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


# -- times ---------------------------------------------------------------------------------------------------------------
# Numbers of runs by their start, as bars over their list; each bar leads to its day or hour. Pure.


HEIGHT: Final = 40
_FORMS: Final = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:00"}
_STEPS: Final = {"day": dt.timedelta(days=1), "hour": dt.timedelta(hours=1)}


def time_bars(times: Mapping[str, Sequence[tuple[str, int, int]]], link: Callable[[str, str], str]) -> dict[str, Any] | None:
    """Return the bars of the hours if these are few enough, else of the days; None if all runs began in the same one.

    `times`: as a page of the list has them; `link`: the address of the list at a day or an hour: its name and its text.
    """
    name = next((name for name in ("hour", "day") if _count(times, name) <= MAX_TIMES), "day")
    found = {_read(text, name): (number, failed) for text, number, failed in times.get(name, ())}
    if len(found) < 2:
        return None
    last, most = max(found), max(number for number, _ in found.values())
    count = min(_count(times, name), MAX_TIMES)
    places = [last - _STEPS[name] * back for back in reversed(range(count))]
    bars = [
        {
            "x": place * 10,
            "height": f"{HEIGHT * number / most:.1f}",
            "failed": f"{HEIGHT * failed / most:.1f}",
            "text": f"{text}: {number:,} run{'s' * (number != 1)}{f', {failed:,} failed' if failed else ''}",
            "link": link(name, text),
        }
        for place, time in enumerate(places)
        if time in found
        for number, failed in [found[time]]
        for text in [time.strftime(_FORMS[name])]
    ]
    return {
        "bars": bars,
        "width": count * 10,
        "first": places[0].strftime(_FORMS[name]),
        "last": bars[-1]["text"],
        "most": most,
    }


def _count(times: Mapping[str, Sequence[tuple[str, int, int]]], name: str) -> int:
    """Return how many days or hours there are from the first to the last."""
    found = [_read(text, name) for text, *_ in times.get(name, ())]
    return (max(found) - min(found)) // _STEPS[name] + 1 if found else 0


def _read(text: str, name: str) -> dt.datetime:
    return dt.datetime.strptime(text, _FORMS[name]).replace(tzinfo=dt.UTC)
