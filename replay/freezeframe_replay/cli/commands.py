"""The index of commands, grouped by what the user wants to do: exactly what `freezeframe --help` shows.

Everything else about a command is in the module with its name in this package, as its `COMMAND`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "record": {
        "run": "Start a program with capture on: freezeframe run -- CMD.",
        "record": "Record a program in any language: freezeframe record -- CMD.",
        "cache": "Run a program; answer equal model calls from earlier runs.",
        "drain": "Send the spans that were spooled while the collector was down.",
        "setup": "Point Claude Code, Codex or Gemini CLI at the collector.",
        "import": "Send what other tools recorded to the collector, which redacts it.",
    },
    "look": {
        "runs": "List the recorded runs, newest first.",
        "show": "Show one run: its tree, what it carries, how far it replays.",
        "diff": "Compare two runs and show where they first differ.",
        "failures": "Group similar failures; with --replay, re-enact one of each.",
        "sql": "Query the store in SQL (ClickHouse, read-only).",
    },
    "re-enact": {
        "replay": "Replay a recorded run offline, answered from the recording.",
        "step": "Replay a run up to a step, and show where the code is.",
        "serve": "Answer a program in any language from a recorded run, over HTTP.",
        "bisect": "Find the first commit whose code diverges from a recorded run.",
        "canary": "Ask recorded questions again, live, and report what drifted.",
    },
    "change": {
        "fork": "Write a fixture of a run with one thing changed.",
        "fuzz": "Perturb a run slightly, many times, and report what flips it.",
        "experiment": "Replay a dataset with a candidate, and report what changed.",
    },
    "keep as a test": {
        "fixture": "Save a run as a fixture, and with --pytest as a regression test.",
        "calibrate": "Learn from two recordings of one input what varies by itself.",
        "dataset": "Save a set of runs as a folder of fixtures.",
        "verify": "Check that a fixture or a stored run is whole and unedited.",
        "pack": "Put a run, its code and a page to read it in one file.",
        "audit": "Export a run as files that others can check on their own.",
        "export": "Write or send runs in the formats that other tools read.",
    },
    "operate": {
        "demo": "Play the story of a failing run, on this machine, without a key.",
        "up": "Start the collector, its store and the replay service.",
        "down": "Stop what `freezeframe up` started.",
        "status": "Show what is running, where, and whether it is keeping up.",
        "mcp": "Let a coding agent find, replay and test runs (MCP server).",
        "skill": "Print the skill that tells a coding agent how to use all this.",
        "doctor": "Check this machine; show what is wrong and how to fix it.",
        "store": "Show what the store holds; pin, delete, redact, back up, check.",
        "redact": "Redact JSON lines or a file of spans, as the collector would.",
        "completion": "Print a script that completes commands and options in a shell.",
        "vault": "Reveal what a surrogate stands for; forget a run's originals.",
    },
}
SUMMARIES: Final = {name: summary for group in GROUPS.values() for name, summary in group.items()}

MEANT: Final = {
    word: name
    for name, words in {
        "runs": "ls list log logs history recordings traces",
        "status": "ps health info top",
        "show": "view inspect cat get open describe",
        "up": "start init server daemon",
        "down": "stop quit kill",
        "replay": "rerun re-run reenact re-enact play retry",
        "record": "capture trace proxy",
        "fixture": "save test snapshot",
        "diff": "compare",
        "sql": "query select",
        "failures": "errors failed",
        "export": "download dump",
        "import": "upload load",
        "doctor": "check version config",
        "fork": "edit patch",
        "step": "debug",
    }.items()
    for word in words.split()
}
"""What people type who know other tools -> the command that does it."""

OF_THE_BASE_INSTALL: Final = ("run", "drain")
"""The instrumentation's own commands, so that the base install has them."""
