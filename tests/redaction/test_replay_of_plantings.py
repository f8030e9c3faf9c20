"""Private data in every shape that a request or an answer can have: recorded, redacted, frozen, and replayed exactly.

The live side of the replay has the person's own data; the fixture has surrogates only, and no key.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from loopback import QuietHandler, listening

import freezeframe
from freezeframe import seams
from freezeframe.seams import serve, stop_serving
from freezeframe.testing import capture
from freezeframe_redaction import Policy, Redactor, TenantKey, load_policy
from freezeframe_redaction.policies.policy import parse_policy
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.fixture import load_fixture, write_fixture
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import build_run

pytestmark = pytest.mark.long  # records through a server, and replays each shape

KEY = TenantKey(id="test/1", secret=b"r" * 32)
MAIL, PHONE, CARD, NAME = "jane.roe@corp-mail.io", "+1 415-867-5309", "4242 4242 4242 4242", "Zoë Quillfeather"
PRIVATE = ("jane.roe", "corp-mail", "867-5309", "4242 4242 4242", "4242424242", "Quillfeather")
RECORD = {"email": MAIL, "phone": PHONE, "card": CARD, "customer_name": NAME}
TEXT = f"Dear {NAME}, we wrote to {MAIL}, called {PHONE} and charged card {CARD}."
ARGUMENTS = json.dumps(RECORD | {"emoji": "😀"})

Answer = tuple[dict[str, str], bytes]


def _stream(*pieces: str) -> Answer:
    events = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]}
        for piece in pieces
    ]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return {"content-type": "text/event-stream"}, body.encode()


def _plain(body: str, kind: str = "text/plain; charset=utf-8", codec: str = "utf-8") -> Answer:
    return {"content-type": kind}, body.encode(codec)


def _cut(text: str, at: int) -> tuple[str, str]:
    return text[:at], text[at:]


ANSWERS: dict[str, Answer] = {
    "arguments one character at a time": _stream(*ARGUMENTS),
    "arguments cut inside a surrogate pair": _stream(*_cut(ARGUMENTS, ARGUMENTS.index("\\ud83d") + 6)),
    "arguments cut inside an escape": _stream(*_cut(ARGUMENTS, ARGUMENTS.index("\\u00eb") + 3)),
    "gzip": ({"content-type": "application/json", "content-encoding": "gzip"}, gzip.compress(json.dumps(RECORD).encode())),
    "json in json in json": _plain(json.dumps({"a": json.dumps({"b": json.dumps(RECORD)})}), "application/json"),
    "keys of an object": _plain(json.dumps({MAIL: 1, CARD: {PHONE: 2}}), "application/json"),
    "rows": _plain(f"id,customer_name,email,phone\n1,{NAME},{MAIL},{PHONE}\n", "text/csv"),
    "base64": _plain(base64.b64encode(TEXT.encode()).decode()),
    "base64 in lines": _plain(base64.encodebytes((TEXT * 3).encode()).decode()),
    "ndjson": _plain("".join(json.dumps({"n": n, "content": TEXT}) + "\n" for n in range(2)), "application/x-ndjson"),
    "utf-16": _plain(TEXT, "text/plain; charset=utf-16", "utf-16"),
    "latin-1": _plain(TEXT, "text/plain; charset=iso-8859-1", "latin-1"),
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "keys of an object": {"json": {MAIL: {"balance": 3}, CARD: 1}},
    "nested arrays": {"json": {"rows": [[[TEXT, [PHONE, [MAIL]]]], [CARD]]}},
    "escapes": {"content": json.dumps({"q": TEXT}).replace("@", "\\u0040").encode()},
    "form": {"data": RECORD},
    "query": {"params": RECORD},
    "upload": {
        "data": {"full_name": NAME, "email": MAIL},
        "files": {"file": (f"{MAIL}.csv", f"email,phone\n{MAIL},{PHONE}\n"), "image": ("a.png", bytes(range(256)))},
    },
    "gzip": {"content": gzip.compress(json.dumps(RECORD).encode(), mtime=0), "headers": {"content-encoding": "gzip"}},
    "gzip that no header announces": {"content": gzip.compress(json.dumps(RECORD).encode(), mtime=0)},
    "base64": {"json": {"attachment": base64.b64encode(TEXT.encode()).decode()}},
    "xml": {"content": f"<c><email>{MAIL}</email><tel>{PHONE}</tel><card>{CARD}</card></c>".encode()},
    "utf-16": {"content": TEXT.encode("utf-16"), "headers": {"content-type": "text/plain; charset=utf-16"}},
    "latin-1": {"content": TEXT.encode("latin-1"), "headers": {"content-type": "text/plain; charset=iso-8859-1"}},
    "cookies": {
        "json": {},
        "headers": {"cookie": "email=jane.roe%40corp-mail.io", "baggage": "user.email=jane.roe%40corp-mail.io"},
    },
}


@dataclass
class _World:
    url: str
    answers: list[Answer] = field(default_factory=list[Answer])
    asked: int = 0


@pytest.fixture(scope="module")
def world() -> Iterator[_World]:
    """A server that gives the answers in turn, then repeats what it was sent."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            made.asked += 1
            headers, body = made.answers.pop(0) if made.answers else _plain("done")
            self.send_response_only(200)
            for name, text in (*headers.items(), ("content-length", str(len(body)))):
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

    with listening(Handler) as url:
        made = _World(url=url)
        yield made


