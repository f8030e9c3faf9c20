"""Recognise the records of coding agents whose sessions are read as runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from freezeframe_schemas import genai


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingAgent:
    """Marks of a coding agent's log records and of their session."""

    events: str
    """Prefix of its event names: its own name and a dot, which it may leave out."""
    scope: str
    """Prefix of its instrumentation scope's name."""
    session: str
    """The attribute with the session's id."""


CLAUDE_CODE: Final = CodingAgent(events="claude_code.", scope="com.anthropic.claude_code", session=genai.SESSION_ID)
CODEX: Final = CodingAgent(events="codex.", scope="codex_otel", session="conversation.id")
GEMINI_CLI: Final = CodingAgent(events="gemini_cli.", scope="gemini-cli", session=genai.SESSION_ID)
_AGENTS: Final = (CLAUDE_CODE, CODEX, GEMINI_CLI)
CODING_AGENT_EVENTS: Final = tuple(agent.events for agent in _AGENTS)
"""Prefixes of their event names."""


def coding_agent(scope: str, event: str) -> CodingAgent | None:
    """Return the coding agent whose scope or event this is."""
    return next((agent for agent in _AGENTS if scope.startswith(agent.scope) or event.startswith(agent.events)), None)
