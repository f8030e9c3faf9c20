"""`freezeframe mcp`: runs, replays and tests for a coding agent, as an MCP server."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.options import STORE, place_of, positive, timeout
from freezeframe_replay.local.target import RunsPlace
from freezeframe_replay.mcp.answers import MAX_TOKENS, MIN_TOKENS, USUAL_TOKENS
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.installing import install_command

COMMAND: Final = Command(
    description="A client starts this command and talks to it over standard input and output. For Claude Code, type "
    "once: claude mcp add freezeframe -- freezeframe mcp. Its tools find runs, say why they failed, replay them with "
    "the code of this folder, and write tests into it. They start nothing else: no tool takes a command.",
    examples={
        "freezeframe mcp": "what a client starts, in the folder of the agent's code",
        "freezeframe mcp --project ~/support-bot": "the code is elsewhere",
        "freezeframe mcp -- python agent.py": "replays start this program in place of the recorded entry point",
    },
    takes_program=True,
    options=(
        option("--project", type=Path, default=Path(), metavar="DIR", help="folder of the agent's code (default: this one)"),
        option(
            "--budget",
            type=positive,
            default=USUAL_TOKENS,
            metavar="N",
            help=f"approximate size of an answer in tokens, unless a call sets a budget (default: {USUAL_TOKENS})",
        ),
        timeout(of="a replayed program"),
        STORE,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Serve until the client closes our standard input."""
    if not MIN_TOKENS <= arguments.budget <= MAX_TOKENS:
        raise ConfigError(f"--budget {arguments.budget}: expected {MIN_TOKENS} to {MAX_TOKENS} tokens")
    place = place_of(arguments)
    if place.data is not None:
        place = RunsPlace(data=place.data.resolve(), store=place.store)
    try:
        os.chdir(arguments.project)
    except OSError as error:
        raise ConfigError(f"--project {arguments.project}: {error.strerror}") from error
    try:
        from freezeframe_replay.mcp.project import Project
        from freezeframe_replay.mcp.server import make_server
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed", do=install_command("mcp")) from error

    project = Project(place=place, program=tuple(arguments.program or ()), timeout_s=arguments.timeout, budget=arguments.budget)
    make_server(project).run("stdio")
    return 0
