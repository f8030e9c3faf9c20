"""What a browser sends for a foreign page is refused; `tests/cli/test_strangers.py` tries it in one."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from running_collector import CollectorProcess, span

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
PLACES = [("clickhouse", "/?query=SELECT+name+FROM+spans"), ("clickhouse", "/ping"), ("http", "/status"), ("http", "/metrics")]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    made = CollectorProcess(tmp_path_factory.mktemp("pages") / "data")
    try:
        assert made.post([span(1)]).status_code == 200
        made.flush()
        yield made
    finally:
        made.kill()


def get(port: int, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(("port", "path"), [place for place in PLACES if place[1] != "/ping"])
def test_a_script_tag_of_another_site_is_refused(collector: CollectorProcess, port: str, path: str) -> None:
    """Such a request carries no Origin."""
    status, headers, body = get(collector.ports[port], path, CROSS_SITE)
    assert status == 403
    assert b"span-1" not in body
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(("port", "path"), PLACES)
def test_every_answer_says_that_it_is_for_its_own_origin(collector: CollectorProcess, port: str, path: str) -> None:
    status, headers, _ = get(collector.ports[port], path, collector.reader)
    assert status == 200
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["[::1].evil.com", "localhost:1@evil.com", "evil.com:8123"])
def test_a_host_that_only_looks_like_loopback_is_refused(collector: CollectorProcess, host: str) -> None:
    for port, path in PLACES:
        if path != "/ping":
            assert get(collector.ports[port], path, {"Host": host})[0] == 403
