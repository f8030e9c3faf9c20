"""What a long command says on a terminal while it works."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long
REDACT = [sys.executable, "-m", "freezeframe._cli", "redact", "--dry-run"]
"""Works for as long as its input goes on, which here is until the test closes it."""


def test_a_terminal_shows_what_a_command_does_and_for_how_long_and_a_pipe_nothing() -> None:
    """The line says it from the first second on, and is taken away at the end."""
    terminal, its_end = os.openpty()
    elsewhere = subprocess.Popen(REDACT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    working = subprocess.Popen(REDACT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=its_end)
    os.close(its_end)
    shown = b""
    while b"redacting  2 s" not in shown:
        shown += os.read(terminal, 1_000)
    output, _ = working.communicate(b'{"text": "a"}\nno\n')
    _, errors = elsewhere.communicate(b"")
    with contextlib.suppress(OSError):  # all of it has been read
        while True:
            shown += os.read(terminal, 1_000)
    os.close(terminal)
    assert b"redacting  1 s" in shown
    assert b"\x1b[2Kfreezeframe redact: -:2: not valid JSON" in shown, "another line does not stand beside it"
    assert shown.endswith(b"\r\x1b[2K")
    assert b"1 inputs, 14 characters" in output
    assert b"redacting" not in errors
