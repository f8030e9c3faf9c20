"""docs/extending/client-library.md, followed literally: its library, its seam and its row, held to the law of every client."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from capture_provider import Provider
from capture_replay import replaying
from clients.client import Column, Trial, World, outcome_of, trial
from clients.harness import run_trial
from clients.provider import OVERLOADED, cut, recorded

import freezeframe
from freezeframe import seams
from freezeframe._guard import RAISE_VARIABLE
from freezeframe.seams import http
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Completion, Kind

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "extending" / "client-library.md"
LIBRARY, SEAM, ROW = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
(SIMPLE,) = recorded("2e11503d9bd7f0db")
HEADERS = {"content-type": "application/json", "authorization": "Bearer secret-of-the-test"}
BODY = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "hello"}]}'


@pytest.fixture
def toyhttp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page's library, installed, with its seam in the package and its row in the table."""
    for folder, text in (("library", LIBRARY), ("seams", SEAM)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "toyhttp.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "library")
    monkeypatch.setattr(http, "__path__", [*http.__path__, str(tmp_path / "seams")])
    call = ast.parse(ROW.strip().removesuffix(","), mode="eval").body
    assert isinstance(call, ast.Call)
    row = seams.Seam(*map(ast.literal_eval, call.args))
    monkeypatch.setattr(seams, "SEAMS", (*seams.SEAMS, row))
    yield importlib.import_module("toyhttp")
    for name in ("toyhttp", "freezeframe.seams.http.toyhttp"):
        sys.modules.pop(name, None)


def send(url: str, body: bytes = BODY) -> Any:
    return importlib.import_module("toyhttp").Client().send("POST", f"{url}/v1/chat/completions", HEADERS, body)


def sync(world: World) -> Any:
    return [b"".join(send(world.url("api.openai.com")).chunks).decode() for _ in range(2)]


def errors(world: World) -> Any:
    def read() -> Any:
        response = send(world.url("api.openai.com"))
        return response.status, b"".join(response.chunks).decode()

    return [outcome_of(read) for _ in range(2)]


def abandoned(world: World) -> Any:
    chunks = send(world.url("api.openai.com")).chunks
    first = next(chunks)
    chunks.close()
    return first.decode()


@pytest.mark.proof
@pytest.mark.usefixtures("toyhttp")
@pytest.mark.parametrize(
    ("column", "tried"),
    [
        (Column.SYNC, trial(sync, SIMPLE, SIMPLE)),
        (Column.ERRORS, trial(errors, OVERLOADED, cut(SIMPLE))),
        (Column.ABANDONED, trial(abandoned, SIMPLE)),
    ],
    ids=lambda value: value.name if isinstance(value, Trial) else "",
)
def test_the_page_makes_a_seam_that_captures_byte_exact_and_replays_equal(column: Column, tried: Trial) -> None:
    outcome = run_trial(tried, column)
    assert [*outcome.not_captured, *outcome.not_replayed] == []
    assert outcome.seams == {"toyhttp"}


@pytest.mark.usefixtures("toyhttp")
def test_the_seam_of_the_page_keeps_no_secret_and_looks_an_edit_up(provider: Provider) -> None:
    edit = BODY.replace(b"hello", b"good evening")

    @freezeframe.run(name="agent")
    def agent(body: bytes) -> Any:
        return json.loads(b"".join(send(provider.url, body).chunks))

    with capture() as captured:
        live = agent(edit)
        (exchange,) = captured.exchanges
    provider.requests.clear()
    with replaying([exchange], edit=lambda request: edit) as responder:
        assert agent(BODY) == live
    assert [call.request.body for call in responder.calls] == [edit]
    assert provider.requests == []
    assert (exchange.kind, exchange.response.completion) == (Kind.MODEL, Completion.COMPLETE)
    assert "secret-of-the-test" not in repr(exchange)


def test_a_fault_in_the_seam_of_the_page_changes_nothing_for_the_application(
    toyhttp: Any, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RAISE_VARIABLE, "0")

    class Odd(toyhttp.Response):
        """Raises when the seam looks at it."""

        @property
        def status(self) -> int:
            raise RuntimeError("no status")

        @status.setter
        def status(self, value: int) -> None:
            """Forget it."""

    monkeypatch.setattr(toyhttp, "Response", Odd)
    with capture():
        answer = b"".join(freezeframe.run(name="agent")(send)(provider.url).chunks)
    assert json.loads(answer)["object"] == "chat.completion"
