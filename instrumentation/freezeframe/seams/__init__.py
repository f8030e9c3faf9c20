"""The seams: where an agent's process meets what it does not control. One module per seam, with both halves: record and serve.

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
from freezeframe.seams.draws import randoms, uuids
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe.seams.order import lanes, races
from freezeframe.seams.recorder.patching import IMPORT_HOOK, Patches
from freezeframe.seams.recorder.responder import Call, EditRequest, Responder
from freezeframe.seams.recorder.switch import Answered, serving, start_serving, stop_serving

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """One row: a library's module, what patches it, and the distribution that it comes from."""

    module: str
    """Its import triggers the patch."""
    installer: str
    """Our module whose `install(module, patches)` applies it."""
    distribution: str
    captures: str


SEAMS: Final = (
    Seam(module="httpx", installer="http.httpx", distribution="httpx", captures="model calls and tools' HTTP, each attempt"),
    Seam(module="httpx2", installer="http.httpx", distribution="httpx2", captures="model calls and tools' HTTP, each attempt"),
    Seam(
        module="urllib3.connectionpool",
        installer="http.urllib3",
        distribution="urllib3",
        captures="model calls and tools' HTTP",
    ),
    Seam(
        module="requests.adapters", installer="http.requests", distribution="requests", captures="its calls of urllib3, by name"
    ),
    Seam(module="langchain_core.tools.base", installer="frameworks.langchain", distribution="langchain-core", captures="tools"),
    Seam(
        module="langchain_core.retrievers",
        installer="frameworks.langchain",
        distribution="langchain-core",
        captures="retrievers",
    ),
    Seam(
        module="langchain_core.vectorstores.base",
        installer="frameworks.langchain",
        distribution="langchain-core",
        captures="stores",
    ),
    *(
        Seam(module=f"langgraph.pregel.{name}", installer="frameworks.langgraph", distribution="langgraph", captures=what)
        for name, what in (("_loop", "states at node borders, if requested"), ("main", "graphs that begin in the middle"))
    ),
    *(
        Seam(
            module=f"workflows.{name}",
            installer="frameworks.llama_workflows",
            distribution="llama-index-workflows",
            captures=what,
        )
        for name, what in (
            ("runtime.control_loop.runner", "states after steps, if requested"),
            ("workflow", "workflows that begin in the middle"),
        )
    ),
    Seam(module="agents.tool", installer="frameworks.openai_agents", distribution="openai-agents", captures="function tools"),
    Seam(
        module="openfeature.api",
        installer="frameworks.openfeature",
        distribution="openfeature-sdk",
        captures="values of feature flags",
    ),
    Seam(module="aiohttp.client", installer="http.aiohttp", distribution="aiohttp", captures="model calls and tools' HTTP"),
    Seam(
        module="botocore.httpsession",
        installer="http.botocore",
        distribution="botocore",
        captures="Bedrock and other AWS calls",
    ),
    Seam(
        module="botocore.endpoint",
        installer="http.botocore",
        distribution="botocore",
        captures="edits of a replay, before signing",
    ),
    Seam(
        module="botocore.credentials", installer="http.botocore", distribution="botocore", captures="no key needed in a replay"
    ),
    Seam(module="mcp.shared.jsonrpc_dispatcher", installer="rpc.mcp", distribution="mcp", captures="requests of MCP clients"),
    Seam(module="mcp.shared.session", installer="rpc.mcp", distribution="mcp", captures="requests of sessions"),
    Seam(module="mcp.client.stdio", installer="rpc.mcp", distribution="mcp", captures="servers over stdio"),
    Seam(module="mcp.client.sse", installer="rpc.mcp", distribution="mcp", captures="servers over SSE"),
    Seam(
        module="pydantic_ai.tool_manager",
        installer="frameworks.pydantic_ai",
        distribution="pydantic-ai-slim",
        captures="tools of agents",
    ),
    Seam(module="crewai.tools.base_tool", installer="frameworks.crewai", distribution="crewai", captures="tools"),
    Seam(
        module="crewai.tools.structured_tool", installer="frameworks.crewai", distribution="crewai", captures="structured tools"
    ),
    Seam(module="smolagents.tools", installer="frameworks.smolagents", distribution="smolagents", captures="tools"),
    Seam(module="google.adk.tools.base_tool", installer="frameworks.google_adk", distribution="google-adk", captures="tools"),
    Seam(
        module="strands.tools.decorator",
        installer="frameworks.strands",
        distribution="strands-agents",
        captures="decorated tools",
    ),
    Seam(
        module="strands.tools.tools", installer="frameworks.strands", distribution="strands-agents", captures="tools of modules"
    ),
    *(
        Seam(module=module, installer=installer, distribution=distribution, captures="databases, if requested")
        for module, installer, distribution in (
            ("aiosqlite.core", "databases.sqlite", "aiosqlite"),
            ("redis.client", "databases.redis", "redis"),
            ("redis.asyncio.client", "databases.redis", "redis"),
            ("sqlalchemy.engine.default", "databases.sqlalchemy", "sqlalchemy"),
            ("psycopg", "databases.psycopg", "psycopg"),
            *(
                (f"pymongo.{name}", "databases.mongo", "pymongo")
                for name in (
                    "pool_shared",
                    "synchronous.pool",
                    "synchronous.mongo_client",
                    "asynchronous.pool",
                    "asynchronous.mongo_client",
                )
            ),
            ("bson.objectid", "databases.mongo", "pymongo"),
        )
    ),
    *(
        Seam(
            module=f"llama_index.core.{name}",
            installer="frameworks.llama_index",
            distribution="llama-index-core",
            captures=what,
        )
        for name, what in (
            ("tools.function_tool", "function tools"),
            ("tools.query_engine", "query engines as tools"),
            ("tools.retriever_tool", "retrievers as tools"),
            ("base.base_retriever", "retrievers"),
        )
    ),
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
        lanes.install(_patches)
        races.install(_patches)
        IMPORT_HOOK.when_imported("asyncio", _install_task_races)
        IMPORT_HOOK.when_imported("random", lambda module: randoms.install(module, _patches))
        IMPORT_HOOK.when_imported("numpy.random", _install_numpy)
        IMPORT_HOOK.when_imported("uuid", lambda module: uuids.install(module, _patches))
        IMPORT_HOOK.when_imported("uuid_utils.compat", lambda module: uuids.install_compat(module, _patches))
        for name, installer in _OTHERS:
            IMPORT_HOOK.when_imported(name, functools.partial(_install_other, installer))
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
) -> None:
    """Answer every seam of this process from `responder`, from now on. Installs the seams that are not installed yet.

    `edit` changes HTTP requests before they are looked up or sent. With `real_time`, functions take as long as they took, and
    httpx chunks arrive when they arrived, counted from the call. A replay that `is_recorded` is a new run: each call is
    recorded with the answer it was served, or with the answer of a live call. `on_instrument` is called when the program itself
    turns capture on: the recording began at that point. `databases` and `files` say where calls of databases and reads
    of files are answered.
    """
    start_serving(
        responder,
        edit=edit,
        real_time=real_time,
        is_recorded=is_recorded,
        on_instrument=on_instrument,
        databases=databases,
        files=files,
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
    _patches.undo()
    _installed.clear()


def is_installed(seam: Seam) -> bool:
    """Return whether the seam's module is patched in this process."""
    return seam.module in _installed and seam.module in sys.modules
