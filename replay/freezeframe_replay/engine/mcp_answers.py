"""Answers of an MCP server about a run, for programs that connect to one. Pure.

Source: https://modelcontextprotocol.io/specification (base protocol, lifecycle, server features)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from freezeframe._version import __version__
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Exchange, Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump, parse

CONNECT: Final = "initialize"
CALL: Final = "tools/call"
SERVER_FEATURES: Final = ("prompts", "resources")
"""Features of servers besides tools, as prefixes of their methods."""
FUNCTIONS: Final = frozenset({Kind.TOOL, Kind.RETRIEVAL})
_PROTOCOL: Final = "2025-06-18"
_CONTENT_TYPES: Final = frozenset({"text", "image", "audio", "resource", "resource_link"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the run called."""

    name: str
    kind: Kind
    description: str = ""
    schema: JsonObject = field(default_factory=lambda: {"type": "object"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Capabilities of a server of a run."""

    tools: dict[str, Tool]
    """The functions that the run called, by name, as offered to its models."""
    methods: frozenset[str]
    """Methods of MCP servers that the run itself called."""

    @property
    def capabilities(self) -> JsonObject:
        """Return the capabilities for clients: tools, and prompts and resources if the run requested any."""
        prefixes = {method.partition("/")[0] for method in self.methods}
        return {"tools": {}, **{name: {} for name in SERVER_FEATURES if name in prefixes}}


def server_of(fixture: Fixture) -> Server:
    """Return the server that answers in place of the run's MCP servers."""
    offered: dict[str, JsonObject] = {}
    for step in fixture.steps:
        offered.update(_offered(step.exchange))
    tools: dict[str, Tool] = {}
    for call in (step.exchange for step in fixture.askable if step.exchange.kind in FUNCTIONS):
        definition = offered.get(call.name, {})
        tools[call.name] = Tool(
            name=call.name,
            kind=call.kind,
            description=as_text(definition.get("description")) or "",
            schema={"type": "object", **as_object(definition.get("parameters"))},
        )
    methods = frozenset(step.exchange.name for step in fixture.askable if step.exchange.kind is Kind.MCP)
    return Server(tools=tools, methods=methods)


def _offered(exchange: Exchange) -> dict[str, JsonObject]:
    match = find_dialect_of(exchange.request) if exchange.kind is Kind.MODEL else None
    if match is None:
        return {}
    attributes = match.dialect.request_attributes(decode_body(exchange.request.body, exchange.request.headers))
    items = as_objects(parse(str(attributes.get(genai.TOOL_DEFINITIONS) or "[]").encode()))
    return {as_text(item.get("name")) or "": item for item in items}


def about_server(method: str, params: Mapping[str, JsonValue], server: Server) -> JsonObject | None:
    """Return the answer to a method other than a call of a tool; None if a server of tools has none."""
    itself: JsonObject = {"capabilities": server.capabilities, "serverInfo": {"name": "freezeframe", "version": __version__}}
    match method:
        case "initialize":
            return {**itself, "protocolVersion": as_text(params.get("protocolVersion")) or _PROTOCOL}
        case "server/discover":  # asked by clients of 2026-07-28, which then go on as older ones do
            return {**itself, "supportedVersions": [_PROTOCOL]}
        case "ping":
            return {}
        case "tools/list":
            tools = server.tools.values()
            return {
                "tools": [{"name": tool.name, "description": tool.description, "inputSchema": tool.schema} for tool in tools]
            }
        case _:
            return None


def tool_result(result: JsonValue) -> JsonObject:
    """Return a tool's result as the result of an MCP call. It may have MCP's form already."""
    held = as_object(result)
    if _is_content(held.get("content")):
        return held
    if _is_content(result if isinstance(result, list) else [result]):
        return {"content": result if isinstance(result, list) else [result]}
    content: JsonObject = {"content": [{"type": "text", "text": result if isinstance(result, str) else dump(result)}]}
    return {**content, "structuredContent": result} if isinstance(result, dict) else content


def tool_failure(message: str) -> JsonObject:
    """Return the result of a call that failed."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _is_content(items: JsonValue) -> bool:
    if not isinstance(items, list) or not items:
        return False
    types = [as_object(item).get("type") for item in items]
    has_texts = all(isinstance(item.get("text"), str) for item in as_objects(items) if item.get("type") == "text")
    return has_texts and all(each in _CONTENT_TYPES for each in types)
