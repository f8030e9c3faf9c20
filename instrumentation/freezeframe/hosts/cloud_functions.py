"""Google Cloud Functions: an application that the Functions Framework makes around a function, as a request's (`request_runs`).

The framework reads the function's file itself, and while it does, the file turns capture on: there is nothing left to hook.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from freezeframe.context.program import loaded_modules, relative_path


def function_name() -> str:
    """Return the name of the function that this process serves; empty if it serves none."""
    return os.environ.get("FUNCTION_TARGET", "") if "functions_framework" in sys.modules else ""


def search(app: Any) -> tuple[str, ModuleType] | None:
    """Return the call by which a replay makes the application, and the module of the function; None if it is another one's."""
    name = function_name()
    modules = loaded_modules().values() if name else ()
    module = next((module for module in modules if _was_read(module) and hasattr(module, name)), None)
    if module is None or type(app).__module__.partition(".")[0] not in ("flask", "starlette"):
        return None
    maker = "functions_framework:create_app" if hasattr(app, "wsgi_app") else "functions_framework.aio:create_asgi_app"
    words = [name, relative_path(str(module.__file__)), os.environ.get("FUNCTION_SIGNATURE_TYPE", "http")]
    return f"{maker}({str(words)[1:-1]})", module


def _was_read(module: ModuleType) -> bool:
    """Return whether the framework read a module: it makes a package of any file."""
    file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    return bool(file) and folders == [os.path.dirname(str(file))] and Path(str(file)).stem != "__init__"
