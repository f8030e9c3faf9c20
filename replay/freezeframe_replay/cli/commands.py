"""The index of commands, grouped by purpose, as `freezeframe --help` shows it.

Everything else about a command is in a module of this package, as its `COMMAND`. The last word of its name is the module's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "record": {
        "run": "Start a program with capture on: freezeframe run -- CMD.",
        "import": "Send what other tools recorded to the collector, which redacts it.",
    },
    "look": {
        "runs": "List the recorded runs, newest first, or search them.",
        "show": "Show one run: its tree, what it carries, how far it replays.",
        "open": "Open the page of a run in the browser.",
        "diff": "Compare two runs and show where they first differ.",
        "failures": "Group similar failures; with --replay, re-enact one of each.",
        "sql": "Query the store in SQL (ClickHouse, read-only).",
    },
    "re-enact": {
        "replay": "Replay a recorded run offline, answered from the recording.",
        "step": "Replay a run up to a step, and show where the code is.",
        "experiment": "Replay a dataset with candidates, and report what changed.",
    },
    "keep": {
        "fixture": "Save a run as a fixture, and with --pytest as a regression test.",
        "export": "Write or send runs: a pack, an audit, formats of other tools.",
    },
    "operate": {
        "demo": "Play the story of a failing run, on this machine, without a key.",
        "up": "Start the collector, its store and the replay service.",
        "down": "Stop what `freezeframe up` started.",
        "status": "Show what is running, where, and whether it is keeping up.",
        "logs": "Show what the collector and the replay service logged.",
        "doctor": "Check this machine; show what is wrong and how to fix it.",
        "store": "Show what the store holds; pin, delete, redact, back up, check.",
        "mcp": "Let a coding agent find, replay and test runs (MCP server).",
    },
}
BELOW: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {
        "--proxy": "Record a program in any language, by a proxy for its calls.",
        "--reuse": "Run a program; answer equal model calls from earlier runs.",
        "setup": "Point Claude Code, Codex or Gemini CLI at the collector.",
        "drain": "Send the spans that were spooled while the collector was down.",
    },
    "runs": {
        "label": "Label a run or a step by hand: good, bad, or a word of your own.",
    },
    "replay": {
        "serve": "Answer a program in any language from a recorded run, over HTTP.",
        "bisect": "Find the first commit whose code diverges from a recorded run.",
    },
    "experiment": {
        "dataset": "Save a set of runs as a folder of fixtures.",
        "results": "Show the results that experiments on a dataset kept.",
        "fork": "Write a fixture of a run with one thing changed.",
        "fuzz": "Perturb a run slightly, many times, and report what flips it.",
        "judge": "Compare a judge's verdicts with labels by hand: agreement, kappa.",
        "canary": "Ask recorded questions again, live, and report what drifted.",
    },
    "fixture": {
        "verify": "Check that a fixture or a stored run is whole and unedited.",
    },
    "doctor": {
        "check": "Find in a program's source what a replay could not repeat.",
    },
    "store": {
        "redact-file": "Redact JSON lines or a file of spans, as the collector would.",
        "vault": "Reveal what a surrogate stands for; forget a run's originals.",
    },
    "mcp": {
        "install": "Write the skill that tells a coding agent how to use all this.",
    },
}
"""A command -> its subcommands, which only its own help lists."""
HIDDEN: Final = {"completion": "Print a script that completes commands and options in a shell."}

TOP: Final = {name: summary for group in GROUPS.values() for name, summary in group.items()}
SUMMARIES: Final = {
    **{
        name: summary
        for top, about in TOP.items()
        for name, summary in ((top, about), *((f"{top} {word}", text) for word, text in BELOW.get(top, {}).items()))
    },
    **HIDDEN,
}
"""Every command by its whole name."""
MOVED: Final = {name.rpartition(" ")[2]: name for name in SUMMARIES if " " in name and "-" not in name} | {
    "record": "run --proxy",
    "cache": "run --reuse",
    "redact": "store redact-file",
    "skill": "mcp install",
    "pack": "export --as pack",
    "audit": "export --as audit",
    "calibrate": "diff",
    "experiment calibrate": "diff",
}
"""Former name of a command -> its present name."""

MEANT: Final = {
    word: name
    for name, words in {
        "runs": "ls list history recordings traces search find grep",
        "status": "ps health info top",
        "show": "view inspect cat get describe",
        "open": "browse browser web ui page",
        "logs": "log tail journal",
        "up": "start init server daemon",
        "down": "stop quit kill",
        "replay": "rerun re-run reenact re-enact play retry",
        "run --proxy": "capture trace proxy",
        "fixture": "save test snapshot",
        "diff": "compare",
        "sql": "query select",
        "failures": "errors failed",
        "export": "download dump",
        "import": "upload load",
        "doctor": "version config",
        "experiment fork": "edit patch",
        "step": "debug",
        "runs label": "annotate rate score tag",
        "doctor check": "lint scan",
        "store delete --person": "forget erase",
    }.items()
    for word in words.split()
}
"""Commands of other tools -> the equivalent command."""

OF_THE_BASE_INSTALL: Final = ("run", "run drain")
"""The instrumentation's own commands, so that the base install has them."""
