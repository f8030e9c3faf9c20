"""The pool: starts the workers, gives them access to the log, and replaces one that dies."""

from __future__ import annotations

import json
import logging
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from freezeframe_collector.admission import BudgetState, BusyError
from freezeframe_collector.batch import Appended
from freezeframe_collector.casts.book import RunCasts
from freezeframe_collector.front import port_in_use, probe_port
from freezeframe_collector.pipeline import Meter
from freezeframe_collector.settings.config import CollectorConfig, Scalar, config_values
from freezeframe_collector.wal.log import Log
from freezeframe_collector.workers.channel import (
    Channel,
    ChannelMessage,
    MessageKind,
    pack_appended,
    pack_busy,
    pack_finding,
    unpack_batch,
)
from freezeframe_schemas.errors import ConfigError

_LOG = logging.getLogger(__name__)
_START_S: Final = 60.0
_LIVED_S: Final = 30.0
"""A worker that lived this long is started again at once; delays double for one that dies sooner."""
_FIRST_DELAY_S: Final = 0.2
_MAX_DELAY_S: Final = 10.0
Page = Callable[..., object]


class WorkerPool:
    """The receivers of a collector with several processes, from `start` to `stop`."""

    def __init__(
        self, config: CollectorConfig, log: Log, meter: Meter, pages: Mapping[str, Page], casts: RunCasts | None = None
    ) -> None:
        """Each worker receives what `casts` receive."""
        self._log = log
        self._casts = casts
        self._meter = meter
        self._pages = pages
        self._page_threads = ThreadPoolExecutor(8, thread_name_prefix="freezeframe-pages")
        self._held: list[socket.socket] = []
        self._ports: dict[str, int] = {}
        self._settings: dict[str, Scalar] = {}
        self._config = config
        self._stopping = threading.Event()
        self._workers: list[_Worker] = []

    def start(self) -> tuple[int, int]:
        """Start the workers; return the gRPC port (0 if it is off) and the HTTP port when all of them listen.

        Raises:
            ConfigError: a port is taken, or a worker cannot start.
        """
        config, count = self._config, self._config.service.workers
        http = self._hold("http", config.http.host, config.http.port)
        grpc = self._hold("grpc", config.grpc.host, config.grpc.port) if config.grpc.enabled else 0
        self._ports = {"http.port": http, "grpc.port": grpc}
        self._settings = self._settings_of(config)
        self._workers = [_Worker(self, index) for index in range(count)]
        deadline = time.monotonic() + _START_S
        for worker in self._workers:
            worker.wait_ready(deadline)
        return grpc, http

    def renew(self, config: CollectorConfig) -> None:
        """Replace each worker in turn by one with these settings; the others serve meanwhile.

        Raises:
            ConfigError: one cannot start with them; it is tried again and again, and the others are left as they are.
        """
        self._settings = self._settings_of(config)
        for worker in self._workers:
            worker.replace(config.service.shutdown_s)

    def _settings_of(self, config: CollectorConfig) -> dict[str, Scalar]:
        share = max(1024, config.admission.in_flight_bytes // config.service.workers)
        return config_values(config) | self._ports | {"admission.in_flight_bytes": share}

    def stop(self, timeout_s: float) -> None:
        """Let the workers finish their requests and end; kill those that do not end in time."""
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        for worker in self._workers:
            worker.ask_to_stop(timeout_s * 0.8)
        for worker in self._workers:
            worker.end(max(0.1, deadline - time.monotonic()))
        self._page_threads.shutdown(wait=False, cancel_futures=True)
        for held in self._held:
            held.close()

    def budget_state(self) -> BudgetState:
        """Return the sum of the workers' budgets, as last reported."""
        total = BudgetState(used_bytes=0, limit_bytes=0, refused=0)
        for worker in self._workers:
            total += worker.budget
        return total

    def describe(self) -> list[dict[str, object]]:
        """Return each worker's process id and number of restarts."""
        return [{"pid": worker.pid, "restarts": worker.restarts} for worker in self._workers]

    def _hold(self, name: str, host: str, port: int) -> int:
        """Keep a port for the workers, who share it; return its number.

        Raises:
            ConfigError: another program listens there.
        """
        # Without sharing first: a port that another program shares counts as taken too.
        family, address = probe_port(name, host, port)
        held = socket.socket(family, socket.SOCK_STREAM)
        self._held.append(held)
        # Both: connections of an earlier process that did not share its port stay for a minute after its end.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            held.bind(address)
        except OSError as error:
            raise port_in_use(name, host, port, error) from None
        return int(address[1])

    # -- for the workers' threads -----------------------------------------------------------------------------------

    @property
    def stopping(self) -> threading.Event:
        """Return the event that is set when no worker is to be started again."""
        return self._stopping

    def settings(self) -> bytes:
        """Return the workers' settings as the first message has them."""
        return json.dumps(self._settings).encode()

    def share_casts(self, tell: Callable[[ChannelMessage], None]) -> Callable[[], None]:
        """Send each finding with `tell` to a worker, the existing ones first; return a function that stops this."""
        if self._casts is None:
            return lambda: None
        return self._casts.listen(
            lambda run, number, sealed: tell(ChannelMessage(kind=MessageKind.CAST, payload=pack_finding(run, number, sealed)))
        )

    def take(self, message: ChannelMessage, answer: Callable[[ChannelMessage], None]) -> None:
        """Carry out a worker's request; `answer` is called now or later, from any thread."""
        number = message.number
        if message.kind is MessageKind.APPEND:

            def appended(outcome: Future[Appended]) -> None:
                error = outcome.exception()
                if isinstance(error, BusyError):
                    answer(ChannelMessage(kind=MessageKind.BUSY, number=number, payload=pack_busy(error)))
                else:
                    answer(ChannelMessage(kind=MessageKind.APPENDED, number=number, payload=pack_appended(outcome.result())))

            try:
                self._log.submit(unpack_batch(message.payload)).add_done_callback(appended)
            except BusyError as error:
                answer(ChannelMessage(kind=MessageKind.BUSY, number=number, payload=pack_busy(error)))
        elif message.kind is MessageKind.PAGE:
            self._page_threads.submit(self._answer_page, message, answer)

    def take_counts(self, payload: bytes) -> BudgetState:
        """Add a worker's counts; return the state of its budget."""
        counts: dict[str, Any] = json.loads(payload)
        self._meter.merge(counts["meter"])
        return BudgetState(**counts["budget"])

    def _answer_page(self, message: ChannelMessage, answer: Callable[[ChannelMessage], None]) -> None:
        name, *arguments = json.loads(message.payload)
        try:
            content = json.dumps(self._pages[name](*arguments)).encode()
        except BusyError as error:
            answer(ChannelMessage(kind=MessageKind.BUSY, number=message.number, payload=pack_busy(error)))
        else:
            answer(ChannelMessage(kind=MessageKind.PAGE, number=message.number, payload=content))


class _Worker:
    """One place of the pool: a process, and its successor if it dies."""

    def __init__(self, pool: WorkerPool, index: int) -> None:
        self.pid = 0
        self.restarts = 0
        self.budget = BudgetState(used_bytes=0, limit_bytes=0, refused=0)
        self._pool = pool
        self._ready = threading.Event()
        self._listening = threading.Event()
        self._replacing = False
        self._failure = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._thread = threading.Thread(target=self._run, name=f"freezeframe-worker-{index}", daemon=True)
        self._thread.start()

    def wait_ready(self, deadline: float) -> None:
        """Wait until the process listens.

        Raises:
            ConfigError: it cannot start.
        """
        if not self._ready.wait(max(0.0, deadline - time.monotonic())):
            self._failure = f"a worker did not start in {_START_S:g} s"
        if self._failure:
            raise ConfigError(self._failure)

    def replace(self, timeout_s: float) -> None:
        """End the process gracefully and wait until another one listens.

        Raises:
            ConfigError: it cannot start.
        """
        self._replacing = True
        self._listening.clear()
        self.ask_to_stop(timeout_s)
        if not self._listening.wait(timeout_s + _START_S):
            raise ConfigError(self._failure or f"a worker was not replaced in {timeout_s + _START_S:g} s")

    def ask_to_stop(self, timeout_s: float) -> None:
        """Ask the process to finish its open requests and end."""
        if self._channel is not None:
            try:
                self._channel.send(ChannelMessage(kind=MessageKind.STOP, payload=json.dumps(timeout_s).encode()))
            except OSError:
                _LOG.info("worker %d is already gone", self.pid)

    def end(self, timeout_s: float) -> None:
        """Wait for the process; kill it if it does not end in time."""
        process = self._process
        if process is not None:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                _LOG.warning("worker %d did not stop in time and was killed", self.pid)
                process.kill()
                process.wait()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        delay_s = _FIRST_DELAY_S
        while True:
            started = time.monotonic()
            code = self._live()
            if self._pool.stopping.is_set():
                return
            if self._replacing:
                self._replacing = False
                continue
            if not self._ready.is_set():
                # It never started: that is the configuration's fault, and ends the collector.
                self._failure = self._failure or f"a worker ended with code {code} before it listened"
                self._ready.set()
                return
            delay_s = _FIRST_DELAY_S if time.monotonic() - started > _LIVED_S else min(_MAX_DELAY_S, delay_s * 2)
            why = f": {self._failure}" if self._failure else ""
            _LOG.error("worker %d ended with code %d%s; another one starts in %.1f s", self.pid, code, why, delay_s)
            self._failure = ""
            if self._pool.stopping.wait(delay_s):
                return
            self.restarts += 1

    def _live(self) -> int:
        """Run one process to its end and return its exit code."""
        ours, theirs = socket.socketpair()
        # A new program, not a fork of this one: the engine does not survive a fork.
        command = [sys.executable, "-m", "freezeframe_collector.workers.worker"]
        process = subprocess.Popen(command, stdin=theirs.fileno())
        theirs.close()
        channel = Channel(ours)
        self._process, self._channel, self.pid = process, channel, process.pid
        replies: queue.SimpleQueue[ChannelMessage | None] = queue.SimpleQueue()
        # Answers go through a separate thread: a worker that does not read must not block the log's thread.
        speaker = threading.Thread(target=_speak, args=(channel, replies), name="freezeframe-replies", daemon=True)
        speaker.start()
        replies.put(ChannelMessage(kind=MessageKind.CONFIG, payload=self._pool.settings()))
        end_sharing = self._pool.share_casts(replies.put)
        while (message := channel.receive()) is not None:
            match message.kind:
                case MessageKind.READY:
                    self._ready.set()
                    self._listening.set()
                case MessageKind.FAILED:
                    self._failure = message.payload.decode()
                case MessageKind.COUNTS:
                    self.budget = self._pool.take_counts(message.payload)
                case _:
                    self._pool.take(message, replies.put)
        end_sharing()
        code = process.wait()
        replies.put(None)
        speaker.join()
        self._channel = None
        channel.close()
        self.budget = BudgetState(used_bytes=0, limit_bytes=0, refused=self.budget.refused)
        return code


def _speak(channel: Channel, replies: queue.SimpleQueue[ChannelMessage | None]) -> None:
    while (message := replies.get()) is not None:
        try:
            channel.send(message)
        except OSError:
            # The worker is gone, and its senders with it: what is in the log without an ack is a duplicate if it comes again.
            return
