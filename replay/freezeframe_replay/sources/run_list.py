"""The list of runs as a page shows it: filtered, sorted, a hundred at a time, with snippets around matching words.

A page begins after a run, not at a number, so that new runs do not shift it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from freezeframe_replay.sources.costs import Cost, Costs
from freezeframe_replay.sources.store import RUN_COLUMNS, RunRow, RunStore, utc_text
from freezeframe_schemas.tables.run_list import (
    CHOICES,
    FACETS,
    MAX_VALUES,
    NEWEST,
    NOT_OK,
    STATUSES,
    TIMES,
    RunList,
    list_statement,
)

_BEFORE: Final = 60
_SNIPPET: Final = 200
"""Characters of a snippet of the view `search`, and those before the words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Filter, order and first row of a page of runs. Empty texts filter nothing."""

    words: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name in `FACETS` -> the required value."""
    since: dt.datetime | None = None
    session: str = ""
    """The required conversation."""
    status: str = ""
    """One of `STATUSES`."""
    sort: str = NEWEST
    """One of `SORTS`, with ``-`` before it for the largest first."""
    after: str = ""
    """Trace id of the run before the page's first; empty for the first page."""
    before: str = ""
    """Trace id of the run after the page's last, to go back."""
    size: int = 100

    @property
    def narrowed_by(self) -> Mapping[str, str]:
        """Return the facets that filter something."""
        return {name: value for name, value in self.chosen.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    rows: Sequence[RunRow] = ()
    first: int = 1
    """Number of the first row among all that match."""
    total: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Choice of a status -> number of runs that match everything else."""
    facets: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict[str, Sequence[tuple[str, int]]])
    """Name in `FACETS` -> its values with the number of matching runs."""
    times: Mapping[str, Sequence[tuple[str, int, int]]] = field(default_factory=dict[str, Sequence[tuple[str, int, int]]])
    """Name in `TIMES` -> times, the latest first, with how many runs began then, and how many of these failed."""
    snippets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Trace id -> the text around the words, for runs with the words in payloads."""
    costs: Mapping[str, Cost] = field(default_factory=dict[str, Cost])
    """Trace id -> cost of the run's model calls, if requested."""

    @property
    def last(self) -> int:
        """Return the number of the last row."""
        return self.first + len(self.rows) - 1


def find_runs(store: RunStore, query: RunQuery, costs: Costs | None = None, *, has_labels: bool = False) -> RunPage:
    """Return a page of the runs that match a query, and their number.

    Args:
        store: the store to query.
        query: filter, order and start of the page.
        costs: source of their costs; without it, none are returned.
        has_labels: whether runs of the store have labels to narrow the list down by.

    Raises:
        PermanentStoreError: the store refuses the query.
        RetryableStoreError: the store does not answer.
    """
    asked, parameters = _list_of(query, has_labels=has_labels)
    _, found = store.sql(list_statement(asked), {**parameters, CHOICES: json.dumps(asdict(asked))})
    rows = [RunRow(**dict(zip(RUN_COLUMNS, row, strict=True))) for row in found[0][0]]
    totals, passed, facets, times = _counted(found[0][1], query.status)
    back = asked.begins == "before"
    if back:
        rows.reverse()
    first = 1 if not asked.begins else passed[query.status] + (1 - len(rows) if back else 2)
    return RunPage(
        rows=rows,
        first=max(first, 1),
        total=totals[query.status],
        counts=totals,
        facets=facets,
        times=times,
        snippets=_snippets(store, query.words, [row.trace_id for row in rows]),
        costs={} if costs is None else costs.of_runs(store, rows),
    )


def list_runs(store: RunStore, query: RunQuery) -> RunPage:
    """Return the same runs without counting how many match, which reads all of them; raises as `find_runs`."""
    rows = store.rows(*_list_of(query))
    return RunPage(rows=rows, snippets=_snippets(store, query.words, [row.trace_id for row in rows]))


def _list_of(query: RunQuery, *, has_labels: bool = False) -> tuple[RunList, dict[str, Any]]:
    run_list = RunList(
        columns=RUN_COLUMNS,
        chosen=tuple(query.narrowed_by),
        is_since=query.since is not None,
        has_words=bool(query.words),
        in_payloads=has_words(query.words),
        status=query.status,
        sort=query.sort,
        begins="after" if query.after else "before" if query.before else "",
        size=query.size,
        has_labels=has_labels,
        is_of_session=bool(query.session),
    )
    parameters = {f"_{name}": value for name, value in query.narrowed_by.items()}
    if query.since is not None:
        parameters["_from"] = utc_text(query.since)
    if query.session:
        parameters["_session"] = query.session
    if query.words:
        parameters["_words"] = query.words
    if run_list.begins:
        parameters["_cursor"] = query.after or query.before
    return run_list, parameters


def has_words(text: str) -> bool:
    """Return whether there is a word to search payloads for: letters or digits, as the store's index cuts texts."""
    return any(char.isalnum() for char in text)


def _counted(
    rows: Sequence[Sequence[Any]], status: str
) -> tuple[dict[str, int], dict[str, int], dict[str, list[tuple[str, int]]], dict[str, list[tuple[str, int, int]]]]:
    """Return for each choice of a status how many runs match, and how many of them are before the page; facets; and times."""
    nothing = [0] * len(STATUSES)
    totals, before = next(((row[3], row[4]) for row in rows if not row[0]), (nothing, nothing))
    facets: dict[str, list[tuple[str, int]]] = {name: [] for name in FACETS if name not in TIMES}
    times: dict[str, list[tuple[str, int, int]]] = {name: [] for name in TIMES}
    failed = list(STATUSES).index("failed")
    for name, value, number, of_status, _ in rows:
        if name in times and number:
            times[name].append((value, number, of_status[failed] if status in ("", "failed", NOT_OK) else 0))
        elif value and number and len(facets[name]) < MAX_VALUES:
            facets[name].append((value, number))
    return dict(zip(STATUSES, totals, strict=True)), dict(zip(STATUSES, before, strict=True)), facets, times


def _snippets(store: RunStore, words: str, trace_ids: Sequence[str]) -> dict[str, str]:
    if not trace_ids or not has_words(words):
        return {}
    _, rows = store.sql(
        "SELECT trace_id, argMax(snippet, positionCaseInsensitiveUTF8(snippet, {words:String}) > 0) "
        "FROM search(words = {words:String}) WHERE trace_id IN {ids:Array(String)} GROUP BY trace_id",
        {"words": words, "ids": list(trace_ids)},
    )
    return {str(row[0]): readable(str(row[1]), words) for row in rows}


def readable(snippet: str, words: str) -> str:
    """Return a snippet, which may be of a JSON text, without its escapes, and with marks where it is cut."""
    text = re.sub(r"(\\u[0-9a-fA-F]{4})+", _unescaped, snippet)
    text = re.sub(r'\\+([nrt"])', lambda escaped: '"' if escaped[1] == '"' else " ", text)
    is_cut = not -1 < snippet.lower().find(words.lower()) < _BEFORE
    return f"{'…' if is_cut else ''}{text}{'…' if len(snippet.encode()) >= _SNIPPET else ''}"


def _unescaped(escaped: re.Match[str]) -> str:
    """Return the characters; one that was cut in two is replaced, since no page can hold half of it."""
    return str(json.loads(f'"{escaped[0]}"')).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
