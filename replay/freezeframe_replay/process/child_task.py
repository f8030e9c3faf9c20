"""The task of a replayed process: one file, which a variable of its environment names, and how it is begun.

Must never import modules that only that process needs (`child`): a command that starts one would load them,
too.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from freezeframe_schemas.fixture import Fixture

if TYPE_CHECKING:
    from freezeframe_redaction import TenantKey

_TASK: Final = "FREEZEFRAME_REPLAY_TASK"
"""Variable with the file of the task. The processes that the program starts inherit it."""
FIRST_VARIABLE: Final = "FREEZEFRAME_REPLAY_FIRST"
"""Process id of the first process of the replay, which writes the report. The processes that it starts inherit the variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTask:
    """Paths of a replay, and its policy."""

    fixture: str
    report: str
    policy: str = ""
    """As JSON; empty: that which answers from the recording, and nothing else."""
    spans: str = ""
    """File to which the replay is recorded, as its own run; if empty, it is not recorded."""
    keys: str = ""
    """Directory of keys, if it holds the key of the recording's surrogates."""
    layer: str = ""
    """Folder for copies of the files that the program changes; if empty, it changes the files themselves."""

    def variables(self) -> dict[str, str]:
        """Write the task next to the report; return the variable that names it."""
        path = Path(self.report).with_name("task.json")
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return {_TASK: str(path)}


def own_task() -> ChildTask | None:
    """Return the task of this process; None if it is not replayed."""
    path = os.environ.get(_TASK)
    return None if path is None else ChildTask(**json.loads(Path(path).read_text(encoding="utf-8")))


def is_called(fixture: Fixture) -> bool:
    """Return whether a replay calls the entry point; a command is started instead."""
    return fixture.entry.kind is not None and fixture.entry.kind.is_called


def key_of(fixture: Fixture, keys: Path) -> TenantKey | None:
    """Return the key of the recording's surrogates, if the directory holds it."""
    if not fixture.redaction.policy:
        return None
    from freezeframe_redaction import find_key

    return find_key(keys, fixture.redaction.key_id, fixture.redaction.key_check)
