"""`freezeframe vault`, which the redactor carries out."""

from __future__ import annotations

from typing import Final

from freezeframe_replay.cli.command import Command

COMMAND: Final = Command(
    description="`freezeframe vault log` lists who revealed what.",
    examples={
        "freezeframe vault reveal u7k3q9x2mfa@dq2x7kq.example.com --who 'A. Officer' --why T-71": "one value; logged first",
        "freezeframe vault log": "every reveal, and what was forgotten",
        "freezeframe vault forget 4bf92f3577b34da6a3ce929d0e0e4736": "a run's originals, for good",
        "freezeframe vault rotate": "the next key, with the collector stopped",
    },
    exit_codes={1: "the vault holds nothing for it (or no longer does)", 2: "wrong usage, or no vault"},
    delegates_to="freezeframe_redaction.vault_cli",
)
