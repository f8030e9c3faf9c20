"""Content that a span points to instead of holding it: read only from named places, within bounds.

A span comes from anywhere, and so does the address in it: by default nothing is read. A place is a prefix of addresses; an
address leads nowhere else, redirects are not followed, and no credentials are sent. What cannot be read is noted on the span.

Source: opentelemetry-util-genai, ``UploadCompletionHook``: ``gen_ai.input.messages_ref`` and the like name a file of JSON, or
of JSON lines, at the uploader's base path (``/data/prompts``, ``s3://bucket/prompts``, ...).
"""

from __future__ import annotations

import http.client
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.span import AttributeValue, SpanRecord
from freezeframe_schemas.wire.document import JsonValue, as_object, as_text, dump, parse

_CONTENT: Final = (genai.INPUT_MESSAGES, genai.OUTPUT_MESSAGES, genai.SYSTEM_INSTRUCTIONS, genai.TOOL_DEFINITIONS)
REFERENCES: Final = {f"{name}{ending}": name for name in _CONTENT for ending in ("_ref", ".ref")}
"""Attribute with an address -> attribute that holds what is there."""
MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_S: Final = 10.0
_PIECE: Final = 65_536
_GIVE_UP: Final = 3
"""Failed connections to a place, after which it is left alone for `_REST_S`."""
_REST_S: Final = 60.0


class UnreadError(Exception):
    """Content could not be read; the message says why, without the address."""


