"""Results of the senders, as they were last tried: kept in a file, from which a part of a page is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from senders.table import SENDERS

ROOT: Final = Path(__file__).parents[3]
RESULTS: Final = ROOT / "tests" / "data" / "senders.json"


def load_results() -> dict[str, dict[str, Any]]:
    """Return the rows by sender."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def write_result(name: str, found: dict[str, Any]) -> None:
    """Put one row into the file, with the version of what sends."""
    rows = load_results()
    rows[name] = {"version": _version(name), "found": found}
    ordered = {name: rows[name] for name in SENDERS if name in rows}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _version(name: str) -> str:
    sender = SENDERS[name]
    installed = ROOT / ".venv-senders" / sender.environment / "lib"
    wanted = sender.distribution.replace("-", "_")
    [found] = installed.glob(f"python*/site-packages/{wanted}-*.dist-info")
    return f"{sender.distribution} {found.name.removesuffix('.dist-info').removeprefix(wanted)[1:]}"
