"""``%load_ext freezeframe``: each cell that makes a call is a run, and ``%freezeframe_replay`` replays one in the kernel.

A notebook's functions and objects exist only in its kernel, so only the kernel can replay a cell that used them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe._instrument import active_handle, instrument
from freezeframe.context.current import RunContext, current_place
from freezeframe.runs.entry import EntryScope
from freezeframe.runs.entry_payload import EntryPoint
from freezeframe.runs.reach import IN_KERNEL
from freezeframe_schemas import values
from freezeframe_schemas.gaps import Gap, GapKind
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.run import CELL, EntryKind

_UNREACHABLE: Final = Gap(
    kind=GapKind.ENTRY_UNREACHABLE,
    text="the run is a cell of a notebook, which uses what other cells left in the kernel",
    do=IN_KERNEL,
)
_EVENTS: Final = ("pre_run_cell", "post_run_cell")
_REPLAYS: Final = "freezeframe.replay_in_kernel"
"""The entry point by which the replay package offers ``replay(shell, run)``: nothing here knows that package."""


class Cells:
    """The cells that run at present, each with its run."""

    def __init__(self) -> None:
        self._open: list[tuple[Any, EntryScope, Callable[[], None]]] = []

    def pre_run_cell(self, info: Any) -> None:
        """Begin what may be a run."""
        with guard("cell.begin"):
            point = EntryPoint(
                kind=EntryKind.FUNCTION,
                name="cell",
                target=CELL,
                file=None,
                input=values.encode({"args": [info.raw_cell], "kwargs": {}}),
                gaps=(_UNREACHABLE,),
            )
            scope = EntryScope(point, RunContext(name="cell", is_implied=True))
            self._open.append((info, scope, scope.enter()))

    def post_run_cell(self, result: Any) -> None:
        """End the run, if the cell is one."""
        with guard("cell.end"):
            found = next((one for one in self._open if one[0] is result.info), None)
            if found is None:
                return
            self._open.remove(found)
            _, scope, leave = found
            if current_place().run is scope.run:  # a cell that awaits ran in a task, whose context has ended with it
                leave()
            if result.execution_count is not None:  # at the start, IPython's versions disagree on whether it is counted
                scope.rename(f"In [{result.execution_count}]")
            error = result.error_before_exec or result.error_in_exec
            scope.finish(output=None if error is not None else values.encode(result.result), error=error)


_loaded: Final[list[tuple[Any, Cells]]] = []


def load_ipython_extension(ipython: Any) -> None:
    """Capture from now on; IPython calls this for ``%load_ext freezeframe``.

    Call `instrument()` before that to set options; otherwise those of the environment apply.
    """
    if active_handle() is None:
        instrument()
    unload_ipython_extension(ipython)
    cells = Cells()
    _loaded.append((ipython, cells))
    for event in _EVENTS:
        ipython.events.register(event, getattr(cells, event))

    def freezeframe_replay(line: str) -> None:
        """Replay a run in a copy of this kernel: %freezeframe_replay [RUN]."""
        handle = active_handle()
        if handle is not None:
            handle.flush(handle.settings.exit_timeout_s)
        try:
            (replay,) = (entry.load() for entry in entry_points(group=_REPLAYS))
        except (ImportError, ValueError):
            print(f"freezeframe: a replay needs more than what is installed\n  do: {install_command('replay')}")
            return
        replay(ipython, line.strip() or (handle.settings.file if handle else None) or "last")

    ipython.register_magic_function(freezeframe_replay, "line")


def unload_ipython_extension(ipython: Any) -> None:
    """Leave cells alone from now on; the process's calls are still recorded, as with `instrument()`."""
    for shell, cells in [one for one in _loaded if one[0] is ipython]:
        _loaded.remove((shell, cells))
        for event in _EVENTS:
            shell.events.unregister(event, getattr(cells, event))
