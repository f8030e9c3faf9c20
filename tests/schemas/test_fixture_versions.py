"""Every version of the fixture format that was ever released still loads, and says what it said.

``tests/golden/fixtures/v1`` has one step for each form that the format knows. Made anew only when the format's version changes,
into a separate folder::

    python tests/schemas/test_fixture_versions.py tests/golden/fixtures/v2/every-form
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture, Redaction, Step, load_fixture, write_fixture
from freezeframe_schemas.fixture_bodies import BLOB_LIMIT
from freezeframe_schemas.keys import request_key
from freezeframe_schemas.run import Entry, EntryKind

START_NS = 1_795_273_200_000_000_000
"""2026-11-21 15:00 UTC."""

SSE = (
    b'event: message_start\ndata: {"type":"message_start"}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"It is in Lyon. \xc3',
    b'\xa9"}}\n\n',
)
"""A stream whose second border falls inside a character."""


def every_form() -> Fixture:
    """Return a run of an order agent: model, tool, nested HTTP with a cut 429, retrieval, stream, large and binary bodies."""
    question = "where is my order? u3k2@d1.example.com"
    exchanges = (
        _model({"model": "gpt-x", "messages": [{"role": "user", "content": question}]}, _answer("lookup")),
        _tool("lookup", {"id": "AC-1", "owner": "Keller"}, "keller"),
        _http("GET", "http://prices.example/price?sku=AC-1", 429, b'{"error": {"message": "rate lim', Completion.BROKEN),
        _retrieval(),
        _stream(SSE, "content_block"),
        _stream((b"data: {}\n\n", b"data: [DONE]\n\n"), "plain"),
        _http("POST", "http://files.example/upload", 201, b"\x89PNG\xff", Completion.COMPLETE, body=b"\x89PNG\r\n\x1a\n\xff"),
        _http("GET", "http://files.example/report", 200, b"x" * (BLOB_LIMIT + 1), Completion.COMPLETE),
        _failed_tool(),
        _mcp(),
    )
    inside = {3: 2}
    return Fixture(
        run_id="4bf92f3577b34da6a3ce929d0e0e4736",
        entry=Entry(
            kind=EntryKind.FUNCTION,
            name="answer",
            target="agent:answer",
            file="agent.py",
            input=values.encode({"args": [question], "kwargs": {"limit": 3}}),
            output=values.encode("It is in Lyon."),
            random_state="[3, [1, 2, 3], null]",
            flags='{"new_lookup": true}',
            user="u-7",
            tenant="acme",
            session="s-1",
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + 9_000_000_000,
            span_id="00f067aa0ba902b7",
        ),
        steps=tuple(
            Step(
                number=number,
                exchange=_placed(exchange, number),
                key=request_key(exchange.kind, exchange.name, exchange.request).digest,
                ordinal=0,
                inside=inside.get(number),
                provider="openai" if exchange.dialect else None,
                model="gpt-x" if exchange.dialect else None,
            )
            for number, exchange in enumerate(exchanges, 1)
        ),
        environment={genai.VCS_REVISION: "0" * 40, genai.VCS_DIRTY: "false", genai.RUNTIME_VERSION: "3.11.7"},
        redaction=Redaction(policy="strict@0123456789abcdef", key_id="k1", surrogates={"u3k2@d1.example.com": "email"}),
        gaps=("1 spans name a parent that is not here, the first: handler (0000000000000001)",),
        created_by="freezeframe 0.1.0",
    )


def _placed(exchange: Exchange, number: int) -> Exchange:
    return replace(
        exchange,
        sequence=number - 1,
        span_id=f"{number:016x}",
        parent_span_id="00f067aa0ba902b7",
        start_time_unix_nano=START_NS + number * 1_000_000,
        end_time_unix_nano=START_NS + number * 1_000_000 + 500_000,
    )


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _answer(tool: str) -> bytes:
    call = {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": '{"name":"keller"}'}}
    return json.dumps({"id": "chatcmpl-1", "choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}).encode()


def _model(body: object, answer: bytes) -> Exchange:
    return Exchange(
        kind=Kind.MODEL,
        name="POST /v1/chat/completions",
        seam="httpx2",
        dialect="openai.chat",
        request=Request(
            method="POST",
            url="http://127.0.0.1:4000/v1/chat/completions",
            headers=(("content-type", "application/json"), ("authorization", "[secret]")),
            body=_json(body),
        ),
        response=Response(
            status=200,
            headers=(("content-type", "application/json"), ("x-request-id", "req_1")),
            chunks=(Chunk(data=answer, offset_ns=300_000),),
        ),
    )


def _stream(chunks: tuple[bytes, ...], prompt: str) -> Exchange:
    model = _model({"model": "gpt-x", "stream": True, "messages": [{"role": "user", "content": prompt}]}, b"")
    pieces = tuple(Chunk(data=data, offset_ns=100_000 * index) for index, data in enumerate(chunks, 1))
    return replace(model, lane=(0, 1), response=replace(model.response, chunks=pieces))


def _tool(name: str, result: object, *args: object) -> Exchange:
    return Exchange(
        kind=Kind.TOOL,
        name=name,
        seam="decorator",
        call_id="call_1",
        request=Request(body=values.encode({"args": list(args), "kwargs": {}}).encode()),
        response=Response(chunks=(Chunk(data=values.encode(result).encode(), offset_ns=1),)),
    )


def _failed_tool() -> Exchange:
    return Exchange(
        kind=Kind.TOOL,
        name="refund",
        seam="decorator",
        request=Request(body=b'{"args": [], "kwargs": {"order": "AC-1"}}'),
        response=Response(completion=Completion.NONE),
        error=values.encode_exception(PermissionError(13, "not yours")),
    )


def _retrieval() -> Exchange:
    found = [{"id": "policy-7", "content": "Thirty days.", "score": 0.83}]
    return Exchange(
        kind=Kind.RETRIEVAL,
        name="policies",
        seam="decorator",
        request=Request(body=b'{"args": ["returns"], "kwargs": {"k": 1}}'),
        response=Response(chunks=(Chunk(data=values.encode(found).encode()),)),
    )


def _mcp() -> Exchange:
    return Exchange(
        kind=Kind.MCP,
        name="tools/call",
        seam="mcp",
        request=Request(body=b'{"name": "search", "arguments": {"q": "AC-1"}}'),
        response=Response(completion=Completion.CLOSED_EARLY, omitted="over limit: 41943040 bytes"),
    )


def _http(method: str, url: str, status: int, answer: bytes, completion: Completion, *, body: bytes = b"") -> Exchange:
    return Exchange(
        kind=Kind.HTTP,
        name=f"{method} {urlsplit(url).path}",
        seam="httpx",
        request=Request(method=method, url=url, headers=(("accept", "*/*"),), body=body),
        response=Response(status=status, chunks=(Chunk(data=answer, offset_ns=7),), completion=completion),
    )


GOLDEN = Path(__file__).parents[1] / "golden/fixtures"


def test_a_fixture_of_version_1_loads_as_it_was_written() -> None:
    """Each form of body, chunks, errors and nesting; the digests of its keys included."""
    assert load_fixture(GOLDEN / "v1/every-form") == every_form()


def test_version_1_is_written_byte_for_byte_as_before(tmp_path: Path) -> None:
    """A change here is a change of every fixture in every user's repository."""
    write_fixture(every_form(), tmp_path)
    folder = GOLDEN / "v1/every-form"
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()) == names
    assert [name for name in names if (tmp_path / name).read_bytes() != (folder / name).read_bytes()] == []


if __name__ == "__main__":
    write_fixture(every_form(), Path(sys.argv[1]))
