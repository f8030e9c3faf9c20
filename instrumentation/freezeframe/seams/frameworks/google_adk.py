"""Google ADK: ``run_async`` of every tool class, with the arguments that the model wrote.

A tool's changes of its context (session state, a transfer to another agent, a request for confirmation) are
part of the call: they are recorded with the result, and repeated in a replay. An agent used as a tool is not
recorded as one: its calls to its
model are, and in a replay it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.functions import calls
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.exchange import Kind

SEAM: Final = "google_adk"

_METHOD: Final = "run_async"
_AGENTS_AS_TOOLS: Final = frozenset({"google.adk.tools.agent_tool:AgentTool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WithActions:
    """A result, and the fields of the context's actions that the tool set."""

    returned: Any
    actions: dict[str, Any]


def install(module: ModuleType, patches: Patches) -> None:
    """Patch the subclasses of ``google.adk.tools.base_tool.BaseTool``."""

    def patch(cls: Any) -> None:
        if _METHOD in vars(cls) and values.class_path(cls) not in _AGENTS_AS_TOOLS:
            patches.around(cls, _METHOD, _run_async)

    patches.in_subclasses(module.BaseTool, patch)


async def _run_async(original: Callable[..., Any], tool: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
    call_id = getattr(tool_context, "function_call_id", None)
    return await calls.run_async(
        lambda: calls.FunctionCall.of(Kind.TOOL, SEAM, tool.name, kwargs=args, call_id=call_id).by(tool, "func", _METHOD),
        partial(original, tool, args=args, tool_context=tool_context),
        dump=partial(_dump, tool_context),
        load=partial(_load, tool_context),
    )


def _dump(context: Any, result: Any) -> str:
    actions: Any = getattr(context, "actions", None)
    fields: Any = getattr(type(actions), "model_fields", {})
    done = {name: getattr(actions, name) for name, field in fields.items() if _is_set(getattr(actions, name), field)}
    return values.encode(WithActions(returned=result, actions=done) if done else result)


def _is_set(value: Any, field: Any) -> bool:
    return value != field.get_default(call_default_factory=True)


def _load(context: Any, text: str) -> Any:
    result = values.decode(text)
    if not isinstance(result, WithActions):
        return result
    for name, value in result.actions.items():
        if name == "state_delta":
            for key, item in value.items():
                context.state[key] = item
        else:
            setattr(context.actions, name, value)
    return result.returned
