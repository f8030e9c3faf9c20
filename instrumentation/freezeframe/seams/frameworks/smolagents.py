"""smolagents: the `forward` of a tool, called by a tool-calling agent or from the code that a code agent wrote."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.functions import calls
from freezeframe.seams.functions.marked import watch
from freezeframe.seams.functions.stand_in import StandIn, describe_tool
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches

SEAM: Final = "smolagents"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``smolagents.tools``."""
    patches.around(module.Tool, "__call__", _called)


def _called(original: Callable[..., Any], tool: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not calls.is_on():
        return original(tool, *args, **kwargs)
    instead: dict[str, Any] = {"forward": watch(tool.forward, describe_tool(tool.forward, name=str(tool.name), seam=SEAM))}
    if switch.serving() is not None:  # `setup` would load models and open connections for a function that is not called
        instead["is_initialized"] = True
    return original(StandIn(tool, **instead), *args, **kwargs)
