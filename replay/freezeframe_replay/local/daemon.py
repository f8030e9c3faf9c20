"""The background processes of `freezeframe up`: the collector and the replay service, with their readiness and ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from freezeframe_replay.local.collector import ask, pages_port, read_ports, send
from freezeframe_replay.local.home import Home, make_home
from freezeframe_schemas.data_directory import PORTS_FILE, remember_data_directory
from freezeframe_schemas.errors import ConfigError, FreezeframeError
from freezeframe_schemas.listeners import port_is_free, who_listens
from freezeframe_schemas.whole_file import replace_file

COLLECTOR: Final = "collector"
REPLAY: Final = "replay"
NAMES: Final = (COLLECTOR, REPLAY)
_TITLES: Final = {COLLECTOR: "collector", REPLAY: "replay service"}

STOP_GRACE_S: Final = 30.0
"""Seconds to wait for an end. The collector itself gives up after 20 s; its log has all spans not stored by then."""
_POLL_S: Final = 0.05
_LOG_LINES: Final = 15

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports to listen on; 0 picks a free one."""

    grpc: int = 4317
    http: int = 4318
    clickhouse: int = 8123
    replay: int = 4320
    chosen: frozenset[str] = frozenset(("grpc", "http", "clickhouse", "replay"))
    """Ports that must not change; any other may be replaced by a free one if it is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    name: str
    note: Note | None
    ports: dict[str, int]


def note_file(home: Home, name: str) -> Path:
    """Return the file with the note about process `name`."""
    return home.processes / f"{name}.json"


def log_file(home: Home, name: str) -> Path:
    """Return the file for the output of process `name`."""
    return home.processes / f"{name}.log"


def running(home: Home, name: str) -> Note | None:
    """Return the note of the process if it runs."""
    note = read_note(note_file(home, name))
    return note if note is not None and alive(note) else None


def services(home: Home) -> tuple[ProcessState, ...]:
    """Return the current state of both processes."""
    return tuple(ProcessState(name=name, note=running(home, name), ports=_ports_of(home, name)) for name in NAMES)


def up(
    home: Home,
    ports: Ports,
    say: Say,
    *,
    config: Path | None = None,
    timeout_s: float = 60.0,
    open_senders: bool = False,
    allow_live: bool = False,
) -> None:
    """Start the processes that do not run, and wait until they are ready.

    Raises:
        ConfigError: a port is taken, or the directory cannot be used.
        FreezeframeError: a process ended, or was not ready in time; started ones are stopped again.
    """
    make_home(home)
    remember_data_directory(home.directory)
    with _alone(home):
        extra = {COLLECTOR: ["--open-senders"] * open_senders, REPLAY: ["--allow-live"] * allow_live}
        _start_missing(home, ports, say, config, timeout_s, extra)


def _start_missing(
    home: Home, ports: Ports, say: Say, config: Path | None, timeout_s: float, extra: Mapping[str, Sequence[str]]
) -> None:
    missing = [name for name in NAMES if running(home, name) is None]
    ports = _free_ports(ports, missing, say)
    started: list[str] = []
    try:
        for name in missing:
            _ports_file(home, name).unlink(missing_ok=True)
            say(f"starting the {_TITLES[name]} ...")
            command = [*_command(home, name, ports, config), *extra[name]]
            start(name, command, log=log_file(home, name), note_file=note_file(home, name))
            started.append(name)
            if why_not := _wait_until_it_answers(home, name, timeout_s):
                say(f"the {_TITLES[name]} is running but not ready: {why_not}")
    except BaseException:
        for name in reversed(started):
            _stop(home, name)
        raise


def down(home: Home, say: Say) -> bool:
    """Stop both, the replay service first. Returns whether anything ran."""
    ran = False
    for name in reversed(NAMES):
        if running(home, name) is None:
            continue
        ran = True
        say(f"stopping the {_TITLES[name]} ...")
        if not _stop(home, name):
            say(f"the {name} did not exit within {STOP_GRACE_S:.0f} s and was killed; acknowledged spans are in its log")
    return ran


def wait_for_end(home: Home) -> str:
    """Wait until one of the processes does not run, and return its name."""
    while True:
        for name in NAMES:
            if running(home, name) is None:
                return name
        time.sleep(_POLL_S * 10)


@contextlib.contextmanager
def _alone(home: Home) -> Generator[None, None, None]:
    """Hold the data directory's lock: if two `up` run at once, the second waits, and then finds everything running."""
    import fcntl

    with (home.processes / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# -- starting -----------------------------------------------------------------------------------------------------------


def _command(home: Home, name: str, ports: Ports, config: Path | None) -> list[str]:
    if name == COLLECTOR:
        return [
            sys.executable,
            *("-m", "freezeframe_collector"),
            *(("--config", str(config.resolve())) if config else ()),
            *("--data", str(home.directory)),
            *("--grpc-port", str(ports.grpc)),
            *("--http-port", str(ports.http)),
            *("--clickhouse-port", str(ports.clickhouse)),
        ]
    return [sys.executable, "-m", "freezeframe_replay.service.app", "--data", str(home.directory), "--port", str(ports.replay)]


def _free_ports(ports: Ports, missing: Sequence[str], say: Say) -> Ports:
    """Return the ports, with a free one in place of each taken one that the user did not choose.

    Raises:
        ConfigError: ports that were chosen are taken; the message names them all, and by which processes.
    """
    moved: dict[str, int] = {}
    wanted: list[tuple[str, str, int]] = []
    if COLLECTOR in missing:
        wanted += [("OTLP/gRPC", "grpc", ports.grpc), ("OTLP/HTTP", "http", ports.http)]
        wanted += [("ClickHouse HTTP", "clickhouse", ports.clickhouse)]
    if REPLAY in missing:
        wanted += [("replay service", "replay", ports.replay)]
    faults: list[str] = []
    for what, name, port in wanted:
        if not port or port_is_free(port):
            continue
        owner = who_listens(port) or "another process"
        if name in ports.chosen:
            faults.append(f"port {port} ({what}, --{name}-port) is taken by {owner}")
        else:
            moved[name] = 0
            say(f"port {port} is taken by {owner}, so {what} gets a free one")
    if faults:
        raise ConfigError(
            "\n".join(faults), do="end that process, or choose another port with the option named (0: any free one)"
        )
    return replace(ports, **moved)


def _wait_until_it_answers(home: Home, name: str, timeout_s: float) -> str:
    """Return why the process is not ready, once it runs; empty if it is."""
    deadline = time.monotonic() + timeout_s
    while (why_not := not_ready_because(home, name)) is None:
        note = running(home, name)
        if note is None:
            raise FreezeframeError(
                f"the {name} exited during startup; the last lines of {log_file(home, name)}:\n{_tail(log_file(home, name))}",
                do="fix the problem above, or run `freezeframe doctor`",
            )
        if time.monotonic() > deadline:
            raise FreezeframeError(
                f"the {name} is not ready after {timeout_s:.0f} s; the last lines of {log_file(home, name)}:\n"
                f"{_tail(log_file(home, name))}",
                do="try again when the machine is less busy, or run `freezeframe doctor`",
            )
        time.sleep(_POLL_S)
    return why_not


def page_link(home: Home, run: str = "") -> str | None:
    """Return the address that opens the replay service's pages in a browser, once, with this run's; None if it does not run."""
    port = pages_port_of(home, REPLAY)
    if port is None or running(home, REPLAY) is None:
        return None
    try:
        link = str(ask(home, port, "/links", post=True)["link"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return f"http://127.0.0.1:{port}{link}" + (f"&run={quote(run, safe='')}" if run else "")


def not_ready_because(home: Home, name: str) -> str | None:
    """Return the process's own reason for not being ready, empty if it is; None if it does not answer."""
    port = pages_port_of(home, name)
    if port is None:
        return None
    path = "/readyz" if name == COLLECTOR else "/healthz"
    try:
        send(home, port, path)
    except urllib.error.HTTPError as error:
        return error.read(1000).decode(errors="replace").strip() or f"it answered with status {error.code}"
    except OSError:
        return None
    return ""


def pages_port_of(home: Home, name: str) -> int | None:
    """Return the port on which the process answers health requests; None if it never got ready."""
    return pages_port(home) if name == COLLECTOR else _ports_of(home, name).get("http")


def _ports_file(home: Home, name: str) -> Path:
    return home.directory / PORTS_FILE if name == COLLECTOR else replay_ports_file(home)


def replay_ports_file(home: Home) -> Path:
    """Return the file in which the replay service notes its port once it listens."""
    return home.processes / "replay-ports.json"


def _ports_of(home: Home, name: str) -> dict[str, int]:
    if name == COLLECTOR:
        return read_ports(home)
    try:
        data: dict[str, int] = json.loads(replay_ports_file(home).read_bytes())
    except (OSError, ValueError):
        return {}
    return data


def _stop(home: Home, name: str) -> bool:
    note = running(home, name)
    gracefully = note is None or stop(note, grace_s=STOP_GRACE_S)
    note_file(home, name).unlink(missing_ok=True)
    _ports_file(home, name).unlink(missing_ok=True)
    return gracefully


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "  (no output)"
    return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:]) or "  (no output)"


# -- Background processes and the notes about them ---------------------------------------------------------------------
# Started detached, recognised by pid *and* start time, stopped politely.
# A pid alone is never trusted: after a crash or a reboot, another process may have it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Record of a started process."""

    name: str
    pid: int
    started: str
    """Start time as the system reports it (`start_mark`); equal only for the same process."""
    command: tuple[str, ...]


def start(name: str, command: Sequence[str], *, log: Path, note_file: Path) -> Note:
    """Start `command` detached from this terminal, its output appended to `log`, and write a note about it."""
    with log.open("ab") as output:
        process = subprocess.Popen(  # the parent does not wait: the process is meant to outlive it
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
        )
    # No one will wait for it: without this, the interpreter warns at exit about a child that still runs.
    process.returncode = 0
    note = Note(name=name, pid=process.pid, started=start_mark(process.pid) or "", command=tuple(command))
    replace_file(note_file, json.dumps(asdict(note), indent=1) + "\n")
    return note


def read_note(note_file: Path) -> Note | None:
    """Return the note, or None without a readable one."""
    try:
        data: dict[str, Any] = json.loads(note_file.read_bytes())
        return Note(name=data["name"], pid=int(data["pid"]), started=data["started"], command=tuple(data["command"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def alive(note: Note) -> bool:
    """Return whether the process of the note still runs: the same pid with the same start time."""
    with contextlib.suppress(ChildProcessError):  # our own child stays in the process table until it is waited for
        os.waitpid(note.pid, os.WNOHANG)
    return bool(note.started) and start_mark(note.pid) == note.started


def stop(note: Note, *, grace_s: float) -> bool:
    """Ask the process to end, wait up to `grace_s`, then end it. Returns whether it ended by itself.

    Never touches a process other than the one in the note.
    """
    if not alive(note):
        return True
    _signal(note, signal.SIGTERM)
    if wait_until_gone(note, grace_s):
        return True
    _signal(note, signal.SIGKILL)
    wait_until_gone(note, 5.0)
    return False


def wait_until_gone(note: Note, timeout_s: float) -> bool:
    """Wait for the process to end; return whether it did."""
    deadline = time.monotonic() + timeout_s
    while alive(note):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def start_mark(pid: int) -> str | None:
    """Return a mark that distinguishes this process from any other with its pid; None if it does not run.

    Source: proc(5), field 22 of /proc/PID/stat (clock ticks since boot), with the boot's own id. Elsewhere `ps -o lstart`.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not Path("/proc/self/stat").exists():
        return _mark_from_ps(pid)
    try:
        # the second field is the command in brackets and may itself hold brackets and spaces
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in ("Z", "X"):  # ended, but its parent has not waited for it yet
        return None
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{fields[19]}@{boot.read_text().strip() if boot.exists() else ''}"


def _mark_from_ps(pid: int) -> str | None:
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = shown.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


def _signal(note: Note, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(note.pid, number)
