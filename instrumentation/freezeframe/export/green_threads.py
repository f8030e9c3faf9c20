"""gevent and eventlet: they replace the process's threads and locks, also after `instrument()` (``freezeframe run``).

A thread that waits on a lock of the old kind would then wait for ever, or fail. So the export queue has no thread meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.export.export_queue import ExportQueue
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches

_REPLACE_THREADS: Final = {"gevent.monkey": "patch_thread", "eventlet.patcher": "monkey_patch"}
"""Module -> its function that does it; gevent's ``patch_all`` calls that one."""


def step_aside(queue: ExportQueue) -> Callable[[], None]:
    """Stop the queue's thread whenever threads are replaced, and start a new one; return a function that undoes that."""
    patches = Patches()

    def install(module: ModuleType) -> None:
        name = _REPLACE_THREADS[module.__name__]
        original: Any = getattr(module, name)

        @functools.wraps(original)
        def replace_threads(*args: Any, **kwargs: Any) -> Any:
            with queue.aside():
                return original(*args, **kwargs)

        patches.everywhere(module, {name: replace_threads})

    for module_name in _REPLACE_THREADS:
        IMPORT_HOOK.when_imported(module_name, install)
    return patches.undo
