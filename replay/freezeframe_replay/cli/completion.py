"""`freezeframe completion SHELL`: the script with which a shell completes commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Final

from freezeframe._cli import drain_parser, run_parser
from freezeframe_replay.cli.command import PROGRAM, Command, make_parser, option
from freezeframe_replay.cli.commands import BELOW, TOP

_BASH: Final = """_freezeframe() {
    local word=${COMP_WORDS[COMP_CWORD]} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case ${COMP_WORDS[1]} in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _freezeframe freezeframe
"""
_ZSH: Final = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


COMMAND: Final = Command(
    description="The script is made from the commands themselves, so print it again after an update.",
    examples={
        "freezeframe completion bash": 'in ~/.bashrc: eval "$(freezeframe completion bash)"; zsh likewise',
        "freezeframe completion fish": "into ~/.config/fish/completions/freezeframe.fish",
    },
    options=(option("shell", choices=("bash", "zsh", "fish"), help="shell that the script is for"),),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the script."""
    words = {name: _words_below(name) for name in TOP}
    script = _fish(words) if arguments.shell == "fish" else _bash(words)
    print(f"{_ZSH}{script}" if arguments.shell == "zsh" else script, end="")
    return 0


def _words_below(name: str) -> list[str]:
    """Return the words of a command, including those of its subcommands."""
    below = [f"{name} {word}" for word in BELOW.get(name, {})]
    found = {word for each in (name, *below) for word in _words(_parser(each))} | BELOW.get(name, {}).keys()
    return _sorted(found)


def _parser(name: str) -> argparse.ArgumentParser:
    return {"run": run_parser, "run drain": drain_parser}.get(name, lambda: make_parser(name))()


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a command, and its actions with theirs."""
    found: set[str] = set()
    for action in parser._actions:  # argparse offers no public list of what was declared
        found.update(option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            actions: Mapping[str, argparse.ArgumentParser] = action.choices
            found.update(actions, *map(_words, actions.values()))
    return _sorted(found)


def _sorted(words: Iterable[str]) -> list[str]:
    return sorted(words, key=lambda word: (word.startswith("-"), word))


def _bash(words: Mapping[str, list[str]]) -> str:
    cases = "\n".join(f'            {name}) words="{" ".join(found)}" ;;' for name, found in words.items())
    return _BASH.replace("{commands}", " ".join(words)).replace("{cases}", cases)


def _fish(words: Mapping[str, list[str]]) -> str:
    lines: list[str] = []
    for name, found in words.items():
        summary = TOP[name].replace("\\", "\\\\").replace("'", "\\'")
        lines.append(f"complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d '{summary}'")
        seen = f"complete -c {PROGRAM} -n '__fish_seen_subcommand_from {name}'"
        lines += [f"{seen} -l {word[2:]}" if word.startswith("--") else f"{seen} -a {word}" for word in found]
    return "\n".join([*lines, ""])
