"""smolagents: the `forward` of a tool, called by a tool-calling agent or from the code that a code agent wrote."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams import _port, calls
from freezeframe.seams.functions import watch
from freezeframe.seams.patching import Patches
from freezeframe.seams.stand_in import StandIn, describe_tool

SEAM: Final = "smolagents"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``smolagents.tools``."""
    patches.around(module.Tool, "__call__", _called)


def _called(original: Callable[..., Any], tool: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not calls.is_on():
        return original(tool, *args, **kwargs)
    instead: dict[str, Any] = {"forward": watch(tool.forward, describe_tool(tool.forward, name=str(tool.name), seam=SEAM))}
    if _port.serving() is not None:  # `setup` would load models and open connections for a function that is not called
        instead["is_initialized"] = True
    return original(StandIn(tool, **instead), *args, **kwargs)
