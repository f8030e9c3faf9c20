"""`freezeframe status`: what runs, where, and how it keeps up."""

from __future__ import annotations

import argparse
from typing import Any

from freezeframe_replay import daemon
from freezeframe_replay.cli.options import add_data, add_json, home_of, print_json
from freezeframe_replay.render import printable


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
    ports = "  ".join(f"{name} 127.0.0.1:{port}" for name, port in service.ports.items())
    lines = [f"{service.name:<10} runs, pid {service.note.pid}  {ports}"]
    lines += [f"  {name:<32} {printable(text)}" for name, text in _flat(figures)]
    return "\n".join(lines)


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Return nested figures as rows: ``{"wal": {"bytes": 3}}`` is ``wal.bytes  3``."""
    if isinstance(value, dict):
        rows: list[tuple[str, str]] = []
        for name, item in value.items():
            rows += _flat(item, f"{prefix}.{name}" if prefix else str(name))
        return rows
    if isinstance(value, list):
        return [(prefix, ", ".join(str(item) for item in value) or "none")]
    return [] if value is None else [(prefix, f"{value:,}" if isinstance(value, int | float) else str(value))]
