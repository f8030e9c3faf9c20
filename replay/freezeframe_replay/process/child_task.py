"""The task of a replayed process: its parameters, passed in environment variables, and its start.

Must never import modules that only that process needs (`child`): a command that starts one would load them,
too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from freezeframe_schemas.fixture import Fixture

if TYPE_CHECKING:
    from freezeframe_redaction import TenantKey

FIXTURE_VARIABLE: Final = "FREEZEFRAME_REPLAY_FIXTURE"
REPORT_VARIABLE: Final = "FREEZEFRAME_REPLAY_REPORT"
POLICY_VARIABLE: Final = "FREEZEFRAME_REPLAY_POLICY"
KEPT_VARIABLE: Final = "FREEZEFRAME_REPLAY_KEPT"
"""File of spans to which the replay is recorded, as its own run; if unset, it is not recorded."""
KEYS_VARIABLE: Final = "FREEZEFRAME_REPLAY_KEYS"
"""Directory of keys, if it holds the key of the recording's surrogates."""
LAYER_VARIABLE: Final = "FREEZEFRAME_REPLAY_LAYER"
"""Folder for copies of the files that the program changes; if unset, it changes the files themselves."""
FIRST_VARIABLE: Final = "FREEZEFRAME_REPLAY_FIRST"
"""Process id of the first process of the replay, which writes the report. The processes that it starts inherit the variable."""


def is_called(fixture: Fixture) -> bool:
    """Return whether a replay calls the entry point; a command is started instead."""
    return fixture.entry.kind is not None and fixture.entry.kind.is_called


def key_of(fixture: Fixture, keys: Path) -> TenantKey | None:
    """Return the key of the recording's surrogates, if the directory holds it."""
    if not fixture.redaction.policy:
        return None
    from freezeframe_redaction import find_key

    return find_key(keys, fixture.redaction.key_id, fixture.redaction.key_check)
