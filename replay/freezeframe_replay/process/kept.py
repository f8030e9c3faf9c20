"""Kept: the run that a replay made, as its own fixture.

Served steps stay as recorded, live ones are new. This freezes a fix that was tried against the real model: its
answers are in the fixture, and the next replay needs no model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from freezeframe_replay.engine.freeze import freeze, policy_of
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.fixture import Fixture, Redaction, Step
from freezeframe_schemas.run import Entry, EntryKind, Run, build_run

if TYPE_CHECKING:
    from freezeframe_redaction import Redactor, TenantKey

_CUT: Final = (DivergenceKind.NETWORK, DivergenceKind.FENCED)


def kept_run(origin: Fixture, spans: Path, report: Report, *, ignore: Sequence[str] = (), keys: Path | None = None) -> Fixture:
    """Return a replay of `origin` as a run, from the file of spans that was passed to `reenact`.

    If the origin is redacted, so is the run, under the same policy: a live model may produce new values.
    The surrogates are those of the origin's own key if `keys` (a directory that may not exist) holds it.

    `ignore` names the ignored components of the replay. Served steps are kept as recorded, so these stay ignored.

    Raises:
        FixtureError: the replay was cut short, so its run could not be replayed.
    """
    _check(report)
    run = own_run(load_runs_of_file(spans), origin) if spans.exists() else None
    if run is None:
        raise FixtureError(
            f"run {origin.run_id}: the replay recorded no run",
            do="it may have exited before its spans were written, through os._exit or a signal",
        )
    redaction = origin.redaction
    if redaction.policy:
        run, redaction = _redacted(run, redaction, keys)
    made = freeze(run)
    return replace(
        made,
        entry=_entry(made.entry, origin.entry, report),
        redaction=replace(redaction, surrogates={**redaction.surrogates, **made.redaction.surrogates}),
        forked_from=origin.run_id,
        edits=tuple(_notes(report)),
        # What a reconstructed run cannot compare, the run that was kept of it can: it has the bytes.
        ignore=tuple(dict.fromkeys((*(() if origin.reconstructed else origin.ignore), *ignore))),
        begin=origin.begin,
        ledger=origin.ledger,
    )


def _check(report: Report) -> None:
    missed = next((call.name for call in report.made if call.how == "missed"), None)
    cut = next((item.name for item in report.divergences if item.kind in _CUT), None)
    if missed is None and cut is None:
        return
    raise FixtureError(
        f"run {report.run_id}: not kept, because the replay was cut short at {missed or cut}",
        do="allow calls that are not in the recording to be made for real: --live model, --allow-tool NAME",
    )


def own_run(runs: Sequence[Run], origin: Fixture) -> Run | None:
    """Return the run of the entry point; calls before it are their own traces."""
    entered = [run for run in runs if run.entry.kind is not None]
    alike = [run for run in entered if (run.entry.kind, run.entry.name) == (origin.entry.kind, origin.entry.name)]
    return next(reversed(alike or entered), None)


def live_run(origin: Fixture, spans: Path) -> Fixture | None:
    """Return the run of a replay of `origin`, from the file of its spans, even if cut short; None without a recording."""
    run = own_run(load_runs_of_file(spans), origin) if spans.exists() else None
    return None if run is None else freeze(run)


def live_steps(made: Fixture, report: Report) -> Mapping[int, Step] | None:
    """Return the steps that were made for real, by the number of the call in the report; None if that is not known."""
    steps = [step for step in made.steps if step.inside is None]
    answered = [(number, call) for number, call in enumerate(report.made, 1) if call.how not in ("missed", "stopped")]
    if len(steps) != len(answered):
        return None
    return {number: step for (number, call), step in zip(answered, steps, strict=True) if call.how == "live"}


def _redacted(run: Run, redaction: Redaction, keys: Path | None) -> tuple[Run, Redaction]:
    """Return the run redacted like its origin, and the redaction: with the origin's key if available, else a temporary one."""
    redactor, key, is_own = redactor_like(redaction, keys)
    return build_run([redactor.redact_span(span) for span in run.spans]), replace(
        redaction, key_id=key.id, key_check=key.check if is_own else ""
    )


def redactor_like(redaction: Redaction, keys: Path | None) -> tuple[Redactor, TenantKey, bool]:
    """Return a redactor with the policy of a run, its key, and whether that is the run's own or a temporary one."""
    from freezeframe_redaction import Redactor, TenantKey, find_key

    own = None if keys is None else find_key(keys, redaction.key_id, redaction.key_check)
    key = own or TenantKey.generate("kept/1")
    return Redactor(policy_of(redaction), key, surrogates=redaction.surrogates), key, own is not None


def _entry(made: Entry, origin: Entry, report: Report) -> Entry:
    """Return the entry of the new run: its outcome is new, its inputs are as recorded."""
    entry = replace(
        made,
        environment=origin.environment,
        random_state=origin.random_state,
        clock_readings=_with_random(made.clock_readings, origin.clock_readings),
        start_time_unix_nano=origin.start_time_unix_nano,
    )
    if made.kind is origin.kind:  # a script's functions have another module in a replay
        entry = replace(entry, target=origin.target, file=origin.file)
    if made.kind is not EntryKind.COMMAND or origin.kind is not EntryKind.COMMAND:
        return entry
    # The replay itself watches a command's streams; its run holds neither what it read nor what it printed.
    raised = report.outcome is not None and values.is_exception(report.outcome)
    return replace(
        entry, input=origin.input, output=None if raised else report.outcome, error=report.outcome if raised else None
    )


def _with_random(made: str | None, origin: str | None) -> str | None:
    """Return the readings with the origin's of `random`: a replay repeats them without noting them."""
    draws: dict[str, list[str]] = json.loads(origin or "{}")
    drawn = {feed: row for feed, row in draws.items() if feed.startswith("random")}
    return json.dumps({**json.loads(made or "{}"), **drawn}) if drawn else made


def _notes(report: Report) -> list[str]:
    """Return the differences from the recorded run, one line each."""
    lines = [
        f"{call.call_kind} {call.name} answered live" + (f" in place of step {call.step}" if call.step else "")
        for call in report.live
    ]
    return lines or ["replayed with different code"]
