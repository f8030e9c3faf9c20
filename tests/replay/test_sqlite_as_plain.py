"""sqlite3 does the same while it is recorded as without us, and a replay gives what the run took: cases by hand and drawn."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from answered_here import answering
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = pytest.mark.long


# -- uses of sqlite3 in programs: each returns its results -------------------------------------------------------------------

Case = Callable[[sqlite3.Connection, Path], list[Any]]


@freezeframe.tool
def called(what: str) -> str:
    """Make the run a run."""
    return what


def tried(act: Callable[[], Any]) -> Any:
    """Return what an act gives, or the error that it raises."""
    try:
        return plain(act())
    except Exception as error:
        if isinstance(error, ReplayMiss):
            raise
        return f"{type(error).__name__}: {error}"


def plain(value: Any) -> Any:
    if isinstance(value, sqlite3.Row):
        return ["row", *((name, value[name]) for name in value.keys())]  # noqa: SIM118 - of the row
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def as_none(_: object, row: tuple[Any, ...]) -> None:
    """Give nothing for a row."""


def as_dict(_: object, row: tuple[Any, ...]) -> dict[str, Any]:
    return {"first": row[0]}


def opened(folder: Path, **options: Any) -> sqlite3.Connection:
    db = sqlite3.connect(folder / "a.db", timeout=0, **options)
    db.executescript("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, s TEXT); DELETE FROM t; DELETE FROM t;")
    db.executemany("INSERT INTO t VALUES (?, ?)", [(number, f"s{number}") for number in range(1, 6)])
    db.commit()
    return db


# -- the cases ----------------------------------------------------------------------------------------------------------------


def rows_inserted_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t ORDER BY n")
    first = cursor.fetchone()
    db.execute("INSERT INTO t VALUES (9, 'late')")
    return [first, cursor.fetchall()]


def rows_deleted_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t ORDER BY n")
    first = cursor.fetchone()
    db.execute("DELETE FROM t WHERE n > 3")
    return [first, cursor.fetchall()]


def rows_rolled_back_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    db.execute("INSERT INTO t VALUES (9, 'late')")
    cursor = db.execute("SELECT n FROM t ORDER BY n")
    first = cursor.fetchone()
    db.rollback()
    return [first, tried(cursor.fetchall)]


def a_table_rolled_back_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    db.isolation_level = None
    db.execute("BEGIN")
    db.execute("CREATE TABLE u AS SELECT * FROM t")
    cursor = db.execute("SELECT n FROM u")
    first = cursor.fetchone()
    return [
        first,
        tried(lambda: db.execute("ROLLBACK").fetchall()),
        tried(cursor.fetchall),
        tried(cursor.fetchone),
    ]


def a_commit_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t ORDER BY n")
    first = cursor.fetchone()
    db.execute("UPDATE t SET s = 'x'")
    db.commit()
    return [first, cursor.fetchmany(2), cursor.fetchall()]


def updates_of_rows_that_come(db: sqlite3.Connection, _: Path) -> list[Any]:
    found: list[Any] = []
    for [number, text] in db.execute("SELECT n, s FROM t"):
        db.execute("UPDATE t SET s = ? WHERE n = ?", (f"{text}!", number + 1))
        found.append(text)
    return found


def a_lock_that_an_open_cursor_holds(db: sqlite3.Connection, folder: Path) -> list[Any]:
    other = sqlite3.connect(folder / "a.db", timeout=0)
    cursor = db.execute("SELECT n FROM t")
    first = cursor.fetchone()
    refused = tried(lambda: other.execute("DROP TABLE t").fetchall())
    written = tried(lambda: other.execute("DELETE FROM t").rowcount)
    busy = tried(other.commit)
    rest = cursor.fetchall()
    return [first, refused, written, busy, rest, tried(other.commit)]


def a_lock_that_ends_with_the_cursor(db: sqlite3.Connection, folder: Path) -> list[Any]:
    other = sqlite3.connect(folder / "a.db", timeout=0)
    cursor = db.execute("SELECT n FROM t")
    first = cursor.fetchone()
    del cursor  # by its reference count, not when the garbage collector comes
    other.execute("DELETE FROM t")
    return [first, tried(other.commit)]


def a_table_dropped_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    return [cursor.fetchone(), tried(lambda: db.execute("DROP TABLE t").fetchall()), cursor.fetchall()]


def a_closed_cursor(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    first = cursor.fetchone()
    cursor.close()
    return [
        first,
        tried(cursor.fetchone),
        tried(cursor.fetchall),
        tried(lambda: list(cursor)),
        tried(lambda: cursor.execute("SELECT 1")),
    ]


def a_closed_connection(db: sqlite3.Connection, folder: Path) -> list[Any]:
    other = sqlite3.connect(folder / "a.db")
    cursor = other.execute("SELECT n FROM t")
    first = cursor.fetchone()
    other.close()
    return [first, tried(cursor.fetchone), tried(lambda: other.execute("SELECT 1"))]


def an_error_in_a_late_row(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT CASE n WHEN 3 THEN abs(-9223372036854775808) ELSE n END FROM t ORDER BY n")
    return [tried(cursor.fetchone) for _ in range(5)]


def an_error_in_a_late_row_of_all(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT CASE n WHEN 3 THEN abs(-9223372036854775808) ELSE n END FROM t ORDER BY n")
    return [tried(cursor.fetchall), tried(cursor.fetchall)]


def an_error_in_the_first_row(db: sqlite3.Connection, _: Path) -> list[Any]:
    return [tried(lambda: db.execute("SELECT abs(-9223372036854775808)").fetchall())]


def text_that_is_not_utf8(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT 'a' UNION ALL SELECT CAST(x'ff' AS TEXT)")
    return [tried(cursor.fetchone), tried(cursor.fetchone)]


def what_an_insert_returns(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("INSERT INTO t VALUES (7, 'a'), (8, 'b') RETURNING n")
    return [
        cursor.rowcount,
        cursor.fetchone(),
        cursor.rowcount,
        cursor.fetchone(),
        cursor.rowcount,
        cursor.fetchone(),
        cursor.rowcount,
    ]


def counts_and_ids(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.cursor()
    found: list[Any] = [cursor.rowcount, cursor.lastrowid, cursor.description]
    for statement in (
        "SELECT n FROM t",
        "UPDATE t SET s = 'x'",
        "INSERT INTO t(s) VALUES ('y')",
        "DELETE FROM t WHERE n = 1",
        "SELECT 1",
    ):
        cursor.execute(statement)
        found += [cursor.rowcount, cursor.lastrowid, cursor.description]
    return found


def an_insert_that_is_refused(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.cursor()
    return [tried(lambda: cursor.execute("INSERT INTO t VALUES (1, 'again')")), tried(cursor.fetchone)]


def rows_by_name(db: sqlite3.Connection, _: Path) -> list[Any]:
    db.row_factory = sqlite3.Row
    cursor = db.execute('SELECT n, s AS "a ""b"" [c]", n FROM t')
    return [
        tried(cursor.fetchone),
        tried(lambda: cursor.fetchmany(2)),
        tried(lambda: list(cursor)),
        cursor.row_factory is sqlite3.Row,
    ]


def a_row_factory_set_while_reading(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    first = cursor.fetchone()
    cursor.row_factory = as_dict
    second = cursor.fetchone()
    cursor.row_factory = None
    return [first, second, cursor.fetchone(), cursor.row_factory]


def a_row_factory_that_fails(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.cursor()
    cursor.row_factory = lambda _, row: 1 // (row[0] - 2)
    cursor.execute("SELECT n FROM t ORDER BY n")
    return [tried(cursor.fetchone) for _ in range(4)] + [tried(cursor.fetchall)]


def a_row_factory_that_gives_none(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.cursor()
    cursor.row_factory = as_none
    return [cursor.execute("SELECT n FROM t").fetchone(), cursor.fetchone(), list(cursor), cursor.fetchall()]


def a_row_factory_that_asks(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.cursor()
    cursor.row_factory = lambda _, row: (row[0], db.execute("SELECT s FROM t WHERE n = ?", row).fetchone(), called(f"{row[0]}"))
    return [cursor.execute("SELECT n FROM t").fetchmany(3)]


def an_execute_inside_a_row_factory(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.cursor()
    cursor.row_factory = lambda _, row: (
        row,
        tried(lambda: cursor.execute("SELECT 7").fetchone() if row[0] == 2 else None),
    )
    return [tried(cursor.execute("SELECT n FROM t ORDER BY n").fetchone) for _ in range(1)]


def nested_cursors(db: sqlite3.Connection, _: Path) -> list[Any]:
    return [(outer, db.execute("SELECT s FROM t WHERE n > ?", outer).fetchone()) for outer in db.execute("SELECT n FROM t")]


def two_cursors_in_turn(db: sqlite3.Connection, _: Path) -> list[Any]:
    return list(
        itertools.islice(zip(db.execute("SELECT n FROM t"), db.execute("SELECT s FROM t ORDER BY n DESC"), strict=True), 3)
    )


def a_cursor_that_executes_again(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    return [
        cursor.fetchone(),
        cursor.execute("SELECT s FROM t") is cursor,
        cursor.fetchone(),
        cursor.execute("DELETE FROM t").fetchone(),
    ]


def array_sizes(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    found = [cursor.fetchmany(), cursor.fetchmany(size=2)]
    cursor.arraysize = 3
    return [*found, cursor.arraysize, cursor.fetchmany(), cursor.fetchmany(), cursor.execute("SELECT n FROM t").fetchmany(0)]


def arguments_that_are_wrong(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor: Any = db.cursor()
    anything: Any = db
    return [
        tried(lambda: cursor.execute()),
        tried(lambda: cursor.execute(1)),
        tried(lambda: cursor.execute("SELECT ?", 1)),
        tried(lambda: cursor.execute("SELECT ?, ?", (1,))),
        tried(lambda: cursor.execute("SELECT 1; SELECT 2")),
        tried(lambda: cursor.execute("SELEC")),
        tried(lambda: cursor.executemany("SELECT ?", 3)),
        tried(lambda: cursor.executemany("SELECT ?", [(1,)])),
        tried(lambda: cursor.fetchmany("x")),
        tried(lambda: anything.cursor(None)),
        tried(lambda: cursor.execute("") is cursor),
        tried(cursor.fetchone),
    ]


def parameters_from_a_generator(db: sqlite3.Connection, _: Path) -> list[Any]:
    def rows() -> Iterator[Any]:
        yield (7, "a")
        yield (8, called("b"))
        [count] = db.execute("SELECT count(*) FROM t").fetchone()
        yield (9, str(count))

    cursor = db.executemany("INSERT INTO t VALUES (?, ?)", rows())
    return [cursor.rowcount, db.execute("SELECT * FROM t WHERE n > 6").fetchall()]


def a_generator_that_fails(db: sqlite3.Connection, _: Path) -> list[Any]:
    def rows() -> Iterator[Any]:
        yield (7, "a")
        raise LookupError("no more")

    return [
        tried(lambda: db.executemany("INSERT INTO t VALUES (?, ?)", rows())),
        db.execute("SELECT * FROM t WHERE n > 6").fetchall(),
    ]


def a_generator_with_a_row_that_is_refused(db: sqlite3.Connection, _: Path) -> list[Any]:
    left = iter([(7, "a"), (1, "b"), (8, "c")])
    return [
        tried(lambda: db.executemany("INSERT INTO t VALUES (?, ?)", left)),
        list(left),
        db.execute("SELECT count(*) FROM t").fetchall(),
    ]


def a_function_of_the_program(db: sqlite3.Connection, _: Path) -> list[Any]:
    db.create_function("size", 1, len)
    return list(db.execute("SELECT size(s) FROM t"))


def a_script(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.executescript("INSERT INTO t VALUES (7, 'a'); SELECT 1;")
    return [cursor.fetchone(), cursor.description, db.execute("SELECT s FROM t WHERE n = 7").fetchone()]


def types_and_names(db: sqlite3.Connection, folder: Path) -> list[Any]:
    cursor = db.execute("SELECT 1")
    strays = tried(lambda: setattr(cursor, "stray", 1))[:9], tried(lambda: setattr(db, "stray", 1))[:9]
    names = [type(db).__name__, type(cursor).__name__, type(db).__mro__[-2] is sqlite3.Connection, cursor.connection is db]
    return [names, repr(db).split(" at ")[0], repr(cursor).split(" at ")[0], *strays]


class Shop(sqlite3.Connection):
    """A program's own connection, with its own cursor."""

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(factory or Loud)

    def execute(self, sql: str, *given: Any) -> Any:
        return super().execute(sql.replace("things", "t"), *given)


