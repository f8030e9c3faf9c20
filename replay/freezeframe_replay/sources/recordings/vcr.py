"""VCR cassettes, of vcrpy (YAML and JSON) and of VCR for Ruby and R: recorded HTTP calls with their bytes. Read, and written
as vcrpy does.

Source: https://vcrpy.readthedocs.io, ``vcr/serialize.py``; https://benoittgt.github.io/vcr, the cassette format.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from freezeframe_replay.sources.recordings.http_calls import HttpCall, Origin, checked_url, spans_of_calls, stored_headers
from freezeframe_replay.sources.recordings.json_items import MAX_ITEM_CHARS, Other, each, items_of
from freezeframe_schemas.errors import ConfigError, WireError
from freezeframe_schemas.exchange import Exchange, Headers
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.wire.document import JsonObject, as_object, as_text

_VERSION: Final = 1
_LISTS: Final = frozenset({"interactions", "http_interactions"})
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\ud800-\udfff\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that YAML must escape, beyond those of JSON."""
_LACKS: Final = "imported from a VCR cassette: it holds HTTP calls only, each answer in one piece"


def read_cassette(path: Path, origin: Origin) -> Iterator[SpanRecord]:
    """Yield the spans of a cassette: one run.

    Raises:
        ConfigError: it is YAML, and PyYAML is not installed.
        WireError: an interaction does not follow the format; the message says which.
    """
    return spans_of_calls(_calls(path), origin, lacks=_LACKS)


def _calls(path: Path) -> Iterator[HttpCall]:
    seen: list[str] = []

    def check(name: str, value: Any) -> None:
        if name == "version" and value != _VERSION:
            raise WireError(f"{path}: found cassette version {str(value)[:20]!r}, expected {_VERSION}")
        if name in ("version", "recorded_with"):
            seen.append(name)

    items = items_of(path, "interactions", other=check) if _is_json(path) else yaml_items_of(path, _LISTS, other=check)

    def call_of(item: JsonObject) -> HttpCall:
        if "recorded_with" in item:  # older cassettes of R
            seen.append("recorded_with")
        return _call_of(item)

    yield from each(path, "interaction", items, call_of)
    if not seen:
        raise WireError(f"{path}: no version at its end: it is cut, or not a cassette")


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] == b"{"


def _call_of(item: JsonObject) -> HttpCall:
    request, response = as_object(item.get("request")), as_object(item.get("response"))
    url = checked_url(request.get("uri"))
    method = as_text(request.get("method"))
    if not method:
        raise ValueError("request.method: expected text")
    status = as_object(response.get("status"))
    code = status.get("code", status.get("status_code", response.get("status_code")))
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == len("200"):
        code = int(code)  # as R writes it
    if not isinstance(code, int) or isinstance(code, bool):
        raise ValueError("response.status.code: expected a number")
    answered: Any = response.get("body", response.get("content"))
    asked, answer = _bytes(request.get("body"), "request.body"), _bytes(answered, "response.body")
    headers = _headers(response)
    return HttpCall(
        method=method.upper(),
        url=url,
        headers=stored_headers(_headers(request), asked),
        body=asked,
        status=code,
        reason=as_text(status.get("message")) or None,
        version={"1.0": "1.0", "2": "2", "HTTP/2": "2"}.get(str(response.get("http_version"))),
        response_headers=stored_headers(headers, answer),
        response_body=answer,
        start_time_unix_nano=_time(item.get("recorded_at")),
    )


def _bytes(body: Any, where: str) -> bytes:
    """Return a body: text, bytes, or either inside an object, as most writers have it."""
    if isinstance(body, dict):
        fields = as_object(body)
        encoded = fields.get("base64_string")
        if isinstance(encoded, str):
            try:
                return base64.b64decode(encoded)
            except binascii.Error:
                raise ValueError(f"{where}.base64_string: is not base64") from None
        body = fields.get("string")
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, bytes):
        return body
    if body is None:
        return b""
    raise ValueError(f"{where}: found {type(body).__name__}, expected text: only the bytes that were sent can be replayed")


