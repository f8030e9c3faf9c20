"""The seams: the places where an agent's process depends on something outside its control.

One module per seam, with both halves: record and serve.

Modules are patched when the application imports them; we never import them. `serve` turns the whole process into a replay.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.activity import ACTIVITY
from freezeframe.seams import typed_input
from freezeframe.seams.draws import randoms, uuids
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe.seams.order import lanes, races
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches
from freezeframe.seams.recorder.responder import Call, EditRequest, Responder
from freezeframe.seams.recorder.switch import Answered, serving, start_serving, stop_serving
from freezeframe.seams.unmarked.drivers import DRIVERS

__all__ = [
    "SEAMS",
    "Answered",
    "Call",
    "Responder",
    "Seam",
    "install",
    "is_installed",
    "serve",
    "serving",
    "stop_serving",
    "uninstall",
]


@dataclass(frozen=True, slots=True)
class Seam:
    """One row, its fields in this order: a library's module, its installer, and its distribution."""

    module: str
    """Its import triggers the patch."""
    installer: str
    """Our module whose `install(module, patches)` applies it."""
    distribution: str
    captures: str


SEAMS: Final = (
    Seam("httpx", "http.httpx", "httpx", "model calls and tools' HTTP, each attempt"),
    Seam("httpx2", "http.httpx", "httpx2", "model calls and tools' HTTP, each attempt"),
    Seam("urllib3.connectionpool", "http.urllib3", "urllib3", "model calls and tools' HTTP"),
    Seam("requests.adapters", "http.requests", "requests", "its calls of urllib3, by name"),
    Seam("lm15.transports", "http.lm15", "lm15", "model calls"),
    Seam("dspy._vendor.lm15.transports", "http.lm15", "dspy", "model calls of its default engine"),
    Seam("langchain_core.tools.base", "frameworks.langchain", "langchain-core", "tools"),
    Seam("langchain_core.retrievers", "frameworks.langchain", "langchain-core", "retrievers"),
    Seam("langchain_core.vectorstores.base", "frameworks.langchain", "langchain-core", "stores"),
    Seam("langgraph.pregel._loop", "frameworks.langgraph", "langgraph", "states at node borders, if requested"),
    Seam("langgraph.pregel.main", "frameworks.langgraph", "langgraph", "graphs that begin in the middle"),
    Seam(
        "workflows.runtime.control_loop.runner",
        "frameworks.llama_workflows",
        "llama-index-workflows",
        "states after steps, if requested",
    ),
    Seam("workflows.workflow", "frameworks.llama_workflows", "llama-index-workflows", "workflows that begin in the middle"),
    Seam("agents.tool", "frameworks.openai_agents", "openai-agents", "function tools"),
    Seam("openfeature.api", "frameworks.openfeature", "openfeature-sdk", "values of feature flags"),
    Seam("aiohttp.client", "http.aiohttp", "aiohttp", "model calls and tools' HTTP"),
    Seam("botocore.httpsession", "http.botocore", "botocore", "Bedrock and other AWS calls"),
    Seam("botocore.endpoint", "http.botocore", "botocore", "edits of a replay, before signing"),
    Seam("botocore.credentials", "http.botocore", "botocore", "no key needed in a replay"),
    Seam("mcp.shared.jsonrpc_dispatcher", "rpc.mcp", "mcp", "requests of MCP clients"),
    Seam("mcp.shared.session", "rpc.mcp", "mcp", "requests of sessions"),
    Seam("mcp.client.stdio", "rpc.mcp", "mcp", "servers over stdio"),
    Seam("mcp.client.sse", "rpc.mcp", "mcp", "servers over SSE"),
    Seam("mcp.client.streamable_http", "rpc.mcp", "mcp", "servers over HTTP"),
    Seam("pydantic_ai.tool_manager", "frameworks.pydantic_ai", "pydantic-ai-slim", "tools of agents"),
    Seam("crewai.tools.base_tool", "frameworks.crewai", "crewai", "tools"),
    Seam("crewai.tools.structured_tool", "frameworks.crewai", "crewai", "structured tools"),
    Seam("smolagents.tools", "frameworks.smolagents", "smolagents", "tools"),
    Seam("google.adk.tools.base_tool", "frameworks.google_adk", "google-adk", "tools"),
    Seam("strands.tools.decorator", "frameworks.strands", "strands-agents", "decorated tools"),
    Seam("strands.tools.tools", "frameworks.strands", "strands-agents", "tools of modules"),
    Seam("aiosqlite.core", "databases.sqlite", "aiosqlite", "databases, if requested"),
    Seam("redis.client", "databases.redis", "redis", "databases, if requested"),
    Seam("redis.asyncio.client", "databases.redis", "redis", "databases, if requested"),
    Seam("sqlalchemy.engine.default", "databases.sqlalchemy", "sqlalchemy", "databases, if requested"),
    Seam("psycopg", "databases.psycopg", "psycopg", "databases, if requested"),
    Seam("pymongo.pool_shared", "databases.mongo", "pymongo", "databases, if requested"),
    Seam("pymongo.synchronous.pool", "databases.mongo", "pymongo", "databases, if requested"),
    Seam("pymongo.synchronous.mongo_client", "databases.mongo", "pymongo", "databases, if requested"),
    Seam("pymongo.asynchronous.pool", "databases.mongo", "pymongo", "databases, if requested"),
    Seam("pymongo.asynchronous.mongo_client", "databases.mongo", "pymongo", "databases, if requested"),
    Seam("bson.objectid", "databases.mongo", "pymongo", "databases, if requested"),
    Seam("llama_index.core.tools.function_tool", "frameworks.llama_index", "llama-index-core", "function tools"),
    Seam("llama_index.core.tools.query_engine", "frameworks.llama_index", "llama-index-core", "query engines as tools"),
    Seam("llama_index.core.tools.retriever_tool", "frameworks.llama_index", "llama-index-core", "retrievers as tools"),
    Seam("llama_index.core.base.base_retriever", "frameworks.llama_index", "llama-index-core", "retrievers"),
)

