"""Background processes and the notes about them: started detached, recognised by pid *and* start time, stopped politely.

A pid alone is never trusted: after a crash or a reboot, another process may have it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.whole_file import replace_file

_POLL_S: Final = 0.05


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
    """Return the note, or None if there is no readable one."""
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
    """Return what distinguishes this process from any other with its pid; None if it does not run.

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
