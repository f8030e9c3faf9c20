"""The pages of the command line, made from the commands' own parsers: ``python tests/support/cli_page.py`` writes them.

``docs/cli.md`` has the index, and what several commands share; ``docs/cli/`` has a page for each group of commands.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path

from freezeframe._cli import drain_parser, run_parser
from freezeframe_replay.cli.command import PROGRAM, load, make_parser
from freezeframe_replay.cli.commands import BELOW, GROUPS, OF_THE_BASE_INSTALL, SUMMARIES

DOCS = Path(__file__).parents[2] / "docs"
SHARED = 4
"""An argument of so many commands is explained once, in the index."""
SHARED_IN_A_GROUP = 3
"""... or on the page of the group."""
EXAMPLES = 4
"""Examples of a command on its page."""
Row = tuple[str, str]
"""An argument and its help."""

_HEAD = """# The command line

Made by `python tests/support/cli_page.py` from the commands themselves; a test keeps them equal.

Errors go to stderr and say what, where, found, expected and what to do; with `--json` an error is also a document on stdout,
`{"error": {"message": "...", "do": "..."}}`. On a terminal, work of over a second shows its progress.
`--help` of a command has more examples than its page."""


def page_files() -> Mapping[Path, str]:
    """Return the text of each page by its file."""
    index = [line for group in GROUPS for line in ("", f"## To {group}", "", *map(_line, _names(group)))]
    several = ["", "## What commands share", "", *_list(_shared()), "", _codes(_shared_codes()), ""]
    pages = {DOCS / "cli.md": "\n".join([_HEAD, *index, *several])}
    for group in GROUPS:
        head = [f"# Commands to {group}\n", "What many commands share is [explained once](../cli.md#what-commands-share).\n"]
        if shared := _shared_in(group):
            head += ["Several of these commands take:", "", *_list(shared), ""]
        text = "".join(map(_section, _names(group)))
        pages[DOCS / "cli" / f"{_slug(group)}.md"] = "\n".join(head).rstrip("\n") + "\n" + text
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


def _group_of(name: str) -> str:
    return next(group for group in GROUPS if name in _names(group))


def _slug(group: str) -> str:
    return group.replace(" ", "-")


def _every_row(name: str) -> list[Row]:
    parser = parser_of(name)
    return list(dict.fromkeys(row for one in [*_actions(parser).values()] or [parser] for row in _rows(one, name)))


@cache
def _shared() -> list[Row]:
    """Return the rows that many commands have alike."""
    return _often(SUMMARIES, SHARED)


@cache
def _shared_in(group: str) -> list[Row]:
    """Return those that several commands of a group have alike."""
    return [row for row in _often(_names(group), SHARED_IN_A_GROUP) if row not in _shared()]


def _often(names: Iterable[str], number: int) -> list[Row]:
    counts = Counter(row for name in names for row in _every_row(name))
    return [row for row, times in counts.most_common() if times >= number]


@cache
def _shared_codes() -> Mapping[int, str]:
    """Return the meaning of an exit code that most commands give it."""
    commands = [load(name).COMMAND.codes for name in SUMMARIES if name not in OF_THE_BASE_INSTALL]
    counts = Counter((code, means) for codes in commands for code, means in codes.items())
    return {code: means for (code, means), number in sorted(counts.items()) if number > len(commands) / 3}


def _line(name: str) -> str:
    group = _group_of(name)
    return f"- [`{PROGRAM} {name}`](cli/{_slug(group)}.md#{_slug(f'{PROGRAM} {name}')}): {SUMMARIES[name]}"


def _section(name: str) -> str:
    parser = parser_of(name)
    if name in OF_THE_BASE_INSTALL:
        lines = [parser.description or "", "", *_list(_rows(parser, name)), "", "```text", (parser.epilog or "").strip(), "```"]
    else:
        command, actions = load(name).COMMAND, _actions(parser)
        lines = [f"{SUMMARIES[name]} {command.description}".strip(), ""]
        lines += _list_of_actions(actions) if actions else _without_shared(name)
        lines += ["```sh", *(f"{line:<72} # {means}" for line, means in islice(command.examples.items(), EXAMPLES)), "```", ""]
        own = {code: means for code, means in command.codes.items() if _shared_codes().get(code) != means}
        lines += [_codes(own), ""] if own else []
    return "\n".join(["", f"## {PROGRAM} {name}", "", *lines, ""]).rstrip("\n") + "\n"


def _codes(codes: Mapping[int, str]) -> str:
    return "Exit codes: " + "; ".join(f"{code} {means}" for code, means in codes.items()) + "."


def _without_shared(name: str) -> list[str]:
    shared = [*_shared_in(_group_of(name)), *_shared()]
    explained = {text: shown for shown, text in shared}
    rows = _every_row(name)
    own = [
        (shown, f"as {explained[text]}" if text in explained else text) for shown, text in rows if (shown, text) not in shared
    ]
    also = [_bare(shown) for shown, text in shared if (shown, text) in rows]
    return [*_list(own), *([""] if own else []), *([f"Also: {', '.join(also)}.", ""] if also else [])]


def _bare(shown: str) -> str:
    """Return an argument without the name of its value."""
    return shown if shown.startswith("`-- ") else f"`{shown.strip('`').partition(' ')[0]}`"


def _list(rows: Iterable[Row]) -> list[str]:
    return [f"- {shown}: {text}" for shown, text in rows]


def _actions(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of a command's actions by name (`store pin`); empty if it has none."""
    for action in parser._actions:  # argparse offers no public list of what was declared
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _list_of_actions(actions: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield each action with its arguments; an argument that an earlier one has alike is only named."""
    rows = {name: list(_rows(parser, name)) for name, parser in actions.items()}
    everywhere = set[Row].intersection(*map(set, rows.values()))
    explained = set[Row]()
    for name, own in rows.items():
        yield f"- **`{name}`**: {actions[name].description}"
        yield from (f"  - {shown}: {text}" for shown, text in own if (shown, text) not in everywhere | explained)
        again = [_bare(shown) for shown, text in own if (shown, text) in explained - everywhere]
        yield from [f"  - Also: {', '.join(again)}"] if again else []
        explained |= set(own)
    also = [_bare(shown) for shown, text in next(iter(rows.values())) if (shown, text) in everywhere]
    yield from ("", f"All of them: {', '.join(also)}.", "")


def _rows(parser: argparse.ArgumentParser, name: str) -> Iterator[Row]:
    for action in parser._actions:  # argparse offers no public list of what was declared
        if action.dest == "help":
            continue
        metavar = str(action.metavar or "")
        if action.choices is not None:
            metavar = "{" + ",".join(map(str, action.choices)) + "}"
        value = f" {metavar}" if metavar and action.nargs != 0 else ""
        shown = ", ".join(action.option_strings) + value if action.option_strings else metavar
        help_text = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        yield f"`{shown}`", help_text
    if name in SUMMARIES and name not in OF_THE_BASE_INSTALL and load(name).COMMAND.takes_program:
        yield "`-- CMD ...`", "the program to start in place of the recorded entry point"


if __name__ == "__main__":
    for file, text in page_files().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    for file in (DOCS / "cli").glob("*.md"):
        if file not in page_files():
            file.unlink()
