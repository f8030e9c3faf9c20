"""Read the parts of the embedded store again and again, to report an unreadable one before a reader needs it.

The operator of a server checks its parts.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass
from typing import Final

from freezeframe_collector.store.engine import quote_identifier, quote_text
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import RetryableStoreError, StoreError

_LOG = logging.getLogger(__name__)
_LOOK_S: Final = 30.0
_AGAIN_S: Final = 3600.0
"""Time after which a part is read again."""
_REST: Final = 30.0
"""After reading a part, wait for this many times as long as that took: at most a thirtieth of a core and of the disk."""
_FAULT: Final = re.compile(r"(?:Code: \d+\. DB::Exception: )?(.*?)(?: \([0-9a-f]{32}|\. \([A-Z_]+\)|$)", re.DOTALL)
_FAULT_CHARACTERS: Final = 160


@dataclass(frozen=True, slots=True)
class _Part:
    table: str
    name: str


class PartWatch:
    """A thread that reads the parts of a store until it is stopped."""

    def __init__(self, store: Store, *, rest: float = _REST) -> None:
        self._store = store
        self._rest = rest
        self._read_at: dict[_Part, float] = {}
        self._broken: dict[_Part, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freezeframe-parts", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Wait for the part that is being read; return whether the thread has ended."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def faults(self) -> list[str]:
        """Return the unreadable parts: table, part and reason."""
        return [f"part {part.name} of {part.table} cannot be read: {why}" for part, why in sorted_faults(self._broken)]

    @property
    def checked(self) -> int:
        """Return how many of the present parts were read."""
        return len(self._read_at)

    def look(self) -> None:
        """Read each part that is due; a failure is logged, and the next round tries again."""
        try:
            self._look()
        except StoreError as error:
            _LOG.warning("the store's parts cannot be checked now: %s", error.message)

    def _run(self) -> None:
        while True:
            self.look()
            if self._stopping.wait(_LOOK_S):
                return

    def _look(self) -> None:
        database = quote_text(self._store.database)
        _, rows = self._store.query(f"SELECT table, name FROM system.parts WHERE database = {database} AND active")
        parts = [_Part(table, name) for table, name in rows]
        _, rows = self._store.query(
            "SELECT table, name FROM system.detached_parts"
            f" WHERE database = {database} AND reason IN ('broken', 'broken-on-start')"
        )
        set_aside = {_Part(table, name) for table, name in rows}
        there = {*parts, *set_aside}
        self._read_at = {part: at for part, at in self._read_at.items() if part in there}
        self._broken = {part: why for part, why in self._broken.items() if part in there}
        for part in set_aside:
            self._note(part, "the engine set it aside when it opened the store")
        for part in parts:
            began = time.monotonic()
            if began - self._read_at.get(part, -_AGAIN_S) >= _AGAIN_S:
                self._note(part, self._read(part))
                self._read_at[part] = time.monotonic()
                if self._stopping.wait((time.monotonic() - began) * self._rest):
                    return

    def _read(self, part: _Part) -> str:
        """Return why the part cannot be read, or an empty text."""
        table = f"{quote_identifier(self._store.database)}.{quote_identifier(part.table)}"
        try:
            _, rows = self._store.query(f"CHECK TABLE {table} PART {quote_text(part.name)}")
        except RetryableStoreError:
            raise
        except StoreError as error:
            # Merged away since it was listed; otherwise the next look finds it again.
            return "" if "NO_SUCH_DATA_PART" in error.message else _short(error.message)
        return next((_short(str(why)) for _, passed, why in rows if not passed), "")

    def _note(self, part: _Part, why: str) -> None:
        if why and part not in self._broken:
            _LOG.error("part %s of %s cannot be read: %s", part.name, part.table, why)
        if why:
            self._broken[part] = why
        else:
            self._broken.pop(part, None)


def sorted_faults(broken: dict[_Part, str]) -> list[tuple[_Part, str]]:
    """Return a copy in the order of tables and parts."""
    return sorted(broken.copy().items(), key=lambda item: (item[0].table, item[0].name))


def _short(why: str) -> str:
    found = _FAULT.match(why)
    return (found[1] if found else why)[:_FAULT_CHARACTERS]
