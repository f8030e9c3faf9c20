"""LlamaIndex workflows: the workflow's context after each step, and a workflow that begins at one of these borders.

The state is the output of ``Context.to_dict()``, and a replay continues from it as
``Workflow.run(ctx=Context.from_dict(...))`` does: steps in progress at the border run again. Its serializer
looks classes up by name, so a state that names a class of a module that is not imported here is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.seams.frameworks.framework_state import BEGINNINGS, Execution, is_recorded
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayError

SEAM: Final = "llama_index"
_EXECUTION: Final = "_freezeframe_execution"
_NAMES_A_CLASS: Final = "qualified_name"
"""Key in the output of LlamaIndex's serializer that names the class to create."""


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``workflows.runtime.control_loop.runner`` or ``workflows.workflow``."""
    runner: Any = getattr(module, "_ControlLoopRunner", None)
    if runner is not None:
        patches.around(runner, "_process_tick", _process_tick)
    if hasattr(module, "Workflow") and module.__name__ == "workflows.workflow":
        patches.around(module.Workflow, "run", _run)


# -- record -------------------------------------------------------------------------------------------------------------


async def _process_tick(original: Callable[..., Any], runner: Any, tick: Any) -> Any:
    result = await original(runner, tick)
    # `result` is the end of the workflow: there is nothing to continue.
    if result is None and is_recorded():
        with guard("llama_index.state"):
            _record(runner, tick)
    return result


def _record(runner: Any, tick: Any) -> None:
    from workflows.context.serializers import JsonSerializer  # pyright: ignore[reportMissingImports] - optional

    step = _step_of(tick)
    execution: Execution | None = getattr(runner, _EXECUTION, None)
    if step is None and execution is not None:
        return  # an event in transit: not a border
    if execution is None:
        execution = Execution()
        setattr(runner, _EXECUTION, execution)
    serializer: Any = JsonSerializer()
    context = runner.state.to_serialized(serializer)
    store = runner.adapter.get_state_store(())
    context.state = {} if store is None else store.to_dict(serializer)
    execution.record_state(
        SEAM,
        str(runner.workflow.workflow_name),
        after=() if step is None else (step,),
        state=json.dumps(context.model_dump(mode="python"), ensure_ascii=False),
    )


def _step_of(tick: Any) -> str | None:
    """Return the step whose result the tick brings, None if it brings something else."""
    if type(tick).__name__ != "TickStepResult":
        return None
    named: Any = getattr(tick, "step_id", None)
    return str(getattr(named, "name", None) or getattr(tick, "step_name", "step"))


# -- serve --------------------------------------------------------------------------------------------------------------


def _run(original: Callable[..., Any], workflow: Any, ctx: Any = None, start_event: Any = None, **options: Any) -> Any:
    state = BEGINNINGS.take(SEAM) if switch.serving() is not None else None
    if state is None:
        return original(workflow, ctx, start_event, **options)
    return original(workflow, ctx=_context(workflow, state.state))


def _context(workflow: Any, text: str) -> Any:
    """Return the recorded context.

    Raises:
        ReplayError: it names something other than a data class that this program has imported.
    """
    from workflows import Context  # pyright: ignore[reportMissingImports] - optional

    recorded = json.loads(text)
    for name in _classes_named_in(recorded):
        kind = values.find_class(":".join(name.rpartition(".")[::2]))
        if kind is None or not hasattr(kind, "model_validate"):
            raise ReplayError(
                f"llama_index: the recorded state names {name!r:.200}, which is not a data class that this program imported",
                do="import it before the workflow is run, or start the replay from the beginning",
            )
    found: Any = Context
    return found.from_dict(workflow, recorded)


def _classes_named_in(value: Any) -> Iterator[str]:
    """Yield the classes that a serialized context names, also in JSON that is a text in it."""
    if isinstance(value, dict):
        if _NAMES_A_CLASS in value:
            yield str(value[_NAMES_A_CLASS])
        for inner in value.values():
            yield from _classes_named_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _classes_named_in(inner)
    elif isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        with suppress(ValueError):
            yield from _classes_named_in(json.loads(value))