_OTHERS: Final = (
    ("http.client", "http.http_client"),  # of the standard library
    ("sqlite3", "databases.sqlite"),
    # patched only to name the run's actions there
    ("websockets.client", "unmarked.sessions"),
    ("grpc._channel", "unmarked.sessions"),
    ("grpc.aio._channel", "unmarked.sessions"),
    # around that, what records and serves
    ("grpc._channel", "rpc.grpc_client"),
    ("grpc.aio._channel", "rpc.grpc_aio_client"),
)
"""Modules that belong to no distribution's row, with their installers."""

_patches: Final = Patches()
_installed: Final[set[str]] = set()


def install(*, files: bool = False) -> None:
    """Install every seam, once: now for modules that are loaded, at import for the others. `files`: that of files, too."""
    if files and "files" not in _installed:
        _installed.add("files")
        importlib.import_module("freezeframe.seams.files").install(_patches)
    if "lanes" in _installed:
        return
    _installed.add("lanes")
    with _patches.together():
        for installed in (lanes, races, typed_input):
            with guard(f"install of {installed.__name__}"):
                installed.install(_patches)
        IMPORT_HOOK.when_imported("asyncio", _install_task_races)
        IMPORT_HOOK.when_imported("random", lambda module: randoms.install(module, _patches))
        IMPORT_HOOK.when_imported("numpy.random", _install_numpy)
        IMPORT_HOOK.when_imported("uuid", lambda module: uuids.install(module, _patches))
        IMPORT_HOOK.when_imported("uuid_utils.compat", lambda module: uuids.install_compat(module, _patches))
        for name, installer in _OTHERS:
            IMPORT_HOOK.when_imported(name, functools.partial(_install_other, installer))
        for name in DRIVERS:
            IMPORT_HOOK.when_imported(name, functools.partial(_install_other, "unmarked.drivers"))
        for seam in SEAMS:
            IMPORT_HOOK.when_imported(seam.module, functools.partial(_install, seam))


def _install_task_races(module: ModuleType) -> None:
    from freezeframe.seams.order import task_races

    task_races.install(_patches)


def _install_numpy(module: ModuleType) -> None:
    from freezeframe.seams.draws import numpy_random

    numpy_random.install(module, _patches)


def serve(
    responder: Responder,
    *,
    edit: EditRequest | None = None,
    real_time: bool = False,
    is_recorded: bool = False,
    on_instrument: Callable[[], None] | None = None,
    databases: Answered = "as they are",
    files: Answered = "as they are",
    typed: Answered = "as they are",
) -> None:
    """Answer every seam of this process from `responder`, from now on. Installs the seams that are not installed yet.

    `edit` changes HTTP requests before they are looked up or sent. With `real_time`, functions take as long as they took, and
    httpx chunks arrive when they arrived, counted from the call. A replay that `is_recorded` is a new run: each call is
    recorded with the answer it was served, or with the answer of a live call. `on_instrument` is called when the program itself
    turns capture on: the recording began at that point. `databases`, `files` and `typed` set the places
    where calls of databases, reads of files and `input()` are answered.
    """
    start_serving(
        responder,
        edit=edit,
        real_time=real_time,
        is_recorded=is_recorded,
        on_instrument=on_instrument,
        databases=databases,
        files=files,
        typed=typed,
    )
    install(files=files != "as they are")
    SHARED.turn_on()
    if "waits" not in _installed:
        _installed.add("waits")
        from freezeframe.seams.order import waits

        waits.install(_patches)


def _install(seam: Seam, module: ModuleType) -> None:
    with guard(f"install of {seam.module}"):
        installer: Any = importlib.import_module(f"freezeframe.seams.{seam.installer}")
        do_install: Callable[[ModuleType, Patches], None] = installer.install
        do_install(module, _patches)
        _installed.add(seam.module)


def _install_other(installer: str, module: ModuleType) -> None:
    with guard(f"install of {module.__name__}"):
        importlib.import_module(f"freezeframe.seams.{installer}").install(module, _patches)


def uninstall() -> None:
    """Restore every library."""
    IMPORT_HOOK.forget()
    SHARED.unwatch()
    ACTIVITY.forget()
    _patches.undo()
    _installed.clear()


def is_installed(seam: Seam) -> bool:
    """Return whether the seam's module is patched in this process."""
    return seam.module in _installed and seam.module in sys.modules