def _agent(world: _World, question: dict[str, Any]) -> Callable[[], str]:
    """Ask; send on what was answered; return the result."""

    def handle() -> str:
        with httpx.Client(trust_env=False) as client:
            first = client.post(f"{world.url}/ask", **question)
            return client.post(f"{world.url}/next", json={"seen": _spelled(first.text)}).text

    return handle


def _spelled(answer: str) -> str:
    """Return what the deltas of a stream spell, as an SDK does; any other answer unchanged."""
    if not answer.startswith("data: "):
        return answer
    events = [json.loads(line[6:]) for line in answer.split("\n") if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for event in events)


def _check(world: _World, question: dict[str, Any], answer: Answer, folder: Path, policy: Policy | None = None) -> None:
    world.answers[:] = [answer]
    try:
        with capture(record_hosts=("127.0.0.1",)) as captured:
            freezeframe.run(name="planted")(_agent(world, question))()
            spans = captured.spans
        redactor = Redactor(policy or load_policy("strict"), KEY)
        run = build_run([redactor.redact_span(span) for span in spans])
        assert {gap.kind for gap in run.gaps} <= {GapKind.ENTRY_UNREACHABLE}  # made in a function of the test
        write_fixture(freeze(run), folder)
        held = b"\n".join(_readable(path.read_bytes()) for path in folder.rglob("*") if path.is_file())
        shown = "corp-mail" if policy is not None else ""  # the domain of a masked address
        assert [value for value in PRIVATE if value.encode() in held and value != shown] == []
        session = ReplaySession(load_fixture(folder))
        asked = world.asked
        serve(session)
        try:
            freezeframe.run(name="planted")(_agent(world, question))()
        finally:
            stop_serving()
        report = session.report()
        assert report.divergences == ()
        assert len(report.served) == report.steps == 2
        assert world.asked == asked
    finally:
        seams.uninstall()


def _readable(content: bytes) -> bytes:
    """Return the bytes, with those that are compressed or in base64 decoded as well."""
    found = [content]
    for token in content.replace(b"\\n", b"").split(b'"'):
        try:
            raw = base64.b64decode(token, validate=True)
        except ValueError:
            continue
        found.append(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw.replace(b"\0", b""))
    return b"\n".join(found)


@pytest.mark.proof
@pytest.mark.parametrize("shape", QUESTIONS)
def test_a_question_replays_exactly_whatever_shape_its_data_has(world: _World, shape: str, tmp_path: Path) -> None:
    _check(world, QUESTIONS[shape], _plain("ok"), tmp_path)


@pytest.mark.parametrize("shape", ANSWERS)
def test_an_answer_replays_exactly_whatever_shape_its_data_has(world: _World, shape: str, tmp_path: Path) -> None:
    _check(world, {"json": {"q": TEXT}}, ANSWERS[shape], tmp_path)


@pytest.mark.parametrize("action", ["remove", "mask"])
@pytest.mark.parametrize("shape", ["escapes", "form", "rows", "gzip"])
def test_a_run_replays_exactly_if_values_are_removed_or_masked(world: _World, shape: str, action: str, tmp_path: Path) -> None:
    entries = "\n".join(f'[[class]]\nname = "{name}"\naction = "{action}"' for name in ("EMAIL", "PHONE", "CARD", "PERSON"))
    policy = parse_policy(f'name = "acme"\nversion = 1\n{entries}')
    _check(world, QUESTIONS.get(shape, {"json": {"q": TEXT}}), ANSWERS.get(shape, _plain("ok")), tmp_path, policy)
