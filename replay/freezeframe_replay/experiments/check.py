"""Check: a command of the user's that says whether an outcome is right: it passes with exit code 0.

It runs in the shell, in the working directory, with the outcome on standard input. The outcome, the
recorded one and the input are also in files, which variables name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_replay.process.keeper import ended_with_us
from freezeframe_replay.report.report_text import unquoted
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.fixture import Fixture

_PREFIX: Final = "FREEZEFRAME_CHECK_"
_NOT_RUN: Final = (126, 127)
"""Exit codes of a shell that could not start the command."""
_MAX_SAID: Final = 200
DEFAULT_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCheck:
    passed: bool
    reason: str = ""
    """The last line that it printed, if it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCommand:
    command: str
    timeout_s: float = DEFAULT_TIMEOUT_S

    def run(self, fixture: Fixture, outcome: str) -> OutcomeCheck:
        """Return whether an outcome of the run passes. `outcome`: tagged JSON, as recorded; a text is given without quotes.

        Raises:
            ReplayError: the command cannot be started, or takes too long.
        """
        with tempfile.TemporaryDirectory(prefix="freezeframe-check-") as scratch:
            texts = {
                "OUTCOME": unquoted(outcome),
                "RECORDED": unquoted(fixture.entry.outcome or ""),
                "INPUT": unquoted(fixture.entry.input or ""),
            }
            variables = {f"{_PREFIX}RUN": fixture.run_id}
            for name, text in texts.items():
                file = Path(scratch, name.lower())
                file.write_text(text, encoding="utf-8", errors="surrogatepass")
                variables[f"{_PREFIX}{name}"] = str(file)
            with Path(scratch, "outcome").open("rb") as given:
                process = subprocess.Popen(
                    ["/bin/sh", "-c", self.command],
                    env={**os.environ, **variables},
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,  # its own group: what it starts ends with it
                )
            with process, ended_with_us(process.pid, is_group=True):
                try:
                    printed = process.communicate(timeout=self.timeout_s)[0]
                except subprocess.TimeoutExpired:
                    raise ReplayError(
                        f"--check: {self.command!r} did not finish within {self.timeout_s:.0f} s",
                        do="raise --timeout if it is only slow",
                    ) from None
                finally:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(process.pid, signal.SIGKILL)
        last = next((line for line in reversed(printed.strip().splitlines()) if line.strip()), "").strip()
        if process.returncode in _NOT_RUN:
            raise ReplayError(f"--check: {self.command!r} cannot be started: {last or 'the shell printed nothing'}")
        reason = "" if process.returncode == 0 else last[:_MAX_SAID] or f"exit code {process.returncode}"
        return OutcomeCheck(passed=process.returncode == 0, reason=reason)
