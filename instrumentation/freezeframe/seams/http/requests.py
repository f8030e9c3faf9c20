"""requests: it uses urllib3, where its attempts are recorded and served (`urllib3`); here it is only named.

In a replay no certificate is needed, so none is looked for.
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
