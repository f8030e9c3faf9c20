"""Each wall around a reader holds with the others taken away, over every function that the engine has.

The kernel says what crosses a wall: a file outside that was opened or created, a server that was connected to.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import reader_attacks as attacks
from reader_attack_grid import PATIENT, Attack, Outside, everything, of_functions, of_tables

from freezeframe_collector.readers.sandbox import why_no_sandbox
from freezeframe_collector.store import Store
from freezeframe_collector.store.embedded import EmbeddedEngine

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked by inotify"),
]

PROBE = Path(__file__).parents[1] / "support" / "wall_probe.py"
needs_a_sandbox = pytest.mark.skipif(why_no_sandbox() is not None, reason=str(why_no_sandbox()))


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
