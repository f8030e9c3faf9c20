"""The rows of the table of commands that compare and change runs."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.command import Command, Example

CHANGE_COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        name="diff",
        summary="Compare two runs and show where they first differ.",
        description="Steps are paired by their request, in each task or thread in order, then by kind and name. Time and "
        "tokens are shown and make no difference.",
        examples=(
            Example(line="freezeframe diff 4bf92f35 9c1e77d0", means="two runs in the store"),
            Example(line="freezeframe diff tests/regressions/late-order last", means="a fixture and the newest run"),
            Example(line="freezeframe diff before.jsonl after.jsonl --all --json", means="for a script"),
            Example(line="freezeframe diff last 4bf92f35 --html diff.html", means="a self-contained page, to keep or to send"),
        ),
        exit_codes={
            0: "alike; anything that neither run recorded is named",
            1: "failed, with the reason on stderr",
            2: "wrong usage",
            3: "different",
            125: "incomparable: neither run recorded calls, input or outcome",
        },
    ),
    Command(
        name="fork",
        summary="Write a fixture of a run with one thing changed: a result, a model's answer, the input.",
        description="The replay of a fork answers as recorded up to the changed step and gives the changed answer there; the "
        "first request that the recording does not hold shows what the code makes of it, and `replay DIR --live model` "
        "goes on from there. A fork can be forked.",
        examples=(
            Example(line="freezeframe fork last -o forks/a --step 2 --result '[]'", means="the tool finds nothing"),
            Example(
                line="""freezeframe fork last -o forks/b --step 2 --set '[0].id="AC-9"'""", means="one field of its result"
            ),
            Example(line="freezeframe fork last -o forks/c --step 1 --response 'I do not know.'", means="the model's words"),
            Example(line="freezeframe fork last -o forks/d --input 'args[0]=\"Where?\"'", means="the input of the entry point"),
        ),
    ),
    Command(
        name="step",
        summary="Replay a run up to a step, and show the call about to be made and where the code is.",
        description="Stops in the program's own code: its frames and their variables, the request beside the recorded one, "
        "and the answer that is waiting. Another N moves back or forward.",
        examples=(
            Example(line="freezeframe step last --until 4", means="before the fourth step"),
            Example(line="freezeframe step tests/regressions/late-order --until 2 -- python agent.py", means="another program"),
        ),
        exit_codes={
            0: "stopped before the step",
            1: "failed: no such run, no such step",
            2: "wrong usage",
            3: "the code diverged from the recording before the step",
            125: "incomparable: the program never reached the recorded entry point or the step",
        },
        takes_program=True,
    ),
    Command(
        name="calibrate",
        summary="Compare two recordings of the same input to learn what varies by itself, and declare it in a fixture.",
        description="Writes A as a fixture whose replay ignores those parts of the requests and counts how often that "
        "mattered. "
        "Messages, prompts and arguments are never ignored.",
        examples=(
            Example(line="freezeframe calibrate 4bf92f35 9c1e77d0", means="show what varies"),
            Example(line="freezeframe calibrate 4bf92f35 9c1e77d0 -o tests/golden/order", means="and write the fixture"),
        ),
        exit_codes={
            0: "compared",
            1: "failed, with the reason on stderr",
            2: "wrong usage",
            125: "incomparable: the input differs, or no step could be compared",
        },
    ),
)
