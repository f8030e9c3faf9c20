"""The tools of a recorded run as a server answers them: by name and arguments, over MCP or as plain JSON. Does no I/O.

MCP is the few messages that a client of tools sends, so one function from message to message serves both of its transports.
The run's own requests to MCP servers are answered as recorded, for any method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from freezeframe.seams import Call
from freezeframe_replay.engine.mcp_answers import CALL, CONNECT, FUNCTIONS, about_server, server_of, tool_failure, tool_result
from freezeframe_replay.engine.speak import arguments_by_name, plain
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayMiss, WireError
from freezeframe_schemas.exchange import RECONSTRUCTED, Exchange, Kind, Lane, Request
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_text, dump, parse

SEAM: Final = "wire"
_METHOD_NOT_FOUND: Final = -32601
_INVALID: Final = -32600
_MISS: Final = -32001

Respond = Callable[[Call], "Exchange | None"]


class ToolFailure(Exception):
    """The recorded call raised; the text is its exception's."""


def called_by_name(exchange: Exchange) -> Exchange:
    """Return a function's call with its arguments by name, as JSON, the form of clients in any language.

    An MCP client's own description is left out, because one in another language differs.
    """
    if exchange.kind is Kind.MCP and exchange.name == CONNECT:
        return replace(exchange, request=_request({}))
    if exchange.kind not in FUNCTIONS or exchange.seam == RECONSTRUCTED:
        return exchange
    return replace(exchange, request=_request(as_object(arguments_by_name(exchange.request))))


def _request(arguments: Mapping[str, JsonValue]) -> Request:
    return Request(body=dump({"args": [], "kwargs": dict(arguments)}).encode())


class ServedTools:
    """The tools of one run. Safe to call from any thread if `respond` is."""

    def __init__(self, fixture: Fixture, respond: Respond) -> None:
        self._respond = respond
        self.asked: set[str] = set()
        """Names of the tools that the program called here, or `MCP_METHODS` for any recorded MCP method."""
        calls = [step.exchange for step in fixture.askable]
        self._server = server_of(fixture)
        self.tools = self._server.tools
        self._called_over_mcp = {_tool_of(call.request) for call in calls if call.kind is Kind.MCP and call.name == CALL}

    def call(self, name: str, arguments: Mapping[str, JsonValue], lane: Lane = ()) -> JsonValue:
        """Return the recorded tool's result for these arguments.

        Raises:
            ToolFailure: it raised.
            ReplayMiss: the recording has no such call.
        """
        if name in self._called_over_mcp and name not in self.tools:
            return as_object(self._recorded(CALL, {"name": name, "arguments": dict(arguments)}, lane)).get("content")
        self.asked.add(name)
        known = self.tools.get(name)
        call = Call(
            kind=Kind.TOOL if known is None else known.kind, name=name, seam=SEAM, request=_request(arguments), lane=lane
        )
        return self._result(call)

    def answer(self, message: JsonValue, lane: Lane = ()) -> JsonObject | None:
        """Return the answer to an MCP message; None if none is due."""
        request = as_object(message)
        method, number = as_text(request.get("method")), request.get("id")
        if method is None and ("result" in request or "error" in request):
            return None
        if method is None:
            return _error(number, _INVALID, "expected a JSON-RPC request")
        if "id" not in request:
            return None
        params = {name: value for name, value in as_object(request.get("params")).items() if name != "_meta"}
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
        if method in self._server.methods and (method != CALL or name in self._called_over_mcp or name not in self.tools):
            return as_object(self._recorded(method, {} if method == CONNECT else params, lane))
        if method != CALL:
            return about_server(method, params, self._server)
        try:
            return tool_result(self.call(name, as_object(params.get("arguments")), lane))
        except ToolFailure as error:
            return tool_failure(str(error))

    def _recorded(self, method: str, params: JsonObject, lane: Lane) -> JsonValue:
        self.asked.add(MCP_METHODS)
        return self._result(Call(kind=Kind.MCP, name=method, seam=SEAM, request=_request(params), lane=lane))

    def _result(self, call: Call) -> JsonValue:
        answer = self._respond(call)
        if answer is None:
            raise WireError(f"{call.kind.value} {call.name}: would be called for real, which a server does not do")
        if answer.error is not None:
            error = values.decode_exception(answer.error)
            raise ToolFailure(f"{type(error).__name__}: {error}")
        return _content(parse(answer.response.body))


MCP_METHODS: Final = "mcp:"
"""Name for all recorded MCP methods; no tool has such a name."""


def _content(result: JsonValue) -> JsonValue:
    """Return a tool's result as the model receives it: LangChain's tools return a message around it."""
    tagged = as_object(result)
    if str(tagged.get("class")).endswith(":ToolMessage"):
        return plain(as_object(tagged.get("value")).get("content"))
    return plain(result)


def _tool_of(request: Request) -> str:
    return as_text(as_object(as_object(parse(request.body)).get("kwargs")).get("name")) or ""


def _error(number: JsonValue, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
