"""psycopg and redis-py do the same while they are recorded as without us, and so they do in a replay without the server.

Drawn sequences of calls, each asked of the real server plainly, then recorded, then replayed. sqlite3's are in
`test_sqlite_as_plain`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from typing import Any

import psycopg
import pytest
import redis
from answered_here import answering
from database_servers import postgres_server, redis_server
from effort import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row, scalar_row, tuple_row

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long

Case = Callable[[], list[Any]]


@freezeframe.tool
def called(what: str) -> str:
    """Make the run a run."""
    return what


def told(act: Callable[[], Any]) -> Any:
    """Return what an act gives, or the error that it raises."""
    try:
        return act()
    except Exception as error:
        if isinstance(error, ReplayMiss):
            raise
        return f"{type(error).__module__}.{type(error).__name__}: {error}"


def same(prepare: Callable[[], None], case: Case) -> None:
    """Run a case plainly, recorded and replayed, and compare what it gives."""

    def agent() -> list[Any]:
        called("begin")
        return case()

    marked = freezeframe.run(agent)
    prepare()
    expected = marked()
    prepare()
    with capture(record_databases=True) as captured:
        outcome = marked()
        fixture = freeze(build_run(captured.spans))
    assert outcome == expected
    session = ReplaySession(fixture)
    again: Any = None
    with answering(session, databases="in runs"), contextlib.suppress(ReplayMiss):
        again = marked()
    assert (again, session.report().divergences) == (expected, ())


# -- psycopg ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Generator[str]:
    with postgres_server() as where:
        yield where


STATEMENTS = (
    ("SELECT n, s FROM t ORDER BY n", None),
    ("SELECT s, n::numeric / 3 AS third, ARRAY[n, NULL], NULL FROM t WHERE n > %s ORDER BY n", (2,)),
    ("SELECT s AS a, s AS a FROM t WHERE false", None),
    ("INSERT INTO t(s) VALUES (%(s)s) RETURNING n, s", {"s": "new"}),
    ("INSERT INTO t VALUES (1, 'refused')", None),
    ("UPDATE t SET s = s || '!' WHERE n %% 2 = %s", (1,)),
    ("DELETE FROM t WHERE n = (SELECT max(n) FROM t)", None),
    ("SELECT 1 / (n - 3) FROM t ORDER BY n", None),
    ("SELECT 1 AS one; SELECT 2 AS two, 3 AS three", None),
    ("SELECT %s, %s", (1,)),
    ("SELEC", None),
    ("SET LOCAL statement_timeout = 9999", None),
    ("SAVEPOINT a", None),
    ("ROLLBACK TO a", None),
    ("BEGIN", None),
    ("COMMIT", None),
    ("SELECT now() - now(), '2026-01-02 03:04:05+00'::timestamptz, '\\xff00'::bytea, '{\"a\": [1]}'::jsonb, true", None),
)
CURSORS = st.integers(0, 1)
ROWS = {"tuple": tuple_row, "dict": dict_row, "scalar": scalar_row}
ACTS = st.one_of(
    st.tuples(st.just("execute"), CURSORS, st.sampled_from(STATEMENTS)),
    st.tuples(st.just("binary"), CURSORS, st.sampled_from(STATEMENTS[:4])),
    st.tuples(st.just("executemany"), CURSORS, st.sampled_from(([("a",), ("b",)], []))),
    st.tuples(
        st.sampled_from(("fetchone", "fetchone", "fetchall", "list", "state", "nextset", "close", "new")), CURSORS, st.none()
    ),
    st.tuples(st.sampled_from(("fetchmany", "scroll")), CURSORS, st.integers(0, 3)),
    st.tuples(st.just("rows"), CURSORS, st.sampled_from(sorted(ROWS))),
    st.tuples(st.sampled_from(("commit", "rollback", "status")), st.none(), st.none()),
)


def act(db: psycopg.Connection[Any], cursors: list[psycopg.Cursor[Any]], name: str, which: Any, given: Any) -> Any:
    if which is None:
        return db.info.transaction_status.name if name == "status" else getattr(db, name)()
    cursor = cursors[which]
    if name in ("execute", "binary"):
        return cursor.execute(*given, binary=name == "binary") is cursor
    if name == "executemany":
        return [cursor.executemany("INSERT INTO t(s) VALUES (%s)", given), cursor.rowcount]
    if name == "rows":
        cursor.row_factory = ROWS[given]
        return None
    if name == "new":
        cursors[which] = db.cursor()
        return None
    if name == "list":
        return list(cursor)
    if name == "state":
        columns = [(column.name, column.type_code) for column in cursor.description or ()]
        return [columns, cursor.rowcount, cursor.rownumber, cursor.statusmessage, cursor.closed, cursor.pgresult is None]
    return getattr(cursor, name)(*(() if given is None else (given,)))


@given(acts=st.lists(ACTS, max_size=20))
@example(acts=[("execute", 0, STATEMENTS[0]), ("executemany", 0, [("a",)]), ("fetchone", 0, None), ("status", None, None)])
@example(acts=[("executemany", 0, [("a",), ("b",)]), ("state", 0, None)])
@example(acts=[("execute", 0, STATEMENTS[11]), ("execute", 0, STATEMENTS[0]), ("fetchone", 0, None)])
@example(acts=[("execute", 0, STATEMENTS[4]), ("status", None, None), ("execute", 0, STATEMENTS[0]), ("commit", None, None)])
@example(acts=[("execute", 0, ("INSERT INTO t VALUES (1, 'refused')", None)), ("execute", 0, ("BEGIN", None))])
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_program_does_with_psycopg_is_the_same_while_it_is_recorded(acts: list[Any], postgres: str) -> None:
    def prepare() -> None:
        with psycopg.connect(postgres) as db:
            db.execute("DROP TABLE IF EXISTS t; CREATE TABLE t(n serial PRIMARY KEY, s text)")
            db.execute("INSERT INTO t(s) SELECT 's' || i FROM generate_series(1, 5) AS i")

    def case() -> list[Any]:
        with psycopg.connect(postgres) as db:
            cursors = [db.cursor() for _ in range(2)]
            return [told(lambda given=given: act(db, cursors, *given)) for given in acts]

    same(prepare, case)


# -- redis ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redis_port() -> Generator[int]:
    with redis_server() as port:
        yield int(port)


COMMANDS = (
    ("get", "text"), ("get", "list"), ("get", "none"), ("set", "text", "new"), ("incr", "count"), ("incr", "text"),
    ("rpush", "list", "x", "y"), ("lpop", "list"), ("lrange", "list", 0, -1), ("hset", "map", "k", "v"), ("hgetall", "map"),
    ("hget", "text", "k"), ("zadd", "scores", {"a": 1.5, "b": 2}), ("zrange", "scores", 0, -1, False, True),
    ("mget", ["text", "none", "count"]), ("exists", "text", "none"), ("delete", "list", "none"), ("type", "map"),
    ("ttl", "text"), ("setex", "gone", 1000, "v"), ("set", "text", "v", None, None, True), ("scan", 0, "t*"), ("ping",),
    ("execute_command", "NONSENSE"), ("getrange", "text", 0, 1), ("sadd", "set", "m"), ("smembers", "set"),
)  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("one"), st.sampled_from(COMMANDS)),
    st.tuples(
        st.sampled_from(("pipeline", "transaction", "lenient")), st.lists(st.sampled_from(COMMANDS), min_size=0, max_size=4)
    ),
    st.tuples(st.just("watched"), st.sampled_from(COMMANDS)),
)


def step(client: redis.Redis, name: str, given: Any) -> Any:
    if name == "one":
        return getattr(client, given[0])(*given[1:])
    with client.pipeline(transaction=name != "pipeline") as pipeline:
        if name == "watched":
            pipeline.watch("count")
            before = pipeline.get("count")
            pipeline.multi()
            getattr(pipeline, given[0])(*given[1:])
            return [before, pipeline.execute()]
        for command, *arguments in given:
            getattr(pipeline, command)(*arguments)
        found: list[Any] = pipeline.execute(raise_on_error=name != "lenient")
        return [f"{type(one).__name__}: {one}" if isinstance(one, Exception) else one for one in found]


@given(steps=st.lists(STEPS, max_size=12), decodes=st.booleans())
@example(steps=[("one", ("getrange", "text", 0, 1))], decodes=True)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_program_does_with_redis_is_the_same_while_it_is_recorded(
    steps: list[Any], decodes: bool, redis_port: int
) -> None:
    def prepare() -> None:
        with redis.Redis(port=redis_port) as client:
            client.flushall()
            client.mset({"text": "t\xff", "count": 7})
            client.rpush("list", "a", "b")

    def case() -> list[Any]:
        with redis.Redis(port=redis_port, decode_responses=decodes) as client:
            return [told(lambda given=given: step(client, *given)) for given in steps]

    same(prepare, case)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_database_that_cannot_be_reached_is_a_gap_though_databases_are_recorded(is_async: bool) -> None:
    """In a replay the connection succeeds."""
    unreachable = "host=127.0.0.1 port=1"

    @freezeframe.run
    def agent() -> None:
        called("begin")
        with contextlib.suppress(psycopg.Error):
            asyncio.run(psycopg.AsyncConnection.connect(unreachable)) if is_async else psycopg.connect(unreachable)

    with capture(record_databases=True) as captured:
        agent()
    (gap,) = (gap for gap in build_run(captured.spans).gaps if gap.kind is GapKind.CONNECTION)
    assert "cannot connect to the database postgresql, outside any tool" in gap.text
