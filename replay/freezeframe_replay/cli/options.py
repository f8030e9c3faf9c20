"""Options and values that several commands share, each declared once."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

from freezeframe_replay.local.home import STORE_VARIABLE, Home, find_home
from freezeframe_replay.local.target import Place
from freezeframe_replay.report.render import WIDTH
from freezeframe_replay.sources.ages import age_s
from freezeframe_schemas.data_directory import VARIABLE
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Kind

TARGET_HELP = (
    "id of a run, its first digits, `last`, `last-failed`, a fixture's directory, .tar.gz or .ffz, or a file of spans "
    "(FILE or FILE:ID)"
)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare --data."""
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help=f"data directory (default: ${VARIABLE}, else the nearest .freezeframe in a parent directory, else ./.freezeframe)",
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Declare --data and --store: where runs are read."""
    add_data(parser)
    parser.add_argument(
        "--store",
        metavar="URL",
        help=f"read another store, clickhouse://user:password@host:8123/database (default: ${STORE_VARIABLE}, else the running "
        "collector's), another backend, phoenix+http://host:6006, or a directory of OTLP files (docs/other-backends.md)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare --json."""
    parser.add_argument("--json", action="store_true", help="write JSON, for scripts")


def add_ignore(parser: argparse.ArgumentParser) -> None:
    """Declare --ignore."""
    help_text = "part of the requests to ignore, for example body.temperature (repeatable)"
    parser.add_argument("--ignore", action="append", default=[], metavar="COMPONENT", help=help_text)


def add_live(parser: argparse.ArgumentParser) -> None:
    """Declare --live."""
    kinds = [kind.value for kind in Kind if kind not in (Kind.TOOL, Kind.DATABASE)]
    help_text = "make calls of this kind for real if the recording holds no answer (repeatable)"
    parser.add_argument("--live", action="append", default=[], choices=kinds, help=help_text)


def add_timeout(parser: argparse.ArgumentParser, *, of: str) -> None:
    """Declare --timeout."""
    help_text = f"time limit of {of}, in seconds (default: 600)"
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help=help_text)


def add_require_values(parser: argparse.ArgumentParser) -> None:
    """Declare --require-values."""
    parser.add_argument(
        "--require-values",
        action="store_true",
        help="report incomparable (125) unless all of the program's own private values are compared (needs the "
        "recording's key)",
    )


def place_of(arguments: argparse.Namespace) -> Place:
    """Return the source of runs that --data and --store name."""
    return Place(data=arguments.data, store=arguments.store)


def home_of(arguments: argparse.Namespace) -> Home:
    """Return the data directory that the command line, the environment or the working directory names."""
    return find_home(arguments.data)


def seconds(text: str) -> float:
    """Read ``90s``, ``15m``, ``1h``, ``7d``, ``2w``."""
    try:
        return age_s(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def port(text: str) -> int:
    """Read a port; 0 picks a free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a port from 0 to 65535 (0: any free one)")
    return int(text)


def positive(text: str) -> int:
    """Read a whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number above 0")
    return int(text)


def text_or_file(given: str, option: str) -> str:
    """Return the value of an option that may be a text or, as ``@FILE``, the text of a file.

    Raises:
        ConfigError: the file cannot be read.
    """
    if not given.startswith("@"):
        return given
    path = Path(given[1:])
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise ConfigError(f"{option}: {path}: cannot be read: {why}") from error


def terminal_width() -> int:
    """Return the columns of the terminal, or of ``$COLUMNS``; if there is none, a usual page's width."""
    return max(shutil.get_terminal_size((WIDTH, 24)).columns, 60)


def print_json(value: Any) -> None:
    """Print a value as JSON, one document."""
    print(json_text(value))


def json_text(value: Any) -> str:
    """Return a value as JSON for people and programs."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=json_form)


def json_form(value: object) -> str:
    """Return the form of a store's value that JSON cannot hold: times in ISO 8601, those without a zone as UTC."""
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    return str(value)
