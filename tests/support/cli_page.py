"""``docs/cli.md``, made from the commands' own parsers: ``python tests/support/cli_page.py > docs/cli.md``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping

from freezeframe._cli import drain_parser, run_parser
from freezeframe_replay.cli.command import PROGRAM, load, make_parser
from freezeframe_replay.cli.commands import GROUPS, OF_THE_BASE_INSTALL, SUMMARIES

_HEAD = f"""# The command line

Made by `python tests/support/cli_page.py > docs/cli.md` from the commands themselves; a test keeps the two equal.

Errors go to stderr and say what, where, found, expected and what to do; with `--json` an error is also a document on stdout,
`{{"error": {{"message": "...", "do": "..."}}}}`. The data directory is `--data`, else
`$FREEZEFRAME_DATA`, else the nearest `.freezeframe` in a parent directory, else `./.freezeframe`. `{PROGRAM} run` and `drain`
come with the base install; [delivery](operate/delivery.md) says what is spooled, and when. On a terminal, work of over a second
shows its progress.

| to | command | |
|---|---|---|
"""


def reference_text() -> str:
    """Return the whole page."""
    index = [
        f"| {group} | [`{PROGRAM} {name}`](#{PROGRAM}-{name}) | {summary} |\n"
        for group, commands in GROUPS.items()
        for name, summary in commands.items()
    ]
    return "".join([_HEAD, *index, *map(_section, SUMMARIES)])


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command of either package."""
    return {"run": run_parser, "drain": drain_parser}.get(name, lambda: make_parser(name))()


def _section(name: str) -> str:
    parser = parser_of(name)
    if name in OF_THE_BASE_INSTALL:
        lines = [parser.description or "", "", *_table(_rows(parser)), "```text", (parser.epilog or "").strip(), "```"]
    else:
        command, actions = load(name).COMMAND, _actions(parser)
        rows = _rows_of_actions(actions) if actions else _rows(parser, takes_program=command.takes_program)
        lines = [f"{SUMMARIES[name]} {command.description}".strip(), "", *_table(rows)]
        lines += ["```console", *(f"$ {line:<72} # {means}" for line, means in command.examples.items()), "```", ""]
        lines += ["Exit codes: " + "; ".join(f"{code} {means}" for code, means in command.codes.items()) + "."]
    return "\n".join(["", f"## {PROGRAM} {name}", "", *lines, ""])


def _table(rows: Iterable[str]) -> list[str]:
    return ["| argument | |", "|---|---|", *rows, ""]


def _actions(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of a command's actions by name (`store pin`); empty if it has none."""
    for action in parser._actions:  # argparse offers no public list of what was declared
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _rows_of_actions(actions: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield the rows of each action below its own row, and those that all of them have once, at the end."""
    rows = {name: list(_rows(parser)) for name, parser in actions.items()}
    shared = set[str].intersection(*map(set, rows.values()))
    for name, own in rows.items():
        yield f"| **`{name}`** | {actions[name].description} |"
        yield from (row for row in own if row not in shared)
    yield "| **each of them** | |"
    yield from (row for row in next(iter(rows.values())) if row in shared)


def _rows(parser: argparse.ArgumentParser, *, takes_program: bool = False) -> Iterator[str]:
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
