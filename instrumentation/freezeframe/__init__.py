"""freezeframe: one line at start-up, and every run of the agent can be re-enacted.

    import freezeframe
    freezeframe.instrument()

Importing this loads no SDK, no web framework and no OpenTelemetry SDK; `instrument()` loads only what it needs.
"""

from __future__ import annotations

from freezeframe._doctor import doctor
from freezeframe._injection import injected_environment
from freezeframe._instrument import Handle, instrument
from freezeframe._run import current_run, flag, run
from freezeframe._version import __version__
from freezeframe.seams.functions import retriever, tool

__all__ = [
    "Handle",
    "__version__",
    "current_run",
    "doctor",
    "flag",
    "injected_environment",
    "instrument",
    "retriever",
    "run",
    "tool",
]
