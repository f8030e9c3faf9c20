"""Entrances: the functions of the standard library by which Python code reaches files, programs and connections.

A hook for audit events (PEP 578) would see more, and cannot be removed: it slows down each `id()`, ``copy.deepcopy`` and
log line of the process. So the functions that are entrances are wrapped in every module that holds one, from
the start of capture to its end. Code that calls them by a default argument set before, or bypasses them
(``io.FileIO``, ``sqlite3.Connection``, ``posix``), is not seen.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FrameType, MethodType, ModuleType
from typing import Any, Final

from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import PLACE
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches

Hear = Callable[[str, tuple[Any, ...], FrameType], None]
"""Takes the name of the audit event, its arguments as far as they matter, and the caller."""

_OF_OS: Final = {
    "listdir": "os.listdir", "scandir": "os.scandir", "mkdir": "os.mkdir", "remove": "os.remove", "unlink": "os.remove",
    "rename": "os.rename", "replace": "os.rename", "rmdir": "os.rmdir", "truncate": "os.truncate", "link": "os.link",
    "symlink": "os.symlink", "system": "os.system", "posix_spawn": "os.posix_spawn", "posix_spawnp": "os.posix_spawn",
    "execv": "os.exec", "execve": "os.exec",
}  # fmt: skip
"""Function -> the audit event that it raises."""
STARTED: Final = "multiprocessing.start"
"""Our event of a process of multiprocessing that begins as a new Python."""
_FOLDERS: Final = ("dir_fd", "src_dir_fd", "dst_dir_fd")
_SUPPORTS: Final = ("supports_dir_fd", "supports_fd", "supports_follow_symlinks", "supports_effective_ids")
"""Sets by which programs check the abilities of functions of `os`."""
_SOCKETS: Final = {"socket": "socket", "gevent._socket3": "socket", "eventlet.greenio.base": "GreenSocket"}
"""Module -> its class of sockets."""
_UNTOUCHED: Final = ("posix", "nt")
"""Modules whose functions Python's own imports call."""
_MODES: Final = {"w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "x": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
                 "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND}  # fmt: skip


IMPORTS: Final[Any] = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", (None,))
"""Holds something while any thread imports a module."""


class ImportWatch:
    """Conditions that the entrances check outside of runs, in addition to `ACTIVITY`."""

    __slots__ = ("known", "on")

    def __init__(self) -> None:
        self.on = False
        """Reads during the program's imports are watched, too."""
        self.known: dict[bool, set[object]] = {False: set(), True: set()}
        """Accesses already examined: while the process as a whole is not a run, and while it is one."""


class _HomeModule:
    """Object that an entrance is bound to, as a C function is to its module.

    So it is not a function of a class that holds it, as one that is written in Python would be; and it can be pickled by name.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, (self._name,)


def install(patches: Patches, watch: ImportWatch, hear: Hear) -> Callable[[], None]:
    """Wrap the entrances; return a function to call after the patches are undone, which undoes the rest."""
    opened = _open(io.open, [builtins, io], watch, hear)
    ours: dict[Any, Any] = {io.open: opened, os.open: _os_open(os.open, watch, hear)}
    for name, event in _OF_OS.items():
        if hasattr(os, name) and type(original := getattr(os, name)) is BuiltinFunctionType:
            ours[original] = _of_os(original, event, watch, hear)
    for module_name, module in sys.modules.copy().items():
        if type(module) is ModuleType and module_name not in _UNTOUCHED:  # no lazy one, which asking would load
            for name, value in list(vars(module).items()):
                if type(value) is BuiltinFunctionType and (entrance := ours.get(value)) is not None:
                    patches.replace(module, name, lambda _, entrance=entrance: entrance)
    IMPORT_HOOK.when_imported("subprocess", partial(_install_subprocess, patches, watch, hear))
    IMPORT_HOOK.when_imported("multiprocessing.context", partial(_install_processes, patches, hear))
    for name, class_name in _SOCKETS.items():
        IMPORT_HOOK.when_imported(name, partial(_install_sockets, patches, watch, hear, class_name))
    groups = [group for name in _SUPPORTS if isinstance(group := getattr(os, name, None), set)]
    added = [(group, entrance) for group in groups for original, entrance in ours.items() if original in group]
    for group, entrance in added:
        group.add(entrance)

    def take_back() -> None:
        for group, entrance in added:
            group.discard(entrance)

    return take_back


def _bound(called: Any, original: Any, module: str) -> Any:
    called.__name__, called.__qualname__, called.__doc__ = original.__name__, original.__name__, original.__doc__
    called.__module__ = module
    try:
        parameters = inspect.signature(original).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    if parameters:
        first = inspect.Parameter("module", inspect.Parameter.POSITIONAL_ONLY)
        called.__signature__ = inspect.Signature((first, *parameters))
    return MethodType(called, _HomeModule(module))


def _open(original: Any, holders: list[ModuleType], watch: ImportWatch, hear: Hear) -> Any:
    activity, place_of, frame_of = ACTIVITY, PLACE.get, sys._getframe

    def opened(_: object, /, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        if activity.on or watch.on:
            place = place_of(None)
            if place is None or (run := place.run) is None:
                known = () if IMPORTS else watch.known[activity.is_process]
            else:
                known = run.accesses.known
            if type(file) is not str or (file, mode) not in known:
                hear("open", (file, mode, _flags(mode)), frame_of(1))
        else:
            for holder in holders:
                activity.put_aside(holder, "open", entrance, original)
        if args or kwargs:
            return original(file, mode, *args, **kwargs)
        return original(file, mode)

    entrance = _bound(opened, original, "io")
    return entrance


def _flags(mode: object) -> int:
    if not isinstance(mode, str):
        return 0
    return next((flags for letter, flags in _MODES.items() if letter in mode), os.O_RDWR if "+" in mode else 0)


def _os_open(original: Any, watch: ImportWatch, hear: Hear) -> Any:
    activity, frame_of = ACTIVITY, sys._getframe

    def opened(_: object, /, *args: Any, **kwargs: Any) -> Any:
        if (activity.on or watch.on) and kwargs.get("dir_fd") is None:
            flags = args[1] if len(args) > 1 else kwargs.get("flags", 0)
            hear("open", (args[0] if args else kwargs.get("path"), None, flags if type(flags) is int else 0), frame_of(1))
        return original(*args, **kwargs)

    return _bound(opened, original, "os")


def _of_os(original: Any, event: str, watch: ImportWatch, hear: Hear) -> Any:
    activity, frame_of = ACTIVITY, sys._getframe

    def called(_: object, /, *args: Any, **kwargs: Any) -> Any:
        if activity.on or watch.on:
            if not kwargs:
                hear(event, args or (None,), frame_of(1))
            elif all(kwargs.get(name) is None for name in _FOLDERS):  # a folder's descriptor was seen when it was opened
                named = [value for name, value in kwargs.items() if name not in _FOLDERS]
                hear(event, (*args, *named) or (None,), frame_of(1))
        return original(*args, **kwargs)

    return _bound(called, original, "os")


def _install_subprocess(patches: Patches, watch: ImportWatch, hear: Hear, module: Any) -> None:
    def init(original: Any, popen: Any, args: Any, *rest: Any, **options: Any) -> None:
        if ACTIVITY.on or watch.on:
            shell = options.get("shell") or (len(rest) > 7 and rest[7])
            executable = options.get("executable") or (rest[1] if len(rest) > 1 else None) or ("sh" if shell else None)
            hear("subprocess.Popen", (executable, args), sys._getframe(2))
        original(popen, args, *rest, **options)

    patches.around(module.Popen, "__init__", init)


def _install_processes(patches: Patches, hear: Hear, module: Any) -> None:
    """Report processes that begin as a new Python, whose calls are not recorded; one that is forked goes on recording."""

    def start(original: Any, process: Any) -> None:
        if ACTIVITY.on:
            method = getattr(process, "_start_method", None) or module._default_context.get_start_method()
            if method != "fork":
                frame = sys._getframe(2)
                while frame.f_back is not None and _top_module(frame) in ("multiprocessing", "concurrent"):
                    frame = frame.f_back
                hear(STARTED, (f"a Python process (multiprocessing, {method})",), frame)
        original(process)

    patches.around(module.process.BaseProcess, "start", start)


def _top_module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _install_sockets(patches: Patches, watch: ImportWatch, hear: Hear, class_name: str, module: Any) -> None:
    def connect(original: Any, socket: Any, *args: Any, **kwargs: Any) -> Any:
        if args and (ACTIVITY.on or watch.on):
            hear("socket.connect", (socket, args[0]), sys._getframe(2))
        return original(socket, *args, **kwargs)

    for name in ("connect", "connect_ex"):
        patches.around(getattr(module, class_name), name, connect)
