"""The list of runs as a page shows it: filtered, sorted, a hundred at a time, with what the words were found in.

A page begins after a run, not at a number, so that runs which arrive meanwhile move nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from freezeframe_replay.sources.costs import Cost, Costs
from freezeframe_replay.sources.store import RUN_COLUMNS, RunRow, RunStore
from freezeframe_schemas.lifecycle import RunStatus

NOT_OK: Final = "not ok"
STATUSES: Final[Mapping[str, str]] = {
    "": "1",
    "failed": f"status = '{RunStatus.FAILED.value}'",
    "partly": f"status = '{RunStatus.OK.value}' AND errors > 0",
    "unfinished": f"status = '{RunStatus.UNFINISHED.value}'",
    "ended": f"status = '{RunStatus.ENDED.value}'",
    "ok": f"status = '{RunStatus.OK.value}' AND errors = 0",
    NOT_OK: f"status != '{RunStatus.OK.value}'",
}
"""Choice of a status -> condition over the view ``runs``. ``partly``: the run is ok, and a step of it failed."""
SORTS: Final[Mapping[str, str]] = {
    "started": "start_time",
    "entry": "name",
    "steps": "steps",
    "failed steps": "errors",
    "tokens": "input_tokens + output_tokens",
    "time": "ms",
    "status": "status",
}
"""Column -> expression over the view ``runs``."""
NEWEST: Final = "-started"
FACETS: Final[Mapping[str, str]] = {
    "service": "[toString(service)]",
    "agent": "[toString(agent)]",
    "model": "models",
    "day": "[toString(toDate(start_time, 'UTC'))]",
    "label": "[marked.word]",
}
"""What the list is narrowed down by -> the values that a row of the view ``runs`` has of it."""
_LABELS: Final = "(SELECT trace_id AS run, label::String AS word FROM labels FINAL WHERE span_id = '' AND label != '')"
_MOST_VALUES: Final = 8
"""Values of a facet that are offered: the most frequent, and of days the latest."""
_FIELDS: Final = ("name", "input", "output", "first_error", "run_id", "trace_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs, in which order, and where the page starts. Empty texts filter nothing."""

    words: str = ""
    service: str = ""
    user: str = ""
    agent: str = ""
    model: str = ""
    """A model that the run asked for."""
    label: str = ""
    """What a reader called the run."""
    day: dt.date | None = None
    """In UTC."""
    since: dt.datetime | None = None
    status: str = ""
    """One of `STATUSES`."""
    sort: str = NEWEST
    """One of `SORTS`, with ``-`` before it for the largest first."""
    after: str = ""
    """Trace id of the run before the page's first; empty for the first page."""
    before: str = ""
    """Trace id of the run after the page's last, to go back."""
    size: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of the list."""

    rows: Sequence[RunRow] = ()
    first: int = 1
    """Number of the first row among all that match."""
    total: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """Choice of a status -> how many runs match everything else."""
    facets: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict[str, Sequence[tuple[str, int]]])
    """Name in `FACETS` -> values with how many runs that match everything have them."""
    snippets: Mapping[str, str] = field(default_factory=dict[str, str])
    """Trace id -> the text around the words, for runs in whose payloads they were found."""
    costs: Mapping[str, Cost] = field(default_factory=dict[str, Cost])
    """Trace id -> what the run's calls of models cost, if it was asked for."""

    @property
    def last(self) -> int:
        """Return the number of the last row."""
        return self.first + len(self.rows) - 1


def find_runs(store: RunStore, query: RunQuery, costs: Costs | None = None, *, has_labels: bool = False) -> RunPage:
    """Return a page of the runs that a query names, and how many there are.

    Args:
        store: where they are.
        query: which of them.
        costs: where their costs are kept; none are returned without it.
        has_labels: whether runs of the store have labels to narrow the list down by.

    Raises:
        PermanentStoreError: the store refuses the query.
        RetryableStoreError: the store does not answer.
    """
    conditions, parameters = conditions_of(query)
    key, down = SORTS[query.sort.removeprefix("-")], query.sort.startswith("-")
    cursor, back = query.after or query.before, bool(query.before) and not query.after
    beyond = _beyond(key, down=down)
    tests = [conditions, STATUSES[query.status]]
    if cursor:
        tests.append(beyond if back else f"NOT ({beyond}) AND trace_id != {{_cursor:String}}")
    listed = (
        f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE {' AND '.join(f'({test})' for test in tests)} ORDER BY "
        f"{key} {'DESC' if down != back else 'ASC'}, trace_id {'DESC' if back else 'ASC'} LIMIT {int(query.size)}"
    )
    counts = _counts(conditions, beyond if cursor else "0", query.status, has_labels=has_labels)
    # one statement for all of it: each runs in a separate process, and opening the store there takes longer than this
    _, found = store.sql(
        f"SELECT listed.made, counted.made FROM {_as_array(listed)} AS listed CROSS JOIN {_as_array(counts)} AS counted",
        {**parameters, "_cursor": cursor},
    )
    rows = [RunRow(**dict(zip(RUN_COLUMNS, row, strict=True))) for row in found[0][0]]
    totals, passed, facets = _counted(found[0][1])
    if back:
        rows.reverse()
    first = 1 if not cursor else passed[query.status] + (1 - len(rows) if back else 2)
    return RunPage(
        rows=rows,
        first=max(first, 1),
        total=totals[query.status],
        counts=totals,
        facets=facets,
        snippets=_snippets(store, query.words, [row.trace_id for row in rows]),
        costs={} if costs is None else costs.of_runs(store, rows),
    )


