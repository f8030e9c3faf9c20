"""The ledger: up to which segment the store has everything, and its counts; and the spans seen recently.

Both are kept next to the segments. The ledger is replaced whole and durably, before its segment is deleted, so that the books
survive a crash at any moment.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from freezeframe_collector.files import replace_durably
from freezeframe_collector.wal.format import Counts
from freezeframe_schemas.errors import StoreError

VERSION: Final = 1
_NAME: Final = "ledger.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Record of data that has left the log."""

    log: str
    """Random id of this log. With a segment's number it makes the insert token, so that no other log has the same token."""
    through: int = 0
    """Number of the last segment in the store."""
    taken: int = 0
    """Last segment of an insert that may have begun, if greater than `through`."""
    counts: Counts = field(default_factory=Counts)


def load_ledger(directory: Path) -> Ledger:
    """Return the directory's ledger; create and write one if it is missing.

    Raises:
        StoreError: the ledger cannot be read, or is of a version that this code does not know.
    """
    path = directory / _NAME
    if not path.exists():
        ledger = Ledger(log=secrets.token_hex(8))
        save_ledger(directory, ledger)
        return ledger
    try:
        content = cast("dict[str, Any]", json.loads(path.read_bytes()))
        if content["version"] != VERSION:
            raise StoreError(f"{path}: ledger version {content['version']}, this collector knows version {VERSION}")
        return Ledger(
            log=content["log"], through=content["through"], taken=content.get("taken", 0), counts=Counts(**content["counts"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: the ledger cannot be read ({type(error).__name__})",
            do="restore the file; without it the segments next to it may be stored twice",
        ) from None


def save_ledger(directory: Path, ledger: Ledger) -> None:
    """Replace the directory's ledger, durable on return."""
    content = {
        "version": VERSION,
        "log": ledger.log,
        "through": ledger.through,
        "taken": ledger.taken,
        "counts": dataclasses.asdict(ledger.counts),
    }
    replace_durably(directory / _NAME, json.dumps(content).encode())


class RememberedSpans:
    """The keys of the spans logged recently, across restarts: they reveal resent spans.

    Two generations, each half of the limit: when the current one is full it becomes the previous one, which is forgotten. A
    bound on memory, not a promise for ever: older resends meet the store's own replacing of equal rows.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._current: set[int] = set()
        self._previous: set[int] = set()
        self._current_file = directory / "current.keys"
        self._previous_file = directory / "previous.keys"
        for path in (self._previous_file, self._current_file):
            self.add(_read_keys(path))
        self._saved_count = len(_read_keys(self._current_file))

    def __contains__(self, key: int) -> bool:
        return key in self._current or key in self._previous

    def add(self, keys: Collection[int]) -> None:
        self._current.update(keys)
        if len(self._current) > self._half:
            self._previous, self._current = self._current, set()

    def save(self, keys: Collection[int]) -> None:
        """Keep the keys of a segment that leaves the log. Not synced: a loss costs only the memory of old spans."""
        with self._current_file.open("ab") as file:
            # What a crash or a full disk left of a write is cut off: half a key would shift all keys after it.
            file.truncate(8 * self._saved_count)
            file.write(array("Q", keys).tobytes())
        self._saved_count += len(keys)
        if self._saved_count > self._half:
            self._current_file.replace(self._previous_file)
            self._saved_count = 0


def _read_keys(path: Path) -> array[int]:
    keys = array("Q")
    if path.exists():
        data = path.read_bytes()
        keys.frombytes(data[: len(data) // 8 * 8])
    return keys
