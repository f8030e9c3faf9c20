"""`freezeframe up`: start the collector and the replay service."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from freezeframe._config import USUAL_ENDPOINT, load_settings
from freezeframe._delivery_report import deliver_waiting, waiting_batches
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import DATA, home_of, limit, port
from freezeframe_replay.local import daemon
from freezeframe_replay.local.collector import read_ports
from freezeframe_replay.local.home import Home
from freezeframe_schemas.data_directory import collector_url, find_data_directory, is_chosen
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.local_tokens import READER, SENDER

_USUAL: Final = daemon.Ports()
_OR_FREE: Final = "; if that is taken, any free one)"
COMMAND: Final = Command(
    description="They run in the background on the loopback interface until `freezeframe down`. A second run starts what is not"
    " running and leaves the rest alone.",
    examples={
        "freezeframe up": "usual ports, data in ./.freezeframe",
        "freezeframe up --data /srv/freezeframe": "data elsewhere",
        "freezeframe up --clickhouse-port 9123": "a certain port (0: any free one)",
        "freezeframe up --foreground": "run until Ctrl-C, for a container or a supervisor",
    },
    options=(
        DATA,
        option("--grpc-port", type=port, metavar="N", help=f"OTLP/gRPC (default: {_USUAL.grpc}{_OR_FREE}"),
        option("--http-port", type=port, metavar="N", help=f"OTLP/HTTP (default: {_USUAL.http}{_OR_FREE}"),
        option(
            "--clickhouse-port",
            type=port,
            metavar="N",
            help=f"ClickHouse HTTP (default: {_USUAL.clickhouse}{_OR_FREE}",
        ),
        option("--replay-port", type=port, metavar="N", help=f"replay service (default: {_USUAL.replay}{_OR_FREE}"),
        option("--config", type=Path, metavar="FILE", help="the collector's configuration file"),
        flag("--open-senders", "accept spans from senders without a token"),
        flag("--allow-live", "let the pages replay with live calls of models, with the keys of this environment"),
        flag("--foreground", "run until Ctrl-C, then stop both"),
        option("--timeout", type=limit, default=60.0, metavar="S", help="seconds to wait for readiness (default: 60)"),
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Start the services that do not run, and print their addresses."""
    home = home_of(arguments)
    chosen_ports = {name: getattr(arguments, f"{name}_port") for name in sorted(_USUAL.chosen)}
    chosen = {name: port for name, port in chosen_ports.items() if port is not None}
    ports = replace(_USUAL, **chosen, chosen=frozenset(chosen))

    def start() -> None:
        daemon.up(
            home,
            ports,
            _progress,
            config=arguments.config,
            timeout_s=arguments.timeout,
            open_senders=arguments.open_senders,
            allow_live=arguments.allow_live,
        )

        _deliver_what_waits(home)

    if not arguments.foreground:
        start()
        print(addresses_text(home))
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell that starts us in the background makes us ignore SIGINT
        signal.signal(number, _interrupt)
    try:
        start()
        print(addresses_text(home), flush=True)
        ended = daemon.wait_for_end(home)
        _progress(f"the {ended} exited; its output is in {daemon.log_file(home, ended)}")
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        daemon.down(home, _progress)


def _deliver_what_waits(home: Home) -> None:
    """Send the spans that were recorded while this project's collector was down."""
    if find_data_directory() != home.directory or not (batches := waiting_batches()):
        return
    try:
        settings = load_settings({})
        if settings.endpoint is not None:  # those wait for another collector
            return
        _progress(f"delivering what was recorded before, batches: {batches} ...")
        done, left = deliver_waiting(settings)
    except ConfigError as error:
        _progress(f"note: not delivered: {error}; `freezeframe doctor` shows what waits")
        return
    if left or done.refused or done.damaged:
        _progress(f"note: {done.refused} spans refused, {done.damaged} batches damaged, {left} left; see freezeframe doctor")


def addresses_text(home: Home) -> str:
    """Return the listeners with their addresses, and the commands to type next."""
    ports = {service.name: service.ports for service in daemon.services(home)}
    otlp, url = read_ports(home), collector_url(home.directory)
    lines = [f"freezeframe is up, data in {home.directory}"]
    if url is not None:
        lines.append(f"  OTLP/HTTP        {url}")
    if "grpc" in otlp:
        lines.append(f"  OTLP/gRPC        127.0.0.1:{otlp['grpc']}")
    if "clickhouse" in otlp:
        lines.append(f"  ClickHouse HTTP  http://127.0.0.1:{otlp['clickhouse']}")
    if "http" in ports[daemon.REPLAY]:
        page = f"http://127.0.0.1:{ports[daemon.REPLAY]['http']}"
        lines.append(f"  runs page        {daemon.page_link(home) or page}")
    own = find_data_directory()
    is_found = own == home.directory or (url == USUAL_ENDPOINT and not is_chosen(own))
    variable = "" if is_found else f"FREEZEFRAME_ENDPOINT={url} "
    lines += [
        "next:",
        f"  {variable}freezeframe run -- python your_agent.py",
        "  freezeframe runs",
        "  freezeframe show last",
        "  freezeframe down",
    ]
    if "clickhouse" in otlp:
        lines += [
            "for a ClickHouse client, and for a sender in a container, under another user or with another SDK:",
            f'  clickhouse_connect.get_client(host="127.0.0.1", port={otlp["clickhouse"]}, '
            f'password=open("{home.directory / READER}").read().strip())',
            f'  export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$(cat {shlex.quote(str(home.directory / SENDER))})"',
        ]
    return "\n".join(lines)


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
