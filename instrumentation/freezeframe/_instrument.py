"""`instrument()`: turns capture on in this process, and returns a handle to turn it off, flush it, and inspect it."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe._config import OPTIONS, USUAL_ENDPOINT, Root, Settings, load_settings
from freezeframe._guard import guard, log_once
from freezeframe._version import __version__
from freezeframe.context.program import is_worker
from freezeframe.export.terminate import flush_before_exit, flush_before_termination
from freezeframe.seams.recorder import switch
from freezeframe.seams.unmarked import accesses
from freezeframe_schemas.data_directory import collector_url, find_data_directory
from freezeframe_schemas.errors import ConfigError

if TYPE_CHECKING:
    from freezeframe.context.structure import AgentStructure
    from freezeframe.export.delivery import CollectorExporter
    from freezeframe.export.export_queue import DeliveryCounts, Exporter, ExportQueue
    from freezeframe.export.sampling import RunSampling
    from freezeframe.export.spooling import SpoolingExporter
    from freezeframe.export.tracing import CaptureProcessor
    from freezeframe.runs.process_root import ProcessRoot
    from freezeframe.seams.recorder.hiding import MasksValues
    from freezeframe.seams.recorder.recording import Recorder

_NATIVE_SPANS: Final = ("ANTHROPIC_OPEN_TELEMETRY",)
"""SDKs that make their own LLM spans; ours hold more, and two spans per call would count every token twice."""


class Handle:
    """Capture in this process, as returned by `instrument()`."""

    def __init__(
        self,
        *,
        settings: Settings,
        queue: ExportQueue | None = None,
        processor: CaptureProcessor | None = None,
        root: ProcessRoot | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.settings = settings
        self._recorder = recorder
        self._queue = queue
        self._processor = processor
        self._root = root
        self._closed = False
        self._unwatch: list[Callable[[], None]] = []

    @property
    def counts(self) -> DeliveryCounts | None:
        """Counts of the spans so far by outcome; None in a replay, which exports nothing."""
        return None if self._queue is None else self._queue.counts

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Deliver what is queued; return whether all of it was delivered in time."""
        return True if self._queue is None else self._queue.flush(timeout_s)

    def _at_end(self, deliver: Callable[[float], object], timeout_s: float) -> Callable[[], None]:
        """Return the function for an end of the process without `atexit`: it also delivers spans that ended runs left open."""

        def last() -> None:
            if self._recorder is not None:
                with guard("end of exchanges"):
                    self._recorder.finish_left_behind()
            if self._root is not None and is_worker():  # nothing else ends it: it exits by `os._exit`, or by SIGTERM
                self._root.end()
            deliver(timeout_s)

        return last

    def watch_termination(self) -> None:
        """Deliver what is queued before SIGTERM ends this process, if the application has no handler for it."""
        queue, timeout_s = self._queue, self.settings.terminate_timeout_s
        if queue is not None and timeout_s > 0:
            self._unwatch.append(flush_before_termination(self._at_end(queue.flush_for_the_end, timeout_s)))

    def watch_exit(self) -> None:
        """Deliver what is queued before ``os._exit`` ends this process or one that it forks."""
        queue, timeout_s = self._queue, self.settings.terminate_timeout_s
        if queue is not None and timeout_s > 0:
            self._unwatch.append(flush_before_exit(self._at_end(queue.flush_for_the_end, timeout_s)))

    def watch_frameworks(self, structure: AgentStructure, provider: Any) -> None:
        """Start the instrumentors that name the agents of frameworks, when these are imported."""
        from freezeframe._structure import follow

        self._unwatch.append(follow(structure, provider))

    def watch_green_threads(self) -> None:
        """Survive gevent or eventlet replacing the process's threads from now on."""
        from freezeframe.export.green_threads import step_aside

        if self._queue is not None:
            self._unwatch.append(step_aside(self._queue))

    def uninstrument(self) -> None:
        """Restore every library, deliver what is queued, and stop."""
        global _active
        from freezeframe import seams
        from freezeframe.hosts import applications, workers

        with _lock:
            if _active is self:
                _active = None
        switch.set_recorder(None)
        accesses.stop()
        if switch.serving() is None:
            seams.uninstall()
            accesses.uninstall()
            applications.uninstall()
            workers.uninstall()
        for take_back in self._unwatch:
            take_back()
        self._close()
        atexit.unregister(self._close)

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        accesses.stop()
        if self._recorder is not None:
            with guard("close of exchanges"):
                self._recorder.finish_all()
        if self._root is not None:
            self._root.end()
        if self._queue is not None:
            with guard("close"):
                self._queue.close(self.settings.exit_timeout_s)
        if self._processor is not None:
            self._processor.active = False