class Loud(sqlite3.Cursor):
    asked = 0

    def execute(self, sql: str, *given: Any) -> Any:
        self.asked += 1
        return super().execute(sql, *given)

    def fetchone(self) -> Any:
        row = super().fetchone()
        return row and (*row, "!")


def classes_of_the_program(_: sqlite3.Connection, folder: Path) -> list[Any]:
    db: Any = sqlite3.connect(folder / "a.db", factory=Shop)
    cursor = db.cursor()
    cursor.execute("SELECT n FROM t")
    direct = db.execute("SELECT n FROM things")
    found = [
        cursor.fetchone(),
        cursor.fetchall()[:1],
        cursor.asked,
        type(cursor).__name__,
        direct.fetchone(),
        type(direct).__name__,
    ]
    return [*found, type(db).__name__, isinstance(cursor, Loud)]


def types_of_columns(_: sqlite3.Connection, folder: Path) -> list[Any]:
    db = sqlite3.connect(folder / "a.db", detect_types=sqlite3.PARSE_COLNAMES)
    sqlite3.register_converter("lower", lambda data: data.decode().lower())
    cursor = db.execute("""SELECT 'ABC' AS "x [lower]" UNION ALL SELECT 'DEF' """)
    return [cursor.description, cursor.fetchall()]


