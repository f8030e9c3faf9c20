"""The index of tools: each with its purpose and the command that does the same. The server offers exactly these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """A tool in the index."""

    name: str
    purpose: str
    command: str
    """The equivalent command."""
    only_reads: bool = True
    """True if it starts no program of the user and writes no file."""


TOOLS: Final = (
    ToolRow(name="find_runs", purpose="Find recorded runs by text, status and age.", command="freezeframe runs"),
    ToolRow(name="failures", purpose="Group similar failures.", command="freezeframe failures --since 1d"),
    ToolRow(
        name="why_failed", purpose="Say why a run failed, what it did, and how far it replays.", command="freezeframe show RUN"
    ),
    ToolRow(
        name="transcript",
        purpose="Read the messages and calls of a run, part by part.",
        command="freezeframe show RUN --full",
    ),
    ToolRow(name="sql", purpose="Query the store in SQL, read-only.", command='freezeframe sql "SELECT ..."'),
    ToolRow(name="diff_runs", purpose="Compare two runs and show where they first differ.", command="freezeframe diff A B"),
    ToolRow(
        name="replay",
        purpose="Run the code of the project again, answered from the recording; say where it leaves it.",
        command="freezeframe replay RUN",
        only_reads=False,
    ),
    ToolRow(
        name="stop_at_step",
        purpose="Replay up to a step; show the frames of the code and their variables.",
        command="freezeframe step RUN --until N",
        only_reads=False,
    ),
    ToolRow(
        name="fork",
        purpose="Write a fixture of a run with one answer or input changed.",
        command="freezeframe experiment fork RUN -o DIR --step N --result JSON",
        only_reads=False,
    ),
    ToolRow(
        name="save_test",
        purpose="Save a run as a fixture with a regression test.",
        command="freezeframe fixture RUN -o DIR --pytest",
        only_reads=False,
    ),
    ToolRow(
        name="export",
        purpose="Write a run in the format of another tool, or as one file to send.",
        command="freezeframe export RUN --as otlp -o FILE",
        only_reads=False,
    ),
    ToolRow(
        name="save_dataset",
        purpose="Save the runs that a condition chooses as a dataset.",
        command="freezeframe experiment dataset --where SQL -o DIR",
        only_reads=False,
    ),
    ToolRow(
        name="experiment",
        purpose="Replay each run of a dataset with the code of the project, and list what changed.",
        command="freezeframe experiment DIR",
        only_reads=False,
    ),
    ToolRow(
        name="experiment_results",
        purpose="Compare the candidates whose results a dataset keeps: what each fixes and breaks, run by run.",
        command="freezeframe experiment results DIR",
    ),
)
