"""The start-up hook:

Python imports this before the program. It calls the function in ``FREEZEFRAME_INJECT``, ``module:function``.

`freezeframe run` and replays put this file's directory first on ``PYTHONPATH``. Another ``sitecustomize`` that would have been
found runs as well, first. A failure ends the process: a program that starts half-instrumented, or half in a replay, would
go live. Anything that may fail harmlessly catches its own errors.
"""

import importlib
import importlib.util
import os
import sys
from importlib.machinery import PathFinder

INJECT_VARIABLE = "FREEZEFRAME_INJECT"
NOT_STARTED = 125


def _run_the_other() -> None:
    """Run the ``sitecustomize`` that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    behind = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", behind)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _call_target() -> None:
    target = os.environ.get(INJECT_VARIABLE)
    if not target:
        return
    module_name, _, function_name = target.partition(":")
    try:
        getattr(importlib.import_module(module_name), function_name)()
    except ImportError as error:
        print(
            f"freezeframe: {sys.executable} cannot import {module_name} ({error})\n"
            "  do: install freezeframe into the environment that runs this command",
            file=sys.stderr,
        )
        os._exit(NOT_STARTED)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(NOT_STARTED)


_run_the_other()
_call_target()
