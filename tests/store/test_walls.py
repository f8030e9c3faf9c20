"""Each wall around a reader holds with the others taken away, over every function that the engine has.

The kernel says what crosses a wall: a file outside that was opened or created, a server that was connected to.

The attacks are made from the engine's own lists: every function and table function, in every clause that holds one.
A place is a statement with a hole. ``{e}`` is a call, ``{f}`` the quoted name of a function, ``{t}`` a call of a table
function, ``{x}`` its name. A call's arguments are a file outside the store, the address of a server, or what the function
expects.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import reader_attacks as attacks

from freezeframe_collector.readers.sandbox import why_no_sandbox
from freezeframe_collector.store import Store
from freezeframe_collector.store.embedded import EmbeddedEngine

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked by inotify"),
]

PROBE = Path(__file__).parents[1] / "support" / "wall_probe.py"
needs_a_sandbox = pytest.mark.skipif(why_no_sandbox() is not None, reason=str(why_no_sandbox()))


_ROWS: Final = "FROM (SELECT '{path}' AS a, number AS n FROM numbers(2))"
CALLS: Final[Sequence[str]] = (
    # where an expression may be
    *(
        "SELECT {e}",
        "SELECT {e} AS b, b",
        "SELECT DISTINCT {e}",
        "SELECT ({e}, [{e}], map('k', {e}))",
        "SELECT NOT isNull({e})",
    ),
    *("SELECT CAST({e} AS String)", "SELECT {e}::String", "SELECT CASE WHEN 1 THEN {e} ELSE '' END", "SELECT if(1, {e}, '')"),
    *("SELECT {e} BETWEEN 'a' AND 'b'", "SELECT {e} LIKE '%x%'", "SELECT 'x' IN ({e})", "SELECT {e} || 'x'"),
    *("SELECT COLUMNS('a') APPLY(x -> {e}) {rows}", "SELECT * REPLACE ({e} AS a) {rows}", "SELECT *, {e} {rows}"),
    # clauses
    "SELECT 1 {rows} WHERE ignore({e}) = 0",
    "SELECT prefix FROM prices PREWHERE ignore({e}) = 0 LIMIT 1",
    "SELECT count() {rows} GROUP BY {e}",
    "SELECT count() {rows} GROUP BY GROUPING SETS (({e}), ())",
    "SELECT count() {rows} GROUP BY a WITH TOTALS HAVING ignore({e}) = 0",
    "SELECT n {rows} QUALIFY ignore({e}, row_number() OVER ()) = 0",
    "SELECT n {rows} ORDER BY {e}, n",
    "SELECT n {rows} ORDER BY n WITH FILL FROM length(toString({e})) TO 9",
    "SELECT n, a {rows} ORDER BY n WITH FILL TO 4 INTERPOLATE (a AS toString({e}))",
    "SELECT n {rows} LIMIT 1 BY {e}",
    "SELECT n {rows} ORDER BY n WITH FILL STEP length(toString({e}))",
    "SELECT n {rows} ORDER BY n LIMIT toUInt64(length(toString({e}))) WITH TIES",
    "SELECT n {rows} OFFSET toUInt64(length(toString({e})))",
    "SELECT DISTINCT ON ({e}) n {rows}",
    "SELECT arrayJoin([{e}])",
    "SELECT b {rows} ARRAY JOIN [{e}] AS b",
    # windows
    "SELECT sum(n) OVER (PARTITION BY {e}) {rows}",
    "SELECT sum(n) OVER (ORDER BY {e}) {rows}",
    "SELECT sum(n) OVER w {rows} WINDOW w AS (PARTITION BY {e})",
    "SELECT lagInFrame({e}) OVER (ORDER BY n) {rows}",
    # aggregates
    "SELECT any({e}) {rows}",
    "SELECT countIf(ignore({e}) = 0) {rows}",
    "SELECT count() FILTER (WHERE ignore({e}) = 0) {rows}",
    "SELECT groupArray(2)({e}) {rows}",
    "SELECT quantile(length(toString({e})))(n) {rows}",
    # lambdas
    "SELECT arrayMap(x -> {e}, [1])",
    "SELECT arrayFilter((x, y) -> ignore({e}) = 0, [1], [2])",
    "SELECT arraySort(x -> arrayFold((acc, y) -> toString({e}), [1], ''), [1])",
    # subqueries, unions, joins
    *(
        "WITH {e} AS b SELECT b",
        "WITH c AS (SELECT {e}) SELECT * FROM c",
        "WITH c AS MATERIALIZED (SELECT {e}) SELECT * FROM c",
    ),
    "WITH RECURSIVE c AS (SELECT toString({e}) AS b, 1 AS n UNION ALL SELECT b, n + 1 FROM c WHERE n < 2) SELECT * FROM c",
    *("SELECT (SELECT {e})", "SELECT 1 WHERE 'x' IN (SELECT {e})", "SELECT 1 WHERE EXISTS (SELECT {e})"),
    *(
        "SELECT '' UNION ALL SELECT toString({e})",
        "SELECT '' EXCEPT SELECT toString({e})",
        "SELECT '' INTERSECT SELECT toString({e})",
    ),
    "SELECT 1 {rows} AS l JOIN (SELECT 1 AS n) AS r ON l.n = r.n AND ignore({e}) = 0",
    "SELECT 1 {rows} AS l LEFT JOIN (SELECT {e} AS n) AS r USING n",
    "SELECT * FROM (SELECT 1) PASTE JOIN (SELECT {e})",
    *(
        "FROM numbers(1) SELECT {e}",
        "SELECT * FROM (SELECT {e})",
        "SELECT * FROM view(SELECT {e})",
        "SELECT * FROM values({e})",
    ),
    *(
        "SELECT * FROM values('a String', ({e}))",
        "SELECT * FROM numbers(length(toString({e})))",
        "SELECT * FROM search(words = {e})",
    ),
    *("SELECT * FROM viewExplain('EXPLAIN', '', (SELECT {e}))", "SELECT * FROM (EXPLAIN SELECT {e})"),
    # other statements, formats, settings
    *("DESCRIBE (SELECT {e})", "EXPLAIN SELECT {e}", "EXPLAIN PIPELINE SELECT {e}", "EXPLAIN QUERY TREE SELECT {e}"),
    *("EXPLAIN SYNTAX SELECT {e}", "EXPLAIN ESTIMATE SELECT {e}", "EXPLAIN header = {e} SELECT 1"),
    *("SHOW TABLES WHERE ignore({e}) = 0", "SHOW TABLES LIMIT length(toString({e}))", "SHOW DATABASES WHERE ignore({e}) = 0"),
    *("SHOW COLUMNS FROM prices WHERE ignore({e}) = 0", "SHOW INDEXES FROM prices WHERE ignore({e}) = 0"),
    *("SHOW DICTIONARIES WHERE ignore({e}) = 0", "SHOW SETTINGS LIKE {e}", "SHOW FUNCTIONS LIKE {e}", "SHOW CLUSTERS LIKE {e}"),
    *("SELECT {e} FORMAT JSONCompact", "SELECT {e} SETTINGS max_threads = 1", "SELECT {e} INTO OUTFILE '{path}.out'"),
    *("SELECT 1 SETTINGS log_comment = {e}", "SET log_comment = {e}", "/* */ SELECT -- '\n {e}", "(SELECT {e})", "SELECT {e};"),
    # writes
    *(
        "INSERT INTO prices (prefix) SELECT toString({e})",
        "INSERT INTO prices (prefix) VALUES ({e})",
        "CREATE VIEW v AS SELECT {e}",
    ),
    *(
        "CREATE TEMPORARY TABLE t AS SELECT {e}",
        "ALTER TABLE prices UPDATE note = toString({e}) WHERE 1",
        "DELETE FROM prices WHERE {e} = ''",
    ),
    "CREATE TABLE t (a String DEFAULT {e}) ENGINE = Memory",
)
NAMES: Final[Sequence[str]] = (
    # where a function is passed by its name
    *("SELECT arrayMap({f}, ['{path}'])", "SELECT arrayFilter({f}, ['{path}'])", "SELECT arrayFirst({f}, ['{path}'])"),
    *("SELECT arraySort({f}, ['{path}'])", "SELECT arrayExists({f}, ['{path}'])", "SELECT arrayFold({f}, ['{path}'], '')"),
    *("SELECT mapApply({f}, map('{path}', '{path}'))", "SELECT arrayMap(x -> arrayMap({f}, [x]), ['{path}'])"),
    *("SELECT * APPLY({f}) {rows}", "SELECT * APPLY {f} {rows}", "SELECT * APPLY(toString) APPLY({f}) {rows}"),
    *("SELECT COLUMNS('a') APPLY({f}) {rows}", "SELECT a.* APPLY({f}) {rows} AS a", "SELECT * EXCEPT n APPLY({f}) {rows}"),
    *("SELECT arrayReduce({text}, ['{path}'])", "SELECT initializeAggregation({text}, '{path}')"),
    *("WITH {f} AS g SELECT arrayMap(g, ['{path}'])", "SELECT arrayMap({function:Identifier}, ['{path}'])"),
    *("SELECT {function:Identifier}('{path}')", "SELECT {f} {rows}", "SELECT arrayMap((({f})), ['{path}'])"),
)
TABLES: Final[Sequence[str]] = (
    # where a table may be
    *("SELECT * FROM {t}", "SELECT * FROM {t} AS t FINAL", "SELECT * FROM (SELECT * FROM {t})", "FROM {t} SELECT *"),
    *("WITH c AS (SELECT * FROM {t}) SELECT * FROM c", "SELECT (SELECT * FROM {t} LIMIT 1)", "SELECT 1 IN (SELECT 1 FROM {t})"),
    *("SELECT 1 WHERE 1 IN {t}", "SELECT 1 WHERE EXISTS (SELECT 1 FROM {t})", "SELECT 1 FROM numbers(1) CROSS JOIN {t} AS t"),
    *(
        "SELECT 1 FROM numbers(1) AS l JOIN {t} AS r ON 1 = 1",
        "SELECT 1 UNION ALL SELECT 1 FROM {t}",
        "SELECT count() FROM {t} PREWHERE 1",
    ),
    *("SELECT * FROM view(SELECT * FROM {t})", "SELECT * FROM viewIfPermitted(SELECT * FROM {t} ELSE null('a Int8'))"),
    *("SELECT * FROM loop({t})", "SELECT * FROM remote('127.0.0.1:{port}', {t})", "SELECT * FROM cluster('default', {t})"),
    *(
        "DESCRIBE {t}",
        "DESCRIBE TABLE {t}",
        "EXPLAIN SELECT * FROM {t}",
        "EXPLAIN ESTIMATE SELECT * FROM {t}",
        "EXPLAIN TABLE OVERRIDE {t}",
    ),
    *("INSERT INTO FUNCTION {t} SELECT 1", "INSERT INTO TABLE FUNCTION {t} VALUES (1)", "CREATE TABLE t AS {t}"),
    *("SELECT * FROM {t} INTO OUTFILE '{path}.out'", "SELECT * FROM {t} SETTINGS max_threads = 1 FORMAT JSON"),
    *("SELECT * FROM {x}", "SELECT {x}.* FROM {t} AS {x}", "SELECT * FROM {t} SAMPLE 1", "SELECT * FROM {t} LIMIT 1 BY 1"),
)
_ARGUMENTS: Final[Sequence[str]] = (
    "'{path}'",
    "'{path}', 1",
    "'{path}', '{path}'",
    "'{path}', 'a', 'a'",
    "'127.0.0.1:{port}', 'b', 'c'",
    "n",
)
_OF_FUNCTIONS: Final[Mapping[str, str]] = {
    "file": "'{path}'",
    "catboostEvaluate": "'{path}', 1",
    "hasColumnInTable": "'127.0.0.1:{port}', 'system', 'one', 'dummy'",
    "dictGet": "'{path}', 'a', 1",
    "joinGet": "'{path}', 'a', 1",
    "getServerSetting": "'path'",
}
"""Functions that reach out of the store or into the server, one of each kind: they are tried in every place."""
_OF_TABLES: Final[Mapping[str, str]] = {
    "file": "'{path}', LineAsString",
    "url": "'http://127.0.0.1:{port}/', LineAsString, 'l String'",
    "executable": "'touch {path}.out', TSV, 'l String'",
    "remote": "'127.0.0.1:{port}', system.one",
    "mysql": "'127.0.0.1:{port}', 'd', 't', 'u', 'p'",
    "merge": "'default', '.*'",
    "sqlite": "'{path}', 'x'",
    "icebergLocal": "'{path}'",
    "filesystem": "'{folder}'",
    "dictionary": "'d'",
    "eval": "'SELECT file(''{path}'')'",
}
_TABLE_ARGUMENTS: Final[Sequence[str]] = (
    *("'{path}'", "'http://127.0.0.1:{port}/x'", "'127.0.0.1:{port}', system, one", "'127.0.0.1:{port}', 'd', 't', 'u', 'p'"),
    *(
        "'{path}', LineAsString, 'l String'",
        "'http://127.0.0.1:{port}/b', 'c', 'x', 'CSV', 'a String'",
        "SELECT 1",
        "system, one",
    ),
)
PATIENT: Final = frozenset(
    {
        *("jdbc", "odbc", "icebergAzure", "icebergAzureCluster", "paimonAzure", "paimonAzureCluster", "azureBlobStorage"),
        "azureBlobStorageCluster",
    }
)
"""Table functions that try again for 4 to 30 s when the kernel refuses them a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Target of an attack."""

    path: str
    """A file."""
    port: int
    """A server of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One statement."""

    sql: str
    uses: str
    """The function or table function in it."""
    parameters: Mapping[str, str]


def everything(functions: Sequence[str], tables: Sequence[str], outside: Outside) -> Iterator[Attack]:
    """Yield every function in every place."""
    for number, name in enumerate(functions):
        for at, place in enumerate((*CALLS, *NAMES)):
            yield _of_function(place, name, number + at, outside)
    for number, name in enumerate(tables):
        for at, place in enumerate(TABLES):
            yield _of_table(place, name, number + at, outside)


def of_functions(functions: Sequence[str], outside: Outside) -> Iterator[Attack]:
    """Yield each function in one place, and of each kind that reaches out one in every place.

    Args:
        functions: sorted by kind, as the engine has them, so that a kind is tried in as many places as it has functions.
        outside: what is attacked.
    """
    places = (*CALLS, *NAMES)
    for number, name in enumerate(functions):
        yield _of_function(places[number % len(places)], name, number // 7, outside)
    for name in _OF_FUNCTIONS:
        yield from (_of_function(place, name, 0, outside) for place in places)


def of_tables(tables: Sequence[str], outside: Outside) -> Iterator[Attack]:
    """Yield each table function in two places, and of each kind that reaches out one in every place."""
    for number, name in enumerate(tables):
        yield from (_of_table(place, name, number, outside) for place in (TABLES[0], TABLES[number % len(TABLES)]))
    for name in _OF_TABLES:
        yield from (_of_table(place, name, 0, outside) for place in TABLES)


def _of_function(place: str, name: str, number: int, outside: Outside) -> Attack:
    arguments = _OF_FUNCTIONS.get(name) or _ARGUMENTS[number % len(_ARGUMENTS)]
    quoted = "`" + name.replace("`", "``") + "`"
    filled = place.replace("{e}", f"{quoted}({arguments})").replace("{f}", quoted).replace("{text}", f"'{name}'")
    return Attack(sql=_aim(filled, outside), uses=name, parameters={"function": name})


def _of_table(place: str, name: str, number: int, outside: Outside) -> Attack:
    arguments = _OF_TABLES.get(name) or _TABLE_ARGUMENTS[number % len(_TABLE_ARGUMENTS)]
    filled = place.replace("{t}", f"`{name}`({arguments})").replace("{x}", f"`{name}`")
    return Attack(sql=_aim(filled, outside), uses=name, parameters={})


def _aim(sql: str, outside: Outside) -> str:
    folder = outside.path.rpartition("/")[0]
    holes = {"{rows}": _ROWS, "{path}": outside.path, "{folder}": folder, "{port}": str(outside.port)}
    for hole, value in holes.items():
        sql = sql.replace(hole, value)
    return sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an attack."""

    attack: Attack
    ran: bool
    text: str
    seen: Sequence[str]
    """What it did outside the store."""

    @property
    def crossed(self) -> bool:
        return bool(self.seen) or attacks.SECRET in self.text


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """A server that accepts no one: connections wait in its queue, and are counted there."""
    with socket.create_server(("127.0.0.1", 0), backlog=4000) as server:
        yield server


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory, listener: socket.socket) -> Outside:
    file = tmp_path_factory.mktemp("outside") / "secret.csv"
    file.write_text(attacks.SECRET)
    return Outside(path=str(file), port=listener.getsockname()[1])