_active: Handle | None = None
_lock: Final = threading.Lock()


def instrument(
    *,
    endpoint: str | None = None,
    protocol: str | None = None,
    headers: dict[str, str] | None = None,
    service_name: str | None = None,
    file: str | None = None,
    root: str | bool | None = None,
    trace_config: object = None,
    **options: Any,
) -> Handle:
    """Capture every model call, tool, retrieval and their HTTP in this process, from now on.

    Call it once at startup, before or after the SDKs are imported. A second call returns the first one's handle. Your own
    TracerProvider, if one is set, is used and its exporters continue alongside ours; else ours is set.

    Calls outside any `freezeframe.run` belong to whatever span is current. Without one, a whole script is one
    run (`root`: "auto"), and a server's calls are their own traces; see
    `freezeframe.runs.process_root.ProcessRoot`.

    Args:
        endpoint: the collector's address; default: that of the collector of this project's data directory, else
            http://127.0.0.1:4318.
        protocol: ``http/protobuf`` or ``grpc``.
        headers: sent with each batch.
        service_name: default: the program's name.
        file: write OTLP/JSON lines to this file and send nothing.
        root: ``auto``, ``always`` (also True), ``never`` (also False).
        trace_config: OpenInference's ``TraceConfig``, which hides content here, too; default: the
            ``OPENINFERENCE_HIDE_*`` variables.
        **options: any other option of docs/configuration.md.

    Raises:
        ConfigError: an option or variable is wrong; the error lists all faults.
    """
    global _active
    if isinstance(root, bool):
        root = "always" if root else "never"
    changes = {
        "endpoint": endpoint,
        "protocol": protocol,
        "headers": headers,
        "service_name": service_name,
        "file": file,
        "root": root,
        **options,
    }
    with _lock:
        if _active is not None:
            switch.instrumented()
            # in a replay we called it, not the program: its options decide nothing there
            if switch.serving() is None and any(value is not None for value in changes.values()):
                log_once(
                    "instrument.again", "freezeframe: instrument() was already called; the first call's options stay in effect"
                )
            return _active
        settings = load_settings(changes)
        _active = _start(settings, trace_config)
        return _active


def active_handle() -> Handle | None:
    return _active


def _start(settings: Settings, trace_config: object) -> Handle:
    from freezeframe import seams
    from freezeframe.hosts import applications, workers
    from freezeframe.seams.recorder.hiding import load_config

    for variable in _NATIVE_SPANS:
        os.environ.setdefault(variable, "false")
    if switch.serving() is not None:  # a replay answers; nothing is exported
        seams.install()
        return Handle(settings=settings)
    handle = start_recording(settings, make_exporter(settings), hidden_by=load_config(trace_config))
    seams.install(files=settings.record_files)
    applications.install(handle._at_end(handle.flush, settings.terminate_timeout_s))
    workers.install(handle._at_end(handle.flush, settings.exit_timeout_s))
    atexit.register(handle._close)
    handle.watch_termination()
    handle.watch_exit()
    _flush_forked_workers(handle)
    handle.watch_green_threads()
    return handle


