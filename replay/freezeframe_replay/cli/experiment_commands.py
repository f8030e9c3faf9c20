"""The rows of the table of commands that work on many runs, or on one run many times."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.command import Command, Example

_FAILED: Final = {1: "failed, with the reason on stderr", 2: "wrong usage"}

EXPERIMENT_COMMANDS: Final[tuple[Command, ...]] = (
    Command(
        name="dataset",
        summary="Save a set of runs, chosen by name or by SQL, as a folder of fixtures.",
        description="The manifest pins each fixture by its digest. The folder needs no store and can be committed.",
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
        summary="Replay each run of a dataset with a candidate, and report what changed in each.",
        description="The candidate is the code in the working tree, and whatever --model, --system, --replace and --set change "
        "in the requests to the model. Path, tools, arguments and targets are compared exactly; whether other words mean the "
        "same is asked of the judge.",
        examples=(
            Example(line="freezeframe experiment sets/week", means="did my change alter any of these runs? offline"),
            Example(line="freezeframe experiment sets/week --model gpt-5-mini --live model", means="another model"),
            Example(
                line="freezeframe experiment sets/week --system @new.txt --live model --judge judges:same_meaning",
                means="another system prompt, words judged by a function",
            ),
            Example(line="freezeframe experiment sets/week --jobs 4 --json -o result.json", means="for a script"),
        ),
        exit_codes={
            0: "nothing changed",
            **_FAILED,
            3: "at least one run changed",
            125: "none changed, but some could not be compared",
        },
        takes_program=True,
    ),
    Command(
        name="fuzz",
        summary="Perturb a run slightly, again and again, and report which perturbations flip it.",
        description="The question is typed differently, a tool returns less or fails, a stream is cut in other places, "
        "concurrent answers arrive in a different order. Offline, the model is held to what it said, so you see "
        "what the code makes of it. The same seed tries the same perturbations.",
        examples=(
            Example(line="freezeframe fuzz last", means="twenty perturbations, offline"),
            Example(line="freezeframe fuzz last --aim result --rounds 50 -o flips", means="tool results; keep what flips"),
            Example(line="freezeframe fuzz last --aim prompt --live model", means="what the real model makes of a typo"),
        ),
        exit_codes={
            0: "no perturbation flips it",
            **_FAILED,
            3: "at least one does",
            125: "the run itself is not re-enacted, or nothing could be perturbed or compared",
        },
        takes_program=True,
    ),
    Command(
        name="bisect",
        summary="Find the first commit whose code diverges from a recorded run.",
        description="Runs `git bisect` in a separate worktree: your checkout is not touched. Commits whose code does not start "
        "are skipped. Run it from the directory in which the agent starts.",
        examples=(
            Example(line="freezeframe bisect 4bf92f35", means="from the recorded commit to HEAD"),
            Example(line="freezeframe bisect tests/golden/order --good v1.4 --bad main", means="between two commits"),
        ),
        exit_codes={0: "found", **_FAILED, 125: "undecided: only skipped commits are left"},
        takes_program=True,
    ),
    Command(
        name="failures",
        summary="Group similar failures, and with --replay re-enact one run of each group.",
        description="Similar failures have the same signature: numbers and ids in the message do not count.",
        examples=(
            Example(line="freezeframe failures --since 1d", means="what fails, in how many runs"),
            Example(line="freezeframe failures --since 1d --replay", means="and which failures this code still shows"),
            Example(line="freezeframe failures --since 7d -o sets/failures", means="one run of each, as a dataset"),
        ),
        exit_codes={
            0: "done; every replayed run is re-enacted",
            **_FAILED,
            3: "at least one diverged",
            125: "at least one is unknown: it could not be replayed or compared",
        },
    ),
    Command(
        name="canary",
        summary="Ask recorded questions again, live, and report what drifted: model, fingerprint, words.",
        description="Meant to run on a schedule. Requests go out as recorded, with keys and base URLs of your "
        "environment; a key is sent "
        "only to a host known as the provider's, or one that you name. Words count where the request asks for steady ones "
        "(temperature 0, or a seed).",
        examples=(
            Example(line="freezeframe canary tests/golden/order", means="every model call of a fixture"),
            Example(line="freezeframe canary sets/pinned --ignore fingerprint --quiet", means="a dataset, from cron"),
            Example(
                line="freezeframe canary last --step 1 --base-url http://127.0.0.1:8000/v1",
                means="one step, at another address",
            ),
        ),
        exit_codes={0: "nothing drifted", **_FAILED, 3: "something did", 125: "a question got no answer"},
    ),
)
