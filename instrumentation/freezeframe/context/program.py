"""The program of this process: its file, its paths, and whether it is a script or a server."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeGuard

SERVERS: Final = frozenset(
    {"uvicorn.protocols", "gunicorn", "hypercorn", "granian", "waitress", "werkzeug.serving", "celery.worker", "uwsgi"}
)
"""Modules of servers: a process with one of them has many runs, and one span of the whole process would hold them all.

For uvicorn, a part that it loads when it serves: the package itself comes with mcp, and so with openai-agents' scripts.
"""


LAZY: Final[Any] = importlib.util._LazyModule  # pyright: ignore[reportAttributeAccessIssue] - what its public loader makes


def loaded_modules() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.copy().items() if is_loaded(module)}


def is_loaded(module: object) -> TypeGuard[ModuleType]:
    """Return whether an entry of ``sys.modules`` is a module that was loaded.

    It may be None, which blocks an import, or any object that a program put there, with any behaviour. A lazy module is not
    loaded yet, and reading one attribute would load it.
    """
    return issubclass(type(module), ModuleType) and type(module) is not LAZY


def namespace(module: ModuleType) -> dict[str, Any]:
    """Return a module's namespace, without running code of its class."""
    return object.__getattribute__(module, "__dict__")


def is_script() -> bool:
    """Return whether this process runs a file of the user's own."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if not main or getattr(sys, "ps1", None):
        return False
    return not _is_installed(main)


@functools.cache
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return any(path.is_relative_to(Path(prefix).resolve()) for prefix in (sys.prefix, sys.base_prefix))


STARTED_BY: Final = "FREEZEFRAME_STARTED_BY"
"""Environment variable: process id of the recorded program from which this process inherited it."""


def is_worker() -> bool:
    """Return whether multiprocessing started this process, forked or not, for another one that hands it its work."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def is_started_by_another() -> bool:
    """Return whether `freezeframe run` recorded the program from which this one was started."""
    return os.environ.get(STARTED_BY, str(os.getpid())) != str(os.getpid())


def program_file() -> str | None:
    """Return the file of the program; at start-up, before there is a ``__main__``, from the command line."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return main or next((part for part in sys.orig_argv[1:] if os.path.isfile(part)), None)


def relative_path(path: str) -> str:
    """Return an absolute path below the working directory as relative to it, anything else unchanged."""
    if not os.path.isabs(path):
        return path
    inside = os.path.relpath(path)
    return path if inside.startswith(os.pardir) else inside
