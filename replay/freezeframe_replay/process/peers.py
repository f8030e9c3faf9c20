"""Peers: the processes of one replay. A program may fork workers or start Python again; each answers from its own session.

They share one file next to the report, appended to under a lock: used steps, so that none is used twice, the
pairs of private values (as digests), and the places where processes left the recording. The first process,
which writes the report,
reads the rest from it. The file is opened before any fence is raised, and held open.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.pairs import Pair
from freezeframe_schemas.divergence import DivergenceKind, Report, Served, report_from_json, report_to_json
from freezeframe_schemas.records import from_json

_OF_THE_WHOLE: Final = (DivergenceKind.MISSING_CALL, DivergenceKind.OUTCOME_CHANGED)
"""Divergences that hold only for all processes together, and not once one of them has left the recording."""
_PIECE: Final = 1 << 16


def peers_file(report: Path) -> Path:
    """Return the file that the processes of a replay share, next to its report."""
    return report.with_suffix(".peers")


class Peers:
    """This process's side of the file. Safe to use from any thread."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._read = 0
        self._used: dict[int, Served] = {}
        self._assumed: list[Pair] = []
        self._left_by: dict[int, Report] = {}
        self._lock = threading.RLock()

    def after_fork(self) -> None:
        """Make it usable in a newly forked process: another thread may have held the lock."""
        self._lock = threading.RLock()

    @contextmanager
    def turn(self) -> Generator[Mapping[int, Served]]:
        """Keep the others from answering meanwhile; yield the steps that they have used, and the way each was found."""
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                self._hear()
                yield self._used
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def claim(self, served: Served) -> None:
        """Report to the others that a step is used. Only within a turn."""
        self._append({"served": asdict(served)})

    def assume(self, pair: Pair) -> None:
        """Report to the others which surrogate a private value has. Only within a turn."""
        self._append({"pair": asdict(pair)})

    def assumed(self) -> Sequence[Pair]:
        """Return the pairs that the others reported since the last call. Only within a turn."""
        heard, self._assumed = self._assumed, []
        return heard

    def report_left(self, report: Report) -> None:
        """Report to the first process the place where this one left the recording."""
        own = tuple(item for item in report.divergences if item.kind not in _OF_THE_WHOLE)
        if own or report.live:
            reported = Report(run_id=report.run_id, steps=0, entered=True, divergences=own, live=report.live)
            with self.turn():
                self._append({"left": json.loads(report_to_json(reported))})

    def close(self) -> None:
        os.close(self._file)

    def joined(self, report: Report) -> Report:
        """Return the first process's report, completed by those of the others."""
        with self.turn():
            pass
        left = tuple(item for reported in self._left_by.values() for item in reported.divergences)
        live = tuple(item for reported in self._left_by.values() for item in reported.live)
        here = tuple(item for item in report.divergences if not left or item.kind not in _OF_THE_WHOLE)
        return replace(report, divergences=left + here, live=report.live + live)

    def served(self) -> Mapping[int, Served]:
        """Return the steps that the other processes have used so far."""
        with self.turn() as used:
            return dict(used)

    def any_diverged(self) -> bool:
        """Return whether a process other than the first has left the recording."""
        return any(b'"left"' in line for line in self._lines(0))

    def without_the_first(self, run_id: str, steps: int) -> Report | None:
        """Return the report of the others if the first process will not write one; None if none diverged."""
        with self.turn() as used:
            served = tuple(used.values())
        reported = self.joined(Report(run_id=run_id, steps=steps, served=served, entered=True))
        return reported if reported.divergences else None

    def _append(self, entry: dict[str, Any]) -> None:
        os.write(self._file, json.dumps({"pid": os.getpid(), **entry}).encode() + b"\n")

    def _lines(self, start: int) -> list[bytes]:
        text = b""
        while piece := os.pread(self._file, _PIECE, start + len(text)):
            text += piece
        return text.splitlines(keepends=True)

    def _hear(self) -> None:
        for line in self._lines(self._read):
            self._read += len(line)
            entry: dict[str, Any] = json.loads(line)
            if entry["pid"] == os.getpid():
                continue
            if "served" in entry:
                served = from_json(Served, entry["served"], "served")
                self._used[served.step] = served
            elif "pair" in entry:
                self._assumed.append(from_json(Pair, entry["pair"], "pair"))
            else:
                self._left_by[entry["pid"]] = report_from_json(json.dumps(entry["left"]))
