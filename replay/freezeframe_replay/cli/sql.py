"""`freezeframe sql QUERY`: a read-only query to the store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from freezeframe_replay.cli.command import Command, option, repeatable
from freezeframe_replay.cli.options import STORE, place_of, print_json
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.operations.sql import SQL, SqlParameters
from freezeframe_replay.report.answered_rows import csv_text, rows_text
from freezeframe_schemas.errors import ConfigError

COMMAND: Final = Command(
    description="`-` reads the query from stdin. `{name:Type}` in the query is a parameter.",
    examples={
        'freezeframe sql "SELECT count() FROM spans"': "a table on the terminal",
        "freezeframe sql - --format csv < query.sql": "a query from a file, as CSV",
        'freezeframe sql "SELECT * FROM runs WHERE trace_id = {run:String}" -p run=4bf92f35': "with a parameter",
    },
    options=(
        option("query", metavar="QUERY", help="one SELECT statement, or - to read it from stdin"),
        option("--format", choices=["table", "json", "csv"], default="table", help="output format (default: table)"),
        repeatable("-p", "--parameter", metavar="NAME=VALUE", help="value of {NAME:Type} in the query (repeatable)"),
        option("--width", type=int, default=80, metavar="N", help="cut a table's cells at N characters (default: 80)"),
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Ask and print the rows."""
    query = sys.stdin.read() if arguments.query == "-" else arguments.query
    parameters = SqlParameters(query=query, values=_parameters(arguments.parameter))
    found = SQL.execute(RunSource(place_of(arguments)), parameters)
    columns, rows = found.columns, found.rows
    if arguments.format == "json":
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif arguments.format == "csv":
        print(csv_text(columns, rows), end="")
    else:
        print(rows_text(columns, rows, arguments.width))
    return 0


def _parameters(given: Sequence[str]) -> dict[str, str]:
    faults = [text for text in given if "=" not in text]
    if faults:
        raise ConfigError(f"--parameter: found {faults[0]!r}, expected NAME=VALUE")
    return {name: value for name, _, value in (text.partition("=") for text in given)}
