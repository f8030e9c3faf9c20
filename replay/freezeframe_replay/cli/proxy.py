"""`freezeframe run --proxy -- CMD`: record a program in any language, by a proxy to which its SDKs are pointed."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from freezeframe.export.export_queue import BatchResult
from freezeframe_replay.cli import options
from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.process.program_recorder import ProgramRecorder
from freezeframe_replay.process.programs import collector_settings, record_program
from freezeframe_schemas.errors import ConfigError

COMMAND: Final = Command(
    description="For programs that are not Python, or that you must not change. The program is started with the base "
    "URLs of its SDKs set to a proxy on loopback, which forwards each call and records it. For a Python program, "
    "`freezeframe run` records more. The exit code is the program's.",
    examples={
        "freezeframe run --proxy -- node agent.mjs": "then: freezeframe replay last",
        "freezeframe run --proxy --file spans.jsonl -- ./agent": "to a file, no collector needed",
        "freezeframe run --proxy --all-http -- node agent.mjs": "its tools' own calls over http and https, too",
        "freezeframe run --proxy --mcp -- npx some-server": "in place of the command of an MCP server over stdio",
    },
    exit_codes={0: "as the program", 1: "as the program, or it could not be started"},
    takes_program=True,
    options=(
        option("--file", metavar="PATH", help="write spans to this file as OTLP/JSON lines, not redacted, and send none"),
        option("--endpoint", metavar="URL", help="the collector's address (default: the data directory's collector)"),
        option("--service-name", metavar="NAME", help="service.name of the spans (default: the program's name)"),
        flag("--all-http", "also act as the program's proxy for http and https, to record its other calls"),
        flag(
            "--mcp",
            "the program is an MCP server over stdio: record what it is asked, inside a program that `run --proxy` started; "
            "inside of `replay serve`, answer from the run and do not start it",
        ),
        options.DATA,
    ),
)


def execute(arguments: argparse.Namespace) -> int:
    """Run the program and record it."""
    if not arguments.program:
        raise ConfigError("expected a command after `--`: freezeframe run --proxy -- node agent.mjs")
    if arguments.mcp:
        from freezeframe_replay.process.mcp_stdio import wrap_server

        return wrap_server(arguments.program)
    options = {"file": arguments.file, "endpoint": arguments.endpoint, "service_name": arguments.service_name}
    settings = collector_settings(options, arguments.data)
    recorder, status, result = record_program(arguments.program, settings=settings, is_proxy=arguments.all_http)
    print(_summary(recorder, result, arguments.file), file=sys.stderr)
    return status


def _summary(recorder: ProgramRecorder, result: BatchResult, file: str | None) -> str:
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(recorder.counts.items()))
    if not made:
        return (
            f"freezeframe run --proxy: run {recorder.trace_id}: no call came through the proxy\n"
            "  do: let the program read its base URLs from the environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, ...), or call "
            "$FREEZEFRAME_HTTP_URL followed by the URL"
        )
    named = f"{os.path.relpath(file)}:{recorder.trace_id}" if file else recorder.trace_id
    lines = [f"recorded {made} calls as run {recorder.trace_id}"]
    if result.failed:
        lines.append(f"  lost: {result.failed} spans could not be delivered: {result.why}")
    if result.spooled:
        lines.append(f"  {result.spooled} spans wait on the disk until the collector is up (freezeframe run drain)")
    return "\n".join([*lines, f"  next: freezeframe replay {named}"])
