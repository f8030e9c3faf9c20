"""`freezeframe open [RUN]`: the page of a run, or the list of runs, in the browser."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from collections.abc import Mapping
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import DATA, home_of
from freezeframe_replay.local.collector import store_url
from freezeframe_replay.local.daemon import page_link
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.errors import ConfigError

COMMAND: Final = Command(
    description="On a terminal of a machine with a browser it opens there. Elsewhere the address is printed: a link that opens "
    "the pages once, within ten minutes.",
    examples={
        "freezeframe open": "the list of runs",
        "freezeframe open last-failed": "the page of a run",
        "freezeframe open 4bf92f35 --print": "only print the link, for a browser elsewhere",
    },
    options=(
        option("run", nargs="?", metavar="RUN", help="id of a run, its first digits, `last` or `last-failed`"),
        flag("--print", "print the link and open nothing"),
        DATA,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Open the page, or print its link."""
    home = home_of(arguments)
    run = arguments.run and open_runs(store_url(home)).find(arguments.run)
    link = page_link(home, run or "")
    if link is None:
        raise ConfigError(f"no replay service runs for {home.directory}", do="start it with `freezeframe up`")
    opens = sys.stdout.isatty() and not arguments.print and has_browser(os.environ, sys.platform)
    if opens and webbrowser.open(link):
        print(f"opened {link.partition('/enter')[0]}/{f'runs/{run}' if run else ''}")
    else:
        print(link)
    return 0


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser would open a window: one in the terminal does not count."""
    return platform in ("darwin", "win32") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))
