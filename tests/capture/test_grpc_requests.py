"""Messages that a program streams to a gRPC server: known to be complete only once its iterator has ended."""

from __future__ import annotations

from typing import Any

import pytest

from freezeframe.seams.rpc.grpc_requests import WHOLE, Sent


@pytest.mark.parametrize(("taken", "code", "is_whole"), [(3, "OK", True), (2, "OK", False), (3, "UNAVAILABLE", False)])
def test_a_call_that_ended_well_is_marked_whole_if_all_its_messages_were_taken(taken: int, code: str, is_whole: bool) -> None:
    sent = Sent([b"one", b"two"], "/shop/Sum", "grpc")
    assert [message for _, message in zip(range(taken), sent, strict=False)] == [b"one", b"two"]
    reply: dict[str, Any] = {"code": code}
    sent.mark(reply)
    assert (WHOLE in reply) is is_whole
