"""One tree of errors, divided by whose fault they are.

    FreezeframeError
    ├── ConfigError        the user's setting is wrong; every fault is named at once
    ├── WireError          bytes that are not what their protocol promises
    ├── RunError           the requested run is not there, or lacks something that the request needs
    ├── StoreError         the store
    │   ├── RetryableStoreError    try again later (down, busy, timeout)
    │   └── PermanentStoreError    trying again gives the same answer
    ├── FixtureError       a fixture that cannot be read or written
    └── ReplayError        a replay that could not be carried out (not: one that diverged)

A message says what, where, found, expected and what to do, without secrets or payloads.

:class:`ReplayMiss` is outside the tree: it is a ``BaseException``, so that neither an SDK's retry loop nor an agent's
``except Exception`` can swallow it (measured: raised as ``Exception`` it was masked by four of six SDKs).
"""

from __future__ import annotations


class FreezeframeError(Exception):
    """Base of every error that freezeframe raises on purpose.

    `do` suggests what the reader can do about it; command lines print it on its own line.
    """

    def __init__(self, message: str, *, do: str | None = None) -> None:
        super().__init__(message if do is None else f"{message}\n  do: {do}")
        self.message = message
        self.do = do


class ConfigError(FreezeframeError):
    """A setting is wrong. One error carries all faults found."""


class WireError(FreezeframeError):
    """Bytes from outside do not follow their protocol."""


class RunError(FreezeframeError):
    """A run is missing, or lacks something that the request needs."""


class StoreError(FreezeframeError):
    """The store did not carry out a request."""


class RetryableStoreError(StoreError):
    """The same request may succeed later."""


class PermanentStoreError(StoreError):
    """The same request will fail again."""


class FixtureError(FreezeframeError):
    """A fixture's files are missing, damaged, or of a version that this library does not know."""


class ReplayError(FreezeframeError):
    """A replay could not be carried out at all, which gives no verdict on the code (exit code 125)."""


class ReplayMiss(BaseException):
    """The code made a request that is not in the recording: the first divergence, raised at the call."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
