"""Report captured and uncaptured libraries of this process, with versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from typing import Final


class State(StrEnum):
    """State of a library: captured or not."""

    CAPTURED = "captured"
    WAITING = "captured once imported"
    OFF = "not captured: instrument() was not called"
    FAILED = "not captured: could not be patched"
    UNKNOWN = "not captured"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryReport:
    library: str
    version: str
    state: State
    what: str
    """The captured part; without one, the remedy."""


_GENAI: Final = "use google-genai, which is captured"
_NOT_CAPTURED: Final = (
    ("google-cloud-aiplatform", f'its clients use gRPC; aiplatform.init(api_transport="rest"), or {_GENAI}'),
    ("google-generativeai", f'its model calls go over gRPC; genai.configure(transport="rest"), or {_GENAI}'),
    ("google-ai-generativelanguage", f'its calls go over gRPC; create its clients with transport="rest", or {_GENAI}'),
    (
        "xai-sdk",
        "its model calls go over gRPC; x.ai also supports the OpenAI API: the openai SDK with x.ai's base URL is captured",
    ),
    ("pycurl", "its HTTP is not recorded; mark the caller with @freezeframe.tool"),
)
_TRANSPORTS: Final = (
    (
        "grpcio",
        "gRPC calls on asyncio that have interceptors are not recorded, nor are any known as a model's; "
        "use the provider's REST transport, or mark the caller with @freezeframe.tool",
        frozenset({"freezeframe", "opentelemetry-exporter-otlp-proto-grpc"}),
    ),
    (
        "websockets",
        "realtime sessions over WebSocket are not recorded",
        frozenset({"langsmith", "langgraph-sdk"}),
    ),
)
"""Distribution, advice, and the distributions that may require it without a missed call of an agent."""

_REQUIREMENT: Final = re.compile(r"^Requires-Dist: ([A-Za-z0-9._-]+)[^;\n]*(.*)$", re.MULTILINE)


def doctor() -> tuple[LibraryReport, ...]:
    """Return a row for each library that is installed here and that freezeframe knows about."""
    from freezeframe import seams
    from freezeframe._instrument import active_handle

    rows: dict[str, LibraryReport] = {}
    on = active_handle() is not None or seams.serving() is not None
    for seam in seams.SEAMS:
        version = _version_of(seam.distribution)
        if version is None:
            continue
        if not on:
            state = State.OFF
        elif seams.is_installed(seam):
            state = State.CAPTURED
        else:
            state = State.FAILED if seam.module in sys.modules else State.WAITING
        known = rows.get(seam.distribution)
        what = seam.captures if known is None else f"{known.what}, {seam.captures}"
        rows[seam.distribution] = LibraryReport(library=seam.distribution, version=version, state=state, what=what)
    for distribution, advice in _NOT_CAPTURED:
        version = _version_of(distribution)
        if version is not None:
            rows[distribution] = LibraryReport(library=distribution, version=version, state=State.UNKNOWN, what=advice)
    return (*rows.values(), *_transports())


def _transports() -> Iterator[LibraryReport]:
    """Yield uncaptured transports that some distribution requires for calls of an agent, or that were installed directly."""
    required = _who_requires({distribution for distribution, _, _ in _TRANSPORTS})
    for distribution, advice, harmless in _TRANSPORTS:
        version, users = _version_of(distribution), required[distribution]
        if version is not None and (not users or users - harmless):
            used = f" (required by {', '.join(sorted(users - harmless))})" if users else ""
            yield LibraryReport(library=distribution, version=version, state=State.UNKNOWN, what=f"{advice}{used}")


def _who_requires(distributions: set[str]) -> dict[str, set[str]]:
    """Return the distributions here that require each of these. Extras count only for our own distribution."""
    users: dict[str, set[str]] = {distribution: set() for distribution in distributions}
    for candidate in metadata.distributions():
        # Read as text: parsing every METADATA takes a tenth of a second.
        text = candidate.read_text("METADATA") or ""
        for required, condition in _REQUIREMENT.findall(text):
            if required in users and (candidate.name == "freezeframe" or "extra" not in condition):
                users[required].add(candidate.name.lower())
    return users


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
