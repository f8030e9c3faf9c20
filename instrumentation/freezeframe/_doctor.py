"""What is captured in this process and what is not, by library and version."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from typing import Final


class State(StrEnum):
    """How a library stands."""

    CAPTURED = "captured"
    WAITING = "captured once imported"
    OFF = "not captured: instrument() was not called"
    FAILED = "not captured: could not be patched"
    UNKNOWN = "not captured"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryReport:
    """One library of this environment."""

    library: str
    version: str
    state: State
    what: str
    """What is captured of it; or, where nothing is, what to do."""


_GENAI: Final = "use google-genai, which is captured"
_NOT_CAPTURED: Final = (
    ("grpcio", "gRPC calls are not recorded; use the provider's REST transport, or mark the caller with @freezeframe.tool"),
    ("google-cloud-aiplatform", f'its clients speak gRPC; aiplatform.init(api_transport="rest"), or {_GENAI}'),
    ("google-generativeai", f'its model calls go over gRPC; genai.configure(transport="rest"), or {_GENAI}'),
    ("google-ai-generativelanguage", f'its calls go over gRPC; make its clients with transport="rest", or {_GENAI}'),
    ("xai-sdk", "its model calls go over gRPC; x.ai speaks OpenAI's wire too: the openai SDK with its base URL is captured"),
    ("websockets", "realtime sessions over WebSocket are not recorded"),
    ("pycurl", "its HTTP is not recorded; mark the caller with @freezeframe.tool"),
    ("urllib3", "used directly its HTTP is not recorded (through requests and botocore it is)"),
)


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
    return tuple(rows.values())


def _version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
