"""`freezeframe status`: what runs, where, and how it keeps up."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from freezeframe_replay.cli.options import add_data, add_json, home_of, print_json
from freezeframe_replay.local import daemon
from freezeframe_replay.report.render import duration, printable


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_data(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Print the state; 1 where something does not run."""
    home = home_of(arguments)
    services = daemon.services(home)
    figures = {service.name: _figures(service) for service in services}
    if arguments.json:
        print_json(
            {
                "data": str(home.directory),
                "services": {
                    service.name: {
                        "running": service.note is not None,
                        "pid": None if service.note is None else service.note.pid,
                        "ports": service.ports,
                        "status": figures[service.name],
                    }
                    for service in services
                },
            }
        )
    else:
        print(f"data       {home.directory}")
        for service in services:
            print(_service_text(service, figures[service.name]))
    return 0 if all(service.note is not None for service in services) else 1


def _figures(service: daemon.Service) -> Any:
    """Return what the service says of itself; None where it does not answer."""
    port = service.ports.get("http")
    if service.note is None or not port:
        return None
    path = "/status" if service.name == daemon.COLLECTOR else "/healthz"
    try:
        return daemon.get_json(f"http://127.0.0.1:{port}{path}")
    except (OSError, ValueError) as error:
        return {"error": f"does not answer: {type(error).__name__}"}


def _service_text(service: daemon.Service, figures: Any) -> str:
    if service.note is None:
        return f"{service.name:<10} does not run; start it with `freezeframe up`"
    lines = [f"{service.name:<10} runs, pid {service.note.pid}"]
    for name, port in service.ports.items():
        scheme = "" if name == "grpc" else "http://"
        lines.append(f"  {_LISTENERS[service.name, name]:<16} {scheme}127.0.0.1:{port}")
    if service.name == daemon.COLLECTOR and isinstance(figures, dict):
        lines += [f"  {label:<16} {printable(text)}" for label, text in collector_figures(figures) if text]
    return "\n".join(lines)


_LISTENERS: Final[Mapping[tuple[str, str], str]] = {
    (daemon.COLLECTOR, "http"): "OTLP/HTTP",
    (daemon.COLLECTOR, "grpc"): "OTLP/gRPC",
    (daemon.COLLECTOR, "clickhouse"): "ClickHouse HTTP",
    (daemon.REPLAY, "http"): "runs, as a page",
}


def collector_figures(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the collector says of itself (its ``/status``) as labelled lines; empty text where it does not say."""
    if "error" in figures:
        return [("fault", str(figures["error"]))]
    spans, log, writer = (figures.get(name) or {} for name in ("audit", "log", "writer"))
    uptime_s = float(figures.get("uptime_s") or 0)
    received = (figures.get("since_start") or {}).get("spans")
    rate = f", {received / uptime_s:,.1f} a second since it started" if received and uptime_s else ""
    recent = figures.get("rates") or {}
    if recent.get("over_s"):
        rate = f"; {recent['received']:,.1f} a second in the last {duration(recent['over_s'] * 1000)}"
    rejected = figures.get("rejected_by_reason") or {}
    missing = spans.get("missing")
    workers = figures.get("workers") or []
    restarts = sum(int(worker.get("restarts", 0)) for worker in workers)
    return [
        ("version", f"{figures.get('version', '?')}, up {duration(uptime_s * 1000)}"),
        ("workers", f"{len(workers)}, started again {restarts} times" if workers else ""),
        ("not ready", str(figures.get("not_ready_because") or "")),
        ("spans", ", ".join(f"{spans.get(key, 0):,} {words}" for key, words in _SPANS.items()) + rate),
        ("missing", f"{missing:,} spans unaccounted for: please report this as a bug" if missing else ""),
        ("lag", duration(float(figures.get("lag_s") or writer.get("busy_s") or 0) * 1000)),
        (
            "log",
            f"{log.get('bytes', 0):,} bytes in {log.get('segments', 0):,} segments, {log.get('failures', 0):,} failed writes",
        ),
        ("rejected for", ", ".join(f"{reason}: {count:,}" for reason, count in rejected.items())),
        ("last error", str(writer.get("last_error") or "")),
    ]


_SPANS: Final[Mapping[str, str]] = {
    "received": "received",
    "stored": "stored",
    "in_log": "in the log",
    "rejected": "rejected",
    "duplicate": "sent twice",
}
