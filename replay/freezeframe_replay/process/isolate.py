"""Separate a replay from the world: the socket fence, recorded clock and randomness, no byte code of new sources.

Installed once per child process by `child`; never in a process that runs anything else.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from freezeframe.context.draws import is_of_program
from freezeframe.context.program import loaded_modules
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe.seams.unmarked.drivers import CONNECTS
from freezeframe_replay.engine.moments import Measurement, holds
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.run import Entry

_SETTLED_AFTER_S = 2
_NOW: Any = object()
_FENCED_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_OURS: Final = str(Path(__file__).parents[1])
_MEASURES_ELAPSED: Final = "/requests/sessions.py"
"""Place where requests measures `response.elapsed`. That of httpx is made from the recorded exchange."""
_READS_KEPT: Final = 16
"""Number of the first, and of the last, readings of a file that are kept."""
_WALL_OFF_BY_NS: Final = 2_000
"""Possible error of a difference of two readings of the wall clock: a `datetime` holds microseconds, a float half of one."""
_OFF_BY_NS: Final = 2
_STANDS_NS: Final = 5_000_000_000
"""Time for which the clock stops at the run's next call: a new loop that polls the clock must end."""


def fence_sockets(on_try: Callable[[str], BaseException], is_open: Callable[[str], bool] = lambda _: False) -> None:
    """Make every outgoing IP connection, also to loopback, raise the exception that `on_try` returns for its address.

    Connections to a host that `is_open` names are let through, by its name or by its resolved addresses.

    Unix sockets and socket pairs stay open: event loops and multiprocessing need them. Of clients that do not use Python's
    sockets, only those with a row in `freezeframe.seams.unmarked.drivers` are stopped.
    """

    resolved: set[str] = set()

    def guard(original: Callable[..., Any]) -> Callable[..., Any]:
        def fenced(self: socket.socket, *args: Any, **kwargs: Any) -> Any:
            if self.family in _FENCED_FAMILIES and not (_host(args) in resolved or is_open(_host(args))):
                raise on_try(_address(args))
            return original(self, *args, **kwargs)

        return fenced

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == CONNECTS and not is_open(""):
            raise on_try(f"by {arguments[0]}")

    sys.addaudithook(hear)
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


class _Read(NamedTuple):
    """One reading of a clock, in ns: the program's value, and the bounds of the run's reading."""

    reported_ns: int
    earliest_ns: int
    latest_ns: int


