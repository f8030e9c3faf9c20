"""The command line: ``freezeframe-collector``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from freezeframe_collector.settings.config import Scalar
from freezeframe_collector.settings.config_file import load_config, read_config, refuse
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.installing import install_command

_EXAMPLES = """\
examples:
  freezeframe-collector                               everything on loopback, data in .freezeframe
  freezeframe-collector --config /etc/freezeframe.toml --check
  freezeframe-collector --data /var/lib/freezeframe --grpc-port 0 --http-port 0 --clickhouse-port 0

exit codes: 0 stopped, all stored; 1 broke; 2 wrong configuration; 4 stopped, the rest is in the log
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    overrides: dict[str, Scalar] = {
        path: value
        for path, value in (
            ("service.data", options.data),
            ("grpc.port", options.grpc_port),
            ("http.port", options.http_port),
            ("clickhouse.port", options.clickhouse_port),
            ("pages.port", options.pages_port),
            ("auth.open_senders", options.open_senders or None),
        )
        if value is not None
    }
    try:
        if options.check:
            config, faults = read_config(options.config, os.environ, overrides)
            # Imported here, as below: --help needs no redactor and no gRPC.
            from freezeframe_collector.settings.check import file_faults, warnings

            refuse([*faults, *file_faults(config)])
            for warning in warnings(config):
                print(f"warning: {warning}")
            print("the configuration is valid")
            return 0
        config = load_config(options.config, os.environ, overrides)
        if options.read:
            from freezeframe_collector.reading import serve_reading

            return asyncio.run(serve_reading(Path(config.store_dsn.removeprefix("chdb://"))))
        from freezeframe_collector.service import run
        from freezeframe_collector.telemetry import configure_logging, hide_exception_text

        configure_logging(config.service.log_level)
        hide_exception_text()
        _leave_no_core()
        return asyncio.run(run(config, lambda: load_config(options.config, os.environ, overrides)))
    except FreezeframeError as error:
        print(f"freezeframe-collector: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "freezeframe").startswith("freezeframe"):
            raise
        do = f"{install_command('embedded')}, or the extra 'collector' for a ClickHouse server"
        print(f"freezeframe-collector: {error.name} is not installed\n  do: {do}", file=sys.stderr)
        return 2


def _leave_no_core() -> None:
    """Prevent core dumps of this process and the ones that it starts: its memory holds data that is not redacted yet.

    On Linux a limit of one byte also stops a core handler; under a limit of zero it would still be handed everything.

    Source: core(5), and do_coredump in fs/coredump.c.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0 if most == 0 else 1, most))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="freezeframe-collector",
        description="Receive OTLP spans, redact them, and store them durably in ClickHouse.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file; see docs/operate/collector-config.md")
    parser.add_argument("--check", action="store_true", help="check the configuration, report every fault, and exit")
    parser.add_argument(
        "--read", action="store_true", help="answer SQL over the embedded store until stdin closes; needs no running collector"
    )
    parser.add_argument("--data", metavar="DIR", help="data directory (service.data)")
    parser.add_argument("--grpc-port", type=int, metavar="PORT", help="OTLP/gRPC port (0: any free one)")
    parser.add_argument("--http-port", type=int, metavar="PORT", help="OTLP/HTTP port (0: any free one)")
    parser.add_argument("--clickhouse-port", type=int, metavar="PORT", help="ClickHouse HTTP port (0: any free one)")
    parser.add_argument("--pages-port", type=int, metavar="PORT", help="port of the collector's own pages, if TLS is on")
    parser.add_argument(
        "--open-senders", action="store_true", help="accept spans from senders without a token (auth.open_senders)"
    )
    parser.add_argument("--version", action="version", version=f"freezeframe-collector {version('freezeframe')}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
