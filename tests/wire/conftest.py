"""Recorded exchanges, read once per session."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One row of ``exchanges.jsonl.gz`` with its bodies as bytes."""

    id: str
    provider: str
    api: str
    stream: bool
    method: str
    url: str
    request: bytes
    status: int
    content_type: str
    headers: tuple[tuple[str, str], ...]
    response: bytes


def _body(side: dict[str, Any]) -> bytes:
    return b64decode(side["b64"]) if "b64" in side else str(side.get("text") or "").encode()


def _recorded(line: bytes) -> Recorded:
    row = json.loads(line)
    request, response = row["request"], row["response"]
    headers = {str(name).lower(): str(value) for name, value in response["headers"].items()}
    return Recorded(
        id=row["id"],
        provider=row["provider"],
        api=row["api"],
        stream=row["stream"],
        method=request["method"],
        url=request["url"],
        request=_body(request),
        status=response["status"],
        content_type=headers.get("content-type", ""),
        headers=tuple(headers.items()),
        response=_body(response),
    )


@pytest.fixture(scope="session")
def exchanges() -> Sequence[Recorded]:
    """Every recorded exchange, in the order of the file."""
    with gzip.open(DATA / "exchanges" / "exchanges.jsonl.gz") as lines:
        return tuple(_recorded(line) for line in lines)
