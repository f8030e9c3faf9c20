"""requests: it asks urllib3, where its attempts are recorded and served (`urllib3`); here it is only named.

In a replay no certificate is needed, so none is looked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe.seams import _port, urllib3
from freezeframe.seams.patching import Patches

LIBRARY: Final = urllib3.Library(seam="requests")


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``requests.adapters``."""
    patches.replace(module.HTTPAdapter, "send", _wrap)
    patches.replace(module.HTTPAdapter, "cert_verify", _wrap_verify)


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def send(adapter: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        with urllib3.asked_by(LIBRARY):
            return original(adapter, request, *args, **kwargs)

    return send


def _wrap_verify(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def cert_verify(adapter: Any, conn: Any, url: Any, verify: Any, cert: Any) -> Any:
        return original(adapter, conn, url, verify, cert) if _port.serving() is None else None

    return cert_verify
