"""OpenFeature: records each flag that a run reads through a hook of its API; a replay returns the recorded value in the client.

A flag that is not in the recording is read from the provider that the program sets up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.current import current_place
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.recorder.responder import Feed
from freezeframe_schemas import genai, values

_HOOK_NAME: Final = "FreezeframeHook"


def install(module: ModuleType, patches: Patches) -> None:
    """Add the hook to ``openfeature.api``."""
    api: Any = module
    base: Any = sys.modules["openfeature.hook"].Hook
    hook = type(_HOOK_NAME, (base,), {"after": _after})
    if not any(type(known).__name__ == _HOOK_NAME for known in api.get_hooks()):
        api.add_hooks([hook()])  # it stays: outside a recorded run it does nothing
    client: Any = sys.modules["openfeature.client"].OpenFeatureClient
    patches.around(client, "evaluate_flag_details", _evaluate)
    patches.around(client, "evaluate_flag_details_async", _evaluate_async)


def _evaluate(original: Callable[..., Any], client: Any, flag_type: Any, flag_key: str, *args: Any, **kwargs: Any) -> Any:
    recorded = _recorded(flag_key)
    return original(client, flag_type, flag_key, *args, **kwargs) if recorded is None else recorded


async def _evaluate_async(
    original: Callable[..., Any], client: Any, flag_type: Any, flag_key: str, *args: Any, **kwargs: Any
) -> Any:
    recorded = _recorded(flag_key)
    return await original(client, flag_type, flag_key, *args, **kwargs) if recorded is None else recorded


def _recorded(flag_key: str) -> Any:
    """Return the recorded details of a flag; None if no replay is served or the recording lacks the flag."""
    responder = switch.serving()
    if responder is None or current_place().run is None:
        return None
    recorded = responder.recall(Feed.FLAG, flag_key)
    if recorded is None:
        return None
    flags: Any = sys.modules["openfeature.flag_evaluation"]
    return flags.FlagEvaluationDetails(flag_key=flag_key, value=values.decode(recorded), reason=flags.Reason.STATIC)


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
