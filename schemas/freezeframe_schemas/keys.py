"""The request key, which decides whether two requests are the same: named components over canonical JSON.

A key is made of an allow-list of components (method, path, some headers, each field of the body). Each has a
name, so that a miss can list which agreed and which did not, and a relaxation can name those that it ignores.
Golden vectors:
``tests/golden/keys/vectors.json``; a changed vector is a changed format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe_schemas import body_text, values
from freezeframe_schemas.exchange import Kind, Request

KEY_VERSION: Final = 1
"""Version of how components make a key.

The reading of a body may change under the same version: keys are computed again for each comparison, and the
keys in a fixture are never compared with others.
"""

SEMANTIC_HEADERS: Final = frozenset({"anthropic-version", "anthropic-beta", "openai-beta", "x-amz-target"})
"""Headers that change a provider's answer. All others (retry counts, package versions, trace context) are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    """Named components, each with its canonical text, and one digest over all of them."""

    components: tuple[tuple[str, str], ...]
    digest: str
    """First 32 hex digits of the SHA-256 over the components."""

    def differing(self, other: RequestKey) -> tuple[str, ...]:
        """Return the names of the components that are not equal in both, in the order of this key."""
        mine, theirs = dict(self.components), dict(other.components)
        names = [*mine, *(name for name in theirs if name not in mine)]
        return tuple(name for name in names if mine.get(name) != theirs.get(name))

    def agreeing(self, other: RequestKey) -> tuple[str, ...]:
        """Return the names of the components that are equal in both."""
        theirs = dict(other.components)
        return tuple(name for name, text in self.components if theirs.get(name) == text)


def canonical_json(value: object) -> str:
    """Return the one text of a JSON value: sorted keys, no white space, shortest floats, integers of any size exact."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(text: str) -> str:
    """Return the first 32 hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def request_key(
    kind: Kind,
    name: str,
    request: Request,
    *,
    transient: Iterable[str] = (),
    ignore: Iterable[str] = (),
    alias: Callable[[str], str] = str,
) -> RequestKey:
    """Return the key of a request.

    Args:
        kind: the kind of call; model calls leave the host out, so that a recording serves any base URL.
        name: tool, retriever or MCP method; not used for HTTP.
        request: the request as recorded or as it is being made.
        transient: top-level body fields that never change the answer (from the wire dialect).
        ignore: component names that the caller ignores, for example ``body.temperature``.
        alias: applied to every text first, so that a surrogate and the value that it replaces give the same key.
    """
    ignored = set(ignore)
    if request.method:
        components = _http_components(kind, request, frozenset(transient), alias)
    else:
        components = [("name", name), *_function_components(request, alias)]
    kept = tuple((label, text) for label, text in [("kind", kind.value), *components] if label not in ignored)
    return RequestKey(components=kept, digest=digest(canonical_json([KEY_VERSION, *kept])))


def comparable_body(request: Request, *, transient: Iterable[str] = (), alias: Callable[[str], str] = str) -> Any:
    """Return the compared part of the body, as a JSON value (or text, or a hash for bytes). Diffs are made of this."""
    if request.omitted:
        return {"omitted": request.omitted}
    content_type = next((text for name, text in request.headers if name.lower() == "content-type"), "")
    text, codec = body_text.read_text(body_text.expanded(request.body), content_type)
    if not text:
        return None
    if mark := body_text.boundary(content_type):
        text = text.replace(mark, "boundary")  # chosen again for each request
    aliased = alias(text)
    if aliased == text and codec != "utf-8":  # bytes, in which nothing was redacted
        return {"sha256": hashlib.sha256(body_text.write_text(text, codec)).hexdigest()}
    text = aliased
    try:
        body: Any = json.loads(text)
    except ValueError:
        return text
    if isinstance(body, dict) and request.method:
        drop = set(transient)
        return {key: item for key, item in body.items() if key not in drop}
    return body if request.method else with_defaults(body)


def with_defaults(call: Any) -> Any:
    """Return a function's call with the defaults that it left to the function among its arguments: `f(1)` as `f(1, y=2)`."""
    match call:
        case {"args": args, "kwargs": dict(given), "defaults": dict(unsaid), **more} if set(more) <= {"settings"}:
            return {"args": args, "kwargs": {**unsaid, **given}, **more}
        case _:
            return call


def _http_components(
    kind: Kind, request: Request, transient: frozenset[str], alias: Callable[[str], str]
) -> list[tuple[str, str]]:
    parts = urlsplit(request.url)
    components = [("method", request.method.upper())]
    if kind is not Kind.MODEL:
        components.append(("host", parts.hostname or ""))
    components.append(("path", alias(parts.path or "/")))
    if parts.query:
        components.append(("query", alias(parts.query)))
    for header, text in sorted((name.lower(), text) for name, text in request.headers):
        if header in SEMANTIC_HEADERS:
            components.append((f"header.{header}", text))
    return components + _body_components("body", comparable_body(request, transient=transient, alias=alias))


def _function_components(request: Request, alias: Callable[[str], str]) -> list[tuple[str, str]]:
    body = comparable_body(request, alias=alias)
    if isinstance(body, dict) and set(body) <= {"args", "kwargs", "settings"}:
        return [
            *_body_components("args", without_identity(body.get("args") or [])),
            *_body_components("kwargs", without_identity(body.get("kwargs") or {})),
            *_body_components("settings", without_identity(body.get("settings") or {})),
        ]
    return _body_components("body", without_identity(body))


def _body_components(prefix: str, body: Any) -> list[tuple[str, str]]:
    if isinstance(body, dict):
        return [(f"{prefix}.{field}", canonical_json(body[field])) for field in sorted(body)]
    if body is None or body == []:
        return []
    return [(prefix, canonical_json(body))]


def without_identity(value: Any) -> Any:
    """Return the value with opaque objects reduced to their class: their text may hold a memory address."""
    if isinstance(value, list):
        return [without_identity(item) for item in value]
    if isinstance(value, dict):
        if value.get(values.TAG) == "opaque":
            return {values.TAG: "opaque", "class": value.get("class")}
        return {key: without_identity(item) for key, item in value.items()}
    return value
