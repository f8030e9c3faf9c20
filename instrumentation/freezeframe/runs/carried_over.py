"""What a process carries over from one run to the next: a replay runs one of them alone, and begins as the first one did.

What the code of a run names is looked at when the process runs it for the first time, and again in each later run (see
`LeftBehind`). Of a marked function that is when its run begins; of a request or a task it is when the run makes its first call,
in the functions on the stack. What changed before that first time, in the run of other code, is not seen.
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
"""How many functions on the stack are looked at: the innermost."""
_MAX_SEEN: Final = 1_000
_HOSTS: Final = "freezeframe.hosts"
_FIRST: Final[WeakKeyDictionary[FunctionType | CodeType, Changes]] = WeakKeyDictionary()
"""A function, or the code of one on the stack -> what tells how its surroundings differ from those in its first run.

A function that is made anew for each run has no earlier run, though its code has.
"""


def carried_into(function: Any) -> Iterator[Gap]:
    """Yield the gap of a run that a call of this function begins, if there is one."""
    plain = plain_function(function)
    return _gaps({} if plain is None else {plain: plain})


def carried_into_call() -> Iterator[Gap]:
    """Yield the gap of a run whose first call is being made, if there is one."""
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
    """Yield the application's functions that are running between the call and what serves the request or the task.

    A frame has no function, but what it names is in its code and its globals. What its variables hold is not looked at.
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
