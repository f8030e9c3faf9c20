"""MCP, version 1 of its SDK, which many frameworks still ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from clients.client import Client
from clients.libraries import mcp

CLIENT: Final[Client] = replace(mcp.CLIENT, name="mcp 1", environment="crewai", requires=("mcp<2", "uvicorn"))
