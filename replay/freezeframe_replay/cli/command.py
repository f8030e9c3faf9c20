"""Command: what the command line knows about a command before its module is loaded, and the parser made from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final, Protocol, cast

PROGRAM: Final = "freezeframe"

DONE_OR_FAILED: Final[Mapping[int, str]] = {0: "done", 1: "failed, with the reason on stderr", 2: "wrong usage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A command line that can be copied, and what it does."""

    line: str
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. The module of its name here is imported when it is run: `configure(parser)` and `execute(arguments)`."""

    name: str
    summary: str
    """One line, for the list of commands."""
    description: str = ""
    """Further sentences for the command's own help."""
    examples: tuple[Example, ...]
    exit_codes: Mapping[int, str] = field(default_factory=lambda: DONE_OR_FAILED)
    takes_program: bool = False
    """Whether ``-- CMD ...`` may follow; it arrives as `arguments.program`."""
    delegates_to: str = ""
    """Another module, whose `main(argv)` reads the rest of the command line itself, by its `make_parser()`."""


class CommandModule(Protocol):
    """What a command's module offers."""

    configure: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]


def load(command: Command) -> CommandModule:
    """Import the command's module."""
    return cast(CommandModule, import_module(f"{__package__}.{command.name}"))


def make_parser(command: Command) -> argparse.ArgumentParser:
    """Return the parser of one command, with examples and exit codes in its help."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {command.name}",
        description=f"{command.summary} {command.description}".strip(),
        epilog=_epilog(command),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    load(command).configure(parser)
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
    widest = max(len(example.line) for example in command.examples)
    lines = ["examples:", *(f"  {example.line:<{widest}}  {example.means}" for example in command.examples)]
    lines += ["", "exit codes:", *(f"  {code:<4} {means}" for code, means in command.exit_codes.items())]
    return "\n".join(lines)
