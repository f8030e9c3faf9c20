"""sqlite3 does the same while it is recorded as without us, and a replay gives what the run took: cases by hand and drawn."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answered_here import answering
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlite_cases import CASES, NOT_REPLAYED, Case, as_dict, called, opened, plain, tried

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