def bytes_for_text(db: sqlite3.Connection, _: Path) -> list[Any]:
    db.text_factory = bytes
    return db.execute("SELECT s FROM t").fetchall()


def another_thread(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(tried(cursor.fetchone)[:60]))
    thread.start()
    thread.join()
    return [*found, cursor.fetchone()]


def a_cursor_in_a_ring(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("SELECT n FROM t")
    ring: list[Any] = [cursor]
    ring.append(ring)
    first = cursor.fetchone()
    del cursor, ring
    gc.collect()
    return [first, db.execute("DELETE FROM t").rowcount]


def a_cursor_that_outlives_the_run(db: sqlite3.Connection, _: Path) -> list[Any]:
    LEFT.append(db.execute("SELECT n FROM t"))
    return [LEFT[-1].fetchone()]


def a_context_manager(db: sqlite3.Connection, _: Path) -> list[Any]:
    with contextlib.suppress(ZeroDivisionError), db:
        db.execute("DELETE FROM t")
        raise ZeroDivisionError
    return [db.execute("SELECT count(*) FROM t").fetchone()]


def a_dump(db: sqlite3.Connection, _: Path) -> list[Any]:
    return list(db.iterdump())


def many_rows(db: sqlite3.Connection, _: Path) -> list[Any]:
    cursor = db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1203) SELECT i FROM n")
    return [sum(row[0] for row in itertools.islice(cursor, 1100)), cursor.fetchone()]