class RecordedClock:
    """The clocks as the run saw them: they start at the entry point, advance with each answer, and tick.

    Of monotonic clocks only the program's own reads follow the run, so that it measures the durations of the run. Event loops,
    locks and libraries depend on the real ones. Needs ``time-machine``.

    Between two calls, the program's own readings are no later than the run's next call in their lane, like
    those of the run, regardless of the machine's speed. A new sleep counts.
    """

    def __init__(self, entry: Entry) -> None:
        self._start_ns = entry.start_time_unix_nano
        self._reached_ns = entry.start_time_unix_nano
        self._lock = threading.Lock()
        self._traveller: Any = None
        self._real_ns: Callable[[], int] = time.time_ns
        self._ahead_ns = 0
        """Lead of the monotonic clock over the wall clock."""
        self._told_ns = 0
        """The latest time that the program saw."""
        self._slept_until = threading.local()
        self.between_ns: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Returns the times between which the run was at the caller's place; 0 if unknown."""
        self._reads: defaultdict[tuple[str, int], list[_Read]] = defaultdict(list)
        """File of the program, and the possible error of differences -> its first and last readings."""

    def start(self) -> None:
        """Set the process's wall clock to the start of the run."""
        if not self._start_ns:
            return
        try:
            time_machine = _time_machine()
        except ImportError:
            raise ReplayError("time-machine is not installed", do=install_command("replay")) from None

        drawn_from: Any = vars(uuid)
        kept = drawn_from.get("_generate_time_safe")
        self._traveller = time_machine.travel(self._start_ns / 1e9, tick=True).start()
        drawn_from["_generate_time_safe"] = kept  # time-machine removes it; we have what uuid1 returned
        ctime, asctime = time.ctime, time.asctime  # these two read the clock by themselves, past time-machine
        time.ctime = lambda seconds=None, /: ctime(time.time() if seconds is None else seconds)
        time.asctime = lambda moment=_NOW, /: asctime(time.localtime() if moment is _NOW else moment)
        self._real_ns, self._traveller.time_ns = self._traveller.time_ns, self._wall_ns
        self._real_ns()  # it ticks from the first read on: imports take time, as they did in the run
        self._ahead_ns = time.monotonic_ns() - self._start_ns
        for name in ("monotonic", "perf_counter"):
            setattr(time, name, self._for_program(getattr(time, name), lambda ns: ns / 1e9))
            setattr(time, f"{name}_ns", self._for_program(getattr(time, f"{name}_ns"), lambda ns: ns))
        time.sleep = self._counted(time.sleep)

    def _wall_ns(self) -> int:
        file = _file_of_program(sys._getframe(1))
        if not file:
            return self._real_ns()
        read = self._tell()
        self._keep(file, _WALL_OFF_BY_NS, read)
        return read.reported_ns

    def _tell(self) -> _Read:
        """Return the time that the program sees: that of the clock, or of the run's next call if that is earlier."""
        now_ns, (since_ns, due_ns) = self._real_ns(), self.between_ns()
        if self._reached_ns <= due_ns < now_ns:
            now_ns = max(due_ns, getattr(self._slept_until, "ns", 0), now_ns - _STANDS_NS)
        self._told_ns = now_ns = max(self._told_ns, now_ns)
        return _Read(now_ns, min(now_ns, self._reached_ns, since_ns) if since_ns else now_ns, max(now_ns, due_ns))

    def _counted(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        @functools.wraps(sleep)
        def counted(seconds: float, /) -> None:
            begun_ns, real_ns = self._tell().reported_ns, self._real_ns()
            sleep(seconds)
            # Not what it overslept: that is the machine's.
            self._slept_until.ns = begun_ns + min(self._real_ns() - real_ns, int(float(seconds) * 1e9))

        return counted

    def _keep(self, file: str, off_by_ns: int, read: _Read) -> None:
        reads = self._reads[file, off_by_ns]
        reads.append(read)
        if len(reads) > 2 * _READS_KEPT:
            del reads[_READS_KEPT]

    def _for_program(self, real: Callable[[], Any], of_ns: Callable[[int], Any]) -> Callable[[], Any]:
        @functools.wraps(real)
        def tell() -> Any:
            file = _file_of_program(sys._getframe(1))
            if not file:
                return real()
            read = _Read(*(moment_ns + self._ahead_ns for moment_ns in self._tell()))
            self._keep(file, _OFF_BY_NS, read)
            return of_ns(read.reported_ns)

        return tell

    def measured(self, number: str, took_ns: Sequence[int]) -> Measurement | None:
        """Return the program's measurement of a number; None if it did not measure it (see `Measured`).

        It may have if the number is the time between two of its first or last readings, or that of a step.
        """
        value, _, exponent = number.lower().partition("e")
        decimals = len(value.partition(".")[2])
        off_by = 10.0 ** (int(exponent or 0) - decimals) * (0.5 if decimals else 1)  # rounded, or an integer that was cut
        found: list[tuple[float, float, int, int]] = []
        for per_s in (1, 1e3, 1e6, 1e9):
            sought_ns, unit_ns = float(number) / per_s * 1e9, off_by / per_s * 1e9
            for lasted_ns, least_ns, most_ns, off_by_ns in self._durations(took_ns):
                apart = abs(lasted_ns - sought_ns) / max(unit_ns, off_by_ns)
                if sought_ns > 100 * off_by_ns and apart <= 1:
                    found.append((apart, per_s, least_ns, most_ns))
        if not found:
            return None
        _, per_s, _, _ = min(found)  # 1 may be 600 us in milliseconds, or cut from 1.9 s: the nearer one
        bounds = [(least_ns, most_ns) for _, other, least_ns, most_ns in found if other == per_s]
        return Measurement(
            per_s=per_s,
            least_s=min(least_ns for least_ns, _ in bounds) / 1e9,
            most_s=max(most_ns for _, most_ns in bounds) / 1e9,
            is_own=_is_of_program_itself(number),
        )

    def _durations(self, took_ns: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
        """Yield each duration that the program may have measured, the run's bounds, and the possible error."""
        yield from ((each_ns, each_ns, each_ns, _WALL_OFF_BY_NS) for each_ns in took_ns)
        for (_, off_by_ns), reads in tuple(self._reads.items()):
            for one, other in itertools.combinations(tuple(reads), 2):
                begun, ended = sorted((one, other))
                most_ns = ended.latest_ns - begun.earliest_ns
                yield ended.reported_ns - begun.reported_ns, ended.earliest_ns - begun.latest_ns, most_ns, off_by_ns

    def restart(self) -> None:
        """Set the clock back to the start of the run: imports and set-up before the entry point took time."""
        if self._traveller is not None:
            self._ahead_ns += self._real_ns() - self._start_ns
            self._told_ns, self._slept_until = 0, threading.local()
            self._traveller.move_to(self._start_ns / 1e9, tick=True)
            self._real_ns()

    def reach(self, now_ns: int) -> None:
        """Move the clock to a moment of the run. Never moves it back."""
        if self._traveller is None:
            return
        with self._lock:
            if now_ns > self._reached_ns:
                self._reached_ns = now_ns
                self._traveller.move_to(now_ns / 1e9, tick=True)


def _file_of_program(frame: FrameType) -> str:
    """Return the program's file that a frame runs, or a client's that measures for it; else an empty text."""
    file = frame.f_code.co_filename
    if file.startswith("<"):  # a method that `dataclass` made, say
        file = str(frame.f_globals.get("__file__") or "")
    is_read = file.endswith(_MEASURES_ELAPSED) or (is_of_program(file) and not file.startswith(_OURS))
    return file if is_read else ""


def _is_of_program_itself(number: str) -> bool:
    """Return whether the program's code, its environment or its command line contains a number."""
    others = [module for name, module in loaded_modules().items() if not name.startswith("freezeframe")]
    own = (_text(file) for module in others if is_of_program(file := str(getattr(module, "__file__", None) or "")))
    texts = (os.fsencode(text) for text in itertools.chain(os.environ.values(), sys.argv))
    return any(holds(text, number) for text in itertools.chain(texts, own))


@functools.cache
def _text(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""


def restore_random(entry: Entry) -> None:
    """Put `random` into the state that it had when the run entered its entry point."""
    if entry.random_state is None:
        return
    version, internal, gauss = json.loads(entry.random_state)
    SHARED.restore((version, tuple(internal), gauss))


def keep_byte_code_of_settled_sources() -> None:
    """From now on, let imports write byte code only for sources that were last changed some seconds ago, and read no other.

    Python recognises stale byte code by the size and the second of its source, and around a replay sources change fast (a fix,
    the commits of a bisection): two versions of one size within a second would share the byte code of the first. The sources of
    libraries are old, and their byte code is kept: if no installer compiled them, doing so takes seconds of each replay.

    Call it before the recorded clock is set.

    Source: PEP 552, the header of a ``.pyc`` file: magic number, flags, the source's time, its size, four bytes each.
    """
    settled = int(time.time()) - _SETTLED_AFTER_S
    read, write = SourceFileLoader.get_data, SourceFileLoader.set_data

    def read_settled(self: SourceFileLoader, path: str) -> bytes:
        data = read(self, path)
        if path.endswith(".pyc") and "site-packages" not in path and int(os.stat(path).st_mtime) <= _second_of_source(data):
            raise FileNotFoundError(path)  # import compiles the source
        return data

    def write_settled(self: SourceFileLoader, path: str, data: Any, *, _mode: int = 0o666) -> None:
        if _second_of_source(data) < settled:
            write(self, path, data, _mode=_mode)

    SourceFileLoader.get_data = read_settled
    SourceFileLoader.set_data = write_settled


def _second_of_source(byte_code: Any) -> int:
    return int.from_bytes(byte_code[8:12], "little")


def _time_machine() -> Any:
    """Import time-machine without pytest, which it would load for its fixture at most of the cost."""
    kept = "pytest" in sys.modules
    if not kept:
        sys.modules["pytest"] = None  # pyright: ignore[reportArgumentType]  # Python's own way of making an import fail
    try:
        import time_machine
    finally:
        if not kept:
            del sys.modules["pytest"]
    return time_machine
