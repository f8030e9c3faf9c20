"""Content that spans point to is read at the collector's door from configured places only, and costs other senders nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from freezeframe_collector.front import content_stages
from freezeframe_collector.processors import content
from freezeframe_collector.settings.config import SETTINGS
from freezeframe_schemas import genai
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Where is AC-1?"}]}]
REFERENCE = f"{genai.INPUT_MESSAGES}_ref"
SpanMaker = Callable[..., Any]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(ASKED))
    return folder


def post(collector: Any, *spans: Any) -> int:
    """Send spans; return the status of the answer."""
    return httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", json=spans_to_otlp_json(spans)).status_code


@pytest.mark.parametrize("is_configured", [True, False])
def test_messages_are_read_if_their_place_is_configured(
    is_configured: bool, prompts: Path, start_collector: Callable[..., Any], make_span: SpanMaker
) -> None:
    collector = start_collector(stages=content_stages([str(prompts)] if is_configured else []))
    assert post(collector, make_span(1, attributes={REFERENCE: f"{prompts}/a.json"})) == 200
    collector.flush()
    [stored] = collector.store.spans
    assert json.loads(stored.text(genai.INPUT_MESSAGES) or "null") == (ASKED if is_configured else None)


def test_one_request_reads_only_so_much(
    prompts: Path, start_collector: Callable[..., Any], make_span: SpanMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_MAX_BYTES", 1)
    (prompts / "b.json").write_text(json.dumps(ASKED))
    collector = start_collector(stages=content_stages([str(prompts)]))
    spans = [make_span(number, attributes={REFERENCE: f"{prompts}/{name}.json"}) for number, name in enumerate("ab")]
    assert post(collector, *spans) == 200
    collector.flush()
    first, second = sorted(collector.store.spans, key=lambda span: span.span_id)
    assert genai.INPUT_MESSAGES in first.attributes
    assert json.loads(second.text(genai.CONTENT_UNREAD) or "") == {
        REFERENCE: "others were read before it for as long as may be"
    }


def test_a_place_that_hangs_holds_up_no_other_sender(start_collector: Callable[..., Any], make_span: SpanMaker) -> None:
    asked, may_answer = Event(), Event()

    class Slow(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

        def do_GET(self) -> None:
            asked.set()
            may_answer.wait(100)
            self.send_error(503)

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server, ThreadPoolExecutor(1) as pool:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/prompts"
        collector = start_collector(stages=content_stages([place]))
        slow = pool.submit(post, collector, make_span(1, attributes={REFERENCE: f"{place}/a.json"}))
        assert asked.wait(100)
        assert post(collector, make_span(2)) == 200
        may_answer.set()
        assert slow.result(100) == 200
        server.shutdown()
    collector.flush()
    assert [span.text(genai.CONTENT_UNREAD) for span in sorted(collector.store.spans, key=lambda span: span.span_id)] == [
        json.dumps({REFERENCE: "the server answers 503"}, separators=(",", ":")),
        None,
    ]


@pytest.mark.parametrize(
    ("places", "faults"), [("/data/prompts, https://minio/prompts", 0), ("s3://bucket", 1), ("ftp://x", 1)]
)
def test_a_place_that_cannot_be_read_from_is_a_fault_of_the_configuration(places: str, faults: int) -> None:
    found: list[str] = []
    SETTINGS["content.places"].check(places, "content.places", found)
    assert len(found) == faults
