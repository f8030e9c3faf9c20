"""A WebSocket or a gRPC call in a run is a gap of that run, with protocol, address and what closes it; in a tool it is not."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
import websockets
from websockets.sync.client import connect as sync_connect
from websockets.sync.server import serve

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run, readiness

pytestmark = pytest.mark.long


@pytest.fixture
def echo() -> Iterator[str]:
    """A WebSocket server that gives back what it gets."""
    with serve(lambda session: session.send(session.recv()), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def answers() -> Iterator[str]:
    """A gRPC server that gives back what it gets."""

    class Echo(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            def give_back(request: Any, context: Any) -> Any:
                del context
                return request

            return grpc.unary_unary_rpc_method_handler(give_back)

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


def by_websocket(address: str) -> Any:
    with sync_connect(f"ws://{address}") as session:
        session.send("hello")
        return session.recv()


async def by_async_websocket(address: str) -> Any:
    async with websockets.connect(f"ws://{address}") as session:
        await session.send("hello")
        return await session.recv()


def by_grpc(address: str) -> Any:
    with grpc.insecure_channel(address) as channel:
        return channel.stream_unary("/model.Model/Ask").future(iter([b"hello"])).result().decode()  # the others are recorded


class Passing(grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await continuation(client_call_details, request_iterator)


async def by_async_grpc(address: str) -> Any:
    async with grpc.aio.insecure_channel(address, interceptors=[Passing()]) as channel:
        return (await channel.stream_unary("/model.Model/Ask")(iter([b"hello"]))).decode()


CASES = [
    (by_websocket, "echo", "opens a WebSocket to"),
    (by_async_websocket, "echo", "opens a WebSocket to"),
    (by_grpc, "answers", "calls by gRPC"),
    (by_async_grpc, "answers", "calls by gRPC"),
]


def run_of(function: Callable[[str], Any], address: str) -> Any:
    with capture() as captured:
        result: Any = function(address)
        assert (asyncio.run(result) if asyncio.iscoroutine(result) else result) == "hello"
        return build_run(captured.spans)


@pytest.mark.proof("seam unmarked.sessions")
@pytest.mark.parametrize(("client", "server", "verb"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_session_of_a_run_is_named_as_a_gap_of_it(
    client: Callable[[str], Any], server: str, verb: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(server)
    run = run_of(freezeframe.run(client), address)
    (gap,) = (gap for gap in run.gaps if gap.kind is GapKind.CONNECTION)
    assert f"{client.__name__} (" in gap.text
    assert f"{verb} {address}" in gap.text
    assert "@freezeframe.tool" in gap.do
    assert readiness(replace(run, verified=True)).level < 6


@pytest.mark.parametrize(("client", "server", "verb"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_session_inside_a_tool_is_no_gap(
    client: Callable[[str], Any], server: str, verb: str, request: pytest.FixtureRequest
) -> None:
    del verb
    tool = freezeframe.tool(client)

    async def asked(address: str) -> Any:
        return await tool(address)

    agent = freezeframe.run(asked if inspect.iscoroutinefunction(client) else lambda address: tool(address))
    run = run_of(agent, request.getfixturevalue(server))
    assert [gap for gap in run.gaps if gap.kind is GapKind.CONNECTION] == []