def _flush_forked_workers(handle: Handle) -> None:
    """Deliver at the end of multiprocessing's forked workers, too: they exit by ``os._exit``, which skips every `atexit`.

    ``with Pool() as pool`` ends all its workers by SIGTERM, even if the main process has no handler for it.
    """
    from freezeframe.seams.recorder.patching import IMPORT_HOOK

    def arrange(util: Any) -> None:
        def in_child(owner: Handle) -> None:
            util.Finalize(owner, owner.flush, args=(owner.settings.exit_timeout_s,), exitpriority=0)
            owner.watch_termination()

        util.register_after_fork(handle, in_child)

    IMPORT_HOOK.when_imported("multiprocessing.util", arrange)


def start_recording(
    settings: Settings,
    exporter: Exporter,
    *,
    provider: Any = None,
    environment: Any = None,
    hidden_by: MasksValues | None = None,
) -> Handle:
    """Build recorder, processor and queue around an exporter, and switch the seams to recording."""
    from freezeframe.context.environment import environment_attributes
    from freezeframe.context.structure import AgentStructure
    from freezeframe.export.call_metrics import CallMetrics
    from freezeframe.export.export_queue import ExportQueue
    from freezeframe.export.sampling import RunSampling
    from freezeframe.export.tracing import CaptureProcessor, OwnIds
    from freezeframe.runs.process_root import ProcessRoot
    from freezeframe.seams.recorder.hiding import Hiding
    from freezeframe.seams.recorder.recording import Recorder
    from freezeframe_schemas import genai

    hiding = Hiding(hidden_by)
    queue = ExportQueue(
        exporter=exporter,
        environment=environment or environment_attributes,
        max_queue_bytes=settings.max_queue_bytes,
        batch_bytes=settings.batch_bytes,
        batch_interval_s=settings.batch_interval_s,
        export_timeout_s=settings.export_timeout_s,
        hiding=hiding,
        note_call=CallMetrics().note if switch.serving() is None else None,  # a replay's calls cost nothing
    )
    sampling = None
    if settings.sample < 1:
        sampling = RunSampling(share=settings.sample, keep_errors=settings.sample_errors)
    structure = AgentStructure() if settings.structure else None
    processor = CaptureProcessor(queue, sampling, structure)
    if provider is None:
        provider = _find_or_set_provider(settings, sampling)
    shared = not isinstance(provider.id_generator, OwnIds)
    provider.add_span_processor(processor)
    root = ProcessRoot(settings)
    recorder = Recorder(
        tracer=provider.get_tracer(genai.SCOPE, __version__, schema_url=genai.SCHEMA_URL),
        settings=settings,
        sink=processor,
        root=root,
        describe_spans=hiding if shared else None,
        structure=structure,
    )
    switch.set_recorder(recorder)
    root.begin(recorder)
    if switch.serving() is None:  # a replay has fences
        accesses.start()
    if getattr(exporter, "waiting", 0):
        queue.wake()  # deliver what an earlier process left without waiting for a span
    handle = Handle(settings=settings, queue=queue, processor=processor, root=root, recorder=recorder)
    if structure is not None and switch.serving() is None:
        handle.watch_frameworks(structure, provider)
    return handle


