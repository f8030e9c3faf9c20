"""``%freezeframe_replay [RUN]``, the magic that ``%load_ext freezeframe`` adds to a notebook."""

from __future__ import annotations

from typing import Any

from freezeframe_replay.cli.colour import show
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.home import find_home
from freezeframe_replay.local.target import RunsPlace, load_run
from freezeframe_replay.process.in_kernel import reenact_in_kernel
from freezeframe_replay.report.report_text import report_text
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.errors import FreezeframeError


def replay(shell: Any, named: str) -> None:
    """Replay the run in a copy of the kernel, and print the report."""
    try:
        fixture = freeze(load_run(RunsPlace(), named))
        report = reenact_in_kernel(shell, fixture, keys=find_home().directory / KEYS)
    except FreezeframeError as error:
        print(f"freezeframe: {error}")
        return
    show(report_text(report))
