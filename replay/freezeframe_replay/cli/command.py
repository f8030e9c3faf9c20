"""Command: the declaration in a command's module, and the parser built from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol, cast

from freezeframe_replay.cli.commands import BELOW, SUMMARIES
from freezeframe_schemas.errors import ConfigError, FreezeframeError, ReplayError

PROGRAM: Final = "freezeframe"

_USUAL: Final[Mapping[int, str]] = {0: "done", 1: "failed, with the reason on stderr", 2: "wrong usage"}


Declare = Callable[[argparse._ActionsContainer], object]
"""Declares an argument or an option."""


def option(*names: str, **settings: Any) -> Declare:
    """Return an argument or an option, as argparse's `add_argument` takes it."""
    return lambda parser: parser.add_argument(*names, **settings)


def flag(name: str, text: str) -> Declare:
    """Return an option without a value."""
    return option(name, action="store_true", help=text)


def repeatable(*names: str, **settings: Any) -> Declare:
    """Return an option that may be given several times; its values are a list."""
    return option(*names, action="append", default=[], **settings)


def all_of(*options: Declare) -> Declare:
    """Return several options as one, for commands that share them."""
    return lambda parser: [declare(parser) for declare in options]


def one_of(*options: Declare) -> Declare:
    """Return options of which exactly one is given."""

    def declare(parser: argparse._ActionsContainer) -> None:
        group = parser.add_mutually_exclusive_group(required=True)
        for each in options:
            each(group)

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command, without its name and its summary, which are in `commands`."""

    description: str = ""
    """More sentences for the command's help."""
    examples: Mapping[str, str]
    """Command lines to copy, each with a description."""
    exit_codes: Mapping[int, str] = field(default_factory=dict[int, str])
    """Exit codes with another than the usual meaning."""
    options: Sequence[Declare] = ()
    """Its arguments and options, in the order of its help."""
    actions: Mapping[str, tuple[str, Sequence[Declare]]] = field(default_factory=dict[str, tuple[str, Sequence[Declare]]])
    """Name of an action -> its summary and options. If a command has actions, `options` apply to each."""
    takes_program: bool = False
    """True if ``-- CMD ...`` may follow; it arrives as `arguments.program`."""
    config_error: int = 1
    """The exit code of a `ConfigError`."""
    replay_error: int = 1
    """The exit code of a `ReplayError`: no replay, so nothing was compared."""

    @property
    def codes(self) -> dict[int, str]:
        """Return every exit code, in order."""
        return dict(sorted({**_USUAL, **self.exit_codes}.items()))

    def code_of(self, error: FreezeframeError) -> int:
        """Return the exit code of an error."""
        if isinstance(error, ConfigError):
            return self.config_error
        return self.replay_error if isinstance(error, ReplayError) else 1


class CommandModule(Protocol):
    """Interface of a command's module."""

    COMMAND: Command
    execute: Callable[[argparse.Namespace], int]


def load(name: str) -> CommandModule:
    """Import the command's module."""
    return cast(CommandModule, import_module(f"{__package__}.{module_of(name)}"))


def module_of(name: str) -> str:
    """Return the name of the command's module: `fork` of `experiment fork`, `proxy` of `run --proxy`."""
    return name.rpartition(" ")[2].lstrip("-").replace("-", "_")


def make_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command, with examples and exit codes in its help."""
    command = load(name).COMMAND
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}",
        description=f"{SUMMARIES[name]} {command.description}".strip(),
        epilog=_epilog(command, name),
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    _configure(parser, command)
    if command.takes_program:
        parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [-- CMD ...]"
    return parser


def _configure(parser: argparse.ArgumentParser, command: Command) -> None:
    if not command.actions:
        for declare in command.options:
            declare(parser)
        return
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (text, options) in command.actions.items():
        action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        for declare in (*command.options, *options):
            declare(action)


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
        if text.startswith(("examples:", "more (")):
            return text
        return super()._fill_text(text, width, indent)


def below_text(name: str) -> list[str]:
    """Return the lines of help with the subcommands of a command."""
    below = BELOW.get(name, {})
    widest = max(map(len, below), default=0)
    head = [f"more (freezeframe {name} WORD --help):"] if below else []
    return [*head, *(f"  {word:<{widest}}  {summary}" for word, summary in below.items()), *[""][: len(head)]]


def _epilog(command: Command, name: str) -> str:
    widest = max(map(len, command.examples))
    lines = [*below_text(name), "examples:", *(f"  {line:<{widest}}  {means}" for line, means in command.examples.items())]
    lines += ["", "exit codes:", *(f"  {code:<4} {means}" for code, means in command.codes.items())]
    return "\n".join(lines)
