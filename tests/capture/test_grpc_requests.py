"""Each kind of gRPC call is recorded, with what the program streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.run import build_run

KINDS = ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]


def answer_of(kind: str) -> Callable[[Any, object], Any]:
    """Return a method that reads all requests, and then answers with two messages or one."""

    def answer(sent: Any, _: object) -> Any:
        received = b"".join(sent) if kind.startswith("stream") else sent
        return iter([received, b"end"]) if kind.endswith("stream") else received

    return answer


@pytest.fixture
def target() -> Iterator[str]:
    """A server that has a method for each kind, of its name."""
    methods = {kind: getattr(grpc, f"{kind}_rpc_method_handler")(answer_of(kind)) for kind in KINDS}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("shop", methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_call_is_a_step_and_what_was_streamed_another(kind: str, target: str) -> None:
    sends, receives = (part == "stream" for part in kind.split("_"))

    def ask() -> Any:
        with grpc.insecure_channel(target) as channel:
            answer = getattr(channel, kind)(f"/shop/{kind}")(iter([b"a", b"b"]) if sends else b"ab")
            return list(answer) if receives else [answer]

    with capture() as captured:
        assert freezeframe.run(ask)() == [b"ab", b"end"][: 1 + receives]
        run = build_run(captured.spans)
    assert [exchange.name for exchange in run.exchanges] == [f"/shop/{kind}", f"/shop/{kind} sent"][: 1 + sends]
