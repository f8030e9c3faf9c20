"""`freezeframe run setup AGENT`: settings that make a coding agent send its telemetry to the collector."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import DATA, JSON, home_of, print_json
from freezeframe_replay.local.agent_settings import AGENTS, Agent, Receiver
from freezeframe_replay.local.collector import read_ports
from freezeframe_replay.local.daemon import Ports
from freezeframe_replay.local.home import Home
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.local_tokens import SENDER, read_token
from freezeframe_schemas.whole_file import replace_file

COMMAND: Final = Command(
    description="Claude Code, Codex CLI and Gemini CLI then send what they do, each session as a run "
    "(docs/guides/coding-agents.md). --write also writes the collector's token into their file, which only you can "
    "read from then on.",
    examples={
        "freezeframe run setup claude-code": "the lines for your shell",
        "freezeframe run setup codex": "the lines for ~/.codex/config.toml",
        "freezeframe run setup gemini --write": "write them to ~/.gemini/.env",
    },
    options=(
        option("agent", choices=sorted(AGENTS), help="the program"),
        flag("--write", "put the settings into the program's own file, after a backup"),
        flag("--force", "with --write: overwrite settings for another receiver"),
        JSON,
        DATA,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the settings, or write them."""
    agent, receiver = AGENTS[arguments.agent], _receiver(home_of(arguments))
    path = agent.path(Path.home(), os.environ)
    changed, backup = _write(agent, path, receiver, force=arguments.force) if arguments.write else (False, None)
    if arguments.json:
        made = {"file": str(path), "changed": changed, "backup": None if backup is None else str(backup)}
        print_json({"agent": arguments.agent, "lines": agent.lines(receiver), **made})
    elif not arguments.write:
        print("\n".join(agent.lines(receiver)))
    elif not changed:
        print(f"{path}: nothing to change")
    else:
        print(f"wrote {path}" + ("" if backup is None else f"; the previous file is {backup}"))
    return 0


def _receiver(home: Home) -> Receiver:
    token = read_token(home.directory, SENDER)
    if token is None:
        raise ConfigError(f"{home.directory}: no collector was started for it", do="start one: `freezeframe up`")
    ports, usual = read_ports(home), Ports()
    if not ports:
        print(
            f"freezeframe run setup: warning: the collector of {home.directory} is not running: these are the usual ports",
            file=sys.stderr,
        )
    return Receiver(
        grpc=ports.get("grpc", usual.grpc), http=ports.get("http", usual.http), token=token, token_file=home.directory / SENDER
    )


def _write(agent: Agent, path: Path, receiver: Receiver, *, force: bool) -> tuple[bool, Path | None]:
    """Put the settings into the file; return whether it changed, and the backup."""
    path = path.resolve()  # the file behind a symbolic link
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        text = agent.merged(before, receiver, force)
        if text == before:
            return False, None
        backup = _backed_up(path) if before else None
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, is_private=True)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", do=error.do) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise ConfigError(f"{path}: cannot be written: {why}") from error
    return True, backup


def _backed_up(path: Path) -> Path:
    backup = path.with_name(f"{path.name}.{dt.datetime.now():%Y%m%d-%H%M%S}.backup")
    replace_file(backup, path.read_text(encoding="utf-8"), is_private=True)
    return backup
