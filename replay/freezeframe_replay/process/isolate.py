"""Separate a replay from the world: the socket fence, recorded clock and randomness, no byte code of new sources.

Installed once per child process by `child`; never in a process that runs anything else.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

from freezeframe.seams.draws.shared_random import SHARED
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.run import Entry

_SETTLED_AFTER_S = 2
_NOW: Any = object()
_FENCED_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def fence_sockets(on_try: Callable[[str], BaseException], is_open: Callable[[str], bool] = lambda _: False) -> None:
    """Make every outgoing IP connection raise what `on_try` returns for its address. Loopback is no exception.

    Connections to a host that `is_open` names are let through, by its name or by its resolved addresses.

    Unix sockets and socket pairs stay open: event loops and multiprocessing need them. Clients that do not use Python's
    sockets (gRPC's C core) are not stopped.
    """

    resolved: set[str] = set()

    def guard(original: Callable[..., Any]) -> Callable[..., Any]:
        def fenced(self: socket.socket, *args: Any, **kwargs: Any) -> Any:
            if self.family in _FENCED_FAMILIES and not (_host(args) in resolved or is_open(_host(args))):
                raise on_try(_address(args))
            return original(self, *args, **kwargs)

        return fenced

    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, guard(getattr(socket.socket, name)))

    def fenced_lookup(host: Any, *args: Any, **_: Any) -> Any:
        raise on_try(_address((host, *args)))

    look_up = socket.getaddrinfo

    def guarded_lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_open(_address((host,))):
            raise on_try(_address((host, *args)))
        found = look_up(host, *args, **kwargs)
        resolved.update(str(address[0]) for *_, address in found)
        return found

    # A name look-up sends a packet to a name server: fenced too.
    socket.getaddrinfo = guarded_lookup
    for name in ("gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, fenced_lookup)


def _host(args: tuple[Any, ...]) -> str:
    """Return the host of the address passed to a socket's method."""
    target = args[-1] if args and isinstance(args[-1], tuple) else args
    return str(target[0]) if target else ""


def _address(args: tuple[Any, ...]) -> str:
    target = args[-1] if args and isinstance(args[-1], tuple) else args
    return ":".join(str(part.decode() if isinstance(part, bytes) else part) for part in tuple(target)[:2])


class RecordedClock:
    """The wall clock as the run saw it: it starts at the entry point, advances with each answer, and ticks.

    Monotonic clocks are left alone: event loops and timeouts depend on them. Needs ``time-machine``.
    """

    def __init__(self, entry: Entry) -> None:
        self._start_ns = entry.start_time_unix_nano
        self._reached_ns = entry.start_time_unix_nano
        self._lock = threading.Lock()
        self._traveller: Any = None

    def start(self) -> None:
        """Set the process's wall clock to the start of the run."""
        if not self._start_ns:
            return
        try:
            import time_machine
        except ImportError:
            raise ReplayError("time-machine is not installed", do="pip install 'freezeframe[replay]'") from None

        drawn_from: Any = vars(uuid)
        kept = drawn_from.get("_generate_time_safe")
        self._traveller = time_machine.travel(self._start_ns / 1e9, tick=True).start()
        drawn_from["_generate_time_safe"] = kept  # time-machine removes it; we have what uuid1 returned
        ctime, asctime = time.ctime, time.asctime  # these two read the clock by themselves, past time-machine
        time.ctime = lambda seconds=None, /: ctime(time.time() if seconds is None else seconds)
        time.asctime = lambda moment=_NOW, /: asctime(time.localtime() if moment is _NOW else moment)

    def restart(self) -> None:
        """Set the clock back to the start of the run: imports and set-up before the entry point took time."""
        if self._traveller is not None:
            self._traveller.move_to(self._start_ns / 1e9, tick=True)

    def reach(self, now_ns: int) -> None:
        """Move the clock to a moment of the run. Never moves it back."""
        if self._traveller is None:
            return
        with self._lock:
            if now_ns > self._reached_ns:
                self._reached_ns = now_ns
                self._traveller.move_to(now_ns / 1e9, tick=True)


def restore_random(entry: Entry) -> None:
    """Put `random` into the state that it had when the run entered its entry point."""
    if entry.random_state is None:
        return
    version, internal, gauss = json.loads(entry.random_state)
    SHARED.restore((version, tuple(internal), gauss))


def keep_byte_code_of_settled_sources() -> None:
    """From now on, let imports write byte code only for sources that were last changed some seconds ago.

    Python recognises stale byte code by the size and the second of its source, and around a replay sources change fast (a fix,
    the commits of a bisection): two versions of one size within a second would share the byte code of the first. The sources of
    libraries are old, and their byte code is kept: if no installer compiled them, doing so takes seconds of each replay.

    Call it before the recorded clock is set.

    Source: PEP 552, the header of a ``.pyc`` file: magic number, flags, the source's time, its size, four bytes each.
    """
    settled = int(time.time()) - _SETTLED_AFTER_S
    write = SourceFileLoader.set_data

    def write_settled(self: SourceFileLoader, path: str, data: Any, *, _mode: int = 0o666) -> None:
        if int.from_bytes(data[8:12], "little") < settled:
            write(self, path, data, _mode=_mode)

    SourceFileLoader.set_data = write_settled
