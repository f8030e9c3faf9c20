"""The recorded exchanges of ``tests/data``, each with its bodies as bytes."""

from __future__ import annotations

import gzip
import json
import random
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).parents[1] / "data" / "exchanges" / "exchanges.jsonl.gz"
Pieces = Callable[[str], list[str]]
"""Cuts a text into the pieces that come one by one."""


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


def load_exchanges() -> Sequence[Recorded]:
    """Return every recorded exchange, in the order of the file."""
    with gzip.open(FILE) as lines:
        return tuple(_recorded(line) for line in lines)


def cutter(source: random.Random) -> Pieces:
    """Return a function that cuts a text at random places."""

    def pieces(text: str) -> list[str]:
        out: list[str] = []
        while text:
            size = source.randint(1, 9)
            out.append(text[:size])
            text = text[size:]
        return out

    return pieces
