"""``docs/cli.md``, made from the commands' own parsers: ``python -m freezeframe_replay.cli.reference > docs/cli.md``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from freezeframe_replay.cli.command import PROGRAM, Command, make_parser
from freezeframe_replay.cli.commands import COMMANDS, OF_THE_BASE_INSTALL

_HEAD = f"""# The command line

Made by `python -m freezeframe_replay.cli.reference > docs/cli.md` from the commands themselves; a test holds the two equal.

Errors go to stderr, as what, where, found, expected and what to do. The data directory is `--data`, else `$FREEZEFRAME_DATA`,
else the nearest `.freezeframe` upwards, else `./.freezeframe`. `{PROGRAM} run -- CMD` starts a program with recording switched
on, `{PROGRAM} drain` delivers what was spooled: see `{PROGRAM} run --help` and [delivery](delivery.md).
"""


def reference_text() -> str:
    """Return the whole page."""
    index = "\n".join(
        f"| [`{PROGRAM} {command.name}`](#{PROGRAM}-{command.name}) | {command.summary} |" for command in COMMANDS
    )
    return (
        "\n".join(
            [
                _HEAD,
                "| command | |\n|---|---|",
                *(f"| `{PROGRAM} {name}` | {summary} |" for name, summary in OF_THE_BASE_INSTALL),
                f"{index}\n",
                *(_section(command) for command in COMMANDS),
            ]
        ).rstrip()
        + "\n"
    )


def _section(command: Command) -> str:
    lines = [f"## {PROGRAM} {command.name}", "", f"{command.summary} {command.description}".strip(), ""]
    if not command.delegates:
        rows = list(_rows(make_parser(command), takes_program=command.takes_program))
        lines += ["| argument | |", "|---|---|", *rows, ""]
    lines += ["```console", *(f"$ {example.line:<72} # {example.means}" for example in command.examples), "```", ""]
    lines += ["Exit codes: " + "; ".join(f"{code} {means}" for code, means in command.exit_codes.items()) + ".", ""]
    return "\n".join(lines)


def _rows(parser: argparse.ArgumentParser, *, takes_program: bool) -> Iterable[str]:
    for action in parser._actions:  # argparse offers no public list of what was declared
        if action.dest == "help":
            continue
        metavar = str(action.metavar or "")
        if action.choices is not None:
            metavar = "{" + ",".join(map(str, action.choices)) + "}"
        value = f" {metavar}" if metavar and action.nargs != 0 else ""
        shown = ", ".join(action.option_strings) + value if action.option_strings else metavar
        help_text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        yield f"| `{shown}` | {help_text.replace('|', chr(92) + '|')} |"
    if takes_program:
        yield "| `-- CMD ...` | the program to start in place of the recorded entry point |"


if __name__ == "__main__":
    print(reference_text(), end="")
