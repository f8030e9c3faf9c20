"""What a long command says on a terminal while it works."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long
REDACT = [sys.executable, "-m", "freezeframe._cli", "store", "redact-file", "--dry-run"]
"""Works until its input ends, which the test decides."""


def test_a_terminal_shows_what_a_command_does_and_for_how_long_and_a_pipe_nothing() -> None:
    """The line says it from the first second on, and is taken away at the end."""
    terminal, its_end = os.openpty()
    elsewhere = subprocess.Popen(REDACT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    working = subprocess.Popen(REDACT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=its_end)
    os.close(its_end)
    assert working.stdin is not None
    working.stdin.write(b'{"text": "a"}\n')
    working.stdin.flush()
    shown = b""
    while b"1 line, 0.0 million characters  2 s" not in shown:
        shown += os.read(terminal, 1_000)
    output, _ = working.communicate(b"no\n")
    _, errors = elsewhere.communicate(b"")
    with contextlib.suppress(OSError):  # all of it has been read
        while True:
            shown += os.read(terminal, 1_000)
    os.close(terminal)
    assert b"\x1b[2Kfreezeframe store redact-file: -:2: not valid JSON" in shown, "another line does not stand beside it"
    assert shown.endswith(b"\r\x1b[2K")
    assert b"1 inputs, 14 characters" in output
    assert b"\x1b" not in errors
