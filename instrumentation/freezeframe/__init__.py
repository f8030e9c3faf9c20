"""freezeframe: one line at start-up, and every run of the agent can be re-enacted.

    import freezeframe
    freezeframe.instrument()

Importing this loads no SDK, no web framework and no OpenTelemetry SDK; `instrument()` does, and only what it needs.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from freezeframe._doctor import doctor
from freezeframe._injection import injected_environment
from freezeframe._instrument import Handle, instrument
from freezeframe._run import current_run, flag, run
from freezeframe.seams.functions import retriever, tool

try:
    __version__ = version("freezeframe")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

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
