"""The command line of freezeframe, except `run` and `run drain`, which belong to the instrumentation.

Nothing heavy is imported until a command is known. A freezeframe error is two lines on
stderr, never a traceback; with --json it is a document on stdout, too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from freezeframe_replay.cli.command import PROGRAM, load, make_parser, split_program
from freezeframe_replay.cli.commands import GROUPS, MEANT, MOVED, OF_THE_BASE_INSTALL, SUMMARIES, TOP
from freezeframe_schemas.errors import FreezeframeError, WireError
from freezeframe_schemas.installing import install_command

__all__ = ["help_text", "main"]

USAGE_ERROR = 2
INTERRUPTED = 130
_ALIKE = 0.7
"""Share of equal letters above which a word counts as a typing error."""
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and return its exit code."""
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has exited. Point stdout elsewhere, or the interpreter complains while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0 if arguments else USAGE_ERROR
    name, rest = _named(arguments)
    if (both := " ".join(arguments[:2])) in MOVED:
        return _unknown(both)
    if name not in SUMMARIES or name in OF_THE_BASE_INSTALL:
        return _unknown(name)
    try:
        return _execute(name, rest)
    except ModuleNotFoundError as error:
        if (error.name or "freezeframe").startswith("freezeframe"):
            raise
        print(f"{PROGRAM} {name}: {error.name} is not installed\n  do: {_install()}", file=sys.stderr)
        return 1


def _named(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command's whole name, and the remaining arguments."""
    both = " ".join(arguments[:2])
    return (both, arguments[2:]) if len(arguments) > 1 and both in SUMMARIES else (arguments[0], arguments[1:])


def _install() -> str:
    """Return the command that installs the requirements of the commands."""
    return f"{install_command('embedded', 'replay', 'ui')}; `{PROGRAM} doctor` shows which parts are missing"


def help_text() -> str:
    """Return the commands by group, as `freezeframe --help` prints them."""
    widest = max(map(len, TOP))
    lines = [f"usage: {PROGRAM} COMMAND ...; examples, exit codes: {PROGRAM} COMMAND --help"]
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<{widest}}  {summary}" for name, summary in commands.items())]
    return "\n".join(lines)


def _execute(name: str, rest: list[str]) -> int:
    command = load(name).COMMAND
    program: list[str] | None = None
    if command.takes_program:
        rest, program = split_program(rest)
    parser = make_parser(name)
    try:
        arguments = parser.parse_args(rest)
        if program == []:
            parser.error("expected a command after `--`")
    except SystemExit as stop:  # argparse calls exit; a caller of `main` gets the code instead
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    arguments.program = program
    try:
        with _ended_by_signals(), _not_too_deep():
            return load(name).execute(arguments)
    except FreezeframeError as error:
        print(f"{PROGRAM} {name}: {error}", file=sys.stderr)
        if getattr(arguments, "json", False):
            print(json.dumps({"error": {"message": error.message, "do": error.do}}, ensure_ascii=False))
        return command.code_of(error)


@contextmanager
def _not_too_deep() -> Generator[None]:
    """Report values nested deeper than Python's stack: a recording is a stranger's data.

    Raises:
        WireError: a value is nested too deeply.
    """
    try:
        yield
    except RecursionError:
        message = "what was recorded is nested deeper than this program reads"
    else:
        return
    raise WireError(message)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let a signal that would end the process unwind the stack instead: a program that a command started ends with it."""
    numbers = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    for number in numbers:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _unknown(name: str) -> int:
    if name in MOVED:
        print(f"{PROGRAM}: `{PROGRAM} {name}` is now `{PROGRAM} {MOVED[name]}`", file=sys.stderr)
        return USAGE_ERROR
    meant = MEANT.get(name.lower().lstrip("-"))
    near = [meant] if meant else get_close_matches(name, list(TOP), n=1, cutoff=_ALIKE)
    hint = f"did you mean `{PROGRAM} {near[0]}`?" if near else f"`{PROGRAM} --help` lists the commands"
    print(f"{PROGRAM}: unknown command {name!r}; {hint}", file=sys.stderr)
    return USAGE_ERROR
