"""The replays that the service has made, in the data directory: the newest ones, redacted as their runs are, gone with them.

A folder for each replay: `replay.json` identifies it, `report.json.gz` has its findings, and `fixture` the run
that a replay with live answers became. The replayed fixture is not among them: it is made again from the stored
run.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.fork import Edit, Target, fork
from freezeframe_replay.local.home import Home
from freezeframe_replay.process.kept import live_steps, redactor_like
from freezeframe_replay.report.spent import Spent
from freezeframe_replay.service.job import Job, RunTools
from freezeframe_replay.sources.store import RunStore
from freezeframe_replay.web.replay import Noted
from freezeframe_schemas.data_directory import KEYS, REPLAYS
from freezeframe_schemas.divergence import Report, report_from_json, report_to_json
from freezeframe_schemas.errors import ReplayError, RunError, WireError
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.records import from_json
from freezeframe_schemas.run import Run

_logger: Final = logging.getLogger(__name__)
MAX_KEPT: Final = 30
_VERSION: Final = 1
_MAX_REPORT_LENGTH: Final = 4_000_000
"""Characters of a report beyond which the variables of its frames are left out."""
_OUR_WORDS: Final = frozenset({"run_id", "kind", "how", "call_kind", "version", "class_name", "surrogate"})
"""Fields of a report that hold no text of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Content of `replay.json`."""

    version: int
    noted: Noted
    digest: str
    """Of what was replayed."""
    served: int
    run_tools: tuple[str, ...] = ()
    run_changed: bool = False
    folder: str
    code: str = ""
    edit: str
    """The change, as JSON; empty without one."""
    spent: Spent | None
    error: str
    do: str
    not_kept: str
    """Reason why the run of a replay with live answers is missing."""


class History:
    """The folder of kept replays. Deleting one there is enough: nothing else remembers it."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory=directory)
        self.keys = directory / KEYS
        self._directory = directory / REPLAYS

    def noted(self) -> list[Noted]:
        """Return the kept replays, the oldest first. One that cannot be read, as of another version, is left out."""
        found: list[Noted] = []
        for folder in sorted(self._directory.glob("*-*")) if self._directory.is_dir() else ():
            try:
                found.append(_read(folder).noted)
            except (WireError, OSError, ValueError) as error:
                _logger.warning("%s: not readable (%s)", folder, type(error).__name__)
        return found

    def holds(self, noted: Noted) -> bool:
        """Return whether a replay is still there."""
        return self._folder(noted).is_dir()

    def keep(self, job: Job) -> None:
        """Write a replay that has ended, and remove the oldest ones.

        Raises:
            OSError: the disk refuses it.
        """
        redacted = _Redacted(job.fixture, self.keys)
        error, edit = job.error, job.edit
        kept = _Kept(
            version=_VERSION,
            noted=job.noted,
            digest=_digest(job.origin),
            served=job.served,
            run_tools=tuple(sorted(job.runs_tools.names)),
            run_changed=job.runs_tools.changed,
            folder=str(job.folder),
            code=job.code,
            edit="" if edit is None else json.dumps({**asdict(edit), "value": redacted.value(edit.value)}),
            spent=job.spent,
            error="" if error is None else redacted.text(error.message),
            do="" if error is None or error.do is None else error.do,
            not_kept=job.not_kept,
        )
        folder = self._folder(job.noted)
        partial = folder.with_name(f".{folder.name}")
        shutil.rmtree(partial, ignore_errors=True)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        partial.mkdir(mode=0o700)
        (partial / "replay.json").write_text(json.dumps(asdict(kept)), encoding="utf-8")
        if job.report is not None:
            report = gzip.compress(report_to_json(redacted.report(job.report)).encode("utf-8", "surrogatepass"))
            (partial / "report.json.gz").write_bytes(report)
        if job.kept is not None:
            write_fixture(job.kept, partial / "fixture")
        os.replace(partial, folder)
        for old in self.noted()[:-MAX_KEPT]:
            self.forget(old)

    def open(self, noted: Noted, load: Callable[[str], Run]) -> Job:
        """Return a kept replay, with its fixture made again from the run.

        Raises:
            RunError: the run is gone, and with it the replay; or it has changed since.
            FreezeframeError: the replay cannot be read.
        """
        folder = self._folder(noted)
        try:
            kept = _read(folder)
            report = folder / "report.json.gz"
            found = report_from_json(gzip.decompress(report.read_bytes()).decode()) if report.exists() else None
        except (OSError, ValueError, EOFError) as error:
            raise ReplayError(f"replay {noted.number}: not readable, {type(error).__name__}") from error
        try:
            origin = freeze(load(noted.run_id))
            if _digest(origin) != kept.digest:
                raise RunError(f"replay {noted.number}: its run was stored anew or went on since", do="replay the run again")
        except RunError:
            self.forget(noted)
            raise
        edit = _edit_of(kept.edit)
        own = load_fixture(folder / "fixture") if (folder / "fixture").is_dir() else None
        return Job(
            number=noted.number,
            run_id=noted.run_id,
            started=noted.started,
            is_fork=noted.is_fork,
            live=noted.live,
            origin=origin,
            fixture=origin if edit is None else fork(origin, [edit]),
            edit=edit,
            runs_tools=RunTools(names=frozenset(kept.run_tools), changed=kept.run_changed),
            folder=Path(kept.folder),
            code=kept.code,
            changed=None if edit is None else edit.step,
            served=kept.served,
            report=found,
            error=ReplayError(kept.error, do=kept.do or None) if kept.error else None,
            spent=kept.spent,
            kept=own,
            made_live={} if own is None or found is None else live_steps(own, found) or {},
            not_kept=kept.not_kept,
        )

    def forget(self, noted: Noted) -> None:
        """Remove a replay."""
        shutil.rmtree(self._folder(noted), ignore_errors=True)

    def forget_gone(self, store: RunStore, changed: Collection[str] = ()) -> None:
        """Remove the replays of runs that are no longer in the store, and of `changed` ones.

        Raises:
            StoreError: the store does not answer.
        """
        kept = self.noted()
        if not kept:
            return
        run_ids = sorted({item.run_id for item in kept})
        _, rows = store.sql("SELECT DISTINCT trace_id FROM runs WHERE trace_id IN {ids:Array(String)}", {"ids": run_ids})
        there = {str(row[0]) for row in rows}.difference(changed)
        for item in kept:
            if item.run_id not in there:
                self.forget(item)

    def _folder(self, noted: Noted) -> Path:
        return self._directory / f"{noted.number:06}-{noted.run_id}"


