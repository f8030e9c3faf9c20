"""requests: built on urllib3, whose seam records and serves its attempts (`urllib3`); here it is only named.

A replay needs no certificate, so it does not search for one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.http import urllib3
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches

LIBRARY: Final = urllib3.Library(seam="requests")


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``requests.adapters``."""
    patches.around(module.HTTPAdapter, "send", _send)
    patches.around(module.HTTPAdapter, "cert_verify", _cert_verify)


def _send(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with urllib3.called_by(LIBRARY):
        return original(*args, **kwargs)


def _cert_verify(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs) if switch.serving() is None else None
