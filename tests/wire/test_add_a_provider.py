"""docs/extending/provider.md, followed literally."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from followed_page import ROOT, copy_package, follow, run_with

import freezeframe_schemas

pytestmark = pytest.mark.long

_LAWS = """
import json
import httpx
from conventions_messages import from_json
from dialects_page import dialects_page
from freezeframe.context.environment import relevant_packages
from freezeframe_schemas.vendors.genai_history import provider_of
from freezeframe_replay.engine.request_edit import Part, RequestEdit, edit_request
from freezeframe_replay.stub import model_stub
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Request
from freezeframe_schemas.wire import find_dialect_of
from freezeframe_schemas.wire.answer import Answer
from freezeframe_schemas.wire.frames import Form
from freezeframe_schemas.wire.registry import find_provider

URL = "https://api.parrot.example/v1/speak"
asked = {"model": "ara-1", "prompt": "hello", "preamble": "old", "settings": {"size": 1}, "loud": True}

def request(**more):
    return Request(method="POST", url=URL, body=json.dumps({**asked, **more}).encode())

match = find_dialect_of(request())
dialect, provider = match.dialect, match.provider
assert (dialect.name, provider, provider_of("Polly")) == ("parrot.speak", "parrot", "parrot")
said = dialect.request_attributes(request().body)
assert said[genai.REQUEST_MODEL] == "ara-1" and json.loads(said[genai.REQUEST_PARAMETERS]) == {"loud": True}

edits = [RequestEdit(part=Part.SYSTEM, value="new"), RequestEdit(part=Part.PARAMETER, name="temperature", value=0)]
changed = json.loads(edit_request(request(), edits))
assert changed == {**asked, "preamble": "new", "settings": {"size": 1, "temperature": 0}}

answer = Answer(pieces=("Good ", "morn", "ing"), id="p1", model="ara-1")
read = []
for more in ({}, {"stream": True}):
    written = dialect.write_answer(answer, request(**more))
    kind = dict(written.headers)["content-type"]
    read.append(dialect.response_attributes(written.body, content_type=kind, status=200))
    assert dialect.is_whole(written.body, content_type=kind, streamed=bool(more)) is (True if more else None)
whole, streamed = read
assert whole == streamed
assert from_json(whole[genai.OUTPUT_MESSAGES])[0].parts[0].content == "Good morning"
last = sum(len(chunk.data) for chunk in written.chunks[:-1])
for size in range(len(written.body)):
    cut = dialect.response_attributes(written.body[:size], content_type=kind, status=200)
    assert set(cut) <= set(streamed)
    assert size >= last + 1 or genai.RESPONSE_FINISH_REASONS not in cut
    assert size >= last + 1 or dialect.is_whole(written.body[:size], content_type=kind, streamed=True) is False
refused = dialect.write_error(429, "later")
assert "later" in dialect.response_attributes(refused.body, content_type="application/json", status=429)[genai.RESPONSE_ERROR]
for body in (b"", b"\\xff", b"[]", b"{", b'{"text": 1, "counts": [], "settings": 2}', b'data: {"piece": {}}\\n\\n'):
    dialect.request_attributes(body)
    dialect.response_attributes(body, content_type="text/event-stream", status=200)

with model_stub() as model:
    model.reply("hello")
    assert httpx.post(URL, json=asked).json()["text"] == "hello"
row = find_provider("parrot")
assert (row.key_variable, row.bases) == ("PARROT_API_KEY", (("PARROT_BASE_URL", "/v1"),))
assert "parrot-sdk" in relevant_packages()
page = dialects_page()
assert "| `parrot.speak` | `chat` | `/v1/speak` | `trace_id` |" in page and "| `parrot` | `api.parrot.example` |" in page
print("held")
"""


def test_the_page_on_adding_a_provider_adds_one_that_keeps_the_laws(tmp_path: Path) -> None:
    """Its code blocks, put into the files that it names and into no other, make a provider that every part knows."""
    copy_package(freezeframe_schemas, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert len(follow("provider.md", tmp_path)) == 3
    done = run_with([tmp_path / "schemas"], _LAWS)
    assert done.stdout == "held\n", done.stderr
    contracts = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["freezeframe_schemas.wire"]]
    listed = {name.strip() for layer in layers for name in re.split(r"[|:]", layer)}
    assert listed == {file.stem for file in (tmp_path / "schemas" / "freezeframe_schemas" / "wire").glob("*.py")} - {"__init__"}
