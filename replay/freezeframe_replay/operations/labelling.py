"""Label a run or a step by hand. Label and note are redacted like the run, before they leave this process."""

from __future__ import annotations

import getpass
import re
from typing import Final

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.administration import administration
from freezeframe_replay.local.home import Home
from freezeframe_replay.process.kept import redactor_like
from freezeframe_replay.report.outline import outline_run
from freezeframe_schemas.data_directory import KEYS
from freezeframe_schemas.errors import ConfigError, RunError
from freezeframe_schemas.run import Run

_LABEL: Final = re.compile(r"[\w.+/-]{0,40}")
_MAX_NOTE_LENGTH: Final = 10_000


def checked(label: str, note: str) -> tuple[str, str]:
    """Return a label and a note without white space around them; both may be empty.

    Raises:
        ConfigError: not a label, or too much of a note.
    """
    label, note = (text.strip().replace("\r\n", "\n") for text in (label, note))
    if not _LABEL.fullmatch(label):
        raise ConfigError(f"label: found {label!r:.80}, expected one word of up to 40 letters, digits and ._+/-")
    if len(note) > _MAX_NOTE_LENGTH:
        raise ConfigError(f"note: {len(note):,} characters, expected at most {_MAX_NOTE_LENGTH:,}")
    return label, note


def keep_label(run: Run, step: int | None, label: str, note: str, *, home: Home, store: str = "") -> None:
    """Redact and store a label of a run or a step in place of an earlier one; without label and note, remove it.

    Args:
        run: the run.
        step: the step, None for the run as a whole.
        label: one word.
        note: a text.
        home: the data directory, whose keys make the surrogates.
        store: DSN of the store; empty for that of the data directory.

    Raises:
        ConfigError: not a label, or too much of a note.
        RunError: no such step.
        PermanentStoreError: the store refuses it.
    """
    label, note = checked(label, note)
    span_id = "" if step is None else next((n.span_id for n in outline_run(run).nodes if n.step == step), None)
    if span_id is None:
        raise RunError(f"step {step}: not in run {run.trace_id}")
    texts = {"label": _redacted(label, run, home), "note": _redacted(note, run, home)}
    give = administration(home, store)
    give({"action": "label", "run": run.trace_id, "span_id": span_id, "author": _author(), **texts})


def _redacted(text: str, run: Run, home: Home) -> str:
    """Return a text redacted like the run: with its policy, and its key if available."""
    redaction = freeze(run).redaction
    if not text or not redaction.policy:
        return text
    redactor, _, _ = redactor_like(redaction, home.directory / KEYS)
    return str(redactor.redact(text).value)


def _author() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return ""
