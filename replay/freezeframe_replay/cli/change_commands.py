"""The rows of the table of commands that compare and change runs."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.command import Command, Example

_CLI: Final = "freezeframe_replay.cli"

CHANGE_COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        name="diff",
        summary="Lay two runs beside each other and say where they first differ.",
        description="Steps are paired by their request, in each task or thread in order, then by kind and name. Time and "
        "tokens are shown and make no difference.",
        module=f"{_CLI}.diff",
        examples=(
            Example(line="freezeframe diff 4bf92f35 9c1e77d0", means="two runs of the store"),
            Example(line="freezeframe diff tests/regressions/late-order last", means="a fixture and the newest run"),
            Example(line="freezeframe diff before.jsonl after.jsonl --all --json", means="for a script"),
        ),
        exit_codes={0: "alike", 1: "failed, with the reason on stderr", 2: "wrong usage", 3: "different"},
    ),
)