def _as_array(select: str) -> str:
    """Return a subquery of one row: the rows of another as an array of tuples, in their order."""
    return f"(SELECT groupArray(tuple(*)) AS made FROM ({select}))"


def conditions_of(query: RunQuery) -> tuple[str, dict[str, Any]]:
    """Return everything but the status and the place as a condition over the view ``runs``, with its parameters."""
    tests, parameters = ["1"], dict[str, Any]()
    for column, value in (("service", query.service), ("user_id", query.user), ("agent", query.agent)):
        if value:
            tests.append(f"{column} = {{_{column}:String}}")
            parameters[f"_{column}"] = value
    if query.model:
        tests.append("has(models, {_model:String})")
        parameters["_model"] = query.model
    if query.label:
        tests.append(f"trace_id IN (SELECT run FROM {_LABELS} WHERE word = {{_label:String}})")
        parameters["_label"] = query.label
    if query.day is not None:
        tests.append("toDate(start_time, 'UTC') = {_day:Date}")
        parameters["_day"] = query.day
    if query.since is not None:
        tests.append("start_time >= {_from:DateTime64(6)}")
        parameters["_from"] = query.since
    if query.words:
        named = [f"positionCaseInsensitiveUTF8({name}, {{_words:String}}) > 0" for name in _FIELDS]
        if has_words(query.words):
            named.append("trace_id IN (SELECT trace_id FROM search(words = {_words:String}))")
        tests.append(" OR ".join(named))
        parameters["_words"] = query.words
    return " AND ".join(f"({test})" for test in tests), parameters


def has_words(text: str) -> bool:
    """Return whether there is a word to search payloads for: letters or digits, as the store's index cuts texts."""
    return any(char.isalnum() for char in text)


def _value(key: str) -> str:
    return f"(SELECT {key} FROM runs WHERE trace_id = {{_cursor:String}} LIMIT 1)"


def _beyond(key: str, *, down: bool) -> str:
    """Return the condition for the rows before the one that the page begins or ends at."""
    return f"{key} {'>' if down else '<'} {_value(key)} OR ({key} = {_value(key)} AND trace_id < {{_cursor:String}})"


def _counts(conditions: str, beyond: str, status: str, *, has_labels: bool) -> str:
    """Return the statement that counts the runs that match and those before the page, by choice of a status, and the facets."""
    totals = [f"countIf({test})" for test in STATUSES.values()]
    before = [f"countIf(({test}) AND ({beyond}))" for test in STATUSES.values()]
    named = {name: of_run for name, of_run in FACETS.items() if name != "label" or has_labels}
    values = [f"arrayMap(value -> ('{name}', value), {of_run})" for name, of_run in named.items()]
    marked = f" LEFT JOIN {_LABELS} AS marked ON trace_id = marked.run" if has_labels else ""
    return (
        f"SELECT facet.1, facet.2, countIf({STATUSES[status]}) AS number, [{', '.join(totals)}], [{', '.join(before)}] "
        f"FROM runs{marked} ARRAY JOIN arrayConcat([('', '')], {', '.join(values)}) AS facet WHERE {conditions} "
        f"GROUP BY facet ORDER BY facet.1, if(facet.1 = 'day', facet.2, '') DESC, number DESC, facet.2 "
        f"LIMIT {_MOST_VALUES} BY facet.1"
    )


def _counted(
    rows: Sequence[Sequence[Any]],
) -> tuple[dict[str, int], dict[str, int], dict[str, list[tuple[str, int]]]]:
    """Return for each choice of a status how many runs match, and how many of them are before the page; and the facets."""
    nothing = [0] * len(STATUSES)
    totals, before = next(((row[3], row[4]) for row in rows if not row[0]), (nothing, nothing))
    facets: dict[str, list[tuple[str, int]]] = {name: [] for name in FACETS}
    for name, value, number, *_ in rows:
        if value and number:
            facets[name].append((value, number))
    return dict(zip(STATUSES, totals, strict=True)), dict(zip(STATUSES, before, strict=True)), facets


def _snippets(store: RunStore, words: str, trace_ids: Sequence[str]) -> dict[str, str]:
    if not trace_ids or not has_words(words):
        return {}
    _, rows = store.sql(
        "SELECT trace_id, argMax(snippet, positionCaseInsensitive(snippet, {words:String}) > 0) "
        "FROM search(words = {words:String}) WHERE trace_id IN {ids:Array(String)} GROUP BY trace_id",
        {"words": words, "ids": list(trace_ids)},
    )
    return {str(row[0]): str(row[1]) for row in rows}
