"""freezeframe: one line at start-up, and every run of the agent can be re-enacted.

    import freezeframe
    freezeframe.instrument()

Importing this loads nothing else: each name below is imported when it is first used. `instrument()` loads only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from freezeframe._doctor import doctor
    from freezeframe._injection import injected_environment
    from freezeframe._instrument import Handle, instrument
    from freezeframe._notebooks import load_ipython_extension, unload_ipython_extension
    from freezeframe._version import __version__
    from freezeframe.runs.run import current_run, flag, run
    from freezeframe.seams.functions.marked import retriever, tool

__all__ = [
    "Handle",
    "__version__",
    "current_run",
    "doctor",
    "flag",
    "injected_environment",
    "instrument",
    "load_ipython_extension",
    "retriever",
    "run",
    "tool",
    "unload_ipython_extension",
]

_HOMES: Final = {
    "Handle": "_instrument",
    "__version__": "_version",
    "current_run": "runs.run",
    "doctor": "_doctor",
    "flag": "runs.run",
    "injected_environment": "_injection",
    "instrument": "_instrument",
    "load_ipython_extension": "_notebooks",
    "retriever": "seams.functions.marked",
    "run": "runs.run",
    "tool": "seams.functions.marked",
    "unload_ipython_extension": "_notebooks",
}
"""Public name -> its module. `test_each_public_name_is_found_where_the_types_say` keeps both lists together."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
