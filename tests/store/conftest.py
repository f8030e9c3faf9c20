"""One embedded store for all tests of this folder: chDB opens one directory per process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serving import serving

from freezeframe_collector.store import Store, open_store

if TYPE_CHECKING:
    from browsed_pages import Pages


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An embedded store, migrated."""
    path: Path = tmp_path_factory.mktemp("store")
    opened = open_store(f"chdb://{path}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def emptied(store: Store) -> Callable[[str], Store]:
    """Return a function that gives a further database of the engine, by name and without rows.

    Each is migrated once, which takes most of a second. A test that changes a table, a price or a migration makes its own.
    """
    migrated: set[str] = set()

    def give(database: str) -> Store:
        found = Store(store.engine, database=database)
        if database not in migrated:
            found.migrate()
            migrated.add(database)
        _, tables = store.query(
            "SELECT name FROM system.tables WHERE database = {db:String} AND endsWith(engine, 'MergeTree')"
            " AND name NOT IN ('prices', 'schema_migrations')",
            {"db": database},
        )
        for (table,) in tables:
            store.engine.command(f"TRUNCATE TABLE {database}.{table}")
        return found

    return give


@pytest.fixture
def own(emptied: Callable[[str], Store]) -> Store:
    """A database of the test's own, without rows."""
    return emptied("own")


@pytest.fixture(scope="session")
def admin_token() -> str:
    """The token that the facade's user `admin` has as password."""
    return "a-token-of-the-tests"


@pytest.fixture(scope="session")
def facade_url(store: Store, admin_token: str) -> Iterator[str]:
    """The URL of a facade over the store, served from a thread on an ephemeral port; it answers in this process."""
    with serving(store, admin_token=admin_token, here=True) as url:
        yield url


@pytest.fixture(scope="session")
def reader_url(store: Store, admin_token: str) -> Iterator[str]:
    """The URL of a facade over the store whose statements have a process each, as in a collector."""
    with serving(store, admin_token=admin_token) as url:
        yield url


@pytest.fixture(scope="module")
def pages(store: Store, facade_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """The pages over that store, in a browser."""
    from browsed_pages import browsed_pages

    with browsed_pages(store, facade_url, tmp_path_factory) as opened:
        yield opened