class _Redacted:
    """Return the report of a replay as written: redacted under its run's policy, with its key if available."""

    def __init__(self, fixture: Fixture, keys: Path) -> None:
        self._redactor = redactor_like(fixture.redaction, keys)[0] if fixture.redaction.policy else None
        self.text = functools.cache(self._text)

    def report(self, report: Report) -> Report:
        """Return the report. Of a run that was never redacted it has no variables: they may hold secrets of this machine."""
        text = report_to_json(report)
        if self._redactor is None or len(text) > _MAX_REPORT_LENGTH:
            frames = [tuple(replace(frame, variables={}) for frame in made.frames) for made in report.made]
            made = zip(report.made, frames, strict=True)
            report = replace(report, made=tuple(replace(item, frames=without) for item, without in made))
            text = report_to_json(report)
        return report if self._redactor is None else report_from_json(json.dumps(self.value(json.loads(text))))

    def value(self, value: Any) -> Any:
        """Return a JSON value with each of its texts redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, dict):
            return {name: item if name in _OUR_WORDS else self.value(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        return value

    def _text(self, text: str) -> str:
        return text if self._redactor is None or not text else str(self._redactor.redact(text).value)


def _read(folder: Path) -> _Kept:
    found: Any = json.loads((folder / "replay.json").read_bytes())
    return from_json(_Kept, found, str(folder))


def _edit_of(text: str) -> Edit | None:
    if not text:
        return None
    found: Any = json.loads(text)
    return Edit(target=Target(found["target"]), step=found["step"], path=found["path"], value=found["value"])


def _digest(fixture: Fixture) -> str:
    """Return a digest that changes if the run is redacted again or goes on."""
    steps = [(step.key, step.exchange.response.body) for step in fixture.steps]
    return hashlib.sha256(
        repr((fixture.entry.input, fixture.entry.outcome, steps)).encode("utf-8", "surrogatepass")
    ).hexdigest()
