"""`input()`: what a person types, recorded as a call of a tool named ``input``, which a replay answers.

Of a script that is a run as a whole, input that is not typed at a terminal is a part of the entry point's input
(`runs.streams`); a marked run has no other record of it. Debuggers and consoles ask for commands: those are not recorded.
"""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Any, Final

from freezeframe._guard import guard
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import current_place
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe_schemas.exchange import Kind

if TYPE_CHECKING:
    from freezeframe.seams.recorder.patching import Patches

SEAM: Final = "input"
_CONSOLES: Final = frozenset({"cmd", "code", "pdb"})
_ASKER: Final = 3
"""Frames from `_is_of_run` up to the caller of `input`."""


def install(patches: Patches) -> None:
    """Replace `input`."""
    patches.around(builtins, "input", _ask)


def _ask(original: Any, prompt: object = "", /) -> str:
    if not _is_of_run():
        return original(prompt)
    shown = False

    def ask() -> str:
        nonlocal shown
        shown = True
        with guard("input.prompt"):
            recorder = switch.recorder()
            if recorder is not None and sys.stdin.isatty() and sys.stdout.isatty():  # else Python prints it on `sys.stdout`
                recorder.root.note_prompt(str(prompt))
        return original(prompt)

    typed = calls.run(lambda: calls.FunctionCall.of(Kind.TOOL, SEAM, "input", str(prompt), kwargs={}), ask)
    if not shown:
        print(prompt, end="", flush=True)
    return typed


def _is_of_run() -> bool:
    with guard("input"):
        if sys._getframe(_ASKER).f_globals.get("__name__") in _CONSOLES:
            return False
        is_marked = current_place().run is not None
        if switch.serving() is not None:
            return switch.typed() == "everywhere" or (is_marked and switch.typed() == "in runs")
        return is_marked or (ACTIVITY.is_process and sys.stdin.isatty())
    return False