def _headers(message: Any) -> Headers:
    """Return the headers, each of whose values is a text or a list of texts."""
    pairs: list[tuple[str, str]] = []
    for name, value in as_object(as_object(message).get("headers")).items():
        values: list[Any] = value if isinstance(value, list) else [value]
        pairs += [
            (name, item.decode("latin-1") if isinstance(item, bytes) else str(item)) for item in values if item is not None
        ]
    return tuple(pairs)


def _time(text: Any) -> int:
    """Return the time that VCR for Ruby and R write, in nanoseconds, or 0."""
    if not isinstance(text, str):
        return 0
    try:
        moment = datetime.fromisoformat(text.replace(" GMT", "+00:00"))
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return 0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(int(moment.timestamp()), 0) * 1_000_000_000


# -- writing ------------------------------------------------------------------------------------------------------------


def write_cassette(exchanges: Iterable[Exchange]) -> Iterator[str]:
    """Yield the lines of a cassette of vcrpy in YAML. Each exchange is an HTTP call that was answered."""
    yield "interactions:\n"
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        yield "- request:\n"
        yield f"    body: {_scalar(request.body)}\n"
        yield from _lines_of_headers(request.headers, one=True)
        yield f"    method: {_quoted(request.method)}\n    uri: {_quoted(request.url)}\n"
        yield f"  response:\n    body:\n      string: {_scalar(response.body)}\n"
        yield from _lines_of_headers(response.headers, one=False)
        reason = response.reason or ("OK" if response.status == 200 else "")
        yield f"    status:\n      code: {response.status}\n      message: {_quoted(reason)}\n"
    yield "version: 1\n"


def _lines_of_headers(headers: Headers, *, one: bool) -> Iterator[str]:
    """Yield the headers of a message by name; vcrpy keeps one value of a request's, and the values of an answer's."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    yield "    headers:\n" if values else "    headers: {}\n"
    for name, held in values.items():
        written = _quoted(", ".join(held)) if one else f"[{', '.join(map(_quoted, held))}]"
        yield f"      {_quoted(name)}: {written}\n"


def _scalar(body: bytes) -> str:
    try:
        return _quoted(body.decode())
    except UnicodeDecodeError:
        return f'!!binary "{base64.b64encode(body).decode()}"'


def _quoted(text: str) -> str:
    """Return a text in double quotes, which YAML reads as JSON does, except for the characters that it wants escaped."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


# -- Read the items of a long YAML list one by one, as plain data ------------------------------------------------------
# Tags make no objects, and references are refused.
# PyYAML reads events; it comes with vcrpy, and with this function only.


_MAX_DEPTH: Final = 100
_TEXT_TAGS: Final = frozenset({"tag:yaml.org,2002:python/unicode", "tag:yaml.org,2002:python/str", "!binary"})
"""Tags of Python 2 and Ruby for a text and for bytes."""


def yaml_items_of(path: Path, names: frozenset[str], *, other: Other) -> Iterator[Any]:
    """Yield the items of the list under the first of `names` that the document, an object, has.

    Args:
        path: the file.
        names: the fields, one of which holds the list.
        other: called with each other field and its value.

    Raises:
        ConfigError: PyYAML is not installed.
        WireError: the file is cut, is not YAML, or uses features beyond a list of plain data; the message names the place.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"{path}: is YAML, which needs PyYAML to read", do="pip install pyyaml") from None

    with path.open("rb") as file:
        bounded = _Bounded(file)
        try:
            reader = _Reader(path, _loader(yaml, bounded))
            yield from reader.items(names, other, bounded)
        except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
            mark: Any = getattr(error, "problem_mark", None)
            line = "" if mark is None else f", line {mark.line + 1}"
            problem = getattr(error, "problem", None) or error
            raise WireError(f"{path}{line}: {str(problem)[:200]}") from None


def _loader(module: Any, stream: _Bounded) -> Any:
    """Return a source of events: libyaml's if PyYAML was built with it, which is ten times as fast."""
    return getattr(module, "CSafeLoader", module.SafeLoader)(stream)


