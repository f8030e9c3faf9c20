"""The command ``freezeframe``: `run` starts a program with capture in it, `run drain` delivers the batches on the disk.

Every other command belongs to the replay package, and so do `run setup`, `run --proxy`, `--reuse` and `--mcp`. The base
install has these two; asking for another one prints what to
install.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from freezeframe._injection import capture_environment
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.installing import install_command

USAGE_ERROR: Final = 2
NOT_INSTALLED: Final = 1
CANNOT_EXECUTE: Final = 126
NOT_FOUND: Final = 127

_RUN_HELP: Final = """\
examples:
  freezeframe run -- python agent.py --question "Where is AC-1?"   capture a script as one run
  freezeframe run -- uvicorn app:app                               capture a server, each request as its own run
  freezeframe run --file spans.jsonl -- python agent.py            write the spans to a file, no collector needed

more (freezeframe run WORD --help):
  --proxy  record a program in any language, by a proxy for its calls: freezeframe run --proxy -- node agent.mjs
  --mcp    record an MCP server over stdio, in place of its own command
  --reuse  answer model calls that are equal to earlier ones from the store
  setup    point Claude Code, Codex or Gemini CLI at the collector
  drain    send the spans that were spooled while the collector was down

exit code: that of the command; 126 or 127 if it cannot be started.
"""

_DRAIN_HELP: Final = """\
examples:
  freezeframe run drain --spool /var/spool/agent          send what waits there to this project's collector
  FREEZEFRAME_SPOOL=... freezeframe run drain             with the environment of the agent: endpoint, headers, key

exit code: 0 if nothing is left, 1 if batches remain, 2 for a wrong option.
"""

_BASE_HELP: Final = """\
usage: freezeframe COMMAND ...

  run        start a program with capture enabled, without changing its code: freezeframe run -- python agent.py
  run drain  send what was spooled while the collector was down: freezeframe run drain --spool DIR

The other commands (up, runs, show, sql, replay, fixture, store, ...) need more of freezeframe:
  {install}
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--version"], ["-V"]):
        from freezeframe._version import __version__

        print(f"freezeframe {__version__}")
        return 0
    if arguments[:2] == ["run", "drain"]:
        return _drain(arguments[2:])
    mode = _mode(arguments[1:]) if arguments[:1] == ["run"] else None
    if mode is not None:
        arguments = ["run", *mode]
    elif arguments[:1] == ["run"]:
        return _run(arguments[1:])
    rest = _replay_commands()
    if rest is None:
        wants_help = not arguments or arguments[0] in ("-h", "--help", "help")
        print(
            _BASE_HELP.format(install=install_command("embedded", "replay")),
            end="",
            file=sys.stdout if wants_help else sys.stderr,
        )
        return (0 if arguments else USAGE_ERROR) if wants_help else NOT_INSTALLED
    return int(rest.main(arguments))


def _replay_commands() -> Any:
    """Return the module with the other commands, None if it or one of its dependencies is not installed."""
    try:
        return import_module("freezeframe_replay.cli")
    except ImportError as error:
        if error.name and error.name.partition(".")[0] not in ("freezeframe_replay", "freezeframe_redaction"):
            print(f"freezeframe: {error}", file=sys.stderr)
        return None


def _mode(arguments: list[str]) -> list[str] | None:
    """Return the words after `run` for the replay package, which records from outside; None if capture records."""
    if arguments[:1] == ["setup"]:
        return arguments
    options, _ = _split(arguments)
    mode = next((name for name in ("--reuse", "--proxy", "--mcp") if name in options), None)
    if mode is None:
        return None
    rest = list(arguments)
    if mode == "--mcp":
        return ["--proxy", *rest]
    rest.remove(mode)
    return [mode, *rest]


def run_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `run`; it ignores the command after them."""
    parser = argparse.ArgumentParser(
        prog="freezeframe run",
        usage="freezeframe run [options] -- CMD ...",
        description="Start a program with capture enabled: model calls, tools and retrievals are recorded, without "
        "changing its code.",
        epilog=_RUN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--endpoint", metavar="URL", help="the collector's address (default: as instrument() finds it)")
    parser.add_argument(
        "--file", metavar="PATH", help="write spans to this file as OTLP/JSON lines, not redacted, and send none"
    )
    parser.add_argument("--service-name", metavar="NAME", help="service.name of the spans")
    return parser


def _run(arguments: list[str]) -> int:
    options, command = _split(arguments)
    try:
        parsed = run_parser().parse_args(options)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    if not command:
        print("freezeframe run: expected a command after `--`: freezeframe run -- python agent.py", file=sys.stderr)
        return USAGE_ERROR
    environ = capture_environment(command)
    for name, value in (
        ("FREEZEFRAME_ENDPOINT", parsed.endpoint),
        ("FREEZEFRAME_FILE", None if parsed.file is None else os.path.abspath(parsed.file)),
        ("FREEZEFRAME_SERVICE_NAME", parsed.service_name),
    ):
        if value is not None:
            environ[name] = value
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606 - the user's own command, without a shell
    except FileNotFoundError:
        print(f"freezeframe run: {command[0]}: command not found", file=sys.stderr)
        return NOT_FOUND
    except (OSError, FreezeframeError) as error:
        print(f"freezeframe run: {command[0]}: cannot be started: {error}", file=sys.stderr)
        return CANNOT_EXECUTE


def drain_parser() -> argparse.ArgumentParser:
    """Return the parser of the options of `drain`."""
    parser = argparse.ArgumentParser(
        prog="freezeframe run drain",
        description="Send the spans that were spooled while the collector was down.",
        epilog=_DRAIN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--spool", metavar="DIR", help="the spool's directory (default: FREEZEFRAME_SPOOL, else this collector's)"
    )
    parser.add_argument("--endpoint", metavar="URL", help="the collector's address (default: as instrument() finds it)")
    parser.add_argument("--key", metavar="PATH", help="the key that protects the spool (default: FREEZEFRAME_SPOOL_KEY)")
    return parser


def _drain(arguments: list[str]) -> int:
    try:
        options = drain_parser().parse_args(arguments)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    from freezeframe._config import load_settings
    from freezeframe._delivery_report import deliver_waiting

    try:
        settings = load_settings({"spool": options.spool, "endpoint": options.endpoint, "spool_key": options.key})
        if settings.spool is False:
            print("freezeframe run drain: the spool is off; set --spool DIR or FREEZEFRAME_SPOOL", file=sys.stderr)
            return USAGE_ERROR
        done, left = deliver_waiting(settings)
    except FreezeframeError as error:
        print(f"freezeframe run drain: {error}", file=sys.stderr)
        return USAGE_ERROR
    print(f"{done.delivered} spans delivered, {done.refused} refused, {done.damaged} batches damaged, {left} batches left")
    return 1 if left else 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return our options and the command. Without ``--`` the command starts at the first word that is not an option."""
    if "--" in arguments:
        border = arguments.index("--")
        return arguments[:border], arguments[border + 1 :]
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        takes_value = arguments[index] in ("--endpoint", "--file", "--service-name")
        index += 2 if takes_value else 1
    return arguments[:index], arguments[index:]


if __name__ == "__main__":
    sys.exit(main())
