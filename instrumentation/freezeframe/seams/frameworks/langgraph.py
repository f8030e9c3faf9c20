"""LangGraph: the state of a graph at each border between two supersteps, and a graph that begins at one of them.

Recording hooks into the loop's writing of checkpoints, with a checkpointer or without one. Serving puts the recorded
checkpoint into a checkpointer and has the graph continue from it, as LangGraph's own ``invoke(None, config)`` does. Graphs
inside nodes belong to their node. Delta channels are not recorded: their state is in the ancestors of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard, log_once
from freezeframe.context.current import current_place
from freezeframe.seams.frameworks.framework_state import BEGINNINGS, Execution, is_recorded
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.patching import Patches
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayError

SEAM: Final = "langgraph"
_EXECUTION: Final = "_freezeframe_execution"
_THREAD: Final = "freezeframe"


def install(module: ModuleType, patches: Patches) -> None:
    """Patch ``langgraph.pregel._loop`` or ``langgraph.pregel.main``."""
    if hasattr(module, "PregelLoop"):
        patches.around(module.PregelLoop, "_put_checkpoint", _put)
    if hasattr(module, "Pregel"):
        patches.around(module.Pregel, "stream", _stream)
        patches.around(module.Pregel, "astream", _stream)


# -- record -------------------------------------------------------------------------------------------------------------


def _put(original: Callable[..., Any], loop: Any, metadata: Any) -> Any:
    at_exit = metadata is loop.checkpoint_metadata  # writes the last one again if it is written late
    result = original(loop, metadata)
    if is_recorded() and not at_exit and not loop.is_nested:
        with guard("langgraph.state"):
            _record(loop)
    return result


def _record(loop: Any) -> None:
    if getattr(loop, "_delta_channel_names", ()):
        log_once("langgraph.delta", "freezeframe: the state of a graph with delta channels is not recorded")
        return
    execution: Execution | None = getattr(loop, _EXECUTION, None)
    if execution is None:
        execution = Execution()
        setattr(loop, _EXECUTION, execution)
    state = {
        "checkpoint": {**_plain(loop.checkpoint), "channel_values": _channel_values(loop)},
        "metadata": {"source": loop.checkpoint_metadata.get("source"), "step": loop.step},
    }
    execution.record_state(
        SEAM,
        str(loop.config.get("run_name") or ""),
        after=sorted({task.name for task in loop.tasks.values()}) if execution.borders else (),
        state=values.encode(state),
    )


def _channel_values(loop: Any) -> dict[str, Any]:
    """Return the value of each channel that was written. An empty channel returns a marker that is not one of its values."""
    versions = loop.checkpoint["channel_versions"]
    held = {name: channel.checkpoint() for name, channel in loop.channels.items() if name in versions}
    return {name: value for name, value in held.items() if type(value).__name__ != "_MISSING" and value is not _missing()}


def _missing() -> Any:
    from langgraph._internal._typing import MISSING

    return MISSING


def _plain(checkpoint: Any) -> dict[str, Any]:
    """Return the checkpoint with plain dictionaries."""
    seen = {node: dict(versions) for node, versions in checkpoint["versions_seen"].items()}
    updated = checkpoint.get("updated_channels")
    return {
        "v": checkpoint["v"],
        "id": checkpoint["id"],
        "ts": checkpoint["ts"],
        "channel_versions": dict(checkpoint["channel_versions"]),
        "versions_seen": seen,
        "updated_channels": None if updated is None else list(updated),
    }


# -- serve --------------------------------------------------------------------------------------------------------------


def _stream(original: Callable[..., Any], graph: Any, input: Any, config: Any = None, **options: Any) -> Any:  # noqa: A002 - the library's own name
    if switch.serving() is None or _is_nested(config):
        with guard("langgraph.thread"):
            _join_thread(config)
        return original(graph, input, config, **options)
    state = BEGINNINGS.take(SEAM)
    if state is None:
        return original(graph, input, config, **options)
    hydrated, changed = _hydrate(graph, config, state.state)
    return original(hydrated, None, changed, **options)


def _join_thread(config: Any) -> None:
    """Take the graph's thread as the conversation of the run, unless the run has one."""
    run = current_place().run
    thread = (config or {}).get("configurable", {}).get("thread_id")
    if run is not None and thread is not None and not run.is_joined():
        run.join(str(thread))


def _is_nested(config: Any) -> bool:
    from langchain_core.runnables.config import ensure_config

    configurable: Any = ensure_config(config).get("configurable", {})
    return "__pregel_task_id" in configurable


def _hydrate(graph: Any, config: Any, text: str) -> tuple[Any, dict[str, Any]]:
    """Return the graph over a checkpointer that holds the recorded checkpoint, and the configuration that continues from it.

    Raises:
        ReplayError: the state holds an object that cannot be rebuilt.
    """
    if values.is_opaque(text):
        raise ReplayError(
            "langgraph: the recorded state holds an object that cannot be rebuilt",
            do="start the replay from the beginning, or from an earlier step",
        )
    state = values.decode(text)
    settings: dict[str, Any] = dict(config or {})
    configurable = {name: value for name, value in (settings.get("configurable") or {}).items() if name != "checkpoint_id"}
    configurable = {"thread_id": _THREAD, "checkpoint_ns": "", **configurable}
    checkpoint = state["checkpoint"]
    saver = _saver_for(graph.checkpointer, checkpoint["channel_versions"])
    saver.put({"configurable": configurable}, checkpoint, state["metadata"], checkpoint["channel_versions"])
    return graph.copy(update={"checkpointer": saver}), {**settings, "configurable": configurable}


def _saver_for(own: Any, versions: dict[str, Any]) -> Any:
    """Return the graph's own checkpointer, or one in memory that counts versions as the recorded run did.

    Without a checkpointer LangGraph counts them as numbers, and its savers count them as texts, which cannot be compared.
    """
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.memory import InMemorySaver

    class Counting(InMemorySaver):
        def get_next_version(self, current: Any, channel: Any) -> Any:
            return (current or 0) + 1

    if any(isinstance(version, int) for version in versions.values()):
        return Counting()
    return own if isinstance(own, BaseCheckpointSaver) else InMemorySaver()
