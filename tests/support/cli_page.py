"""The pages of the command line, made from the commands' own parsers: ``python tests/support/cli_page.py`` writes them.

``docs/cli.md`` has the index, and what several commands share; ``docs/cli/`` has a page for each group of commands.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from freezeframe._cli import drain_parser, run_parser
from freezeframe_replay.cli.command import PROGRAM, load, make_parser
from freezeframe_replay.cli.commands import BELOW, GROUPS, OF_THE_BASE_INSTALL, SUMMARIES

DOCS = Path(__file__).parents[2] / "docs"
SHARED = 4
"""An argument of so many commands is explained once."""

_HEAD = """# The command line

Made by `python tests/support/cli_page.py` from the commands themselves; a test keeps them equal.

Errors go to stderr and say what, where, found, expected and what to do; with `--json` an error is also a document on stdout,
`{"error": {"message": "...", "do": "..."}}`. On a terminal, work of over a second shows its progress.

| to | command | |
|---|---|---|
"""


def page_files() -> Mapping[Path, str]:
    """Return the text of each page by its file."""
    index = [
        f"| {group} | [`{PROGRAM} {name}`](cli/{_slug(group)}.md#{_slug(f'{PROGRAM} {name}')}) | {SUMMARIES[name]} |\n"
        for group in GROUPS
        for name in _names(group)
    ]
    several = ["", "## What commands share", "", *_table(_shared()), _codes(_shared_codes()), ""]
    pages = {DOCS / "cli.md": "".join([_HEAD, *index, "\n".join(several)])}
    for group in GROUPS:
        head = f"# Commands to {group}\n\nWhat many commands share is [explained once](../cli.md#what-commands-share).\n"
        pages[DOCS / "cli" / f"{_slug(group)}.md"] = "".join([head, *map(_section, _names(group))])
    return pages


def reference_text() -> str:
    """Return the text of all pages."""
    return "\n".join(page_files().values())


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command of either package."""
    return {"run": run_parser, "run drain": drain_parser}.get(name, lambda: make_parser(name))()


def _names(group: str) -> list[str]:
    """Return the commands of a group, each before those below it."""
    return [name for top in GROUPS[group] for name in (top, *(f"{top} {word}" for word in BELOW.get(top, {})))]


def _slug(group: str) -> str:
    return group.replace(" ", "-")


def _every_row(name: str) -> list[str]:
    parser = parser_of(name)
    return list(dict.fromkeys(row for one in [*_actions(parser).values()] or [parser] for row in _rows(one)))


@cache
def _shared() -> list[str]:
    """Return the rows that many commands have alike."""
    counts = Counter(row for name in SUMMARIES for row in _every_row(name))
    return [row for row, number in counts.most_common() if number >= SHARED]


@cache
def _shared_codes() -> Mapping[int, str]:
    """Return the meaning of an exit code that most commands give it."""
    commands = [load(name).COMMAND.codes for name in SUMMARIES if name not in OF_THE_BASE_INSTALL]
    counts = Counter((code, means) for codes in commands for code, means in codes.items())
    return {code: means for (code, means), number in sorted(counts.items()) if number > len(commands) / 3}


def _section(name: str) -> str:
    parser = parser_of(name)
    if name in OF_THE_BASE_INSTALL:
        lines = [parser.description or "", "", *_table(_rows(parser)), "```text", (parser.epilog or "").strip(), "```"]
    else:
        command, actions = load(name).COMMAND, _actions(parser)
        rows = _rows_of_actions(actions) if actions else _rows(parser, takes_program=command.takes_program)
        lines = [f"{SUMMARIES[name]} {command.description}".strip(), "", *_without_shared(rows)]
        lines += ["```console", *(f"$ {line:<72} # {means}" for line, means in command.examples.items()), "```", ""]
        own = {code: means for code, means in command.codes.items() if _shared_codes().get(code) != means}
        lines += [_codes(own), ""] if own else []
    return "\n".join(["", f"## {PROGRAM} {name}", "", *lines, ""]).rstrip("\n") + "\n"


def _codes(codes: Mapping[int, str]) -> str:
    return "Exit codes: " + "; ".join(f"{code} {means}" for code, means in codes.items()) + "."


def _without_shared(rows: Iterable[str]) -> list[str]:
    listed = list(rows)
    explained = {row.split("|")[2]: row.split("|")[1].strip() for row in _shared()}
    own = [_briefly(row, explained) for row in listed if row not in _shared()]
    also = [row.split("|")[1].strip() for row in _shared() if row in listed]
    return [*(_table(own) if own else []), *([f"Also: {', '.join(also)}.", ""] if also else [])]


def _briefly(row: str, explained: Mapping[str, str]) -> str:
    """Return a row that means the same as a shared one by its name."""
    _, name, text, *_ = row.split("|")
    return f"|{name}| as {explained[text]} |" if text in explained else row


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
    everywhere = set[str].intersection(*map(set, rows.values()))
    for name, own in rows.items():
        yield f"| **`{name}`** | {actions[name].description} |"
        yield from (row for row in own if row not in everywhere)
    if everywhere - set(_shared()):
        yield "| **each of them** | |"
    yield from (row for row in next(iter(rows.values())) if row in everywhere)


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
    for file, text in page_files().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    for file in (DOCS / "cli").glob("*.md"):
        if file not in page_files():
            file.unlink()
