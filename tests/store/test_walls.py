"""Each wall around a reader holds with the others taken away, over every function that the engine has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import reader_attacks as attacks

from freezeframe_collector.readers.sandbox import why_no_sandbox
from freezeframe_collector.store import Store
from freezeframe_collector.store.embedded import EmbeddedEngine

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]  # some seven thousand statements a wall

PROBE = Path(__file__).parents[1] / "support" / "wall_probe.py"
FORMS = (
    "SELECT {f}('{path}')",
    "SELECT arrayMap({f}, ['{path}'])",
    "SELECT arrayMap(x -> {f}(x), ['{path}'])",
    "SELECT * APPLY({f}) FROM (SELECT '{path}' AS a)",
    "WITH {f}('{path}') AS a SELECT a",
)
"""A function called, passed by name, in a lambda, applied to columns, and in WITH."""

needs_a_sandbox = pytest.mark.skipif(why_no_sandbox() is not None, reason=str(why_no_sandbox()))


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.csv").write_text(attacks.SECRET)
    return folder / "secret.csv"


@pytest.fixture(autouse=True)
def unchanged(store: Store, outside: Path) -> Iterator[None]:
    """Whatever a reader tries, the tables and the files outside stay as they were."""

    def state() -> object:
        tables = store.query("SELECT name FROM system.tables WHERE database = 'freezeframe' ORDER BY name")
        files = {file.name: file.read_bytes() for file in outside.parent.iterdir()}
        return tables, store.query("SELECT count() FROM freezeframe.span_rows"), files

    before = state()
    yield
    assert state() == before


def listed(path: Path) -> list[str]:
    """Return the listed attacks with the secret's path in them."""
    bridges = ("jdbc(", "odbc(")  # without the guard the engine looks for a helper on loopback for half a minute
    reading = [sql.format(path=path) for sql in (*attacks.READS_OUTSIDE, *attacks.HIDDEN) if not any(b in sql for b in bridges)]
    return [*attacks.WRITES, *reading, *attacks.OTHERS]


def generated(store: Store, path: Path) -> list[str]:
    """Return every function of the engine in every form."""
    _, rows = store.query("SELECT name FROM system.functions WHERE name NOT ILIKE 'sleep%' ORDER BY name")
    return [form.format(f=f"`{row[0]}`", path=path) for row in rows for form in FORMS]


def probe(store: Store, wall: str, statements: list[str], path: Path) -> list[tuple[str, str]]:
    """Run the statements with one wall standing; return what became of each."""
    assert isinstance(store.engine, EmbeddedEngine)
    walls = {name: name == wall for name in ("sandbox", "grants", "guard")}
    parameters = {"p": str(path), "t": f"default.{path}"}
    done = subprocess.run(
        [sys.executable, str(PROBE), json.dumps({"writer": str(store.engine.directory / "clickhouse"), "walls": walls})],
        input=json.dumps([{"sql": sql, "parameters": parameters} for sql in statements]),
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [(kind, text) for kind, text in json.loads(done.stdout)]
    assert len(answers) == len(statements)
    return answers


def leaks(statements: list[str], answers: list[tuple[str, str]]) -> list[str]:
    return [sql for sql, (_, text) in zip(statements, answers, strict=True) if attacks.SECRET in text]


@needs_a_sandbox
def test_the_kernel_alone_keeps_every_file_from_a_reader(store: Store, outside: Path) -> None:
    statements = [*listed(outside), *generated(store, outside)]
    assert leaks(statements, probe(store, "sandbox", statements, outside)) == []


def test_the_guard_alone_keeps_every_file_from_a_reader(store: Store, outside: Path) -> None:
    statements = [*listed(outside), *generated(store, outside)]
    assert leaks(statements, probe(store, "guard", statements, outside)) == []


def test_the_guard_alone_refuses_every_listed_attack(store: Store, outside: Path) -> None:
    statements = listed(outside)
    answers = probe(store, "guard", statements, outside)
    assert [sql for sql, (kind, _) in zip(statements, answers, strict=True) if kind == "done"] == []


def test_the_grants_alone_keep_a_reader_from_writing_and_from_other_hosts(store: Store, outside: Path) -> None:
    """They cannot keep it from the function `file`: the engine knows no grant for that one."""
    network = [sql for sql in attacks.READS_OUTSIDE if "127.0.0.1" in sql or "executable" in sql]
    writing = [sql for sql in attacks.WRITES if not sql.startswith(("SYSTEM STOP MERGES", "KILL QUERY"))]  # in itself only
    statements = [*writing, *network]
    answers = probe(store, "grants", statements, outside)
    assert [sql for sql, (kind, _) in zip(statements, answers, strict=True) if kind == "done"] == []


def test_a_probe_without_walls_reads_the_file(store: Store, outside: Path) -> None:
    """What the other tests look for is there to be found."""
    statements = [f"SELECT arrayMap(file, ['{outside}'])"]
    assert leaks(statements, probe(store, "none", statements, outside)) == statements
