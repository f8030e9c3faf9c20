"""CrewAI: the function of a tool, below validation and usage limits, however the crew calls it.

Crews call ``BaseTool.run``/``arun`` if the model's API supports tools, and ``CrewStructuredTool.invoke``/``ainvoke`` if the
model writes its calls as text.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.functions import calls
from freezeframe.seams.functions.marked import watch
from freezeframe.seams.functions.stand_in import StandIn, describe_tool
from freezeframe.seams.recorder.patching import Patches

SEAM: Final = "crewai"

_ENTRANCES: Final = {
    "BaseTool": ("run", "arun"),
    "Tool": ("run", "arun"),
    "CrewStructuredTool": ("invoke", "ainvoke"),
}
_HEARTS: Final = ("_run", "_arun", "func")
"""The attributes in which the three classes keep the function."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``crewai.tools.base_tool`` or ``crewai.tools.structured_tool``."""
    for name, methods in _ENTRANCES.items():
        cls: Any = vars(module).get(name)
        if cls is None or cls.__module__ != module.__name__:
            continue
        for method in methods:
            if method in vars(cls):
                patches.around(cls, method, _called)


def _called(original: Callable[..., Any], tool: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not calls.is_on():
        return original(tool, *args, **kwargs)
    hearts = {name: getattr(tool, name) for name in _HEARTS if hasattr(tool, name)}
    watched = {name: watch(heart, describe_tool(heart, name=str(tool.name), seam=SEAM)) for name, heart in hearts.items()}
    return original(StandIn(tool, **watched), *args, **kwargs)
