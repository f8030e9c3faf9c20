"""Redirects, retries, cuts, forms, cookies, HTTP versions: recorded as they crossed, through each HTTP library, and served."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3
from capture_replay import replaying
from http_cases import HttpCases
from requests.adapters import HTTPAdapter

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Completion, Exchange

pytestmark = pytest.mark.long


@pytest.fixture
def cases() -> Iterator[HttpCases]:
    with HttpCases() as running:
        yield running


async def finished(result: Any) -> Any:
    return await result if hasattr(result, "__await__") else result


async def recorded_and_served(client: Callable[[str], Any], cases: HttpCases) -> tuple[Any, list[Exchange]]:
    """Record the client, replay it with the server gone, and return what it got; the same both times."""
    with capture(record_hosts=["127.0.0.1"]) as captured:
        live = await finished(freezeframe.run(name="client")(client)(cases.url))
        exchanges = captured.exchanges
    cases.stop()
    with replaying(exchanges) as recorded:
        again = await finished(freezeframe.run(name="client")(client)(cases.url))
    assert again == live
    assert recorded.left == []
    return live, exchanges


# -- redirects ----------------------------------------------------------------------------------------------------------


def hops_by_httpx(url: str) -> Any:
    with httpx.Client(follow_redirects=True) as client:
        return client.post(f"{url}/moved-308-307/end", content=b"the body").json()


def hops_by_httpx2(url: str) -> Any:
    with httpx2.Client(follow_redirects=True) as client:
        return client.post(f"{url}/moved-308-307/end", json={"the": "body"}).json()


async def hops_by_async_httpx(url: str) -> Any:
    async with httpx.AsyncClient(follow_redirects=True) as client:
        return (await client.post(f"{url}/moved-308-307/end", content=b"the body")).json()


async def hops_by_async_httpx2(url: str) -> Any:
    async with httpx2.AsyncClient(follow_redirects=True) as client:
        return (await client.post(f"{url}/moved-308-307/end", content=b"the body")).json()


def hops_of_an_upload(url: str) -> Any:
    with httpx.Client(follow_redirects=True) as client:
        return client.post(f"{url}/moved-308-307/end", files={"file": ("a.txt", io.BytesIO(b"the body"))}).json()["path"]


def hops_of_a_generator(url: str) -> Any:
    def body() -> Iterator[bytes]:
        yield b"the body"

    with httpx.Client(follow_redirects=True) as client:
        try:
            client.post(f"{url}/moved-308-307/end", content=body())
        except httpx.StreamConsumed as error:
            return str(error)


async def hops_of_an_async_generator(url: str) -> Any:
    async def body() -> AsyncIterator[bytes]:
        yield b"the body"

    async with httpx2.AsyncClient(follow_redirects=True) as client:
        try:
            await client.post(f"{url}/moved-308-307/end", content=body())
        except httpx2.StreamConsumed as error:
            return str(error)


def hops_by_requests(url: str) -> Any:
    return requests.post(f"{url}/moved-308-307/end", data=b"the body", timeout=300).json()


def hops_by_urllib3(url: str) -> Any:
    with urllib3.PoolManager() as pool:
        return pool.request("POST", f"{url}/moved-308-307/end", body=b"the body").json()


async def hops_by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/moved-308-307/end", data=b"the body") as response:
        return await response.json()


def hops_of_an_upload_by_requests(url: str) -> Any:
    return requests.post(f"{url}/moved-308-307/end", data=io.BytesIO(b"the body"), timeout=300).json()


HOPS = [value for name, value in globals().items() if name.startswith("hops_")]


@pytest.mark.proof("seam http.urllib3")
@pytest.mark.parametrize("client", HOPS, ids=lambda client: client.__name__)
async def test_each_hop_of_a_redirect_is_recorded_with_the_body_that_it_sent(
    client: Callable[[str], Any], cases: HttpCases
) -> None:
    _, exchanges = await recorded_and_served(client, cases)
    sent = cases.bodies
    assert [exchange.request.body for exchange in exchanges][: len(sent)] == sent
    assert len(sent) == (1 if "generator" in client.__name__ else 3)


async def test_an_upload_of_text_is_sent_and_recorded_encoded(cases: HttpCases) -> None:
    _, (exchange,) = await recorded_and_served(text_upload_by_requests, cases)
    assert [exchange.request.body] == cases.bodies == [b"the text"]


def text_upload_by_requests(url: str) -> Any:
    return requests.post(f"{url}/end", data=io.StringIO("the text"), timeout=300).json()


# -- retries of the library itself --------------------------------------------------------------------------------------


def retries() -> urllib3.Retry:
    return urllib3.Retry(
        total=4, status_forcelist=[503], allowed_methods=None, backoff_factor=0, respect_retry_after_header=False
    )


def flaky_by_urllib3(url: str) -> Any:
    with urllib3.PoolManager(retries=retries()) as pool:
        response = pool.request("POST", f"{url}/flaky", body=b"again")
        return response.status, response.data, [item.status for item in response.retries.history]  # type: ignore[union-attr] - set by the pool


def flaky_by_requests(url: str) -> Any:
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries()))
        response = session.post(f"{url}/flaky", data=b"again", timeout=300)
        return response.status_code, response.content


@pytest.mark.parametrize("client", [flaky_by_urllib3, flaky_by_requests], ids=lambda client: client.__name__)
async def test_each_try_of_urllib3s_own_retry_is_recorded(client: Callable[[str], Any], cases: HttpCases) -> None:
    _, exchanges = await recorded_and_served(client, cases)
    assert [exchange.response.status for exchange in exchanges] == [503, 503, 200]
    assert [exchange.request.body for exchange in exchanges] == cases.bodies


async def test_a_replay_does_not_wait_between_the_tries_of_urllib3(cases: HttpCases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server asks for seven seconds; the recording is made without them."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)

    def client(url: str) -> Any:
        with urllib3.PoolManager(retries=urllib3.Retry(total=4, status_forcelist=[503], allowed_methods=None)) as pool:
            return pool.request("POST", f"{url}/flaky", body=b"again").data

    with capture(record_hosts=["127.0.0.1"]) as captured:
        live = freezeframe.run(name="client")(client)(cases.url)
        exchanges = captured.exchanges
    assert waits.count(7) == 2
    waits.clear()
    with replaying(exchanges):
        assert freezeframe.run(name="client")(client)(cases.url) == live
    assert 7 not in waits


# -- cuts, read piece by piece ------------------------------------------------------------------------------------------


def pieces_by_requests(url: str) -> Any:
    taken: list[bytes] = []
    try:
        with requests.get(url, stream=True, timeout=300) as response:
            taken.extend(response.iter_content(7))
    except requests.RequestException as error:
        taken.append(type(error).__name__.encode())
    return taken


def pieces_by_urllib3(url: str) -> Any:
    taken: list[bytes] = []
    try:
        with urllib3.PoolManager() as pool:
            response = pool.request("GET", url, preload_content=False, retries=False)
            taken.extend(response.stream(7))
    except urllib3.exceptions.HTTPError as error:
        taken.append(type(error).__name__.encode())
    return taken


def all_by_urllib3(url: str) -> Any:
    try:
        with urllib3.PoolManager() as pool:
            return pool.request("GET", url, retries=False).data
    except urllib3.exceptions.HTTPError as error:
        return type(error).__name__


def pieces_by_httpx(url: str) -> Any:
    taken: list[bytes] = []
    try:
        with httpx.stream("GET", url) as response:
            taken.extend(response.iter_bytes(7))
    except httpx.HTTPError as error:
        taken.append(type(error).__name__.encode())
    return taken


async def pieces_by_aiohttp(url: str) -> Any:
    taken: list[bytes] = []
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            async for piece in response.content.iter_chunked(7):
                taken.append(piece)
    except aiohttp.ClientError as error:
        taken.append(type(error).__name__.encode())
    return taken


CUTS = [pieces_by_requests, pieces_by_urllib3, all_by_urllib3, pieces_by_httpx, pieces_by_aiohttp]


@pytest.mark.proof
@pytest.mark.parametrize("path", ["/cut-length", "/cut-chunked"])
@pytest.mark.parametrize("client", CUTS, ids=lambda client: client.__name__)
async def test_what_came_before_a_cut_is_recorded_and_served(client: Callable[[str], Any], path: str, cases: HttpCases) -> None:
    live, (exchange,) = await recorded_and_served(lambda url: client(url + path), cases)
    came = b"1: twenty bytes or so" if path == "/cut-length" else b"01234567891: twenty bytes or so"
    assert exchange.response.completion is Completion.BROKEN
    assert exchange.response.body == came[: len(exchange.response.body)]
    if isinstance(live, list):
        assert exchange.response.body.startswith(b"".join(live[:-1]))
        assert len(exchange.response.body) == len(came)


# -- connections that fail ----------------------------------------------------------------------------------------------


def refused_by_urllib3(url: str) -> Any:
    try:
        with urllib3.PoolManager() as pool:
            pool.request("GET", url, retries=1)
    except urllib3.exceptions.HTTPError as error:
        return type(error).__name__, str(error)


def refused_by_requests(url: str) -> Any:
    try:
        requests.get(url, timeout=300, verify="/gone.pem")
    except requests.RequestException as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(("client", "attempts"), [(refused_by_urllib3, 2), (refused_by_requests, 1)])
async def test_a_refused_connection_is_recorded_each_time_and_refused_again(
    client: Callable[[str], Any], attempts: int, cases: HttpCases
) -> None:
    cases.stop()
    live, exchanges = await recorded_and_served(client, cases)
    assert "refused" in live[1]
    assert [exchange.response.completion for exchange in exchanges] == [Completion.NONE] * attempts


# -- forms of aiohttp ---------------------------------------------------------------------------------------------------


def fields() -> aiohttp.FormData:
    form = aiohttp.FormData()
    form.add_field("name", "value")
    form.add_field("file", io.BytesIO(b"the file"), filename="a.txt", content_type="text/plain")
    return form


async def form_by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/end", data=fields()) as response:
        return (await response.json())["path"]


async def form_of_pairs_by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/end", data={"a": "1", "b": "zwei ü"}) as response:
        return await response.json()


async def generator_by_aiohttp(url: str) -> Any:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with aiohttp.ClientSession() as session, session.post(f"{url}/end", data=pieces()) as response:
        return await response.json()


async def file_by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/end", data=io.BytesIO(b"a file")) as response:
        return await response.json()


async def writer_by_aiohttp(url: str) -> Any:
    with aiohttp.MultipartWriter("mixed") as parts:
        parts.append("text")
        parts.append_json({"a": 1})
    async with aiohttp.ClientSession() as session, session.post(f"{url}/moved-307/end", data=parts) as response:
        return (await response.json())["path"]


@pytest.mark.parametrize(
    "client",
    [form_by_aiohttp, form_of_pairs_by_aiohttp, generator_by_aiohttp, file_by_aiohttp, writer_by_aiohttp],
    ids=lambda client: client.__name__,
)
async def test_a_form_of_aiohttp_is_recorded_as_it_was_sent(client: Callable[[str], Any], cases: HttpCases) -> None:
    _, exchanges = await recorded_and_served(client, cases)
    assert [exchange.request.body for exchange in exchanges] == cases.bodies
    assert all(cases.bodies)
    assert [exchange.request.omitted for exchange in exchanges] == [None] * len(exchanges)


# -- versions and cookies -----------------------------------------------------------------------------------------------


def version_by_httpx(url: str) -> Any:
    return httpx.get(url).http_version


def version_by_requests(url: str) -> Any:
    return requests.get(url, timeout=300).raw.version


def version_by_urllib3(url: str) -> Any:
    with urllib3.PoolManager() as pool:
        response = pool.request("GET", url)
        return response.version, response.version_string  # pyright: ignore[reportAttributeAccessIssue] - of HTTPResponse


async def version_by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.version


@pytest.mark.parametrize(
    "client",
    [version_by_httpx, version_by_requests, version_by_urllib3, version_by_aiohttp],
    ids=lambda client: client.__name__,
)
async def test_the_version_of_http_is_recorded_and_served(client: Callable[[str], Any], cases: HttpCases) -> None:
    live, (exchange,) = await recorded_and_served(lambda url: client(f"{url}/old"), cases)
    assert exchange.response.version == "1.0"
    assert "0" in str(live)


def cookies_by_httpx(url: str) -> Any:
    with httpx.Client() as client:
        first = client.get(f"{url}/cookie")
        return sorted(first.cookies), "session" in client.cookies, client.get(f"{url}/cookie").json()


async def cookies_by_async_httpx2(url: str) -> Any:
    async with httpx2.AsyncClient() as client:
        first = await client.get(f"{url}/cookie")
        return sorted(first.cookies), "session" in client.cookies, (await client.get(f"{url}/cookie")).json()


def cookies_by_requests(url: str) -> Any:
    with requests.Session() as session:
        first = session.get(f"{url}/cookie", timeout=300)
        return sorted(first.cookies.keys()), "session" in session.cookies, session.get(f"{url}/cookie", timeout=300).json()


async def cookies_by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(f"{url}/cookie") as first:
            names = sorted(first.cookies)
        async with session.get(f"{url}/cookie") as second:
            return names, [cookie.key for cookie in session.cookie_jar], await second.json()


@pytest.mark.parametrize(
    "client",
    [cookies_by_httpx, cookies_by_async_httpx2, cookies_by_requests, cookies_by_aiohttp],
    ids=lambda client: client.__name__,
)
async def test_cookies_keep_their_names_and_never_their_values(client: Callable[[str], Any], cases: HttpCases) -> None:
    live, exchanges = await recorded_and_served(client, cases)
    assert live[0] == ["session", "theme"]
    assert live[2]["cookies"] == ["session", "theme"], "the second request sent what the first was given"
    (sent,) = [value for name, value in exchanges[1].request.headers if name.lower() == "cookie"]
    assert sorted(sent.split("; ")) == ["session=freezeframe-removed", "theme=freezeframe-removed"]
    given = [value for name, value in exchanges[0].response.headers if name.lower() == "set-cookie"]
    assert given == ["session=freezeframe-removed; Path=/; HttpOnly", "theme=freezeframe-removed; Path=/"]
    assert "secret" not in repr(exchanges)
