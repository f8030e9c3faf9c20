"""Coding agents whose sessions are read as runs: how their records are recognised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from freezeframe_schemas import genai


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingAgent:
    """Marks of a coding agent's log records and of their session."""

    events: str
    """How the names of its events begin, with its own name and a dot. It may leave that out."""
    scope: str
    """How the name of its instrumentation scope begins."""
    session: str
    """The attribute with the session's id."""


CLAUDE_CODE: Final = CodingAgent(events="claude_code.", scope="com.anthropic.claude_code", session=genai.SESSION_ID)
CODEX: Final = CodingAgent(events="codex.", scope="codex_otel", session="conversation.id")
GEMINI_CLI: Final = CodingAgent(events="gemini_cli.", scope="gemini-cli", session=genai.SESSION_ID)
_AGENTS: Final = (CLAUDE_CODE, CODEX, GEMINI_CLI)
CODING_AGENT_EVENTS: Final = tuple(agent.events for agent in _AGENTS)
"""How the names of their events begin."""


def coding_agent(scope: str, event: str) -> CodingAgent | None:
    """Return the coding agent whose scope or event this is."""
    return next((agent for agent in _AGENTS if scope.startswith(agent.scope) or event.startswith(agent.events)), None)
