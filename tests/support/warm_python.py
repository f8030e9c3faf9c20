"""Python processes that start in a hundredth of the time: forked from one that has imported the SDKs already.

Importing the OpenAI and Anthropic SDKs costs seconds of CPU time, and a fuzz starts a thousand programs.
`WarmPython.executable` stands in for ``sys.executable``: it takes the same command lines. Each
program is a separate process, with its own environment, working directory, streams and exit status. It shares with its siblings
the imported modules, and the seed of ``hash``.

    python -IS warm_python.py SOCKET             the server that forks (started by `WarmPython`)
    python -IS ask_warm_python.py SOCKET ARG...  what the stand-in runs: hands its streams to the server and waits
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import inspect
import marshal
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, NoReturn

_LENGTH: Final = struct.Struct("!i")
_STREAMS: Final = (0, 1, 2)
_ASK: Final = Path(__file__).with_name("ask_warm_python.py").resolve()
_COMMANDS: Final = {"freezeframe": "freezeframe._cli", "pytest": "pytest"}
"""Command -> the module that it runs."""
_STAND_IN: Final = """\
#!/bin/sh
case "$1 $2" in
  "-m freezeframe_collector.readers.host") exec {python} "$@" ;;
  "-c "* | "-m "* | *".py "*) exec {python} {ask} "$@" ;;
  *) exec {python} "$@" ;;
esac
"""
"""A program from standard input or an archive, or an option of Python's, starts as it always does. So does a host of readers:
it may belong to a store of the whole session, and its walls are about what it is."""
_NOBODY: Final = "http://127.0.0.1:9/v1"


class WarmPython:
    """The server, and the executable that stands in for Python, in a folder with commands that are forked, too."""

    def __init__(self, folder: Path) -> None:
        self.executable = str(folder / "python")
        self._socket = str(folder / "socket")
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> WarmPython:
        ask = f"-IS {_ASK} {self._socket}"
        texts = {name: f'#!/bin/sh\nexec {sys.executable} {ask} -m {module} "$@"\n' for name, module in _COMMANDS.items()}
        texts |= dict.fromkeys(("python", "python3"), _STAND_IN.format(python=sys.executable, ask=ask))
        for name, text in texts.items():
            script = Path(self.executable).with_name(name)
            script.write_text(text)
            script.chmod(0o755)
        self._server = subprocess.Popen([sys.executable, __file__, self._socket], stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n", "the warm Python did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate()


def serve(path: str) -> dict[str, Any]:
    """Fork for each request; the children return what they are to run, the server itself never does."""
    _warm_up()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, _note)
    signal.set_wakeup_fd(wake.fileno())
    running: dict[int, socket.socket] = {}
    watched = selectors.DefaultSelector()
    watched.register(listener, selectors.EVENT_READ)
    watched.register(ended, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        for key, _ in watched.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                program = _read_request(connection, path)
                if program is None:
                    connection.close()
                    continue
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for other in (watched, listener, ended, wake, connection, *running.values()):
                        other.close()
                    return program
                for stream in program["streams"]:
                    os.close(stream)
                with contextlib.suppress(OSError):
                    connection.sendall(_LENGTH.pack(pid))
                running[pid] = connection
                watched.register(connection, selectors.EVENT_READ, pid)
            elif key.fileobj is ended:
                ended.recv(4096)
                _tell_of_ended(running, watched)
            elif key.data in running:  # the process that asked is gone: so is its program
                os.kill(key.data, signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):  # it has not made its group yet
                    os.killpg(key.data, signal.SIGKILL)
                watched.unregister(key.fileobj)


def _note(number: int, frame: object) -> None:
    """Do nothing: that there is a handler makes the signal known to the server's loop."""


def _tell_of_ended(running: dict[int, socket.socket], watched: selectors.BaseSelector) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        connection = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(KeyError):
            watched.unregister(connection)
        with contextlib.suppress(OSError):
            connection.sendall(_LENGTH.pack(code))
        connection.close()


def _read_request(connection: socket.socket, path: str) -> dict[str, Any] | None:
    """Return what is to run; None if the process that asks was ended meanwhile."""
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, len(_STREAMS))
    length = _LENGTH.unpack(head)[0] if head else 0
    text = b""
    while len(text) < length and (piece := connection.recv(length - len(text))):
        text += piece
    if not text or len(text) < length:
        for stream in streams:
            os.close(stream)
        return None
    arguments, environment, cwd = marshal.loads(text)
    return {"arguments": arguments, "environment": environment, "cwd": cwd, "streams": list(streams), "server": path}


