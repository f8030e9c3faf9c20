"""http.client and urllib.request: recorded once, whatever is built on them, and served from the bytes of the wire."""

from __future__ import annotations

import gc
import http.client
import http.cookiejar
import io
import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from capture_provider import Provider
from capture_replay import replaying
from http_cases import HttpCases

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Completion, Kind

pytestmark = pytest.mark.long


@pytest.fixture
def cases() -> Iterator[HttpCases]:
    with HttpCases() as running:
        yield running


def connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)


def opened(url: str) -> Any:
    with urllib.request.urlopen(f"{url}/end", data=b"the body", timeout=300) as response:
        return response.status, response.headers["content-type"], json.load(response)


def redirected(url: str) -> Any:
    with urllib.request.urlopen(f"{url}/moved-302-301/end", timeout=300) as response:
        return urlsplit(response.url).path, response.read()


def refused_by_status(url: str) -> Any:
    try:
        urllib.request.urlopen(f"{url}/flaky", data=b"x", timeout=300)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.reason, error.read()


def with_cookies(url: str) -> Any:
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    first, second = (json.load(opener.open(f"{url}/cookie", timeout=300)) for _ in range(2))
    return sorted(cookie.name for cookie in jar), first, second


def kept_alive(url: str) -> Any:
    conn = connection(url)
    said: list[Any] = []
    for body in (b"one", io.BytesIO(b"two"), iter([b"th", b"ree"]), None):
        conn.request("POST" if body else "HEAD", "/end", body=body)
        response = conn.getresponse()
        said.append((response.status, response.read()))
    conn.close()
    return said


def by_hand(url: str) -> Any:
    conn = connection(url)
    conn.putrequest("POST", "/end")
    conn.putheader("content-length", "8")
    conn.endheaders()
    conn.send(b"the ")
    conn.send(b"body")
    response = conn.getresponse()
    pieces: list[bytes] = []
    while piece := response.read(7):
        pieces.append(piece)
    return pieces


def lines(url: str) -> Any:
    with urllib.request.urlopen(f"{url}/old", timeout=300) as response:
        return response.version, list(response)


class Shouting(http.client.HTTPResponse):
    """A response class of the application's own."""

    def read(self, amt: int | None = None) -> bytes:
        return super().read(amt).upper()


def answer(url: str, kind: type[http.client.HTTPResponse] = http.client.HTTPResponse) -> http.client.HTTPResponse:
    conn = connection(url)
    conn.response_class = kind
    conn.request("POST", "/end", body=b"x")
    return conn.getresponse()


def filled(url: str) -> bytes:
    buffer = bytearray(1000)
    return bytes(buffer[: answer(url).readinto(buffer)])


UNNAMED: list[Callable[[str], Any]] = [
    lambda url: urllib.request.urlopen(f"{url}/end", timeout=300).read(),
    lambda url: len(urllib.request.urlopen(f"{url}/end", timeout=300).read(5)),
    lambda url: urllib.request.urlopen(f"{url}/end", timeout=300).readline(),
    lambda url: urllib.request.urlopen(f"{url}/end", timeout=300).readlines(),
    lambda url: urllib.request.urlopen(f"{url}/end", timeout=300).read1(),
    lambda url: list(urllib.request.urlopen(f"{url}/end", timeout=300)),
    lambda url: json.load(urllib.request.urlopen(f"{url}/end", timeout=300)),
    lambda url: io.TextIOWrapper(urllib.request.urlopen(f"{url}/end", timeout=300)).read(),
    lambda url: urllib.request.build_opener().open(f"{url}/old", timeout=300).read(),
    lambda url: answer(url).read(amt=7),
    lambda url: answer(url, Shouting).read(),
    lambda url: answer(url, Shouting).readline(-1),
    filled,
]
"""Ways to read a response that no variable holds."""

CLIENTS = [opened, redirected, refused_by_status, with_cookies, kept_alive, by_hand, lines]


@pytest.mark.proof("seam http.http_client")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_http_of_the_standard_library_is_recorded_as_it_crossed_and_served(
    client: Callable[[str], Any], cases: HttpCases
) -> None:
    bare = client(cases.url)
    cases.seen.clear()
    with capture(record_hosts=["127.0.0.1"]) as captured:
        live = freezeframe.run(name="client")(client)(cases.url)
        exchanges = captured.exchanges
    cases.stop()
    assert type(bare) is type(live)
    assert [exchange.request.body for exchange in exchanges] == cases.bodies
    assert [exchange.request.method for exchange in exchanges] == [method for method, _, _, _ in cases.seen]
    assert {exchange.response.completion for exchange in exchanges} == {Completion.COMPLETE}
    with replaying(exchanges) as recorded:
        assert freezeframe.run(name="client")(client)(cases.url) == live
    assert recorded.left == []


@pytest.mark.parametrize("read", UNNAMED)
def test_a_response_that_nothing_holds_is_read_as_without_capture(read: Callable[[str], Any], cases: HttpCases) -> None:
    cases.numbers = itertools.repeat(1)  # pyright: ignore[reportAttributeAccessIssue]
    bare = read(cases.url)
    with capture(record_hosts=["127.0.0.1"]) as captured:
        assert freezeframe.run(name="client")(read)(cases.url) == bare
        gc.collect()  # a wrapper around the response makes a cycle, as it does without capture
        (exchange,) = captured.exchanges
    assert exchange.response.body


def cut_whole(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=300) as response:
            return response.read()
    except http.client.HTTPException as error:
        return type(error).__name__, str(error)


def cut_in_pieces(url: str) -> Any:
    pieces: list[Any] = []
    try:
        with urllib.request.urlopen(url, timeout=300) as response:
            while piece := response.read(7):
                pieces.append(piece)
    except http.client.HTTPException as error:
        pieces.append((type(error).__name__, str(error)))
    return pieces


def no_connection(url: str) -> Any:
    try:
        urllib.request.urlopen("http://127.0.0.1:1/", timeout=300)
    except urllib.error.URLError as error:
        return type(error.reason).__name__, str(error)


@pytest.mark.proof
@pytest.mark.parametrize("path", ["/cut-length", "/cut-chunked"])
@pytest.mark.parametrize("client", [cut_whole, cut_in_pieces, no_connection], ids=lambda client: client.__name__)
def test_what_fails_fails_again_in_the_same_way(client: Callable[[str], Any], path: str, cases: HttpCases) -> None:
    with capture(record_hosts=["127.0.0.1"]) as captured:
        live = freezeframe.run(name="client")(client)(cases.url + path)
        (exchange,) = captured.exchanges
    assert exchange.response.completion is (Completion.NONE if client is no_connection else Completion.BROKEN)
    cases.stop()
    with replaying([exchange]):
        assert freezeframe.run(name="client")(client)(cases.url + path) == live


def test_a_model_call_is_recorded_wherever_it_is_made_and_once(provider: Provider) -> None:
    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": "?"}]}).encode()

    def agent(url: str) -> Any:
        headers = {"content-type": "application/json"}
        path = f"{url}/v1/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(path, asked, headers), timeout=300) as response:
            first = json.load(response)["id"]
        return first, requests.post(path, data=asked, headers=headers, timeout=300).json()["id"]

    with capture() as captured:
        live = freezeframe.run(agent)(provider.url)
        exchanges = captured.exchanges
    assert [(exchange.kind, exchange.seam) for exchange in exchanges] == [(Kind.MODEL, "http.client"), (Kind.MODEL, "requests")]
    provider.stop()
    with replaying(exchanges) as recorded:
        assert freezeframe.run(agent)(provider.url) == live
    assert recorded.left == []
