"""Replays a run in a copy of a notebook's kernel: a fork of it, with all its objects, which leaves the kernel unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from freezeframe.runs.run import is_marked
from freezeframe_replay.process import child
from freezeframe_replay.process.child_task import ChildTask, is_called, key_of
from freezeframe_replay.process.entry_point import find_entry_point
from freezeframe_schemas.divergence import Report, report_from_json
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import CELL, EntryKind

_MAX_SURROGATES: Final = 100


def reenact_in_kernel(shell: Any, fixture: Fixture, *, keys: Path) -> Report:
    """Re-enact a run with the functions and objects of this kernel, offline, and report where it leaves the recording.

    Args:
        shell: IPython's.
        fixture: a run whose entry is a cell or a marked function.
        keys: directory of the keys for comparing private values.

    Raises:
        ReplayError: the run is neither, its function is missing, or the copy ended without a report.
    """
    if not hasattr(os, "fork"):
        raise ReplayError("a replay in the kernel needs os.fork, which this system does not have", do="use Linux or macOS")
    call = _call_of(shell, fixture)
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        folder = Path(scratch)
        write_fixture(fixture, folder / "fixture")
        report = folder / "report.json"
        known = str(keys.resolve()) if key_of(fixture, keys) is not None else ""
        variables = ChildTask(fixture=str(folder / "fixture"), report=str(report), keys=known).variables()
        error_file = folder / "error"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: the copy uses none of them
            pid = os.fork()
        if pid == 0:
            _run_and_exit(call, variables, error_file)
        try:
            os.waitpid(pid, 0)
        except BaseException:  # the user interrupts the cell
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        if not report.exists():
            message = error_file.read_text() if error_file.exists() else ""
            raise ReplayError(f"the copy of the kernel ended without a report: {message or 'it message nothing'}")
        return report_from_json(report.read_text(encoding="utf-8"))


def _run_and_exit(call: Callable[[], None], variables: dict[str, str], error_file: Path) -> None:
    """Run the replay, and end without the kernel's exit handlers."""
    status = 1
    try:
        os.environ.update(variables)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            child.activate()
            try:
                call()
            except Exception:
                if not child.is_entered():  # else the session has it, and compares it with the recorded one
                    raise
            child.write_report()
        status = 0
    except BaseException as error:
        error_file.write_text(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _call_of(shell: Any, fixture: Fixture) -> Callable[[], None]:
    """Return a function that runs the entry point again."""
    entry = fixture.entry
    if not is_called(fixture) or entry.kind is not EntryKind.FUNCTION:
        raise ReplayError(
            f"run {fixture.run_id}: its entry is neither a cell nor a marked function (found: {entry.kind or 'none'})",
            do=f"replay it outside of the kernel: freezeframe replay {fixture.run_id}",
        )
    arguments = child.arguments_of(fixture)
    if entry.target == CELL:
        text = _own_cell(shell, arguments["args"][0], fixture)
        return lambda: _run_cell(shell, text)
    module, _, qualname = entry.target.partition(":")
    if module != "__main__":
        found = find_entry_point(fixture)
    else:
        found = shell.user_ns.get(qualname.partition(".")[0])
        for name in qualname.split(".")[1:]:
            found = getattr(found, name, None)
    if not is_marked(found):
        raise ReplayError(
            f"run {fixture.run_id}: this kernel has no function {qualname!r:.200} that is marked with @freezeframe.run",
            do="run the cell that defines it, then try again",
        )
    return lambda: child.call(found, arguments, fixture)


def _own_cell(shell: Any, recorded: str, fixture: Fixture) -> str:
    """Return the recorded cell, if this kernel ran it: a recording does not decide what runs.

    Raises:
        ReplayError: it ran no such cell.
    """
    parts = [recorded.rstrip("\n")]
    for surrogate in sorted(filter(None, fixture.redaction.surrogates), key=len, reverse=True):
        parts = [piece for part in parts for piece in part.split(surrogate)]
    like = re.compile(".+?".join(map(re.escape, parts[:_MAX_SURROGATES])), re.DOTALL)
    for cell in reversed(shell.history_manager.input_hist_raw):
        if cell.rstrip("\n") == recorded.rstrip("\n"):
            return recorded
        if len(parts) > 1 and like.fullmatch(cell):
            return cell
    raise ReplayError(
        f"run {fixture.run_id}: this kernel did not run the recorded cell; a recording does not decide what runs",
        do="run the cell, then try again",
    )


def _run_cell(shell: Any, text: str) -> None:
    """Run a cell as the shell does. The extension, loaded in the copy too, tells the session when it begins and ends."""
    transformed = shell.transform_cell(text)
    asynchronous = shell.should_run_async(text, transformed_cell=transformed)
    cell = shell.run_cell_async(text, store_history=False, transformed_cell=transformed)
    if asynchronous:
        result = asyncio.run(cell)
    else:
        try:
            cell.send(None)
        except StopIteration as end:
            result = end.value
        else:
            raise ReplayError("the cell waits for something, but has no await")
    shell.events.trigger("post_run_cell", result)
