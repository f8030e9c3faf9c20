"""A page of somebody else's, in a browser on this machine, reads nothing from any port."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Site
from running_collector import CollectorProcess, span

pytestmark = pytest.mark.long

CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
PLACES = [("clickhouse", "/?query=SELECT+name+FROM+spans"), ("clickhouse", "/ping"), ("http", "/status"), ("http", "/metrics")]
PAGE = """<script>
const read = [];
const note = (what) => read.push(what);
</script>SCRIPTS<script>
onload = async () => {
  for (const url of URLS) {
    await fetch(url).then(async (answer) => note([url, await answer.text()])).catch(() => {});
    await fetch(url, {method: "POST", mode: "no-cors", body: "SELECT name FROM spans"})
      .then(async (answer) => { if (answer.type !== "opaque") note([url, await answer.text()]); }).catch(() => {});
  }
  tell("read: " + JSON.stringify(read));
};
</script>"""


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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
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


@pytest.mark.timeout(180)
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_gives_a_foreign_page_nothing(collector: CollectorProcess, tmp_path: Path) -> None:
    urls = [f"http://127.0.0.1:{collector.ports[port]}{path}" for port, path in PLACES]
    scripts = "".join(f'<script src="{url}" onload="note(this.src)"></script>' for url in urls)
    site = Site()
    try:
        assert site.show(PAGE.replace("URLS", str(urls)).replace("SCRIPTS", scripts), tmp_path) == "read: []"
    finally:
        site.close()