@pytest.fixture(autouse=True)
def unchanged(store: Store, outside: Outside) -> Iterator[None]:
    """Whatever a reader tries, the tables do not change; a file that one wall alone lets through is removed."""

    def state() -> object:
        tables = store.query("SELECT name FROM system.tables WHERE database = 'freezeframe' ORDER BY name")
        return tables, [store.query(f"SELECT count() FROM freezeframe.{table} FINAL") for table in ("span_rows", "prices")]

    before = state()
    yield
    Path(f"{outside.path}.out").unlink(missing_ok=True)
    assert state() == before


def names(store: Store) -> tuple[list[str], list[str]]:
    """Return the engine's functions, kind by kind, and its table functions."""
    _, functions = store.query("SELECT name FROM system.functions WHERE name NOT ILIKE 'sleep%' ORDER BY categories, name")
    _, tables = store.query("SELECT name FROM system.table_functions ORDER BY name")
    return [str(row[0]) for row in functions], [str(row[0]) for row in tables]


def listed(outside: Outside) -> list[Attack]:
    """Return the attacks that people thought of. Writes come last: some change the reader itself if it has no walls."""
    parameters = {"p": outside.path, "t": f"default.{outside.path}"}
    reading = [sql.format(path=outside.path) for sql in (*attacks.READS_OUTSIDE, *attacks.HIDDEN)]
    return [Attack(sql=sql, uses=_called(sql), parameters=parameters) for sql in (*reading, *attacks.OTHERS, *attacks.WRITES)]


