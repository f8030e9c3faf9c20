"""Content that spans point to: read from named places only, whatever the address tries, and a named gap otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from bare_spans import bare_span

from freezeframe_schemas import content_references, genai
from freezeframe_schemas.content_references import make_reader, unread_of
from freezeframe_schemas.errors import ConfigError

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Where is AC-1?"}]}]
REFERENCE = f"{genai.INPUT_MESSAGES}_ref"


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    """Return a folder with uploads, next to a file that is no upload."""
    (tmp_path / "secret.json").write_text('[{"key": "sk-1"}]')
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "a_inputs.json").write_text(json.dumps(ASKED))
    (folder / "b_inputs.jsonl").write_text("".join(json.dumps(message) + "\n" for message in ASKED * 2))
    (folder / "c_inputs.json").write_text("not JSON")
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    return folder


class Server(ThreadingHTTPServer):
    """Serves one object; any other address leads elsewhere."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]  (it is one)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        body = json.dumps(ASKED).encode()
        if self.path.startswith("/prompts/a_inputs.json"):
            self.send_response(200)
        elif self.path == "/prompts/moved.json":
            self.send_response(302)
            self.send_header("location", "/secret.json")
        else:
            self.send_response(403)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def read(reference: str, *places: str) -> Any:
    """Return the messages that a span's address leads to, or why there are none."""
    span = make_reader(places).with_content(bare_span(attributes={REFERENCE: reference}))
    found = span.text(genai.INPUT_MESSAGES)
    return [why for _, why in unread_of(span)] if found is None else json.loads(found)


def test_messages_come_from_a_named_folder_however_they_were_written(prompts: Path) -> None:
    assert read(f"{prompts}/a_inputs.json", str(prompts)) == ASKED
    assert read(f"file://{prompts}/a_inputs.json", f"file://{prompts}") == ASKED
    assert read(f"{prompts}/b_inputs.jsonl", str(prompts)) == ASKED * 2
    assert read("s3://bucket/prompts/a_inputs.json", f"s3://bucket/prompts={prompts}") == ASKED


def test_messages_come_from_a_named_server(server: Server) -> None:
    assert read(f"{server.url}/prompts/a_inputs.json?X-Amz-Signature=1", f"{server.url}/prompts") == ASKED
    assert read("gs://bucket/a_inputs.json", f"gs://bucket={server.url}/prompts") == ASKED
    assert server.asked == ["/prompts/a_inputs.json?X-Amz-Signature=1", "/prompts/a_inputs.json"]


def test_by_default_and_beyond_the_named_places_nothing_is_opened(prompts: Path, server: Server) -> None:
    outside = ["its address is not below a place that may be read"]
    assert read(f"{prompts}/a_inputs.json") == outside
    assert read(f"{server.url}/prompts/a_inputs.json", str(prompts), f"{server.url}/prompt") == outside
    assert read(f"{prompts}-of-others/a_inputs.json", str(prompts)) == outside
    assert server.asked == []


@pytest.mark.parametrize(
    "rest",
    ["../secret.json", "%2e%2e/secret.json", "x/../../secret.json", "..\\secret.json", "/secret.json", "./a_inputs.json"],
)
def test_an_address_cannot_leave_its_place(rest: str, prompts: Path, server: Server) -> None:
    for place in (str(prompts), f"file://{prompts}", f"{server.url}/prompts"):
        assert read(f"{place}/{rest}", place) == ["its address leaves the place"]
    assert server.asked == []


def test_neither_a_link_nor_a_redirect_nor_a_folder_is_followed(prompts: Path, server: Server) -> None:
    (prompts / "folder.json").mkdir()
    assert read(f"{prompts}/link.json", str(prompts)) == ["it is not a file of the place"]
    assert read(f"{prompts}/folder.json", str(prompts)) == ["it is not a file of the place"]
    assert read(f"{server.url}/prompts/moved.json", f"{server.url}/prompts") == ["the server answers 302"]
    assert server.asked == ["/prompts/moved.json"]


def test_what_is_missing_wrong_or_too_large_is_a_named_gap(
    prompts: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(f"{prompts}/none.json", str(prompts)) == ["FileNotFoundError"]
    assert read(f"{prompts}/c_inputs.json", str(prompts)) == ["it is not a list of JSON objects"]
    assert read(f"{server.url}/prompts/none.json", f"{server.url}/prompts") == ["the server answers 403"]
    monkeypatch.setattr(content_references, "MAX_BYTES", 20)
    assert read(f"{prompts}/a_inputs.json", str(prompts)) == ["it has over 20 bytes"]
    assert read(f"{server.url}/prompts/a_inputs.json", f"{server.url}/prompts") == ["it has over 20 bytes"]


def test_a_server_that_does_not_answer_is_left_alone_after_three_failures() -> None:
    reader = make_reader(["http://127.0.0.1:1/prompts"])
    for number in range(5):
        reader.with_content(bare_span(attributes={REFERENCE: f"http://127.0.0.1:1/prompts/{number}.json"}))
    assert reader.unread == {"ConnectionRefusedError": 3, "its place does not answer": 2}


def test_content_that_the_span_holds_is_kept(prompts: Path) -> None:
    span = bare_span(attributes={REFERENCE: f"{prompts}/a_inputs.json", genai.INPUT_MESSAGES: "[]"})
    assert make_reader([str(prompts)]).with_content(span) is span


@pytest.mark.parametrize("place", ["s3://bucket/prompts", "http://user:key@127.0.0.1/x", "ftp://127.0.0.1/x", "http://", ""])
def test_a_place_that_cannot_be_read_from_is_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="expected a folder or http"):
        make_reader([place])
