"""Find state that a process carries over from one run to the next: a replay runs one of them alone, and begins like the first.

The values that a run's code names are examined when the process runs it for the first time, and again in each
later run (see `LeftBehind`). For a marked function that is at the beginning of its run; for a request or a task
at the run's first call, in the functions on the stack. Changes before that first time, in runs of other code,
are not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from freezeframe._guard import guard
from freezeframe.seams.functions.left_behind import Changes, LeftBehind, plain_function
from freezeframe.seams.unmarked.accesses import is_applications
from freezeframe_schemas.gaps import NOT_REPEATED, Gap, GapKind

_MAX_FUNCTIONS: Final = 8
"""Number of functions on the stack that are examined: the innermost."""
_MAX_SEEN: Final = 1_000
_HOSTS: Final = "freezeframe.hosts"
_FIRST: Final[WeakKeyDictionary[FunctionType | CodeType, Changes]] = WeakKeyDictionary()
"""A function, or the code of one on the stack -> a function that lists changes of its surroundings since its first run.

A function created anew for each run has no earlier run, but its code has.
"""


def carried_into(function: Any) -> Iterator[Gap]:
    """Yield the gap, if any, of a run that begins with a call of this function."""
    plain = plain_function(function)
    return _gaps({} if plain is None else {plain: plain})


def carried_into_call() -> Iterator[Gap]:
    """Yield the gap, if any, of a run that makes its first call."""
    return _gaps({function.__code__: function for function in _functions_on_the_stack()})


def _gaps(functions: Mapping[FunctionType | CodeType, FunctionType]) -> Iterator[Gap]:
    names: dict[str, None] = {}
    with guard("run.carried_over"):  # another thread may change what is looked at
        for key, function in functions.items():
            changes = _FIRST.get(key)
            if changes is not None:
                names |= dict.fromkeys(name for _, name in changes(None))
            elif len(_FIRST) < _MAX_SEEN:
                _FIRST[key] = LeftBehind(function, for_run=True).before(None)
    if names:
        yield Gap(
            kind=GapKind.CARRIED_OVER,
            text=f"{', '.join(names)} changed since the process first ran this code, {NOT_REPEATED}",
            do="pass it as an argument, or read it in a function marked with @freezeframe.tool",
        )


def _functions_on_the_stack() -> Iterator[FunctionType]:
    """Yield the application's functions that are running between the call and the server of the request or task.

    A frame has no function, but its code and globals have the names. Values of its variables are not examined.
    """
    frame, left = sys._getframe(1), _MAX_FUNCTIONS
    while frame is not None and left:
        code, module = frame.f_code, frame.f_globals.get("__name__") or ""
        if module.startswith(_HOSTS):
            return
        if code.co_name != "<module>" and is_applications(code.co_filename, module):
            left -= 1
            yield FunctionType(code, frame.f_globals, closure=tuple(CellType() for _ in code.co_freevars))
        frame = frame.f_back