class _Bounded:
    """A file that is read until one item takes too much of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.read_of_item = 0

    def read(self, size: int = -1, /) -> bytes:
        piece = self._file.read(size)
        self.read_of_item += len(piece)
        if self.read_of_item > 2 * MAX_ITEM_CHARS:
            raise ValueError(f"one item has more than {2 * MAX_ITEM_CHARS:,} bytes")
        return piece


class _Reader:
    """Events as values. Only events are taken from PyYAML's loader, which constructs nothing."""

    def __init__(self, path: Path, loader: Any) -> None:
        import yaml

        self._path = path
        self._yaml: Any = yaml
        self._loader = loader
        self._scalars: Any = yaml.SafeLoader("")

    def items(self, names: frozenset[str], other: Other, bounded: _Bounded) -> Iterator[Any]:
        events = self._yaml.events
        self._expect(events.StreamStartEvent)
        self._expect(events.DocumentStartEvent)
        self._expect(events.MappingStartEvent)
        found = False
        while not isinstance(self._loader.peek_event(), events.MappingEndEvent):
            name = self._name(0)
            if name in names and not found:
                found = True
                self._expect(events.SequenceStartEvent)
                while not isinstance(self._loader.peek_event(), events.SequenceEndEvent):
                    bounded.read_of_item = 0
                    yield self._value(0)
                self._loader.get_event()
            else:
                other(name, self._value(0))
        if not found:
            raise WireError(f"{self._path}: found none of {', '.join(sorted(names))}")

    def _expect(self, kind: type) -> None:
        event = self._loader.get_event()
        if not isinstance(event, kind):
            line = event.start_mark.line + 1 if event is not None else 0
            raise WireError(f"{self._path}, line {line}: found {type(event).__name__[:-5]}, expected {kind.__name__[:-5]}")

    def _name(self, depth: int) -> str:
        """Return the name of a field: a scalar, as text."""
        if not isinstance(self._loader.peek_event(), self._yaml.events.ScalarEvent):
            self._expect(self._yaml.events.ScalarEvent)
        return str(self._value(depth))

    def _value(self, depth: int) -> Any:
        events = self._yaml.events
        event = self._loader.get_event()
        line = event.start_mark.line + 1
        if depth > _MAX_DEPTH:
            raise WireError(f"{self._path}, line {line}: nested deeper than {_MAX_DEPTH} levels")
        if isinstance(event, events.ScalarEvent):
            return self._scalar(event, line)
        if isinstance(event, events.SequenceStartEvent) and not event.tag:
            items: list[Any] = []
            while not isinstance(self._loader.peek_event(), events.SequenceEndEvent):
                items.append(self._value(depth + 1))
            self._loader.get_event()
            return items
        if isinstance(event, events.MappingStartEvent) and not event.tag:
            fields: dict[str, Any] = {}
            while not isinstance(self._loader.peek_event(), events.MappingEndEvent):
                name = self._name(depth + 1)
                fields[name] = self._value(depth + 1)
            self._loader.get_event()
            return fields
        what = getattr(event, "tag", None) or getattr(event, "anchor", None) or type(event).__name__
        raise WireError(f"{self._path}, line {line}: found {str(what)[:80]!r}, which is not plain data: it is not read")

    def _scalar(self, event: Any, line: int) -> Any:
        node, resolver = self._yaml.ScalarNode, self._scalars
        tag = event.tag
        if tag is None or tag == "!":
            tag = resolver.resolve(node, event.value, event.implicit)
        elif tag in _TEXT_TAGS:
            tag = f"tag:yaml.org,2002:{'binary' if tag == '!binary' else 'str'}"
        elif not tag.startswith("tag:yaml.org,2002:") or "/" in tag:
            raise WireError(f"{self._path}, line {line}: found tag {tag[:80]!r}, which is not plain data: it is not read")
        if tag == "tag:yaml.org,2002:timestamp":
            return event.value
        value = resolver.construct_object(node(tag, event.value, event.start_mark, event.end_mark))
        resolver.constructed_objects.clear()  # it keeps what it made, for references
        return value
