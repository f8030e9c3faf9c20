"""`freezeframe redact`, which the redactor carries out."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.command import Command

COMMAND: Final = Command(
    examples={
        "freezeframe redact < lines.jsonl": '{"id","text"} in, {"id","value","findings"} out',
        "freezeframe redact --rotate-key --tenant acme": "the next key of a tenant",
        "freezeframe redact spans.jsonl > redacted.jsonl": "what `freezeframe run --file` wrote; it still replays",
    },
    delegates_to="freezeframe_redaction.cli",
)
