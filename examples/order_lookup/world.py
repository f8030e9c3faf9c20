"""The outside world of the order-lookup agent: a shop's order database and its pricing API.

The world is a directory, so that every process sees the same one: `orders.sqlite` (orders, and which state
the world is in), `support.log`, and `calls.log` (one line per call that reached the world, which is how a
test proves that a replay touched nothing). `pricing_api.py` serves the prices over HTTP.

    python world.py WORLD set 3pm       # nothing has shipped yet, and the pricing API is over its limit
    python world.py WORLD set healed    # an hour later: Maria's order has shipped, the pricing API is fine
    python world.py WORLD calls         # how often each part of the world was called, as JSON
"""

import argparse
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Literal, cast, get_args

State = Literal["3pm", "healed"]

# order_id, customer_name, email, item, sku, placed_on, status, tracking
_ORDERS = [
    ("A-1042", "Maria Keller", "maria.keller@northbay-mail.com", "steel kettle", "KT-20", "2026-11-16"),
    ("A-1038", "Thomas Keller", "t.keller@brightpost.net", "reading lamp", "LP-07", "2026-11-14"),
    ("A-1057", "Judith Keller", "judith.keller@fernmail.org", "pruning saw", "PS-11", "2026-11-19"),
    ("A-1049", "Omar Haddad", "omar@haddad-studio.com", "oak stool", "ST-02", "2026-11-18"),
]
_PRICES = {"KT-20": "39.90", "LP-07": "54.00", "PS-11": "27.50", "ST-02": "89.00"}


def set_state(directory: Path, state: State) -> None:
    """Put the world into a state; at 3 PM no order has shipped, once healed Maria Keller's has."""
    directory.mkdir(parents=True, exist_ok=True)
    shipped = {"A-1042": "NB-KQ7X-D2"} if state == "healed" else {}
    with closing(_open(directory)) as database, database:
        database.executescript(
            "DROP TABLE IF EXISTS orders; DROP TABLE IF EXISTS world;"
            "CREATE TABLE orders (order_id, customer_name, email, item, sku, placed_on, status, tracking);"
            "CREATE TABLE world (state);"
        )
        database.execute("INSERT INTO world VALUES (?)", (state,))
        database.executemany(
            "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(*order, "shipped" if order[0] in shipped else "being packed", shipped.get(order[0])) for order in _ORDERS],
        )


def get_state(directory: Path) -> State:
    """Return the state that the world is in."""
    with closing(_open(directory)) as database:
        (state,) = database.execute("SELECT state FROM world").fetchone()
    return cast("State", state)


def find_orders(directory: Path, *, name: str, email: str) -> list[dict[str, object]]:
    """Return the orders that the customer may mean.

    A shipped order is indexed by e-mail and found exactly. Until the warehouse has scanned it, an order is
    only in the intake queue, which knows only the last name.

    **Shape**: `[{"order_id", "customer_name", "email", "item", "sku", "placed_on", "status", "tracking"}]`.
    """
    _count(directory, "find_orders")
    with closing(_open(directory)) as database:
        database.row_factory = sqlite3.Row
        rows = (
            database.execute("SELECT * FROM orders WHERE status = 'shipped' AND email = ?", (email,)).fetchall()
            or database.execute(
                "SELECT * FROM orders WHERE status != 'shipped' AND customer_name LIKE ? ORDER BY order_id",
                (f"% {name.split()[-1]}",),
            ).fetchall()
        )
    return [dict(row) for row in rows]


def file_note(directory: Path, *, note: str) -> int:
    """Write a note into the support log and return its number: a side effect that must not happen twice."""
    _count(directory, "file_note")
    with (directory / "support.log").open("a", encoding="utf-8") as log:
        log.write(note.replace("\n", " ") + "\n")
    return len((directory / "support.log").read_text(encoding="utf-8").splitlines())


def calls(directory: Path) -> dict[str, int]:
    """Return how often each part of the world was called."""
    log = directory / "calls.log"
    return dict(sorted(Counter(log.read_text(encoding="utf-8").split("\n")[:-1]).items())) if log.exists() else {}


def price_of(directory: Path, sku: str) -> str | None:
    """Return the price in EUR of an article, None if the shop does not sell it."""
    _count(directory, "pricing_api")
    return _PRICES.get(sku)


def _open(directory: Path) -> sqlite3.Connection:
    return sqlite3.connect(directory / "orders.sqlite")


def _count(directory: Path, what: str) -> None:
    with (directory / "calls.log").open("a", encoding="utf-8") as log:
        log.write(what + "\n")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="The shop behind the order-lookup agent.")
    parser.add_argument("directory", type=Path, help="where the world is kept")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("set", help="put the world into a state").add_argument("state", choices=get_args(State))
    commands.add_parser("calls", help="print how often each part was called, as JSON")
    options = parser.parse_args()
    if options.command == "set":
        set_state(options.directory, options.state)
    else:
        print(json.dumps(calls(options.directory)))


if __name__ == "__main__":
    main()
