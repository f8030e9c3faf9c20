"""`freezeframe demo`: the story of a failing run, played on this machine with real parts.

The story is `examples/order_lookup` of the source tree, which a wheel contains next to this package. It uses
only the command line.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import freezeframe_replay
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command

COMMAND: Final = Command(
    description="A failing run is recorded, found in SQL, re-enacted offline and fixed. It needs git, and no API key.",
    examples={
        "freezeframe demo": "the whole story; its files are in .demo",
        "freezeframe demo --directory story": "its files elsewhere",
    },
    exit_codes={1: "a claim of the story is false, or a part is missing"},
    options=(
        option("--directory", metavar="DIR", default=".demo", help="where its files are kept; emptied first (default: .demo)"),
        flag("--real", "ask OpenAI and Anthropic, with the keys in the environment"),
    ),
)

_NEEDED: Final = ("openai", "anthropic", "pytest", "chdb", "time_machine", "jinja2")
"""Modules that only the extra `demo` installs together."""


def story() -> Path:
    """Return the folder of the story: in the package, or in the source tree that this copy runs from."""
    package = Path(freezeframe_replay.__file__).parent
    installed = package / "order_lookup"
    return installed if installed.is_dir() else package.parents[1] / "examples" / "order_lookup"


def execute(arguments: argparse.Namespace) -> int:
    """Become the story's program, so that signals and the exit code are its own."""
    absent = [name for name in _NEEDED if find_spec(name) is None]
    if absent:
        raise ConfigError(f"not installed: {', '.join(absent)}", do=install_command("demo"))
    if shutil.which("git") is None:
        raise ConfigError("git is not on the PATH: the agent of the story is a git project", do="install git")
    real = ["--real"] if arguments.real else []
    program = [sys.executable, str(story() / "demo.py"), "--directory", arguments.directory, *real]
    sys.stdout.flush()
    os.execv(program[0], program)  # noqa: S606 - our own file, without a shell
