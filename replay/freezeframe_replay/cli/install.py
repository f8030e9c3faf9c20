"""`freezeframe mcp install`: write the text that tells a coding agent how to debug with freezeframe."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from freezeframe_replay.cli.command import Command, flag
from freezeframe_replay.cli.options import JSON, print_json
from freezeframe_replay.mcp.skill import PATH, skill_text
from freezeframe_schemas.errors import ConfigError

COMMAND: Final = Command(
    description="Reproduce, fix, prove, lock in: which tool of `freezeframe mcp`, or which command, to use, and when.",
    examples={
        "freezeframe mcp install": "for Claude Code, in this project",
        "freezeframe mcp install --print": "read it",
        "freezeframe mcp install --print --plain": "without front matter, for AGENTS.md: add >> AGENTS.md",
    },
    options=(
        flag("--print", f"print it instead of writing {PATH}"),
        flag("--plain", "leave out the front matter that Claude Code reads"),
        flag("--force", "overwrite a file that differs"),
        JSON,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the text, or write it."""
    text = skill_text(head=not arguments.plain)
    path = Path(PATH)
    if not arguments.print:
        _write(path, text, force=arguments.force)
    if arguments.json:
        print_json({"skill": text, "path": None if arguments.print else str(path)})
    elif not arguments.print:
        print(f"wrote {path}\nnext: claude mcp add freezeframe -- freezeframe mcp")
    else:
        print(text, end="")
    return 0


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        if path.exists() and path.read_text(encoding="utf-8") != text and not force:
            raise ConfigError(f"{path}: exists and differs from what would be written", do="overwrite it with --force")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise ConfigError(f"{path}: cannot be written: {why}") from error