def _warm_up() -> None:
    """Import what agents and replays import, and let the SDKs build what they build at their first call."""
    import gc

    import anthropic
    import httpcore2
    import httpx
    import openai
    import time_machine

    import freezeframe
    import freezeframe_replay.engine
    import freezeframe_replay.process
    from freezeframe_redaction import Aliaser, load_policy

    del httpcore2, httpx, time_machine
    for package in (freezeframe, freezeframe_replay.engine, freezeframe_replay.process):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("_inject", "_cli")):
                importlib.import_module(module.name)
    Aliaser(load_policy(), {}).alias("John Miller")
    inspect.signature(os.listdir)  # compiles the expressions of `tokenize`
    chat = openai.OpenAI(api_key="x", base_url=_NOBODY, max_retries=0)
    message = anthropic.Anthropic(api_key="x", base_url=_NOBODY, max_retries=0)
    with contextlib.suppress(openai.APIError):
        chat.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    with contextlib.suppress(openai.APIError):
        chat.responses.create(model="m", input="x")
    with contextlib.suppress(anthropic.APIError):
        message.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    for package in ("anthropic", "openai"):
        sys.meta_path.insert(0, _SetAside(package))
    gc.collect()
    gc.freeze()


class _SetAside(Loader, MetaPathFinder):
    """Gives a program the imported modules of a package, all at once, if it imports the package.

    A program that does not import it has thousands of modules less, which each start of capture would search.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        names = [name for name in sys.modules if name.partition(".")[0] == package]
        self._modules = {name: sys.modules.pop(name) for name in names}
        self._spec = self._modules[package].__spec__

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != self._package or self._spec is None:
            return None
        found = ModuleSpec(fullname, self, origin=self._spec.origin, is_package=True)
        found.submodule_search_locations = self._spec.submodule_search_locations
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        sys.meta_path.remove(self)
        sys.modules.update(self._modules)
        return self._modules[self._package]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def become(program: dict[str, Any]) -> None:
    """Turn this fork into the process that was asked for, up to where Python would run its program."""
    os.setsid()
    for number, stream in zip(_STREAMS, program["streams"], strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(program["environment"])
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX") or None
    os.chdir(program["cwd"])
    arguments: list[str] = program["arguments"]
    if _starts_python(arguments):
        sys.executable = str(Path(program["server"]).with_name("python"))
    sys.orig_argv[:] = [sys.executable, *arguments]
    script = not arguments[0].startswith("-")
    sys.argv[:] = arguments if arguments[0] != "-m" else arguments[1:]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = os.path.dirname(os.path.realpath(arguments[0])) if script else os.getcwd() if arguments[0] == "-m" else ""
    sys.path[:] = [first, *(path for path in paths if path), *sys.path[1:]]
    if "FREEZEFRAME_INJECT" in os.environ:
        sys.modules.pop("sitecustomize", None)
        importlib.import_module("sitecustomize")
    main = sys.modules["__main__"] = ModuleType("__main__")  # kept by sys.modules until the process ends
    if "__mp_main__" in sys.modules:  # multiprocessing was imported: its name for the same module
        sys.modules["__mp_main__"] = main
    if script:
        main.__file__ = os.path.abspath(arguments[0])
        main.__loader__ = SourceFileLoader("__main__", main.__file__)
        exec(compile(Path(main.__file__).read_bytes(), main.__file__, "exec"), main.__dict__)
    elif arguments[0] == "-c":
        del sys.argv[1]
        main.__loader__ = BuiltinImporter
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    else:
        vars(runpy)["_run_module_as_main"](arguments[1])  # what ``-m`` itself calls


def _starts_python(arguments: Sequence[str]) -> bool:
    """Return whether the processes that a program starts are forks, too: replays and services of a command or of pytest.

    An agent's processes are part of what a test records.
    """
    return arguments[:2] in (["-m", "freezeframe._cli"], ["-m", "pytest"]) or (
        arguments[0] == "-c" and "freezeframe_replay.cli" in arguments[1]
    )


def run_to_the_end(program: dict[str, Any]) -> NoReturn:
    """Run the program and end as Python does, but without tearing down all imports, which would take most of the time."""
    status = 0
    try:
        become(program)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        status = 1
    vars(threading)["_shutdown"]()  # waits for threads, as Python does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


if __name__ == "__main__":
    run_to_the_end(serve(sys.argv[1]))