def _find_or_set_provider(settings: Settings, sampling: RunSampling | None) -> Any:
    """Return the program's tracer provider; if it has none, set ours."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from freezeframe.context.environment import program_name
    from freezeframe.export.sampling import RunSampler
    from freezeframe.export.tracing import make_provider

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        sampler = None if sampling is None else RunSampler(sampling)
        provider = make_provider(settings.service_name or program_name(), sampler)
        trace.set_tracer_provider(provider)
    return provider


def record_replay(file: str, *, service_name: str, root: Root) -> None:
    """Record this process, which is a replay, to a file of spans, whatever the program itself asks of `instrument()`.

    The tracer provider is ours, and the environment is read now, before the replay takes over clock and fences.
    """
    from freezeframe.context.environment import environment_attributes
    from freezeframe.export.tracing import make_provider

    settings = load_settings({"file": file, "root": root, "record_hosts": ("*",)}, environ={})
    surroundings = environment_attributes()
    handle = start_recording(
        settings, make_exporter(settings), provider=make_provider(service_name), environment=lambda: surroundings
    )
    atexit.register(handle._close)
    handle.watch_exit()
    _flush_forked_workers(handle)


def make_exporter(settings: Settings) -> Exporter:
    if settings.file is not None:
        from freezeframe.export.file import FileExporter

        return FileExporter(settings.file)
    if settings.spool is False:
        return make_collector_exporter(settings)
    if settings.spool is not None:
        from freezeframe.export.default_spool import spool_directory

        return make_spooling_exporter(settings, spool_directory(settings))
    try:
        return make_default_spooling_exporter(settings)
    except (ConfigError, OSError) as error:
        message = "freezeframe: %s: spans are lost while the collector is down (spool=False turns this warning off)"
        log_once("spool.off", message, str(error).replace("\n  do:", ";"))
        return make_collector_exporter(settings)


def make_collector_exporter(settings: Settings) -> CollectorExporter:
    """Return the exporter that only sends to the collector.

    Raises:
        ConfigError: a library for the protocol is not installed, or the files for TLS cannot be used.
    """
    from freezeframe.export.compression import make_compression
    from freezeframe.export.delivery import CollectorExporter, Destination
    from freezeframe.export.tls import TlsFiles

    compression = make_compression(settings.compression, settings.protocol)
    if compression.notice:
        log_once("compression", "freezeframe: %s", compression.notice)
    tls = TlsFiles(authorities=settings.certificate, certificate=settings.client_certificate, key=settings.client_key)
    own = None if settings.endpoint else find_data_directory().resolve()
    endpoint = settings.endpoint or (own and collector_url(own, grpc=settings.protocol == "grpc")) or USUAL_ENDPOINT
    if endpoint.startswith("https:"):
        tls.check()
    to = Destination(endpoint=endpoint, headers=settings.headers, encoding=compression.name, tls=tls, own=own)
    if settings.protocol == "grpc":
        from freezeframe.export.otlp_grpc import GrpcWire

        wire = GrpcWire(to)
    else:
        from freezeframe.export.otlp_http import HttpWire

        wire = HttpWire(to)
    # the standard variables may name any backend
    asks_who = settings.endpoint_from in OPTIONS["endpoint"].variables
    return CollectorExporter(wire, compression.compress, settings.request_timeout_s, asks_who=asks_who)


def make_default_spooling_exporter(settings: Settings) -> SpoolingExporter:
    """Return the exporter with the spool that is on by default, whose key is read or created when first needed.

    Raises:
        ConfigError: it is not available here.
    """
    from freezeframe.export.default_spool import LazySeal, check_seal, spool_directory
    from freezeframe.export.seal import make_seal
    from freezeframe.export.spool import Spool
    from freezeframe.export.spooling import SpoolingExporter

    check_seal(settings)
    spool = Spool(Path(spool_directory(settings)), limit_bytes=settings.spool_bytes, limit_days=settings.spool_days)
    seal = LazySeal(lambda: make_seal(settings.spool_protection, settings.spool_key))
    return SpoolingExporter(make_collector_exporter(settings), spool, seal)


def make_spooling_exporter(settings: Settings, directory: str) -> SpoolingExporter:
    """Return the exporter backed by a spool in `directory`.

    Raises:
        ConfigError: the directory or the key cannot be used, or a library for protecting the content is not installed.
    """
    from freezeframe.export.seal import make_seal
    from freezeframe.export.spool import Spool
    from freezeframe.export.spooling import SpoolingExporter

    seal = make_seal(settings.spool_protection, settings.spool_key)
    spool = Spool(Path(directory), limit_bytes=settings.spool_bytes, limit_days=settings.spool_days)
    return SpoolingExporter(make_collector_exporter(settings), spool, seal)
