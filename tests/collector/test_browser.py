"""A real browser sends OTLP/JSON with ``fetch``: from an origin that the configuration names, and from no other."""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from freezeframe_schemas.otlp_json import spans_to_otlp_json

PAGE = """<!doctype html><title>agent</title><body>waiting<script>
const send = (type) => fetch("URL/v1/traces", {method: "POST", headers: {"content-type": type}, body: JSON.stringify(REQUEST)})
  .then(async (answer) => answer.status + " " + await answer.text()).catch((error) => "failed " + error.name);
const plain = () => fetch("URL/v1/traces", {method: "POST", mode: "no-cors", body: JSON.stringify(REQUEST)}).then(() => "sent");
(async () => { document.body.textContent = "answer: " + await send("application/json") + "; plain: " + await plain(); })();
</script>"""


@pytest.fixture
def site() -> Generator[tuple[str, Callable[[str], None]]]:
    """Return an origin, and a function that sets the page that it serves."""
    page: list[bytes] = [b""]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page[0])

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del code, size

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def show(text: str) -> None:
        page[0] = text.encode()

    yield f"http://127.0.0.1:{server.server_address[1]}", show
    server.shutdown()
    server.server_close()


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("allowed", [True, False])
def test_a_page_of_a_named_origin_sends_and_no_other_does(
    start_collector: Callable[..., Any],
    make_span: Callable[..., Any],
    site: tuple[str, Callable[[str], None]],
    tmp_path: Path,
    allowed: bool,
) -> None:
    """The page reads the answer, and the span is stored; from elsewhere the browser sends a preflight and nothing behind it.

    What a page may send anywhere, a text, is no OTLP and is refused.
    """
    origin, show = site
    collector = start_collector(
        allowed_origins=f"https://other.example.com, {origin}" if allowed else "https://other.example.com"
    )
    request = json.dumps(spans_to_otlp_json([make_span(1)]))
    show(PAGE.replace("URL", f"http://127.0.0.1:{collector.http_port}").replace("REQUEST", request))
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    shown = subprocess.run(
        [*browser, "--virtual-time-budget=20000", origin], capture_output=True, text=True, timeout=120, check=False
    )
    answer = "200 {}" if allowed else "failed TypeError"
    assert f"answer: {answer}; plain: sent" in shown.stdout, shown.stdout + shown.stderr[-500:]
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
        assert refused.status_code == 405
        assert "access-control-allow-origin" not in refused.headers
    assert "access-control-allow-origin" not in httpx.get(f"{url}/status", headers=asks).headers
