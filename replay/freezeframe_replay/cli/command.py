"""Command: what a command's module declares, and the parser built from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final, Protocol, cast

from freezeframe_replay.cli.commands import SUMMARIES

PROGRAM: Final = "freezeframe"

_USUAL: Final[Mapping[int, str]] = {0: "done", 1: "failed, with the reason on stderr", 2: "wrong usage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command, without its name (the module's) and its summary (in `commands.GROUPS`)."""

    description: str = ""
    """More sentences for the command's help."""
    examples: Mapping[str, str]
    """Command lines that can be copied, each with what it does."""
    exit_codes: Mapping[int, str] = field(default_factory=dict[int, str])
    """The exit codes that differ from the usual meaning."""
    takes_program: bool = False
    """Whether ``-- CMD ...`` may follow; it arrives as `arguments.program`."""
    config_error: int = 1
    """The exit code of a `ConfigError`."""

    @property
    def codes(self) -> dict[int, str]:
        """Return every exit code, in order."""
        return dict(sorted({**_USUAL, **self.exit_codes}.items()))


class CommandModule(Protocol):
    """What a command's module provides."""

    COMMAND: Command
    configure: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]


def load(name: str) -> CommandModule:
    """Import the command's module."""
    return cast(CommandModule, import_module(f"{__package__}.{name}"))


def make_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command, with examples and exit codes in its help."""
    module = load(name)
    command = module.COMMAND
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}",
        description=f"{SUMMARIES[name]} {command.description}".strip(),
        epilog=_epilog(command),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    if command.takes_program:
        parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [-- CMD ...]"
    return parser


def split_program(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return the arguments before the first ``--`` and those after it (None if there is no ``--``)."""
    arguments = list(argv)
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


class _Formatter(argparse.HelpFormatter):
    """Wraps descriptions, and leaves the epilog (examples in columns) as it is written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


def _epilog(command: Command) -> str:
    widest = max(map(len, command.examples))
    lines = ["examples:", *(f"  {line:<{widest}}  {means}" for line, means in command.examples.items())]
    lines += ["", "exit codes:", *(f"  {code:<4} {means}" for code, means in command.codes.items())]
    return "\n".join(lines)
