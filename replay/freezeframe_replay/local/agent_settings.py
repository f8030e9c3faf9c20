"""The settings with which Claude Code, Codex CLI and Gemini CLI send to a collector, and the files they keep them in.

Pure: files are read and written by `freezeframe run setup`. docs/guides/coding-agents.md describes the data that they send.
"""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas.errors import ConfigError

BEGIN: Final = "# freezeframe setup: begin"
END: Final = "# freezeframe setup: end"
"""Markers around our lines in a file: the next run replaces the lines between them."""
_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A collector on this machine, with the facts that a sender needs."""

    grpc: int
    http: int
    token: str
    token_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One program: its file of settings, and our entries in it."""

    title: str
    home_variable: str
    """Environment variable that names the folder in which it keeps its settings, in place of `folder`."""
    folder: str
    """Below the home directory."""
    file: str
    lines: Callable[[Receiver], list[str]]
    """Lines that a person types or adds by hand."""
    merged: Callable[[str, Receiver, bool], str]
    """Text of the file, receiver, whether to overwrite -> the text with our settings. Raises ConfigError: other settings are
    there, or the text cannot be read.
    """

    def path(self, home: Path, environ: Mapping[str, str]) -> Path:
        named = environ.get(self.home_variable, "")
        return (Path(named) if named else home / self.folder) / self.file


def _claude_code(receiver: Receiver) -> dict[str, str]:
    return {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://localhost:{receiver.grpc}",
        "OTEL_LOG_USER_PROMPTS": "1",
        "OTEL_LOG_TOOL_DETAILS": "1",
    }


def _gemini(receiver: Receiver) -> dict[str, str]:
    return {
        "GEMINI_TELEMETRY_ENABLED": "true",
        "GEMINI_TELEMETRY_OTLP_ENDPOINT": f"http://localhost:{receiver.grpc}",
        "OTEL_TRACES_SAMPLER": "always_off",  # its spans would be runs without calls
    }


def _with_header(variables: Mapping[str, str], receiver: Receiver) -> dict[str, str]:
    return {**variables, _HEADERS: f"authorization=Bearer%20{receiver.token}"}


def _exports(variables: Mapping[str, str], receiver: Receiver) -> list[str]:
    shown = [f"export {name}={value}" for name, value in variables.items()]
    return [*shown, f'export {_HEADERS}="authorization=Bearer%20$(cat {shlex.quote(str(receiver.token_file))})"']


def _codex_lines(receiver: Receiver) -> list[str]:
    return [
        "[otel]",
        "log_user_prompt = true",
        "",
        "[otel.exporter.otlp-http]",
        f'endpoint = "http://localhost:{receiver.http}/v1/logs"',
        'protocol = "binary"',
        f'headers = {{ authorization = "Bearer {receiver.token}" }}',
    ]


# -- files ---------------------------------------------------------------------------------------------------------------


def _into_claude_code(text: str, receiver: Receiver, overwrite: bool) -> str:
    settings = _object(text)
    env: Any = settings.setdefault("env", {})
    if not isinstance(env, dict):
        raise ConfigError('"env" is not an object', do="fix the file first")
    ours = _with_header(_claude_code(receiver), receiver)
    if not overwrite:
        _refuse_others(env, ours)
    if all(env.get(name) == value for name, value in ours.items()):
        return text
    settings["env"] = {**env, **ours}
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _object(text: str) -> dict[str, Any]:
    try:
        settings: Any = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"not valid JSON: {error}", do="fix the file first, or add the lines by hand") from None
    if not isinstance(settings, dict):
        raise ConfigError("not a JSON object", do="fix the file first")
    return settings


def _refuse_others(found: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    """Refuse settings of another receiver. If all but the header is ours, the token has changed."""
    other = [name for name, value in ours.items() if name != _HEADERS and found.get(name, value) != value]
    endpoint = next(name for name in ours if name.endswith("ENDPOINT"))
    if _HEADERS in found and found[_HEADERS] != ours[_HEADERS] and endpoint not in found:
        other.append(_HEADERS)
    if other:
        raise ConfigError(
            f"{', '.join(other)}: already set to something else", do="overwrite with --force (the file is backed up)"
        )


def _into_gemini(text: str, receiver: Receiver, overwrite: bool) -> str:
    ours = _with_header(_gemini(receiver), receiver)
    rest = _without_ours(text)
    found = {name.strip(): value for name, _, value in (line.partition("=") for line in rest.splitlines())}
    if not overwrite:
        _refuse_others(found, ours)
    kept = "".join(line for line in rest.splitlines(keepends=True) if line.partition("=")[0].strip() not in ours)
    return _with_ours(kept, [f"{name}={value}" for name, value in ours.items()])


def _into_codex(text: str, receiver: Receiver, overwrite: bool) -> str:
    rest = _without_ours(text)
    try:
        found = tomllib.loads(rest)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", do="fix the file first, or add the lines by hand") from None
    if "otel" in found:
        raise ConfigError("already has an [otel] table", do="add the lines by hand: leave out --write to see them")
    return _with_ours(rest, _codex_lines(receiver))


def _without_ours(text: str) -> str:
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    return before + after if begin and end else text


def _with_ours(text: str, lines: list[str]) -> str:
    gap = "" if not text or text.endswith("\n") else "\n"
    return "\n".join([f"{text}{gap}{BEGIN}", *lines, END, ""])


AGENTS: Final[Mapping[str, Agent]] = {
    "claude-code": Agent(
        title="Claude Code",
        home_variable="CLAUDE_CONFIG_DIR",
        folder=".claude",
        file="settings.json",
        lines=lambda receiver: _exports(_claude_code(receiver), receiver),
        merged=_into_claude_code,
    ),
    "codex": Agent(
        title="Codex CLI",
        home_variable="CODEX_HOME",
        folder=".codex",
        file="config.toml",
        lines=_codex_lines,
        merged=_into_codex,
    ),
    "gemini": Agent(
        title="Gemini CLI",
        home_variable="GEMINI_CLI_HOME",
        folder="",
        file=".gemini/.env",
        lines=lambda receiver: _exports(_gemini(receiver), receiver),
        merged=_into_gemini,
    ),
}
