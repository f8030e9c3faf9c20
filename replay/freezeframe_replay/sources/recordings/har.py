"""HTTP Archives (HAR 1.1 to 1.3): traffic saved by browsers, proxies and HTTP tools. Read, and written as 1.2.

Pure, except for reading the file.

Source: http://www.softwareishard.com/blog/har-12-spec/
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from freezeframe_replay.sources.recordings.http_calls import (
    HttpCall,
    Origin,
    checked_url,
    iso_time,
    spans_of_calls,
    stored_headers,
)
from freezeframe_replay.sources.recordings.json_items import each, items_of
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Exchange, Headers
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, JsonValue, as_object, as_objects, as_text, dump
from freezeframe_schemas.wire.encoding import decode_body

_VERSIONS: Final = ("1.1", "1.2", "1.3")
_LACKS: Final = "imported from a HAR file: it holds HTTP calls only, each answer in one piece, without its content-encoding"
_OTHER_SCHEME: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HTTP: Final = {"http/2.0": "2", "http/2": "2", "h2": "2", "http/3": "3", "h3": "3", "http/1.0": "1.0"}


def read_har(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Yield the spans of an archive: one run.

    Raises:
        WireError: an entry does not follow the format; the message says which.
    """
    return spans_of_calls(_calls(path), origin, lacks=_LACKS)


def _calls(path: Path) -> Iterator[HttpCall]:
    seen: list[str] = []

    def check(name: str, value: Any) -> None:
        if name == "version":
            seen.append(str(value))
            if value not in _VERSIONS:
                raise WireError(f"{path}: found HAR version {str(value)[:20]!r}, expected one of {', '.join(_VERSIONS)}")

    calls = each(path, "entry", items_of(path, "log", "entries", other=check), _call_of)
    yield from (call for call in calls if call is not None)
    if not seen:
        raise WireError(f"{path}: no HAR version, expected one of {', '.join(_VERSIONS)}")


def _is_http(entry: JsonObject) -> bool:
    """Return whether an entry may be an HTTP call: browsers also list WebSockets, and reads of ``data:`` URLs."""
    url = as_text(as_object(entry.get("request")).get("url")) or ""
    return entry.get("_webSocketMessages") is None and not _OTHER_SCHEME.match(url)


def _call_of(entry: JsonObject) -> HttpCall | None:
    if not _is_http(entry):
        return None
    request, response = as_object(entry.get("request")), as_object(entry.get("response"))
    method, url = as_text(request.get("method")), checked_url(request.get("url"))
    if not method:
        raise ValueError("request.method: expected text")
    status = response.get("status")
    if not isinstance(status, int) or isinstance(status, bool):
        raise ValueError("response.status: expected a number")
    posted, content = as_object(request.get("postData")), as_object(response.get("content"))
    body, answer = _bytes(posted, "request.postData"), _bytes(content, "response.content")
    headers = _headers(response)
    return HttpCall(
        method=method.upper(),
        url=url,
        headers=stored_headers(_headers(request), body, decoded=True),
        body=body,
        body_omitted=_left_out(body, posted, request.get("bodySize")),
        status=status or None,  # 0: no response came
        reason=as_text(response.get("statusText")) or None,
        version=_HTTP.get(str(response.get("httpVersion")).lower()),
        response_headers=stored_headers(headers, answer, decoded=True),
        response_body=answer,
        response_omitted=_left_out(answer, content, content.get("size")),
        start_time_unix_nano=iso_time(entry.get("startedDateTime"), "startedDateTime"),
        took_ns=_duration_ns(entry.get("time")),
    )


def _bytes(part: JsonObject, where: str) -> bytes:
    text = part.get("text")
    if text is None:
        return b""
    if not isinstance(text, str):
        raise ValueError(f"{where}.text: expected text")
    if part.get("encoding") == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            raise ValueError(f"{where}.text: is marked as base64 but does not decode") from None
    return text.encode("utf-8", "surrogatepass")


def _left_out(body: bytes, part: JsonObject, size: Any) -> str | None:
    """Return the reason for an omitted body."""
    has_content = isinstance(size, int) and size > 0
    if body or "text" in part or not (has_content or part.get("params")):
        return None
    return "the HAR file holds no text of it: save it with content"


def _headers(message: JsonObject) -> Headers:
    """Return the headers, without HTTP/2's own such as ``:path``."""
    pairs = ((as_text(item.get("name")), as_text(item.get("value"))) for item in as_objects(message.get("headers")))
    return tuple((name, value or "") for name, value in pairs if name and not name.startswith(":"))


def _duration_ns(ms: Any) -> int:
    return int(ms * 1e6) if isinstance(ms, int | float) and 0 <= ms < 1e9 else 0


# -- writing ------------------------------------------------------------------------------------------------------------


def write_har(exchanges: Iterable[Exchange], *, creator: str, version: str) -> Iterator[str]:
    """Yield the pieces of an archive. Each exchange is an HTTP call; one without an answer has the status 0."""
    head = dump({"version": "1.2", "creator": {"name": creator, "version": version}})
    yield f'{{"log": {head[:-1]}, "entries": ['
    for number, exchange in enumerate(exchanges):
        yield f"{',' if number else ''}\n{dump(_entry(exchange))}"
    yield "\n]}}\n"


def _entry(exchange: Exchange) -> JsonObject:
    request, response = exchange.request, exchange.response
    took_ms = max(exchange.end_time_unix_nano - exchange.start_time_unix_nano, 0) / 1e6
    first_ms = min(response.chunks[0].offset_ns / 1e6, took_ms) if response.chunks else took_ms
    begun = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=exchange.start_time_unix_nano // 1000)
    version = f"HTTP/{response.version or '1.1'}"
    request_fields: JsonObject = {
        "method": request.method,
        "url": request.url,
        "httpVersion": version,
        "cookies": [],
        "headers": _pairs(request.headers),
        "queryString": _pairs(parse_qsl(urlsplit(request.url).query, keep_blank_values=True)),
        "headersSize": -1,
        "bodySize": len(request.body),
    }
    if request.body:
        body = decode_body(request.body, request.headers)
        request_fields["postData"] = {"mimeType": _type_of(request.headers), "params": [], **_text_of(body)}
    content = decode_body(response.body, response.headers)
    return {
        "startedDateTime": begun.isoformat(),
        "time": took_ms,
        "request": request_fields,
        "response": {
            "status": response.status or 0,
            "statusText": response.reason or ("OK" if response.status == 200 else ""),
            "httpVersion": version,
            "cookies": [],
            "headers": _pairs(response.headers),
            "content": {"size": len(content), "mimeType": _type_of(response.headers), **_text_of(content)},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": len(response.body),
        },
        "cache": {},
        "timings": {"send": 0, "wait": first_ms, "receive": took_ms - first_ms},
    }


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[JsonValue]:
    return [{"name": name, "value": value} for name, value in pairs]


def _type_of(headers: Headers) -> str:
    return next((value for name, value in headers if name.lower() == "content-type"), "")


def _text_of(body: bytes) -> JsonObject:
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"text": base64.b64encode(body).decode(), "encoding": "base64"}
