"""A team: agents of one framework that work together, the answers of their model, and the agent of each call."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import clients.teams
from clients.client import Use
from clients.provider import Turn

JSON: Final = (("content-type", "application/json"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """Agents that work together."""

    client: str
    """The row of the client table."""
    distribution: str
    instrumentor: str
    environment: str
    requires: tuple[str, ...] = ()
    """Installed into the environment besides the two."""
    use: Use
    script: tuple[Turn, ...]
    agents: tuple[str, ...]
    """Agents of the model calls, in order."""


@cache
def all_teams() -> Mapping[str, Team]:
    """Return the teams by the row of the client table."""
    names = sorted(module.name for module in pkgutil.iter_modules(clients.teams.__path__))
    teams: list[Team] = [importlib.import_module(f"clients.teams.{name}").TEAM for name in names]
    return {team.client: team for team in teams}


def says(text: str) -> Turn:
    """Return an answer of OpenAI's chat API."""
    return _completion({"content": text}, "stop")


def calls(name: str, **arguments: Any) -> Turn:
    """Return an answer that asks for a tool."""
    call = {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return _completion({"content": None, "tool_calls": [call]}, "tool_calls")


def _completion(message: Mapping[str, Any], reason: str) -> Turn:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
    }
    return Turn(status=200, body=json.dumps(body).encode(), headers=JSON)
