"""Start a program with freezeframe in it and its code unchanged: environment variables that trigger the start-up hook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from freezeframe._guard import report
from freezeframe.context.environment import HASH_SEED_VARIABLE
from freezeframe.context.program import STARTED_BY

INJECT_VARIABLE: Final = "FREEZEFRAME_INJECT"
ROOT_VARIABLE: Final = "FREEZEFRAME_ROOT"
_DOOR: Final = Path(__file__).parent / "_inject"

_SERVERS: Final = frozenset(
    "uvicorn gunicorn hypercorn granian daphne flask fastapi waitress-serve uwsgi celery streamlit".split()
)
"""Commands that serve many requests: each request is a run, not the process."""


def injected_environment(target: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `environ` such that a Python started with it calls `target` (``module:function``) before its program."""
    paths = [str(_DOOR)] + [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(_DOOR)]
    return {**environ, INJECT_VARIABLE: target, "PYTHONPATH": os.pathsep.join(paths)}


def capture_environment(command: Sequence[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment with which `freezeframe run` starts `command`, so that it is captured.

    The hash seed is drawn here: Python does not reveal one that it draws itself, and sets would have another order in a replay.
    """
    root = "never" if is_server(command) else "always"
    seed = environ.get(HASH_SEED_VARIABLE)
    if seed in (None, "", "random"):
        environ = {**environ, HASH_SEED_VARIABLE: str(int.from_bytes(os.urandom(4)))}
    return {ROOT_VARIABLE: root, **injected_environment("freezeframe._injection:start", environ)}


def is_server(command: Sequence[str]) -> bool:
    """Return whether the command is one that serves requests, ``uvicorn app:app`` or ``python -m uvicorn app:app``."""
    return any(Path(part).name in _SERVERS for part in command[:4])


def start() -> None:
    """Instrument this process, from its environment. A failure is reported and the program goes on."""
    from freezeframe._instrument import instrument

    os.environ.setdefault(STARTED_BY, str(os.getpid()))  # what this program starts inherits it
    try:
        instrument()
    except Exception as error:
        report("freezeframe run", error)
