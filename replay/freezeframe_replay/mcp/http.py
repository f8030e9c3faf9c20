"""The server over streamable HTTP, on loopback, for clients that show the token of the data directory."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.responses import PlainTextResponse

from freezeframe_replay.local.home import Home, find_home, make_home
from freezeframe_replay.mcp.project import Project
from freezeframe_replay.mcp.server import make_server
from freezeframe_replay.web.door import Door
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.local_tokens import MCP, load_or_create_token

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK: Final = "127.0.0.1"
_PATH: Final = "/mcp"
_END_S: Final = 5
"""How long open answers may take once the server is asked to end."""


def serve_http(project: Project, port: int) -> None:
    """Serve until SIGINT or SIGTERM; print the address, and where the token is.

    Raises:
        ConfigError: the port is taken, or the data directory cannot be written to.
    """
    server = make_server(project)
    home = find_home(project.place.data)
    try:
        listener = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise ConfigError(f"--http {port}: cannot listen on it: {error.strerror}") from error
    with listener, contextlib.suppress(KeyboardInterrupt):
        make_home(home)
        # the SDK answers only to a Host and an Origin of this machine
        app = _guarded(server.streamable_http_app(streamable_http_path=_PATH, host=LOOPBACK), home)
        print(f"MCP server listens on http://{LOOPBACK}:{listener.getsockname()[1]}{_PATH}")
        print(f"clients show the token in {home.directory / MCP}, as `authorization: Bearer TOKEN`", flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=_END_S)
        uvicorn.Server(config).run(sockets=[listener])


def _guarded(app: ASGIApp, home: Home) -> ASGIApp:
    """Return the application behind the token; what is not a request (start, end) passes."""
    door = Door(load_or_create_token(home.directory, MCP))

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or door.is_program(_authorization(scope)):
            await app(scope, receive, send)
            return
        text = f"expected `authorization: Bearer TOKEN`; the token is in the file {MCP} of the data directory\n"
        await PlainTextResponse(text, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    return guarded


def _authorization(scope: Scope) -> str | None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for name, value in headers if name == b"authorization"), None)
