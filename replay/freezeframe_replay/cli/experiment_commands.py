"""The rows of the table of commands that work on many runs, or on one run many times."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.command import Command, Example

_CLI: Final = "freezeframe_replay.cli"
_FAILED: Final = {1: "failed, with the reason on stderr", 2: "wrong usage"}

EXPERIMENT_COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        name="dataset",
        summary="Save a set of runs, chosen by name or by SQL, as a folder of fixtures.",
        description="The manifest pins each fixture by its digest. The folder needs no store and can be committed.",
        module=f"{_CLI}.dataset",
        examples=(
            Example(line="freezeframe dataset 4bf92f35 9c1e77d0 -o sets/refunds", means="these runs"),
            Example(
                line="""freezeframe dataset --where "name = 'answer' AND status = 'ok'" --since 7d -o sets/week""",
                means="by a condition over the view `runs`",
            ),
            Example(
                line="freezeframe dataset --sql \"SELECT trace_id FROM tool_calls WHERE tool = 'refund'\" -o sets/refunds",
                means="by any query",
            ),
        ),
    ),
    Command(
        name="experiment",
        summary="Replay each run of a dataset with a candidate, and say what changed in each.",
        description="The candidate is the code in the working tree, and whatever --model, --system, --replace and --set change "
        "in the requests to the model. Path, tools, arguments and targets are compared exactly; whether other words mean the "
        "same is asked of the judge.",
        module=f"{_CLI}.experiment",
        examples=(
            Example(line="freezeframe experiment sets/week", means="did my change alter any of these runs? offline"),
            Example(line="freezeframe experiment sets/week --model gpt-5-mini --live model", means="another model"),
            Example(
                line="freezeframe experiment sets/week --system @new.txt --live model --judge judges:same_meaning",
                means="another system prompt, words judged by a function",
            ),
            Example(line="freezeframe experiment sets/week --jobs 4 --json -o result.json", means="for a script"),
        ),
        exit_codes={0: "nothing changed", **_FAILED, 3: "at least one run changed", 125: "some runs could not be compared"},
        takes_program=True,
    ),
)
