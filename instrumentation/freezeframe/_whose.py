"""Whose collector answers at an address: the data directory that it says it keeps. For commands only, since it asks and waits.

Two projects on one machine have one default port. The second one's agents would send to the first one's collector, and its own
commands would find nothing; so commands say whose it is.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_LONGEST_ANSWER: Final = 1 << 20


def data_directory_at(url: str, *, timeout_s: float = 1.0) -> Path | None:
    """Return the data directory of the collector on this machine that answers at `url`; None where none says so."""
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname not in _LOCAL:
            return None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes through a proxy
        with opener.open(f"http://{parts.netloc}/status", timeout=timeout_s) as answer:
            status: Any = json.loads(answer.read(_LONGEST_ANSWER))
    except (OSError, ValueError):
        return None
    data: Any = status.get("data") if isinstance(status, dict) else None
    return Path(data) if isinstance(data, str) and data else None


def foreign_directory_at(url: str, own: Path) -> Path | None:
    """Return the data directory of the collector at `url` where it is another than `own`."""
    found = data_directory_at(url)
    return None if found is None or found.resolve() == own.resolve() else found