def attacks_on(store: Store, outside: Outside) -> list[Attack]:
    """Return those and a slice of the generated ones."""
    functions, tables = names(store)
    return [*of_functions(functions, outside), *of_tables(tables, outside), *listed(outside)]


def _called(sql: str) -> str:
    return next((name for name in PATIENT if f"{name}(" in sql), "")


@pytest.fixture
def probe(store: Store, outside: Outside, listener: socket.socket) -> Callable[[str, Iterable[Attack]], list[Outcome]]:
    def run(wall: str, tried: Iterable[Attack]) -> list[Outcome]:
        """Run the attacks with one wall up."""
        # the guard and the grants refuse the patient ones before they try
        left = [attack for attack in tried if wall in {"guard", "grants"} or attack.uses not in PATIENT]
        outcomes: list[Outcome] = []
        while left:  # again after a crash of the engine, which is a refusal
            found = _run_probe(store, wall, left, outside, listener)
            outcomes += found
            left = left[len(found) :]
            if left:
                outcomes.append(Outcome(attack=left.pop(0), ran=False, text="the engine crashed", seen=()))
        return outcomes

    return run


def _run_probe(store: Store, wall: str, tried: Sequence[Attack], outside: Outside, listener: socket.socket) -> list[Outcome]:
    assert isinstance(store.engine, EmbeddedEngine)
    given = {
        "writer": str(store.engine.directory / "clickhouse"),
        "folder": str(Path(outside.path).parent),
        "walls": {name: name == wall for name in ("sandbox", "grants", "guard")},
        "listener": listener.fileno(),
    }
    process = subprocess.Popen(
        [sys.executable, str(PROBE), json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        pass_fds=[listener.fileno()],
    )
    try:
        asked = json.dumps([{"sql": attack.sql, "parameters": attack.parameters} for attack in tried])
        threading.Thread(target=_write_all, args=(process, asked), daemon=True).start()
        assert process.stdout is not None
        answers = [json.loads(line) for line in process.stdout if line.endswith("\n")]
    finally:
        process.kill()
        process.wait()
    assert answers, "the probe did not start"
    return [
        Outcome(attack=attack, ran=kind == "done", text=text, seen=seen)
        for attack, (kind, text, seen) in zip(tried, answers, strict=False)
    ]


def _write_all(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(text)


Probe = Callable[[str, Iterable[Attack]], list[Outcome]]


def crossed(outcomes: Iterable[Outcome]) -> list[tuple[str, Sequence[str]]]:
    return [(outcome.attack.sql, outcome.seen) for outcome in outcomes if outcome.crossed]


@needs_a_sandbox
def test_the_kernel_alone_keeps_a_reader_in(store: Store, outside: Outside, probe: Probe) -> None:
    outcomes = probe("sandbox", attacks_on(store, outside))
    assert len(outcomes) > 3000
    assert crossed(outcomes) == []


def test_the_guard_alone_keeps_a_reader_in_and_refuses_every_listed_attack(
    store: Store, outside: Outside, probe: Probe
) -> None:
    outcomes = probe("guard", attacks_on(store, outside))
    assert len(outcomes) > 3000
    assert crossed(outcomes) == []
    assert [outcome.attack.sql for outcome in outcomes[-len(listed(outside)) :] if outcome.ran] == []


def test_the_grants_alone_keep_a_reader_from_writing_and_from_table_functions(
    store: Store, outside: Outside, probe: Probe
) -> None:
    """There is no grant for the function `file`, for INTO OUTFILE and for EXPLAIN TABLE OVERRIDE, so they do not stop those.

    `sqlite` opens its file before it is refused; nothing of it is answered.
    """
    writing = [sql for sql in attacks.WRITES if not sql.startswith(("SYSTEM STOP MERGES", "KILL QUERY"))]  # in itself only
    outcomes = probe("grants", [Attack(sql=sql, uses="", parameters={}) for sql in writing])
    assert [outcome.attack.sql for outcome in outcomes if outcome.ran] == []
    _, tables = names(store)
    outcomes = probe("grants", of_tables(tables, outside))
    without_grant = ("`eval`", "INTO OUTFILE", "EXPLAIN TABLE OVERRIDE")  # eval is given the function
    held = [outcome for outcome in outcomes if not any(form in outcome.attack.sql for form in without_grant)]
    assert [outcome for outcome in crossed(held) if "`sqlite`" not in outcome[0]] == []
    assert [outcome.attack.sql for outcome in held if attacks.SECRET in outcome.text] == []


def test_without_walls_each_way_out_is_seen(outside: Outside, probe: Probe) -> None:
    """What the other tests look for can be found."""
    folder = Path(outside.path).parent
    ways = {
        f"SELECT arrayMap(file, ['{outside.path}'])": "opened secret.csv",
        f"SHOW TABLES WHERE ignore(file('{outside.path}')) = 0": "opened secret.csv",
        f"SELECT * FROM sqlite('{outside.path}', 'x')": "opened secret.csv",
        f"SELECT * FROM filesystem('{folder}')": "opened the folder",
        f"SELECT 1 INTO OUTFILE '{outside.path}.out'": "created secret.csv.out",
        f"SELECT * FROM url('http://127.0.0.1:{outside.port}/', LineAsString, 'l String')": "connected",
    }
    outcomes = probe("none", [Attack(sql=sql, uses="", parameters={}) for sql in ways])
    assert [seen in outcome.seen for outcome, seen in zip(outcomes, ways.values(), strict=True)] == [True] * len(ways)
    assert attacks.SECRET in outcomes[0].text


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("wall", [pytest.param("sandbox", marks=needs_a_sandbox), "guard"])
def test_every_function_in_every_place_stays_inside(store: Store, outside: Outside, probe: Probe, wall: str) -> None:
    outcomes = probe(wall, everything(*names(store), outside))
    print(f"{wall}: {len(outcomes)} attacks, {sum(outcome.ran for outcome in outcomes)} ran")
    assert crossed(outcomes) == []
