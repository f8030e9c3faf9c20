"""A real browser sends OTLP/JSON with ``fetch``: from an origin that the configuration names, and from no other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import CHROMIUM, Chromium, Site

from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

PAGE = """<script>
const send = (type) => fetch("URL/v1/traces", {method: "POST", headers: {"content-type": type}, body: JSON.stringify(REQUEST)})
  .then(async (answer) => answer.status + " " + await answer.text()).catch((error) => "failed " + error.name);
const plain = () => fetch("URL/v1/traces", {method: "POST", mode: "no-cors", body: JSON.stringify(REQUEST)})
  .then(() => "sent").catch((error) => "failed " + error.name);
(async () => { tell("answer: " + await send("application/json") + "; plain: " + await plain()); })();
</script>"""


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    yield served
    served.close()


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
def test_a_browser_of_the_tests_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        Chromium(tmp_path).close()
        assert list(Path(temporary).iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
@pytest.mark.parametrize("allowed", [True, False])
def test_a_page_of_a_named_origin_sends_and_no_other_does(
    start_collector: Callable[..., Any],
    make_span: Callable[..., Any],
    site: Site,
    tmp_path: Path,
    allowed: bool,
) -> None:
    """The page reads the answer, and the span is stored; from elsewhere the browser sends a preflight and nothing after it.

    A page may send plain text anywhere, which is not OTLP: it is refused, and from elsewhere the page does not see the answer.
    """
    collector = start_collector(
        allowed_origins=f"https://other.example.com, {site.origin}" if allowed else "https://other.example.com"
    )
    request = json.dumps(spans_to_otlp_json([make_span(1)]))
    page = PAGE.replace("URL", f"http://127.0.0.1:{collector.http_port}").replace("REQUEST", request)
    answer = "200 {}" if allowed else "failed TypeError"
    plain = "sent" if allowed else "failed TypeError"
    assert site.show(page, tmp_path) == f"answer: {answer}; plain: {plain}"
    collector.flush()
    assert collector.store.names() == (["span-000001"] if allowed else [])
    assert collector.log.audit().counts.received == int(allowed)


@pytest.mark.long
def test_a_preflight_is_answered_for_named_origins_only(start_collector: Callable[..., Any]) -> None:
    """By default for none; never for the pages about the collector itself."""
    origin = "http://localhost:3000"
    asks = {"origin": origin, "access-control-request-method": "POST"}
    collector = start_collector(allowed_origins=origin)
    url = f"http://127.0.0.1:{collector.http_port}"
    answer = httpx.options(f"{url}/v1/traces", headers=asks)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, origin)
    for path, headers in (("/v1/traces", asks | {"origin": "http://localhost:3001"}), ("/status", asks)):
        refused = httpx.options(url + path, headers=headers)
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers
    assert "access-control-allow-origin" not in httpx.get(f"{url}/status", headers=asks | collector.reader).headers
