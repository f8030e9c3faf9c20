"""The tools of a recorded run as a server answers them: by name and arguments, over MCP or as plain JSON. Does no I/O.

MCP is the few messages that a client of tools sends, so one function from message to message serves both of its transports.
What the run itself asked of MCP servers is answered as recorded, whatever the method.

Source: https://modelcontextprotocol.io/specification (base protocol, lifecycle, tools)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from freezeframe._version import __version__
from freezeframe.seams import Call
from freezeframe_replay.engine.speak import arguments_by_name, plain
from freezeframe_schemas import genai, values
from freezeframe_schemas.errors import ReplayMiss, WireError
from freezeframe_schemas.exchange import RECONSTRUCTED, Exchange, Kind, Lane, Request
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.wire import decode_body, find_dialect_of
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump, parse

SEAM: Final = "wire"
FUNCTIONS: Final = frozenset({Kind.TOOL, Kind.RETRIEVAL})
_PROTOCOL: Final = "2025-06-18"
_METHOD_NOT_FOUND: Final = -32601
_INVALID: Final = -32600
_MISS: Final = -32001
_CONNECT: Final = "initialize"
_CALL: Final = "tools/call"

Respond = Callable[[Call], "Exchange | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the run called."""

    name: str
    kind: Kind
    description: str = ""
    schema: JsonObject = field(default_factory=lambda: {"type": "object"})


class ToolFailure(Exception):
    """The recorded call raised; the text is its exception's."""


def called_by_name(exchange: Exchange) -> Exchange:
    """Return a function's call with its arguments by name, as JSON: how a client in any language sends them.

    What an MCP client says of itself when it connects is left out: one in another language is another client.
    """
    if exchange.kind is Kind.MCP and exchange.name == _CONNECT:
        return replace(exchange, request=_asked({}))
    if exchange.kind not in FUNCTIONS or exchange.seam == RECONSTRUCTED:
        return exchange
    return replace(exchange, request=_asked(as_object(arguments_by_name(exchange.request))))


def _asked(arguments: Mapping[str, JsonValue]) -> Request:
    return Request(body=dump({"args": [], "kwargs": dict(arguments)}).encode())


class ServedTools:
    """The tools of one run. Safe to call from any thread, as far as `respond` is."""

    def __init__(self, fixture: Fixture, respond: Respond) -> None:
        self._respond = respond
        self.asked: set[str] = set()
        """Names of the tools that the program asked for here, or `MCP_METHODS` for anything recorded of MCP."""
        calls = [step.exchange for step in fixture.askable]
        told = _definitions(fixture)
        self.tools = {
            call.name: replace(told.get(call.name, Tool(name=call.name, kind=call.kind)), kind=call.kind)
            for call in calls
            if call.kind in FUNCTIONS
        }
        self._methods = {call.name for call in calls if call.kind is Kind.MCP}
        self._called_over_mcp = {_tool_of(call.request) for call in calls if call.kind is Kind.MCP and call.name == _CALL}

    def call(self, name: str, arguments: Mapping[str, JsonValue], lane: Lane = ()) -> JsonValue:
        """Return what the recorded tool returned for these arguments.

        Raises:
            ToolFailure: it raised.
            ReplayMiss: the recording holds no such call.
        """
        if name in self._called_over_mcp and name not in self.tools:
            return as_object(self._recorded(_CALL, {"name": name, "arguments": dict(arguments)}, lane)).get("content")
        self.asked.add(name)
        known = self.tools.get(name)
        call = Call(kind=Kind.TOOL if known is None else known.kind, name=name, seam=SEAM, request=_asked(arguments), lane=lane)
        return self._result(call)

    def answer(self, message: JsonValue, lane: Lane = ()) -> JsonObject | None:
        """Return the answer to an MCP message; None if none is due."""
        asked = as_object(message)
        method, number = as_text(asked.get("method")), asked.get("id")
        if method is None and ("result" in asked or "error" in asked):
            return None
        if method is None:
            return _error(number, _INVALID, "expected a JSON-RPC request")
        if "id" not in asked:
            return None
        params = {name: value for name, value in as_object(asked.get("params")).items() if name != "_meta"}
        try:
            result = self._answer(method, params, lane)
        except ToolFailure as error:
            return _error(number, _MISS, str(error))
        except (ReplayMiss, WireError) as error:
            return _error(number, _MISS, str(error))
        if result is None:
            return _error(number, _METHOD_NOT_FOUND, f"{method}: not in the recording")
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _answer(self, method: str, params: JsonObject, lane: Lane) -> JsonObject | None:
        name = as_text(params.get("name")) or ""
        if method in self._methods and (method != _CALL or name in self._called_over_mcp or name not in self.tools):
            return as_object(self._recorded(method, {} if method == _CONNECT else params, lane))
        match method:
            case "initialize":
                return {
                    "protocolVersion": as_text(params.get("protocolVersion")) or _PROTOCOL,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "freezeframe", "version": __version__},
                }
            case "ping":
                return {}
            case "tools/list":
                return {
                    "tools": [
                        {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
                        for tool in self.tools.values()
                    ]
                }
            case "tools/call":
                return self._content(name, as_object(params.get("arguments")), lane)
            case _:
                return None

    def _content(self, name: str, arguments: JsonObject, lane: Lane) -> JsonObject:
        try:
            result = self.call(name, arguments, lane)
        except ToolFailure as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        content: JsonObject = {"content": [{"type": "text", "text": result if isinstance(result, str) else dump(result)}]}
        return {**content, "structuredContent": result} if isinstance(result, dict) else content

    def _recorded(self, method: str, params: JsonObject, lane: Lane) -> JsonValue:
        self.asked.add(MCP_METHODS)
        return self._result(Call(kind=Kind.MCP, name=method, seam=SEAM, request=_asked(params), lane=lane))

    def _result(self, call: Call) -> JsonValue:
        answer = self._respond(call)
        if answer is None:
            raise WireError(f"{call.kind.value} {call.name}: would be called for real, which a server does not do")
        if answer.error is not None:
            error = values.decode_exception(answer.error)
            raise ToolFailure(f"{type(error).__name__}: {error}")
        return _said(parse(answer.response.body))


MCP_METHODS: Final = "mcp:"
"""Stands for all that was recorded of MCP; no tool has such a name."""


def _said(result: JsonValue) -> JsonValue:
    """Return a tool's result as the model is told of it: LangChain's tools return a message around it."""
    tagged = as_object(result)
    if str(tagged.get("class")).endswith(":ToolMessage"):
        return plain(as_object(tagged.get("value")).get("content"))
    return plain(result)


def _tool_of(request: Request) -> str:
    return as_text(as_object(as_object(parse(request.body)).get("kwargs")).get("name")) or ""


def _definitions(fixture: Fixture) -> dict[str, Tool]:
    """Return the tools that the run's models were offered."""
    told: dict[str, Tool] = {}
    for step in fixture.steps:
        match = find_dialect_of(step.exchange.request) if step.exchange.kind is Kind.MODEL else None
        if match is None:
            continue
        attributes = match.dialect.request_attributes(decode_body(step.exchange.request.body, step.exchange.request.headers))
        for item in as_objects(parse(str(attributes.get(genai.TOOL_DEFINITIONS) or "[]").encode())):
            name = as_text(item.get("name")) or ""
            schema = as_object(item.get("parameters")) or {"type": "object"}
            told[name] = Tool(
                name=name,
                kind=Kind.TOOL,
                description=as_text(item.get("description")) or "",
                schema={"type": "object", **schema},
            )
    return told


def _error(number: JsonValue, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