LEFT: list[Any] = []
NOT_REPLAYED = {
    "a_lock_that_an_open_cursor_holds": "commits are not recorded, so neither is one that fails",
    "parameters_from_a_generator": "a replay takes all parameters first, so the calls between them come before the statement",
    "a_generator_with_a_row_that_is_refused": "a replay takes all parameters before it knows how many the run got to",
}
CASES: list[Any] = [
    value
    for value in list(vars().values())
    if [*getattr(value, "__annotations__", ())][1:] in (["_", "return"], ["folder", "return"])
]


# -- plain, recorded, replayed ----------------------------------------------------------------------------------------------


def agent_of(case: Case, folder: Path) -> Callable[[], Any]:
    def agent() -> Any:
        called("begin")
        return case(DATABASES[0], folder)

    return agent


DATABASES: list[sqlite3.Connection] = []


def run(case: Case, folder: Path) -> list[Any]:
    DATABASES[:] = [opened(folder)]
    try:
        return freezeframe.run(agent_of(case, folder))()
    finally:
        with contextlib.suppress(sqlite3.Error):
            DATABASES.pop().close()


def recorded(case: Case, folder: Path) -> tuple[list[Any], Fixture]:
    with capture(record_databases=True) as captured:
        outcome = run(case, folder)
        return outcome, freeze(build_run(captured.spans))


def replayed(case: Case, folder: Path, fixture: Fixture) -> tuple[Any, Report]:
    session = ReplaySession(fixture)
    outcome: Any = None
    with answering(session, databases="in runs"), contextlib.suppress(ReplayMiss):
        outcome = run(case, folder)
    return outcome, session.report()


