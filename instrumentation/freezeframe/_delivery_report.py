"""The state of delivery, for the commands: effective settings, batches on the disk, losses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from freezeframe._config import Settings, load_settings
from freezeframe_schemas.errors import ConfigError

if TYPE_CHECKING:
    from freezeframe.export.export_queue import DeliveryCounts
    from freezeframe.export.spooling import DrainCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """One thing about delivery."""

    subject: str
    ok: bool
    found: str
    do: str = ""


def delivery_reports(settings: Settings | None = None) -> tuple[DeliveryReport, ...]:
    """Report on delivery as `instrument()` does it in this process, or would do it.

    Raises:
        ConfigError: the environment's settings are wrong.
    """
    from freezeframe._instrument import active_handle

    handle = active_handle()
    if settings is None:
        settings = load_settings({}) if handle is None else handle.settings
    counts = None if handle is None else handle.counts
    return (*_compression(settings), *_sampling(settings), *_spool(settings), *_losses(counts))


def waiting_batches() -> int:
    """Return how many batches wait on the disk for this project's collector, as far as that can be seen."""
    from freezeframe.export.default_spool import spool_directory
    from freezeframe.export.spool import waiting_in

    try:
        settings = load_settings({})
        return 0 if settings.spool is False else len(waiting_in(Path(spool_directory(settings))))
    except ConfigError:
        return 0  # `doctor` says what is wrong


def deliver_waiting(settings: Settings) -> tuple[DrainCounts, int]:
    """Send the batches that wait on the disk; return their results, and the number of batches left.

    Raises:
        ConfigError: the spool or its key cannot be used.
    """
    from freezeframe._instrument import make_spooling_exporter
    from freezeframe.export.default_spool import spool_directory

    exporter = make_spooling_exporter(settings, spool_directory(settings))
    exporter.drain()
    return exporter.drained, exporter.waiting + exporter.drained.foreign


def _compression(settings: Settings) -> Iterable[DeliveryReport]:
    from freezeframe.export.compression import make_compression

    compression = make_compression(settings.compression, settings.protocol)
    if compression.notice:
        found, _, do = compression.notice.partition("; ")
        yield DeliveryReport(subject="compression", ok=False, found=found, do=do)


def _sampling(settings: Settings) -> Iterable[DeliveryReport]:
    if settings.sample < 1:
        failed = ", failed ones too" if settings.sample_errors else ""
        yield DeliveryReport(subject="sampling", ok=True, found=f"{settings.sample:.1%} of runs are kept{failed}")


def _spool(settings: Settings) -> Iterable[DeliveryReport]:
    if settings.file is not None:
        return
    if settings.spool is False:
        yield DeliveryReport(subject="spool", ok=True, found="off: spans are lost while the collector is down")
        return
    from freezeframe._instrument import make_default_spooling_exporter, make_spooling_exporter
    from freezeframe.export.default_spool import spool_directory

    try:
        directory = spool_directory(settings)
        by_default = settings.spool is None
        exporter = make_default_spooling_exporter(settings) if by_default else make_spooling_exporter(settings, directory)
    except ConfigError as error:
        found = f"off, so spans are lost while the collector is down: {error.message}"
        yield DeliveryReport(subject="spool", ok=False, found=found, do=error.do or "")
        return
    waiting, where = exporter.waiting, f"in {directory}, protected by: {settings.spool_protection}"
    if waiting:
        do = "freezeframe run drain, or let the next process deliver them"
        yield DeliveryReport(subject="spool", ok=False, found=f"batches waiting: {waiting}, {where}", do=do)
    else:
        yield DeliveryReport(subject="spool", ok=True, found=f"empty, {where}")


def _losses(counts: DeliveryCounts | None) -> Iterable[DeliveryReport]:
    if counts is None:
        return
    found = f"{counts.exported} spans delivered, {counts.spooled} spooled, {counts.dropped} dropped, {counts.failed} failed"
    do = "docs/operate/delivery.md explains each of these" if counts.lost else ""
    yield DeliveryReport(subject="delivery", ok=not counts.lost, found=found, do=do)
