"""Options and values that several commands share, each declared once."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe_replay.cli.command import Declare, all_of, flag, option, repeatable
from freezeframe_replay.local.home import STORE_VARIABLE, Home, find_home
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.report.render import WIDTH
from freezeframe_replay.sources.ages import age_s
from freezeframe_replay.sources.store import json_form
from freezeframe_schemas.data_directory import KEYS, VARIABLE
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.exchange import Kind

if TYPE_CHECKING:
    from freezeframe_replay.engine.policy import ReplayPolicy
    from freezeframe_replay.process.reenact import Trial

TARGET_HELP = (
    "id of a run, its first digits, `last`, `last-failed`, a fixture's directory, .tar.gz or .ffz, or a file of spans "
    "(FILE or FILE:ID)"
)


RUN_OR_FIXTURE: Final = option("run", metavar="RUN_OR_FIXTURE", help=TARGET_HELP)
DATA: Final = option(
    "--data",
    type=Path,
    metavar="DIR",
    help=f"data directory (default: ${VARIABLE}, else the nearest .freezeframe in a parent directory, else ./.freezeframe)",
)
STORE: Final = all_of(
    DATA,
    option(
        "--store",
        metavar="URL",
        help=f"read another store, clickhouse://user:password@host:8123/database (default: ${STORE_VARIABLE}, else the running "
        "collector's), another backend, phoenix+http://host:6006, or a directory of OTLP files (docs/other-backends.md)",
    ),
)
"""The source of runs: --data and --store."""
JSON: Final = flag("--json", "write JSON, for scripts")
QUIET: Final = flag("--quiet", "print no progress")
IGNORE: Final = repeatable(
    "--ignore", metavar="COMPONENT", help="part of the requests to ignore, for example body.temperature (repeatable)"
)
LIVE: Final = repeatable(
    "--live",
    choices=[kind.value for kind in Kind if kind not in (Kind.TOOL, Kind.DATABASE, Kind.FILE)],
    help="make calls of this kind for real if the recording holds no answer (repeatable)",
)
REQUIRE_VALUES: Final = flag(
    "--require-values",
    "report incomparable (125) unless all of the program's own private values are compared (needs the recording's key)",
)


def timeout(*, of: str) -> Declare:
    return option("--timeout", type=limit, default=600.0, metavar="S", help=f"time limit of {of}, in seconds (default: 600)")


def new_directory(*, of: str) -> Declare:
    """Return --output, the directory that a command makes."""
    text = f"directory of the {of}, created if it does not exist"
    return option("-o", "--output", type=Path, required=True, metavar="DIR", help=text)


def place_of(arguments: argparse.Namespace) -> RunsPlace:
    """Return the source of runs given by --data and --store."""
    return RunsPlace(data=arguments.data, store=arguments.store)


def home_of(arguments: argparse.Namespace) -> Home:
    """Return the data directory that the command line, the environment or the working directory names."""
    return find_home(arguments.data)


def trial_of(arguments: argparse.Namespace, policy: ReplayPolicy) -> Trial:
    """Return the settings of the command line for re-enacting the runs of an experiment."""
    from freezeframe_replay.process.reenact import Trial  # commands that replay nothing start without it

    keys = find_home(getattr(arguments, "data", None)).directory / KEYS
    return Trial(policy=policy, command=tuple(arguments.program or ()), timeout_s=arguments.timeout, keys=keys)


def seconds(text: str) -> float:
    """Read ``90s``, ``15m``, ``1h``, ``7d``, ``2w``."""
    try:
        return age_s(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def limit(text: str) -> float:
    """Read a time limit in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of seconds above 0")
    return number


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


def whole(text: str) -> int:
    """Read a whole number that is not below zero."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number")
    return int(text)


def bound(text: str) -> float:
    """Read a number that is not below zero."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of 0 or more")
    return number


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
    """Return the columns of the terminal, or of ``$COLUMNS``; else the width of a usual page."""
    return max(shutil.get_terminal_size((WIDTH, 24)).columns, 60)


def print_json(value: Any) -> None:
    """Print a value as JSON, one document."""
    print(json_text(value))


def json_text(value: Any) -> str:
    """Return a value as JSON for people and programs."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=json_form)
