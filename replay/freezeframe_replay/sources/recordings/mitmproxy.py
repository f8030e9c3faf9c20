"""Flows of mitmproxy (``mitmdump -w FILE``): HTTP calls with their bytes, one after the other as typed netstrings.

Source: https://github.com/mitmproxy/mitmproxy, ``mitmproxy/io/tnetstring.py`` and the ``get_state`` of its flows; a file that
version 11 wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from freezeframe_replay.sources.recordings.http_calls import HttpCall, Origin, checked_url, spans_of_calls, stored_headers
from freezeframe_replay.sources.recordings.json_items import LARGEST, placed
from freezeframe_schemas.exchange import Headers
from freezeframe_schemas.span import SpanRecord

_LACKS: Final = "imported from a file of mitmproxy: it holds HTTP calls only, each answer in one piece"
_FIRST_VERSION: Final = 7
"""Of mitmproxy 4.0.2; older flows name their fields otherwise."""
_DEEPEST: Final = 50
_MOST_DIGITS: Final = 12
_CLOSED: Final = {b"true": True, b"false": False}


def read_mitmproxy(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Return the spans of the HTTP flows in a file: one run.

    Raises:
        WireError: a flow does not follow the format; the message says which.
    """
    return spans_of_calls(_calls(path), origin, lacks=_LACKS)


def _calls(path: Path) -> Iterator[HttpCall]:
    number = 0
    with path.open("rb") as file:
        while True:
            number += 1
            with placed(path, f"flow {number}"):
                held = _next(file)
                if held is None:
                    return
                call = _call_of(_read(*held, depth=0))
            if call is not None:
                yield call


def _next(file: BinaryIO) -> tuple[bytes, bytes] | None:
    """Return the next value of the file and the mark of its type; None at the end."""
    head = b""
    while (digit := file.read(1)) and digit.isdigit() and len(head) < _MOST_DIGITS:
        head += digit
    if not head and not digit:
        return None
    if digit != b":" or not head:
        raise ValueError("found no length; the file is cut, or not one of mitmproxy")
    size = int(head)
    if size > 4 * LARGEST:
        raise ValueError(f"one flow has more than {4 * LARGEST:,} bytes")
    data, mark = file.read(size), file.read(1)
    if len(data) < size or not mark:
        raise ValueError("the file is cut")
    return data, mark


def _read(data: bytes, mark: bytes, *, depth: int) -> Any:
    """Return the value that a typed netstring holds."""
    match mark:
        case b",":
            return data
        case b";":
            return data.decode("utf-8", "surrogatepass")
        case b"#":
            return int(data)
        case b"^":
            return float(data)
        case b"!" if data in _CLOSED:
            return _CLOSED[data]
        case b"~" if not data:
            return None
        case b"]":
            return list(_values(data, depth))
        case b"}":
            held = list(_values(data, depth))
            names = [name.decode("latin-1") if isinstance(name, bytes) else str(name) for name in held[::2]]
            return dict(zip(names, held[1::2], strict=True))
        case _:
            raise ValueError(f"found a value of the type {mark!r}, which no netstring has")


def _values(data: bytes, depth: int) -> Iterator[Any]:
    if depth > _DEEPEST:
        raise ValueError(f"nested deeper than {_DEEPEST} levels")
    at = 0
    while at < len(data):
        colon = data.find(b":", at, at + _MOST_DIGITS + 1)
        if colon < 0 or not data[at:colon].isdigit():
            raise ValueError("found no length of a value")
        end = colon + 1 + int(data[at:colon])
        if end >= len(data):
            raise ValueError("a value is longer than the value around it")
        yield _read(data[colon + 1 : end], data[end : end + 1], depth=depth + 1)
        at = end + 1


def _call_of(flow: Any) -> HttpCall | None:
    """Return an HTTP flow as a call; None for TCP, UDP and DNS."""
    flow = _fields(flow)
    version = flow.get("version")
    if not isinstance(version, int) or version < _FIRST_VERSION:
        raise ValueError(f"found version {str(version)[:20]!r} of the format, expected {_FIRST_VERSION} or newer")
    if flow.get("type") != "http":
        return None
    request, response = _fields(flow.get("request")), _fields(flow.get("response"))
    body, answer = _bytes(request.get("content")), _bytes(response.get("content"))
    headers, answered = _headers(request), _headers(response)
    start, end = (_time(message.get(name)) for message, name in ((request, "timestamp_start"), (response, "timestamp_end")))
    status = response.get("status_code")
    return HttpCall(
        method=_text(request.get("method")).upper(),
        url=checked_url(_url(request, headers)),
        headers=stored_headers(tuple(pair for pair in headers if not pair[0].startswith(":")), body),
        body=body,
        body_omitted="mitmproxy streamed it and kept nothing" if "content" in request and request["content"] is None else None,
        status=status if isinstance(status, int) else None,
        reason=_text(response.get("reason")) or None,
        version={"HTTP/2.0": "2", "HTTP/3": "3", "HTTP/1.0": "1.0"}.get(_text(response.get("http_version"))),
        response_headers=stored_headers(answered, answer),
        response_body=answer,
        response_omitted="mitmproxy streamed it and kept nothing" if response and response.get("content") is None else None,
        start_time_unix_nano=start,
        took_ns=max(end - start, 0),
    )


def _url(request: dict[str, Any], headers: Headers) -> str:
    """Return the URL that the client asked for; the host that it named counts more than where the proxy sent it."""
    named = {name.lower(): value for name, value in headers}
    host, port, scheme = _text(request.get("host")), request.get("port"), _text(request.get("scheme")) or "http"
    usual = {"http": 80, "https": 443}.get(scheme)
    authority = _text(request.get("authority")) or named.get("host") or (host if port == usual else f"{host}:{port}")
    return f"{scheme}://{authority}{_text(request.get('path'))}"


def _headers(message: dict[str, Any]) -> Headers:
    pairs = message.get("headers")
    found: list[tuple[str, str]] = []
    for pair in pairs if isinstance(pairs, list) else []:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError("headers: expected pairs of a name and a value")
        found.append((_text(pair[0]), _text(pair[1])))
    return tuple(found)


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise ValueError(f"found {type(value).__name__}, expected fields")


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _time(value: Any) -> int:
    return int(value * 1e9) if isinstance(value, int | float) and 0 <= value < 1e10 else 0
