"""`freezeframe status`: what is running, where, and whether it is keeping up."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from freezeframe_replay.cli.command import Command
from freezeframe_replay.cli.options import DATA, JSON, home_of, print_json
from freezeframe_replay.local import daemon
from freezeframe_replay.local.collector import ask
from freezeframe_replay.local.home import Home
from freezeframe_replay.report.render import duration, printable

COMMAND: Final = Command(
    examples={
        "freezeframe status": "addresses, rates, lag, log size, rejected spans",
        "freezeframe status --json": "the same for a script",
    },
    exit_codes={0: "everything is running", 1: "something is not"},
    options=(
        DATA,
        JSON,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Print the state; 1 if something does not run. If a supervisor runs the collector, the replay service may be absent."""
    home = home_of(arguments)
    services = daemon.services(home)
    figures = {service.name: _figures(home, service) for service in services}
    pids = {service.name: _pid(service, figures[service.name]) for service in services}
    is_supervised = pids[daemon.COLLECTOR] is not None and services[0].note is None
    if arguments.json:
        print_json(
            {
                "data": str(home.directory),
                "services": {
                    service.name: {
                        "running": pids[service.name] is not None,
                        "pid": pids[service.name],
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
            print(_service_text(service, pids[service.name], figures[service.name], daemon.page_link(home)))
    return 0 if is_supervised or None not in pids.values() else 1


def _figures(home: Home, service: daemon.ProcessState) -> Any:
    """Return the service's own report; None if it does not run."""
    port, is_started = daemon.pages_port_of(home, service.name), service.note is not None
    if port is None or not (is_started or service.name == daemon.COLLECTOR):
        return None
    path = "/status" if service.name == daemon.COLLECTOR else "/healthz"
    try:
        return ask(home, port, path)
    except (OSError, ValueError) as error:
        return {"error": f"does not answer: {type(error).__name__}"} if is_started else None


def _pid(service: daemon.ProcessState, figures: Any) -> int | None:
    """Return the process of a service that runs, no matter who started it (`freezeframe up`, a supervisor, a container)."""
    if service.note is not None:
        return service.note.pid
    return int(figures["pid"]) if isinstance(figures, dict) and "pid" in figures else None


def _service_text(service: daemon.ProcessState, pid: int | None, figures: Any, page_link: str | None) -> str:
    if pid is None:
        return f"{service.name:<10} is not running; start it with `freezeframe up`"
    lines = [f"{service.name:<10} runs, pid {pid}"]
    for name, port in service.ports.items():
        secure = name == "http" and isinstance(figures, dict) and figures.get("tls") is True
        scheme = "" if name == "grpc" else "https://" if secure else "http://"
        address = page_link if service.name == daemon.REPLAY and page_link else f"{scheme}127.0.0.1:{port}"
        lines.append(f"  {_LISTENERS[service.name, name]:<16} {address}")
    if service.name == daemon.COLLECTOR and isinstance(figures, dict):
        lines += [f"  {label:<16} {printable(text)}" for label, text in collector_figures(figures) if text]
    return "\n".join(lines)


_LISTENERS: Final[Mapping[tuple[str, str], str]] = {
    (daemon.COLLECTOR, "http"): "OTLP/HTTP",
    (daemon.COLLECTOR, "grpc"): "OTLP/gRPC",
    (daemon.COLLECTOR, "clickhouse"): "ClickHouse HTTP",
    (daemon.COLLECTOR, "pages"): "status, metrics",
    (daemon.REPLAY, "http"): "runs page",
}


def collector_figures(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the collector's ``/status`` as labelled lines; empty if it does not answer."""
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
    free = f", {log['disk_free_bytes']:,} bytes free" if "disk_free_bytes" in log else ""
    turned_away = {key: count for key, count in (figures.get("since_start") or {}).items() if key in _TURNED_AWAY and count}
    missing = spans.get("missing")
    workers = figures.get("workers") or []
    restarts = sum(int(worker.get("restarts", 0)) for worker in workers)
    return [
        ("version", f"{figures.get('version', '?')}, up {duration(uptime_s * 1000)}"),
        ("workers", f"{len(workers)}, restarted {restarts} times" if workers else ""),
        ("not ready", str(figures.get("not_ready_because") or "")),
        ("readers", _readers_text(figures.get("readers") or {})),
        ("spans", ", ".join(f"{spans.get(key, 0):,} {words}" for key, words in _SPANS.items()) + rate),
        ("missing", f"{missing:,} spans unaccounted for: please report this as a bug" if missing else ""),
        ("lost", _loss_text(spans)),
        ("lag", duration(float(figures.get("lag_s") or writer.get("busy_s") or 0) * 1000)),
        (
            "log",
            f"{log.get('bytes', 0):,} bytes in {log.get('segments', 0):,} segments, {log.get('failures', 0):,} failed writes"
            + free,
        ),
        ("refused", ", ".join(f"{count:,} requests {_TURNED_AWAY[key]}" for key, count in turned_away.items())),
        ("rejected for", ", ".join(f"{reason}: {count:,}" for reason, count in rejected.items())),
        ("unsettled", _unsettled_text(figures.get("casts") or {})),
        ("last error", str(writer.get("last_error") or "")),
    ]


def _unsettled_text(casts: Mapping[str, Any]) -> str:
    """Return the number of runs whose stored spans must be read again, as text; empty for 0."""
    count = casts.get("unsettled_runs")
    fault = f"; {casts['last_error']}" if casts.get("last_error") else ""
    return f"{count:,} of {casts['open_runs']:,} open runs{fault}" if count or fault else ""


def _loss_text(spans: Mapping[str, Any]) -> str:
    """Return the losses by damage to the log; empty without any."""
    if not spans.get("damaged") and not spans.get("lost"):
        return ""
    found = f"{spans.get('lost', 0):,} acked spans or more, in {spans.get('damaged', 0):,} damaged segments of the log"
    return f"{found}: see the table `rejected` and the files wal/*.damaged"


def _readers_text(readers: Mapping[str, Any]) -> str:
    """Report whether the kernel sandboxes SQL; empty if a ClickHouse server answers it, or the collector does not report it."""
    if not readers:
        return ""
    if readers.get("sandboxed"):
        return "sandboxed by the kernel"
    return f"not sandboxed: {readers.get('why_not')}; not protected: {readers.get('not_protected')}"


_TURNED_AWAY: Final[Mapping[str, str]] = {"unauthenticated": "without a known token", "malformed": "that are not valid OTLP"}
_SPANS: Final[Mapping[str, str]] = {
    "received": "received",
    "stored": "stored",
    "in_log": "in the log",
    "rejected": "rejected",
    "duplicate": "sent twice",
}
