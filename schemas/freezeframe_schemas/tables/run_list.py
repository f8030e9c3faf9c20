"""The statement that lists runs: a page of them, the number that match, and the facets to narrow the list by.

Its text follows from a few choices, and everything that a person typed is in its parameters. So a collector can
recognise it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from freezeframe_schemas.gaps import OF_ANOTHER
from freezeframe_schemas.lifecycle import RunStatus

CHOICES: Final = "_list"
"""Parameter with the `RunList` of the statement, as JSON, by which a collector recognises the statement."""
NOT_OK: Final = "not ok"
STATUSES: Final[Mapping[str, str]] = {
    "": "1",
    "failed": f"status = '{RunStatus.FAILED.value}'",
    "partly": f"status = '{RunStatus.OK.value}' AND errors > 0",
    "unfinished": f"status = '{RunStatus.UNFINISHED.value}'",
    "ended": f"status = '{RunStatus.ENDED.value}'",
    "ok": f"status = '{RunStatus.OK.value}' AND errors = 0",
    NOT_OK: f"status IN ('{RunStatus.FAILED.value}', '{RunStatus.UNFINISHED.value}')",
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
    "level": "level",
    "service": "service",
    "user": "user_id",
}
"""Column -> expression over the view ``runs``."""
NEWEST: Final = "-started"
FACETS: Final[Mapping[str, str]] = {
    "service": "[service]",
    "entry": "[name]",
    "agent": "[agent]",
    "model": "models",
    "tool": "tools",
    "user": "[user_id]",
    "tenant": "[toString(tenant)]",
    "commit": "[commit]",
    "flag": "arrayMap(pair -> concat(pair.1, ' = ', pair.2), JSONExtractKeysAndValuesRaw(flag_values))",
    "level": "[concat('L', toString(level))]",
    "day": "[toString(toDate(start_time, 'UTC'))]",
    "hour": "[formatDateTime(start_time, '%Y-%m-%d %H:00', 'UTC')]",
    "label": "[marked.word]",
}
"""Facet of the list -> its values in a row of the view ``runs``."""
ONCE: Final = "enable_materialized_cte = 1"
"""Setting of an engine that plans the view `runs` once for the statement: planning it takes longer than reading it."""
_LABELS: Final = "(SELECT trace_id AS run, label::String AS word FROM labels FINAL WHERE span_id = '' AND label != '')"
TIMES: Final = ("day", "hour")
"""Facets that are times, in UTC."""
MAX_VALUES: Final = 8
"""Values of a facet that are offered, the most frequent."""
MAX_TIMES: Final = 48
"""Values of a facet of times, the latest."""
_OF_ANOTHER: Final = ", ".join(f"'{kind}'" for kind in sorted(OF_ANOTHER))
MEANT: Final = f"steps > 0 AND trace_id NOT IN (SELECT trace_id FROM run_rows WHERE hasAny(gaps, [{_OF_ANOTHER}]))"
"""Condition on runs that ``last`` and the like may mean."""
_FIELDS: Final = ("name", "input", "output", "first_error", "run_id", "trace_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """Choices from which the text of the statement follows."""

    columns: tuple[str, ...]
    """Of the view ``runs``."""
    chosen: tuple[str, ...] = ()
    """Names in `FACETS`; the value is the parameter of this name, with ``_`` before it."""
    is_since: bool = False
    """True if runs have to begin at `_from` or later."""
    has_words: bool = False
    """True if they have to hold `_words`."""
    in_payloads: bool = False
    """True if these are looked for in payloads, too."""
    status: str = ""
    """One of `STATUSES`."""
    sort: str = NEWEST
    """One of `SORTS`, with ``-`` before it for the largest first."""
    begins: str = ""
    """``after`` or ``before`` the run `_cursor`; empty for the first page."""
    size: int = 100
    has_labels: bool = False
    """True if runs of the store have labels."""
    is_counted: bool = True
    """True if the row also holds how many runs match."""
    is_newest: bool = False
    """True if runs have to begin within a day of the latest one."""
    is_meant: bool = False
    """True if it has to be one of `MEANT`."""
    is_of_session: bool = False
    """True if it has to be of the conversation `_session`."""
    is_named: bool = False
    """True if the run has to have the trace id `_run`."""


def conditions(asked: RunList) -> str:
    """Return everything but the status and the place as a condition over the view ``runs``."""
    tests = ["1"]
    if asked.is_named:
        tests.append("trace_id = {_run:String}")
    if asked.is_meant:
        tests.append(MEANT)
    if asked.is_newest:
        tests.append("run_hour >= (SELECT max(run_hour) FROM run_rows) - INTERVAL 1 DAY")
    for name in asked.chosen:
        if name == "label":
            tests.append(f"trace_id IN (SELECT run FROM {_LABELS} WHERE word = {{_label:String}})")
        else:
            tests.append(f"has({FACETS[name]}, {{_{name}:String}})")
    if asked.is_of_session:
        tests.append("{_session:String} IN (session_id, conversation_id)")
    if asked.is_since:
        tests.append("start_time >= toDateTime64({_from:String}, 6, 'UTC')")
    if asked.has_words:
        named = [f"positionCaseInsensitiveUTF8({name}, {{_words:String}}) > 0" for name in _FIELDS]
        if asked.in_payloads:
            named.append("trace_id IN (SELECT trace_id FROM search(words = {_words:String}))")
        tests.append(" OR ".join(named))
    return " AND ".join(f"({test})" for test in tests)


def list_statement(asked: RunList, *, once: bool = False) -> str:
    """Return the statement. Its row: runs as tuples of `columns`, and tuples of a facet, a value, how many runs have it, and by
    choice of a status how many match and how many of them are before the page; those of no facet are of all runs. If nothing is
    counted, the row has the runs only.

    One statement for all of it: each that is answered by a reader has its own process.

    Args:
        asked: the choices that determine the text.
        once: plan the view once, not for each use of its rows; needs an engine that has the setting `ONCE`.

    Raises:
        KeyError: a choice is unknown.
    """
    key, down, back = SORTS[asked.sort.removeprefix("-")], asked.sort.startswith("-"), asked.begins == "before"
    value = f"(SELECT {key} FROM runs WHERE trace_id = {{_cursor:String}} LIMIT 1)"
    beyond = f"{key} {'>' if down else '<'} {value} OR ({key} = {value} AND trace_id < {{_cursor:String}})"
    tests = [STATUSES[asked.status]]
    if asked.begins:
        tests.append(beyond if back else f"NOT ({beyond}) AND trace_id != {{_cursor:String}}")
    matching = "matching" if asked.is_counted else f"(SELECT * FROM runs WHERE {conditions(asked)})"
    listed = (
        f"SELECT {', '.join(asked.columns)} FROM {matching} WHERE {' AND '.join(f'({test})' for test in tests)} ORDER BY "
        f"{key} {'DESC' if down != back else 'ASC'}, trace_id {'DESC' if back else 'ASC'} LIMIT {asked.size:d}"
    )
    if not asked.is_counted:
        return f"SELECT made FROM {_as_array(listed)} WHERE {{{CHOICES}:String}} != ''"
    counts = _counts(beyond if asked.begins else "0", asked)
    return (
        f"WITH matching AS {'MATERIALIZED ' * once}(SELECT * FROM runs WHERE {conditions(asked)}) "
        f"SELECT listed.made, counted.made FROM {_as_array(listed)} AS listed CROSS JOIN {_as_array(counts)} AS counted "
        f"WHERE {{{CHOICES}:String}} != ''"  # the driver sends no parameter that the statement does not name
    )


def _as_array(select: str) -> str:
    """Return a subquery of one row: the rows of another as an array of tuples, in their order."""
    return f"(SELECT groupArray(tuple(*)) AS made FROM ({select}))"


def _counts(beyond: str, asked: RunList) -> str:
    totals = [f"countIf({test})" for test in STATUSES.values()]
    before = [f"countIf(({test}) AND ({beyond}))" for test in STATUSES.values()]
    named = {name: of_run for name, of_run in FACETS.items() if name != "label" or asked.has_labels}
    values = [f"arrayMap(value -> ('{name}', value), {of_run})" for name, of_run in named.items()]
    marked = f" LEFT JOIN {_LABELS} AS marked ON trace_id = marked.run" if asked.has_labels else ""
    return (
        f"SELECT facet.1, facet.2, countIf({STATUSES[asked.status]}) AS number, [{', '.join(totals)}], [{', '.join(before)}] "
        f"FROM matching{marked} ARRAY JOIN arrayConcat([('', '')], {', '.join(values)}) AS facet "
        f"GROUP BY facet ORDER BY facet.1, if(facet.1 IN {TIMES}, facet.2, '') DESC, number DESC, facet.2 "
        f"LIMIT {MAX_TIMES} BY facet.1"
    )
