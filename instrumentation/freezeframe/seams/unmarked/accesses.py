"""Accesses of a run's unmarked code outside the process: files, databases, connections, programs.

Each is a gap of that run. Functions of the standard library that reach them are wrapped (`entrances`). Nothing
is raised into the program. Each access counts once, when first seen: kind, name and line of code. Never a
value; of a path, the part below the working directory, else only the file's name.

Reads of the application's modules during their import are a gap of each run: a replay imports them again. Not
seen: accesses by C code (`drivers` and `sessions` name some), data over a connection that was opened before the
run, and threads that were started before it. Not reported: reads by Python, its packages and the operating
system, imports, logging, the run's own temporary files, and everything that a replay does not do: the inside of
a tool, the call of a seam.
"""

from __future__ import annotations

import os
import shlex
import site
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from functools import cache
from threading import get_ident
from types import FrameType
from typing import Any, Final

from freezeframe._guard import guard, report
from freezeframe.context.accesses import UnrecordedAccess, UnrecordedAccesses, shown_path
from freezeframe.context.activity import ACTIVITY
from freezeframe.context.current import current_place
from freezeframe.context.draws import UNRECORDED
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.readings import draws_of
from freezeframe.seams.unmarked.entrances import IMPORTS, STARTED, ImportWatch, install
from freezeframe_schemas.gaps import GapKind

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final[Mapping[str, str]] = {
    "os.mkdir": "makes the folder", "os.remove": "removes", "os.rename": "renames", "os.rmdir": "removes the folder",
    "os.truncate": "cuts", "os.link": "links", "os.symlink": "links",
}  # fmt: skip
_PROGRAMS: Final = frozenset({STARTED, "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"})
_SQLITE: Final = "sqlite3.connect"
_LOADED: Final = frozenset({GapKind.FILE_READ, GapKind.DATABASE, GapKind.CONNECTION})
"""Events of reading during an import. Its writes and starts do not count: a replay imports again."""
_CODE: Final = (".py", ".pyc", ".pyi", ".pyd", ".so", ".pth")
_SYSTEM: Final = tuple(
    f"/{name}/"
    for name in ("bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr", "System", "Library", "private/etc")
)
"""The operating system's own folders."""
_RANDOM_DEVICES: Final = ("/dev/urandom", "/dev/random")
_ABOUT_THE_MACHINE: Final = frozenset(
    {
        # standard library: the interpreter's own work, and questions about the machine
        "ctypes", "encodings", "gettext", "importlib", "inspect", "linecache", "locale", "logging", "mimetypes", "netrc",
        "pkgutil", "platform", "site", "ssl", "sysconfig", "tokenize", "traceback", "uuid", "warnings", "zoneinfo", "_strptime",
        "multiprocessing", "pydoc", "runpy", "zipimport",
        # packages that do the same, write logs, or belong to a seam: MCP servers, cloud credentials
        "distro", "certifi", "loguru", "structlog", "mcp", "botocore", "IPython", "coverage", "_pytest", "pytest", "debugpy",
        "_pydevd_bundle", "tzlocal", "dateutil", "tzdata",
    }
)  # fmt: skip
"""Top-level modules whose accesses are not a gap if they are nearer on the stack than the application's code."""
_OURS: Final = ("freezeframe", "freezeframe_schemas", "freezeframe_replay", "freezeframe_redaction")
_CARRIERS: Final = (
    "freezeframe.seams.files",
    "freezeframe.seams.order.lanes",
    "freezeframe.seams.databases.sqlite",
    "freezeframe._drive",
)
"""Our modules that only pass the application's work to another thread or step."""


_WATCH: Final = ImportWatch()
_patches: Final = Patches()
_take_back: Final[list[Callable[[], None]]] = []
_PLAIN: Final = frozenset({str, int, type(None)})
_MAX_KNOWN: Final = 1_000
"""Limit of remembered file names that a run has examined."""
_MAIN: Final = threading.main_thread().ident
"""Name of the main thread, which runs the program's file like an imported module."""


def start() -> None:
    """Start watching: wrap the entrances, once."""
    if not _take_back:
        _python_directories()  # asks the file system: not while the program does
        _take_back.append(install(_patches, _WATCH, hear))
    _WATCH.on = True
    for known in _WATCH.known.values():
        known.clear()


