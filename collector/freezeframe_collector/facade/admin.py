"""Administration of the embedded store, over the port that readers use: pin, delete, back up; see `store.administration`.

Only for those who can read the token in the data directory, that is, those who could touch the files themselves.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from aiohttp import web

from freezeframe_collector.store import Store
from freezeframe_collector.store.administration import administer
from freezeframe_schemas.errors import FreezeframeError, RetryableStoreError
from freezeframe_schemas.local_tokens import is_same, shown_token

PATH: Final = "/store"


class Admin:
    """Carries out one action at a time."""

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._token = token
        self._one = threading.Lock()

    async def post(self, request: web.Request) -> web.Response:
        """Answer ``POST /store`` with the action as JSON in the body."""
        if not is_same(shown_token(request.headers.get("Authorization")), self._token):
            text = "no valid token, expected `authorization: Bearer TOKEN`; it is in the file admin-token of the data directory"
            return web.json_response({"error": text}, status=401, headers={"WWW-Authenticate": "Bearer"})
        try:
            action: Any = await request.json()
        except ValueError:
            action = None
        if not isinstance(action, dict):
            return web.json_response({"error": "the body is not a JSON object"}, status=400)
        # in its own thread: actions take time, and the workers are for readers
        return await asyncio.to_thread(self._carry_out, action)

    def _carry_out(self, action: dict[str, Any]) -> web.Response:
        try:
            with self._one:
                return web.json_response(administer(self._store, action))
        except FreezeframeError as error:
            status = 503 if isinstance(error, RetryableStoreError) else 422
            return web.json_response({"error": str(error)}, status=status)
