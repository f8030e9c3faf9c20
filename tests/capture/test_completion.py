"""How an answer ended, according to its protocol: the real SDKs read recorded streams, whole, cut, and given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from capture_provider import Provider
from capture_replay import replaying
from recorded_traffic import BY_HAND, Clients, Playback, Row, body_of, client_of, load_conversations

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Completion, Exchange
from freezeframe_schemas.wire import find_dialect

pytestmark = pytest.mark.long


def streams() -> dict[str, Row]:
    """Return the shortest recorded stream of each dialect that one of the two SDKs reads."""
    found: dict[str, Row] = {}
    rows = [row for rows in load_conversations().values() for row in rows if row["stream"] and row["response"]["status"] < 400]
    for row in sorted(rows, key=lambda row: (len(body_of(row["response"])), row["id"])):
        match = find_dialect(row["request"]["method"], row["request"]["url"])
        if match is not None and client_of(row) != BY_HAND and "event-stream" in str(row["response"]["headers"]).lower():
            found.setdefault(match.dialect.name, row)
    return found


STREAMS = streams()


@pytest.fixture
def playback() -> Iterator[Playback]:
    running = Playback()
    yield running
    running.stop()


def ask(row: Row, playback: Playback) -> tuple[Any, Exchange]:
    """Return what the SDK made of the row, and what was recorded."""
    clients = Clients(playback.url)
    playback.due.append(row)
    try:
        with capture() as captured:
            result = freezeframe.run(name="ask")(lambda: clients.ask(row))()
            (exchange,) = captured.exchanges
            return result, exchange
    finally:
        clients.close()


def cut(row: Row, size: int, *, hangs_up: bool) -> Row:
    body = body_of(row["response"])[:size].decode("utf-8", "ignore")
    response = {name: value for name, value in row["response"].items() if name not in ("b64", "text")}
    return {**row, "response": {**response, "text": body, "hangs_up": hangs_up}}


@pytest.mark.proof
@pytest.mark.parametrize("dialect", STREAMS)
def test_a_stream_that_its_sdk_has_read_is_complete(dialect: str, playback: Playback) -> None:
    _, exchange = ask(STREAMS[dialect], playback)
    assert exchange.response.body == body_of(STREAMS[dialect]["response"])
    assert exchange.response.completion is Completion.COMPLETE


@pytest.mark.proof
@pytest.mark.parametrize("hangs_up", [True, False], ids=["hangs up", "ends properly"])
@pytest.mark.parametrize("dialect", STREAMS)
def test_a_stream_that_was_cut_before_its_end_is_broken_and_served_so(dialect: str, hangs_up: bool, playback: Playback) -> None:
    row = STREAMS[dialect]
    body = body_of(row["response"])
    for size in (body.index(b"\n\n") + 2, len(body) // 2):
        short = cut(row, size, hangs_up=hangs_up)
        live, exchange = ask(short, playback)
        assert exchange.response.completion is Completion.BROKEN, size
        assert (exchange.error is not None) == hangs_up
        clients = Clients(playback.url)
        with replaying([exchange]):
            assert freezeframe.run(name="ask")(lambda: clients.ask(row))() == live  # noqa: B023 - called at once
        clients.close()


def test_a_stream_that_the_application_gave_up_is_closed_early_and_an_answer_read_by_its_length_is_not(
    provider: Provider,
) -> None:
    def agent(url: str) -> None:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
            asked: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": "?"}]}
            with client.chat.completions.create(**asked, stream=True) as stream:
                next(iter(stream))
            with client.chat.completions.with_streaming_response.create(**asked) as response:
                size = int(response.headers["content-length"])
                taken = 0
                for piece in response.iter_bytes():
                    taken += len(piece)
                    if taken == size:
                        break

    with capture() as captured:
        freezeframe.run(agent)(provider.url)
        first, second = captured.exchanges
    assert first.response.completion is Completion.CLOSED_EARLY
    assert second.response.completion is Completion.COMPLETE
