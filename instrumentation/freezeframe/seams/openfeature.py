"""OpenFeature: the value of every flag that a run asks for, by a hook of its API. Recorded only: a replay's flags come from the
run's entry (`genai.FLAGS`), or from the provider that the program sets up.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from freezeframe._context import current_place
from freezeframe._guard import guard
from freezeframe.seams.patching import Patches
from freezeframe_schemas import genai

_HOOK_NAME: Final = "FreezeframeHook"


def install(module: ModuleType, patches: Patches) -> None:
    """Add the hook to ``openfeature.api``."""
    del patches  # a hook stays: outside a recorded run it does nothing
    api: Any = module
    base: Any = sys.modules["openfeature.hook"].Hook
    hook = type(_HOOK_NAME, (base,), {"after": _after})
    if not any(type(known).__name__ == _HOOK_NAME for known in api.get_hooks()):
        api.add_hooks([hook()])


def _after(hook: Any, hook_context: Any, details: Any, hints: Any) -> None:
    """Note an evaluated flag; the SDK calls this."""
    del hook, hints
    run = current_place().run
    if run is None:
        return
    with guard("openfeature"):
        provider = getattr(hook_context, "provider_metadata", None)
        reason = getattr(details.reason, "value", details.reason)
        run.note_flag(
            details.flag_key,
            details.value,
            **{
                genai.FLAG_VARIANT: details.variant,
                genai.FLAG_REASON: None if reason is None else str(reason),
                genai.FLAG_PROVIDER: getattr(provider, "name", None),
            },
        )