class _DownError(UnreadError):
    """The place does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPlace:
    """A prefix of addresses, and where the objects below it are."""

    prefix: str
    folder: Path | None = None
    url: SplitResult | None = None

    @classmethod
    def parse(cls, text: str) -> ContentPlace:
        """Return the place of ``PREFIX``, or of ``PREFIX=BASE`` if the objects are elsewhere (a copy of a bucket).

        Raises:
            ConfigError: it is neither a folder nor an address of http.
        """
        prefix, _, base = text.partition("=")
        prefix, base = f"{prefix.rstrip('/')}/", base or prefix
        parts = urlsplit(base)
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query or parts.fragment):
            return cls(prefix=prefix, url=parts)
        if parts.scheme in ("", "file") and parts.path and not parts.netloc:
            return cls(prefix=prefix, folder=Path(unquote(parts.path) if parts.scheme else base))
        raise ConfigError(
            f"content from {text!r}: found {parts.scheme or 'no'} address, expected a folder or http(s)://HOST/PATH",
            do=f"copy the objects to a folder, and name both: {prefix}=FOLDER",
        )

    def read(self, rest: str) -> bytes:
        """Return the object at the rest of an address.

        Raises:
            UnreadError: it cannot be read.
        """
        path = rest.partition("?")[0]
        if "\\" in rest or any(part in ("", ".", "..") for once in (path, unquote(path)) for part in once.split("/")):
            raise UnreadError("its address leaves the place")
        return self._of_folder(self.folder, rest) if self.folder is not None else self._of_server(rest)

    def _of_folder(self, folder: Path, rest: str) -> bytes:
        try:
            file = (folder / (unquote(rest) if self.prefix.startswith("file:") else rest)).resolve(strict=True)
            if not file.is_relative_to(folder.resolve()) or not file.is_file():
                raise UnreadError("it is not a file of the place")
            with file.open("rb") as content:
                return _bounded(content.read(MAX_BYTES + 1))
        except (OSError, ValueError) as error:
            raise UnreadError(type(error).__name__) from None

    def _of_server(self, rest: str) -> bytes:
        assert self.url is not None
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        until = time.monotonic() + _MAX_S
        connection = kind(self.url.hostname or "", self.url.port, timeout=_MAX_S)
        try:
            connection.request("GET", f"{self.url.path.rstrip('/')}/{rest}", headers={"Accept-Encoding": "identity"})
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise UnreadError(f"the server answers {answer.status}")
            content = b""
            while piece := answer.read1(_PIECE):
                content = _bounded(content + piece)
                if time.monotonic() > until:
                    raise _DownError(f"it takes over {_MAX_S:.0f} s")
            return content
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _DownError(type(error).__name__) from None
        finally:
            connection.close()


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_BYTES:
        raise UnreadError(f"it has over {MAX_BYTES:,} bytes")
    return content


@dataclass(slots=True)
class ContentReader:
    """Reads what spans point to, from some places."""

    places: tuple[ContentPlace, ...]
    read: int = 0
    unread: Counter[str] = field(default_factory=Counter[str])
    """Why content was not read -> how often."""
    left_bytes: float = math.inf
    """Bytes that may still be read."""
    until_s: float = math.inf
    """Time of the monotonic clock until which may be read."""
    _failures: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Place -> failed connections, and when the last one failed."""
    _last: dict[str, str] = field(default_factory=dict[str, str])

    def within(self, most_bytes: int, most_s: float) -> ContentReader:
        """Return a reader of the same places that reads only so much for so long."""
        return ContentReader(self.places, left_bytes=most_bytes, until_s=time.monotonic() + most_s, _failures=self._failures)

    def with_content(self, span: SpanRecord) -> SpanRecord:
        """Return the span with the content that it points to; why some was not read is an attribute, too."""
        found: dict[str, AttributeValue] = {}
        reasons: dict[str, JsonValue] = {}
        for attribute, name, reference in references_of(span):
            try:
                found[name] = self._content_of(reference)
                self.read += 1
            except UnreadError as error:
                reasons[attribute] = str(error)
                self.unread[str(error)] += 1
        if reasons:
            found[genai.CONTENT_UNREAD] = dump(reasons)
        return span.with_attributes(found) if found else span

    def _content_of(self, reference: str) -> str:
        if reference in self._last:
            return self._last[reference]
        place = next((place for place in self.places if reference.startswith(place.prefix)), None)
        if place is None:
            raise UnreadError("its address is not below a place that may be read")
        failed, at_s = self._failures.get(place.prefix, (0, -math.inf))
        if failed >= _GIVE_UP and time.monotonic() < at_s + _REST_S:
            raise UnreadError("its place does not answer")
        if self.left_bytes <= 0 or time.monotonic() > self.until_s:
            raise UnreadError("others were read before it for as long as may be")
        try:
            content = place.read(reference.removeprefix(place.prefix))
        except _DownError:
            self._failures[place.prefix] = (failed + 1, time.monotonic())
            raise
        self._failures.pop(place.prefix, None)
        self.left_bytes -= len(content)
        items = parse(content)
        if not isinstance(items, list):
            items = [parse(line) for line in content.splitlines() if line.strip()]
        if not items or not all(isinstance(item, dict) for item in items):
            raise UnreadError("it is not a list of JSON objects")
        self._last = {**({} if len(self._last) > _GIVE_UP else self._last), reference: dump(items)}
        return self._last[reference]


def references_of(span: SpanRecord) -> Iterator[tuple[str, str, str]]:
    """Yield attribute, the attribute it stands for, and the address, of the content that the span does not hold itself."""
    for attribute, name in REFERENCES.items():
        if (reference := span.text(attribute)) and name not in span.attributes:
            yield attribute, name, reference


def unread_of(span: SpanRecord) -> Iterator[tuple[str, str]]:
    """Yield the places, without the rest of the addresses, of content that the span does not hold, and why it was not read."""
    reasons = as_object(parse(span.text(genai.CONTENT_UNREAD) or ""))
    for attribute, _, reference in references_of(span):
        parts = urlsplit(reference)
        place = f"{parts.scheme}://{parts.hostname}" if parts.scheme and parts.hostname else "a file"
        yield place, as_text(reasons.get(attribute)) or "import it with --content-from"


def make_reader(places: Iterable[str]) -> ContentReader:
    """Return the reader for places as a user names them.

    Raises:
        ConfigError: one cannot be read from.
    """
    return ContentReader(tuple(map(ContentPlace.parse, places)))