def fresh(folder: Path) -> Path:
    made = folder / uuid.uuid4().hex
    made.mkdir()
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_sqlite_does_the_same_while_it_is_recorded(case: Any, tmp_path: Path) -> None:
    expected = run(case, fresh(tmp_path))
    outcome, fixture = recorded(case, fresh(tmp_path))
    assert outcome == expected
    if case.__name__ in NOT_REPLAYED:
        return
    again, report = replayed(case, fresh(tmp_path), fixture)
    assert (plain(again), report.divergences) == (plain(expected), ())


# -- drawn cases --------------------------------------------------------------------------------------------------------------

STATEMENTS = (
    "SELECT n, s FROM t ORDER BY n",
    "SELECT s FROM t ORDER BY n DESC",
    "SELECT n FROM t WHERE n > 3",
    "INSERT INTO t(s) VALUES ('new')",
    "INSERT INTO t(s) VALUES ('a'), ('b') RETURNING n",
    "INSERT INTO t VALUES (1, 'refused')",
    "UPDATE t SET s = s || '!' WHERE n % 2",
    "DELETE FROM t WHERE n = (SELECT max(n) FROM t)",
    "SELECT abs(CASE n WHEN 3 THEN -9223372036854775808 ELSE n END) FROM t ORDER BY n",
)
CURSORS = st.integers(0, 2)
ACTS = st.one_of(
    st.tuples(st.just("execute"), CURSORS, st.sampled_from(STATEMENTS)),
    st.tuples(
        st.sampled_from(("fetchone", "next", "fetchmany", "fetchone", "fetchall", "close", "new", "state")), CURSORS, st.none()
    ),
    st.tuples(st.just("fetchmany"), CURSORS, st.integers(1, 3)),
    st.tuples(st.just("arraysize"), CURSORS, st.integers(1, 3)),
    st.tuples(st.just("row_factory"), CURSORS, st.sampled_from((None, sqlite3.Row, as_dict))),
    st.tuples(st.sampled_from(("commit", "rollback")), st.none(), st.none()),
)


def act(db: sqlite3.Connection, cursors: list[sqlite3.Cursor], name: str, which: Any, given: Any) -> Any:
    if which is None:
        return getattr(db, name)()
    cursor = cursors[which]
    if name in ("arraysize", "row_factory"):
        return setattr(cursor, name, given)
    if name == "new":
        cursors[which] = db.cursor()
    if name == "next":
        return next(cursor, "end")
    if name == "execute":
        return cursor.execute(given) is cursor
    if name in ("new", "state"):
        return [cursor.description, cursor.rowcount, cursor.lastrowid, cursor.arraysize]
    return getattr(cursor, name)(*(() if given is None else (given,)))


@given(acts=st.lists(ACTS, max_size=25))
@settings(max_examples=examples(40), deadline=None)
def test_whatever_a_program_does_with_its_cursors_is_the_same_while_it_is_recorded(
    acts: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def case(db: sqlite3.Connection, _: Path) -> list[Any]:
        cursors = [db.cursor() for _ in range(3)]
        return [tried(lambda given=given: act(db, cursors, *given)) for given in acts]

    folder = tmp_path_factory.mktemp("drawn")
    expected = run(case, fresh(folder))
    outcome, fixture = recorded(case, fresh(folder))
    assert outcome == expected
    again, report = replayed(case, fresh(folder), fixture)
    known = [divergence for divergence in report.divergences if divergence.kind is not DivergenceKind.OUTCOME_CHANGED]
    assert not known, (again, expected)


def test_a_replay_names_rows_that_the_run_did_not_take(tmp_path: Path) -> None:
    taking = [2]

    def case(db: sqlite3.Connection, _: Path) -> list[Any]:
        return db.execute("SELECT n FROM t ORDER BY n").fetchmany(taking[0])

    _, fixture = recorded(case, fresh(tmp_path))
    asked = next(step.exchange for step in fixture.steps if step.exchange.kind is Kind.DATABASE)
    assert json.loads(asked.response.body)["whole"] is False
    assert verdict(replayed(case, fresh(tmp_path), fixture)[1]) is Verdict.IDENTICAL
    taking[0] = 3
    outcome, report = replayed(case, fresh(tmp_path), fixture)
    assert outcome is None
    assert report.divergences[0].kind is DivergenceKind.EXTRA_CALL
    assert report.divergences[0].name == "sqlite SELECT: rows after the 2 that the run took"