def stop() -> None:
    """Stop watching accesses outside of runs."""
    _WATCH.on = False


def uninstall() -> None:
    """Restore the entrances."""
    _patches.undo()
    while _take_back:
        _take_back.pop()()


def hear(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
    """Note an access that is about to happen; `event` and `arguments` are those of its audit event (PEP 578)."""
    try:
        _note(event, arguments, frame)
    except Exception as error:
        report("unmarked", error)


def _note(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
    recorder = switch.recorder()
    if recorder is None:
        return
    place = current_place()
    if place.lane.apart:  # a replay does not do this
        return
    key = _key(event, arguments)
    if place.run is None:
        if _is_looked_at_outside(recorder.root.loaded, key):
            return
        if _WATCH.on and (IMPORTS or get_ident() == _MAIN):
            _note_import(recorder.root.loaded, event, arguments, frame)
    accesses: UnrecordedAccesses | None = recorder.root.accesses() if place.run is None else place.run.accesses
    if accesses is None or accesses.full or key in accesses.known:
        return
    if event == "open" and path_of(arguments[0]) in _RANDOM_DEVICES:
        draws = draws_of(place)
        if draws is not None and _who(frame, alone=place.run is None):
            draws.lost[UNRECORDED] += 1
        return
    act = _act(event, arguments, accesses)
    if act is not None:
        kind, verb, what = act
        if accesses.is_new(kind, what) and (verb != "reads" or os.path.isfile(what)):
            found = _who(frame, alone=place.run is None)
            if found is not None:
                accesses.note(UnrecordedAccess(kind=kind, verb=verb, what=what, by=found[0], where=found[1]))
    if key is not None and len(accesses.known) < _MAX_KNOWN:
        accesses.known.add(key)


def _key(event: str, arguments: tuple[Any, ...]) -> object:
    """Return a key that is equal for equal accesses, for `open` in the form of `entrances`; None without one."""
    plain = arguments[:2]
    if type(plain[0]) is not str or type(plain[-1]) not in _PLAIN:
        return None
    return plain if event == "open" else (event, *plain)


def _is_looked_at_outside(loaded: UnrecordedAccesses, key: object) -> bool:
    """Return whether code outside of runs has made this access before, while nothing was being imported; remember it."""
    if loaded.full:
        _WATCH.on = False
    known = _WATCH.known[ACTIVITY.is_process]
    if key is None or IMPORTS or (_WATCH.on and get_ident() != _MAIN):
        return False
    if key in known:
        return True
    if len(known) < _MAX_KNOWN:
        known.add(key)
    return False


def _note_import(loaded: UnrecordedAccesses, event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
    """Note a read of an application's module during its import: a replay of a run of its functions reads again."""
    act = None if loaded.full or event == _SQLITE else _act(event, arguments, loaded)  # opening a database reads nothing
    if act is None or act[0] not in _LOADED:
        return
    kind, verb, what = act
    if not loaded.may_be_new(kind, what) or os.path.basename(what).startswith(".env"):
        return
    imported = _importing(frame)
    if imported is not None and (verb != "reads" or os.path.isfile(what)):
        _keep(loaded, kind, verb, what, frame, imported)


def note_import(kind: GapKind, verb: str, what: str) -> None:
    """Note an access that a seam sees outside any run, if a module of the application makes it during its import."""
    recorder, place = switch.recorder(), current_place()
    if recorder is None or place.run is not None or place.lane.apart or not recorder.root.loaded.may_be_new(kind, what):
        return
    frame = _past_ours(sys._getframe(1))
    if (imported := _importing(frame)) is not None:
        _keep(recorder.root.loaded, kind, verb, what, frame, imported)


def _keep(
    accesses: UnrecordedAccesses, kind: GapKind, verb: str, what: str, frame: FrameType | None, imported: tuple[str, str, int]
) -> None:
    if accesses.is_new(kind, what) and (found := _who(frame, alone=True)) is not None:
        accesses.note(UnrecordedAccess(kind=kind, verb=verb, what=what, by=found[0], where=found[1], imported=imported))


def _importing(frame: FrameType | None) -> tuple[str, str, int] | None:
    """Return the module of the application whose code, nearest on the stack, is being run at its top level."""
    while frame is not None:
        code, name = frame.f_code, str(frame.f_globals.get("__name__", ""))
        if code.co_name == "<module>" and is_applications(code.co_filename, name):
            return name, code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def note_session(verb: str, what: str) -> None:
    """Note a session that no seam records. It replaces the note on its socket."""
    note(GapKind.CONNECTION, verb, what, again=True)


def note(kind: GapKind, verb: str, what: str, *, again: bool = False) -> None:
    """Note an access that a seam sees and does not record; once, unless it replaces the note on its socket (`again`)."""
    with guard("unmarked.note"):
        recorder, place = switch.recorder(), current_place()
        if recorder is None or place.lane.apart:
            return
        note_import(kind, verb, what)
        accesses: UnrecordedAccesses | None = recorder.root.accesses() if place.run is None else place.run.accesses
        if accesses is None or accesses.full or not (accesses.is_new(kind, what) or again):
            return
        found = _who(_past_ours(sys._getframe(1)), alone=place.run is None)
        if found is not None:
            accesses.note(UnrecordedAccess(kind=kind, verb=verb, what=what, by=found[0], where=found[1]))


def _past_ours(frame: FrameType | None) -> FrameType | None:
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in (*_OURS, "contextlib"):
        frame = frame.f_back
    return frame


# -- what was done ------------------------------------------------------------------------------------------------------


def _act(event: str, arguments: tuple[Any, ...], accesses: UnrecordedAccesses) -> tuple[GapKind, str, str] | None:
    """Return kind, verb and object of an access; None if it does not matter."""
    if event == "open":
        return _opened(arguments[0], arguments[2], accesses)
    if event == "socket.connect":
        address = _address(arguments[1])
        return None if address is None else (GapKind.CONNECTION, "connects to", address)
    if event in _PROGRAMS:
        return GapKind.PROCESS, "starts", _program(event, arguments)
    path = path_of(arguments[0])
    if path is None or path.startswith(_python_directories()):
        return None
    if event == _SQLITE:
        return GapKind.DATABASE, "opens the database", path
    if event == "os.mkdir" and os.path.isdir(path):
        return None  # it fails, which `exist_ok` expects
    if event in _CHANGES:
        accesses.own.add(path_of(arguments[1]) or "" if event == "os.rename" else path)
        return None if is_temporary(path) or path in accesses.own - {path} else (GapKind.FILE_WRITTEN, _CHANGES[event], path)
    return None if path in accesses.own or _is_systems(path) else (GapKind.FILE_READ, "lists the folder", path)


def path_read(target: Any, accesses: UnrecordedAccesses) -> str | None:
    """Return the path of a file that, read by unmarked code, is a gap of its run; None for any other."""
    path = path_of(target)
    return None if path is None or _is_no_input(path) or path in accesses.own else path


def read_by_program(event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> str | None:
    """Return the file that the program is about to read, as shown; None if an event is no such act."""
    act = _act(event, arguments, UnrecordedAccesses()) if event == "open" else None
    is_read = act is not None and act[0] is GapKind.FILE_READ and os.path.isfile(act[2]) and is_of_run(frame)
    return shown_path(act[2]) if act is not None and is_read else None


def is_of_run(frame: FrameType | None) -> bool:
    """Return whether an access at a frame is the run's own, and not Python's, a seam's or a log's."""
    return _who(_past_ours(frame), alone=current_place().run is None) is not None


def _is_no_input(path: str) -> bool:
    return path.endswith(_CODE) or path.startswith(_python_directories()) or _is_systems(path)


def _opened(target: Any, flags: int, accesses: UnrecordedAccesses) -> tuple[GapKind, str, str] | None:
    path = path_of(target)
    if path is None or _is_no_input(path):
        return None
    if flags & _WRITES:
        if flags & os.O_TRUNC or flags & os.O_EXCL:
            accesses.own.add(path)
        return None if is_temporary(path) else (GapKind.FILE_WRITTEN, "writes", path)
    return None if path in accesses.own else (GapKind.FILE_READ, "reads", path)


def path_of(target: Any) -> str | None:
    """Return the absolute path; None for a descriptor and for an in-memory database."""
    if not isinstance(target, str | bytes | os.PathLike):
        return os.getcwd() if target is None else None  # `os.listdir()` lists the working directory
    text = os.fsdecode(target)
    if text.startswith("file:"):
        text, _, options = text.removeprefix("file:").partition("?")
        text = "" if "mode=memory" in options else text
    return None if text in ("", ":memory:") else os.path.abspath(text)


def _address(address: Any) -> str | None:
    if isinstance(address, tuple):
        return ":".join(str(part.decode() if isinstance(part, bytes) else part) for part in address[:2])
    return f"the socket {os.path.basename(os.fsdecode(address))}" if isinstance(address, str | bytes) else None


def _program(event: str, arguments: tuple[Any, ...]) -> str:
    """Return the name of the program, never its arguments."""
    if event == STARTED:
        return str(arguments[0])
    program = arguments[1] if event == "os.spawn" else arguments[0]
    if event == "subprocess.Popen" and not program:
        program = arguments[1]
    if event == "os.system":
        words = shlex.split(os.fsdecode(program), posix=True)
        program = words[0] if words else "sh"
    elif isinstance(program, list | tuple):
        program = program[0] if program else "sh"
    return os.path.basename(os.fsdecode(program).partition(" ")[0])


def _is_systems(path: str) -> bool:
    return path.startswith(_SYSTEM) and not path.startswith(_program_directories())


def is_temporary(path: str) -> bool:
    """Return whether a path is in the folder for temporary files, and not in the program's."""
    return path.startswith(_temporary_directory()) and not path.startswith(_program_directories())


@cache
def _temporary_directory() -> str:
    return os.path.abspath(os.environ.get("TMPDIR") or getattr(sys.modules.get("tempfile"), "tempdir", None) or "/tmp") + os.sep  # noqa: S108 - nothing is made


@cache
def _python_directories() -> tuple[str, ...]:
    """Return the folders of Python and its packages."""
    paths = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    if sys.prefix != sys.base_prefix:  # a virtual environment holds nothing else
        paths.append(sys.prefix)
    return tuple({os.path.abspath(path) + os.sep for path in paths} | {os.path.realpath(path) + os.sep for path in paths})


def _program_directories() -> tuple[str, ...]:
    """Return the program's folders: the working directory and the folder of its file, if they are not the whole disk."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    found = {os.getcwd(), os.path.dirname(os.path.abspath(main)) if main else os.getcwd()}
    return tuple(path + os.sep for path in found if path != os.sep)


# -- who did it ---------------------------------------------------------------------------------------------------------


def _who(frame: FrameType | None, *, alone: bool) -> tuple[str, str] | None:
    """Return the application's function that is nearest on the stack, and its line; None if the access does not matter.

    Without one: a package's module, or nothing. `alone`: outside any run, so that threads of any library may be running.
    """
    library: tuple[str, str] | None = None
    nearest = True
    while frame is not None:
        code, name = frame.f_code, str(frame.f_globals.get("__name__", ""))
        top = name.partition(".")[0]
        if top in _OURS:
            if nearest and name not in _CARRIERS:
                return None
        elif top in _ABOUT_THE_MACHINE or name.startswith("google.auth") or code.co_filename.startswith("<frozen importlib"):
            return None
        elif is_applications(code.co_filename, name):
            return _named(getattr(code, "co_qualname", code.co_name)), f"{shown_path(code.co_filename)}:{frame.f_lineno}"
        elif not code.co_filename.startswith(_standard_library()):
            nearest = False
            library = library or (name, f"{os.path.basename(code.co_filename)}:{frame.f_lineno}")
        frame = frame.f_back
    return None if alone else library or ("", "")


def is_applications(file: str, module: str) -> bool:
    """Return whether a file belongs to the application: not to Python, its packages, or freezeframe."""
    if module.partition(".")[0] in _OURS:
        return False
    if file.startswith("<"):  # typed at a prompt, or given on the command line
        return module == "__main__" and not file.startswith("<frozen")
    return not file.startswith(_python_directories())


@cache
def _standard_library() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (*(os.path.realpath(paths[name]) + os.sep for name in ("stdlib", "platstdlib")), "<")


def _named(qualname: str) -> str:
    """Return the function around a lambda or comprehension."""
    return qualname.split(".<locals>.<")[0]
