"""The aiohttp application: HTTP in, statement run by a reader, answer streamed out."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from freezeframe_collector.facade import own_statements
from freezeframe_collector.facade.blocks import BlockEncoder
from freezeframe_collector.facade.execute import Executor, Insert, insert, is_insert, parse_insert
from freezeframe_collector.facade.protocol import (
    QueryRequest,
    User,
    authenticate,
    decode_body,
    is_on,
    make_encoder,
    parse_request,
)
from freezeframe_collector.facade.query_log import LoggedStatement, QueryLog, ids_in, short, without_values
from freezeframe_collector.readers.client import ReaderHost, standing_walls
from freezeframe_collector.readers.errors import ClickHouseError, denied
from freezeframe_collector.readers.frames import Head
from freezeframe_collector.readers.reader import StorePaths
from freezeframe_collector.store import Store
from freezeframe_collector.store.administration import administer
from freezeframe_collector.store.embedded import EmbeddedEngine
from freezeframe_schemas.errors import ConfigError, FreezeframeError, RetryableStoreError
from freezeframe_schemas.local_tokens import is_same, shown_token
from freezeframe_schemas.same_origin import ANSWER_HEADERS, LOOPBACK_NAMES, why_foreign

SHORT_PLACES: Final = 4
"""Further places, reserved for short statements, which slow ones of the same user cannot take."""
_READS: Final = re.compile(
    rb"\b(?:FROM|JOIN|IN|TABLE|SHOW|DESC|DESCRIBE|EXISTS|CHECK|EXPLAIN|WITH|ARRAY|range|repeat|sleep\w*)\b", re.IGNORECASE
)
_MAX_SHORT_BYTES: Final = 200
_MAX_WAITING: Final = 200
"""For one user at one address."""
_WAIT_S: Final = 60.0


class Admission:
    """Places for statements. A client that holds half of them waits while others are admitted."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._share = max(1, places // 2)
        self._running: Counter[tuple[str, str]] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self, user: str, address: str) -> AsyncGenerator[None]:
        """Hold a place while a statement runs.

        Raises:
            ClickHouseError: too many are waiting already, or no place became free in time.
        """
        who = (user, address)
        if self._waiting[who] >= _MAX_WAITING:
            raise _full(f"{_MAX_WAITING} of your statements are already waiting")
        self._waiting[who] += 1
        try:
            async with asyncio.timeout(_WAIT_S), self._changed:
                await self._changed.wait_for(lambda: self._free(who))
                self._running[who] += 1
        except TimeoutError:
            raise _full(f"no slot became free within {_WAIT_S:g} s") from None
        finally:
            self._waiting[who] -= 1
            self._waiting += Counter()  # drops those at zero
        try:
            yield
        finally:
            async with self._changed:
                self._running[who] -= 1
                self._running += Counter()
                self._changed.notify_all()

    def _free(self, who: tuple[str, str]) -> bool:
        return self._running[who] < self._share and self._running.total() < self._places


def is_short(sql: bytes) -> bool:
    """Return whether a statement reads no stored data and computes nothing that takes long: a client's ``SELECT 1``."""
    return len(sql) <= _MAX_SHORT_BYTES and _READS.search(sql) is None


def _full(why: str) -> ClickHouseError:
    return ClickHouseError(202, "TOO_MANY_SIMULTANEOUS_QUERIES", f"Too many simultaneous queries: {why}; ask again later")


_WORKERS: Final = 8
ADMIN: Final = "admin"
_WATCH_S: Final = 0.5
_LEFT: Final = "left"
"""Outcome of a statement whose client disconnected before the end of its answer."""
_KILL: Final = re.compile(
    rb"\s*KILL\s+QUERY\s+WHERE\s+query_id\s*=\s*'([\w.-]{1,100})'(?:\s+(?:A?SYNC))?\s*;?\s*", re.IGNORECASE
)
_MAX_STATEMENT_BYTES: Final = 16 << 20
_MAX_ID_LENGTH: Final = 1000
_ALWAYS_PLAIN: Final = frozenset({401, 403})
"""Status of answers that clickhouse-jdbc reads as text, even if it asked for blocks."""
_CONTENT_TYPES: Final = {
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "JSONEachRow": "application/x-ndjson; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    **dict.fromkeys(("Native", "RowBinary", "Arrow", "ArrowStream", "Parquet"), "application/octet-stream"),
}


def build_app(
    store: Store,
    *,
    users: Sequence[User] = (),
    admin_token: str | None = None,
) -> web.Application:
    """Return the application that answers the ClickHouse HTTP protocol, reading only.

    Args:
        store: an embedded store. (A server has its own HTTP port.)
        users: the users allowed to query; none means ``default`` without a password, which is safe on loopback only.
        admin_token: anyone who knows it may administer the store (`admin`) and insert into the user's own tables, as user
            ``admin`` with the token as password; None: no one may.

    Raises:
        ConfigError: the store is a server.
    """
    if not isinstance(store.engine, EmbeddedEngine):
        raise ConfigError("facade: expected an embedded store; a ClickHouse server answers its own HTTP port")
    known = {user.name: user for user in users} or {"default": User(name="default")}
    if admin_token is not None:
        known[ADMIN] = User(name=ADMIN, password=admin_token, may_insert=True)
    paths = store_paths(store.engine.directory, store.database, cold=store.engine.cold)
    facade = _Facade(paths, users=known, writer=store.engine, queries=QueryLog(store))
    app = _app(facade)
    if admin_token is not None:
        app.router.add_post(PATH, Admin(store, admin_token).post)
    return app


def build_reading_app(paths: StorePaths, user: User) -> web.Application:
    """Return the application over a store that no collector has open: it reads, and takes no inserts."""
    return _app(_Facade(paths, users={user.name: user}))


def store_paths(directory: Path, database: str, *, cold: Path | None) -> StorePaths:
    """Return the paths that readers open in the embedded store in `directory`, behind the walls that this machine supports."""
    return StorePaths(writer=directory / "clickhouse", database=database, cold=cold, walls=standing_walls())


def _app(facade: _Facade) -> web.Application:
    # `decode_body` decompresses: aiohttp answers 500 to what it cannot read
    app = web.Application(client_max_size=_MAX_STATEMENT_BYTES, handler_args={"auto_decompress": False})
    app.router.add_get("/ping", facade.ping)
    app.router.add_get("/replicas_status", facade.ping)
    app.router.add_route("*", "/", facade.query)
    app.router.add_post("/query", facade.query)
    app.on_startup.append(facade.start)
    app.on_cleanup.append(facade.close)
    return app


class _Facade:
    def __init__(
        self,
        paths: StorePaths,
        *,
        users: Mapping[str, User],
        writer: EmbeddedEngine | None = None,
        queries: QueryLog | None = None,
    ) -> None:
        self._writer = writer
        self._queries = queries
        self._database = paths.database
        self._host = ReaderHost(paths)
        self._executor = Executor(self._host)
        self._admission, self._short = Admission(_WORKERS), Admission(SHORT_PLACES)
        self._threads = ThreadPoolExecutor(_WORKERS + SHORT_PLACES, thread_name_prefix="facade")
        self._beside = ThreadPoolExecutor(_WORKERS, thread_name_prefix="facade-pieces")  # those of `_threads` wait for it
        self._users = users
        zone = time.tzname[0] if writer is None else str(writer.rows("SELECT timezone()")[1][0][0])
        self._headers = {"X-ClickHouse-Server-Display-Name": "freezeframe", "X-ClickHouse-Timezone": zone, **ANSWER_HEADERS}

    async def ping(self, request: web.Request) -> web.Response:
        return web.Response(text="Ok.\n", headers=self._headers)

    async def start(self, app: web.Application) -> None:
        """Start the host of readers, so that the first question does not wait for it."""
        self._host.start()
        if self._queries is not None:
            self._queries.start()

    async def close(self, app: web.Application) -> None:
        self._host.close()  # ends what runs, and so the threads that wait for it
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._beside.shutdown()
        if self._queries is not None:
            await asyncio.to_thread(self._queries.close)

    async def query(self, http: web.Request) -> web.StreamResponse:
        if http.method in {"GET", "HEAD"} and "query" not in http.query:
            return await self.ping(http)
        if http.method == "HEAD":  # its answer would be the size of a result that is not known before it is read
            raise web.HTTPMethodNotAllowed(http.method, ("GET", "POST"))
        query_id = http.query.get("query_id") or str(uuid.uuid4())
        account = _Account()
        if not query_id.isprintable() or len(query_id) > _MAX_ID_LENGTH:  # it goes into a header
            wrong = f"query_id: expected up to {_MAX_ID_LENGTH} printable characters, found {short(query_id)!r}"
            return _failure(ClickHouseError(36, "BAD_ARGUMENTS", wrong), {**self._headers}, blocks=False)
        headers = {**self._headers, "X-ClickHouse-Query-Id": query_id}
        try:
            self._check_origin(http)
            user = authenticate(self._users, http.query, http.headers)
            request = await _read(http, query_id)
            account.user, account.request = user, request
            loop = asyncio.get_running_loop()
            if is_insert(request.sql):
                statement = parse_insert(request.sql, user, self._database)
                await loop.run_in_executor(self._threads, self._insert, statement)
                account.outcome = "ok"
                return web.Response(headers=headers)
            if killed := _KILL.fullmatch(request.sql):
                request = await loop.run_in_executor(self._threads, self._kill, request, killed[1].decode())
            lane = self._short if self._is_short(request) else self._admission
            async with lane.place(user.name, http.remote or ""):
                return await self._stream(http, request, headers, account)
        except ClickHouseError as error:
            account.failed(error)
            return _failure(error, headers, blocks=is_on(http.query.get("compress")))
        finally:
            if self._queries is not None and (asked := account.asked(http)) is not None:
                self._queries.add(asked)

    def _insert(self, statement: Insert) -> None:
        if self._writer is None:
            raise ClickHouseError(
                164, "READONLY", "Cannot insert: no collector is running, so the store is open for reading only"
            )
        insert(self._writer.open_handle, self._database, statement)

    def _kill(self, request: QueryRequest, query_id: str) -> QueryRequest:
        """Stop a statement, and return a request whose result answers the client that asked for this."""
        status = "waiting" if self._executor.cancel(query_id) else "not found"
        where = "" if status == "waiting" else " WHERE 0"
        return replace(request, sql=f"SELECT '{status}' AS kill_status, '{query_id}' AS query_id{where}".encode())

    def _check_origin(self, http: web.Request) -> None:
        why = why_foreign(http.headers, names=LOOPBACK_NAMES)
        if why is not None:
            raise denied(why)

    async def _watch(self, http: web.Request, query_id: str) -> None:
        """Stop the statement once no one waits for its answer."""
        while (transport := http.transport) is not None and not transport.is_closing():
            await asyncio.sleep(_WATCH_S)
        while not await asyncio.to_thread(self._executor.cancel, query_id):  # it waited for its turn, and has no reader yet
            await asyncio.sleep(_WATCH_S)

    def _is_short(self, request: QueryRequest) -> bool:
        asks = own_statements.run_requested, own_statements.run_list_requested
        return is_short(request.sql) or (self._writer is not None and any(asked(request, self._database) for asked in asks))

    def _answer(self, request: QueryRequest) -> Generator[Head | bytes]:
        if self._writer is not None:
            if run := own_statements.run_requested(request, self._database):
                return own_statements.answer(self._writer, self._database, run, self._beside)
            if listed := own_statements.run_list_requested(request, self._database):
                return own_statements.answer_list(self._writer, self._database, listed, lambda: self._executor.run(request))
        return self._executor.run(request)

    async def _stream(
        self, http: web.Request, request: QueryRequest, headers: dict[str, str], account: _Account
    ) -> web.StreamResponse:
        watching = asyncio.create_task(self._watch(http, request.query_id))
        pieces = _pump(self._answer(request), self._threads)
        response: web.StreamResponse | None = None
        encoder = make_encoder(request)
        tag = secrets.token_hex(8)
        try:
            async for piece in pieces:
                if isinstance(piece, Head):
                    response = web.StreamResponse(headers={**headers, **_head_headers(piece, tag)})
                    if request.encoding:
                        response.headers["Content-Encoding"] = request.encoding
                    await response.prepare(http)
                elif response is not None and piece:
                    await response.write(encoder.compress(piece) if encoder else piece)
        except ClickHouseError as error:
            account.failed(error)
            if response is None:
                return _failure(error, headers, blocks=request.blocks)
            # the status is sent: the error travels in the body, framed as ClickHouse >= 25.11 does
            frame = _exception_frame(error, tag)
            await response.write(encoder.compress(frame) if encoder else frame)
        finally:
            watching.cancel()
            await pieces.aclose()
        if account.outcome == _LEFT:
            account.outcome = "ok"
        if response is None:  # SET, USE
            return web.Response(headers=headers)
        if encoder:
            await response.write(encoder.flush())
        await response.write_eof()
        return response


@dataclass(slots=True, kw_only=True)
class _Account:
    """Fields of a request for the query log."""

    time_ns: int = field(default_factory=time.time_ns)
    begun: float = field(default_factory=time.monotonic)
    user: User | None = None
    """None until the request is authenticated: requests of strangers are not logged."""
    request: QueryRequest | None = None
    outcome: str = _LEFT
    error_code: int = 0

    def failed(self, error: ClickHouseError) -> None:
        self.outcome = "refused" if error.http_status in _ALWAYS_PLAIN else "failed"
        self.error_code = error.code

    def asked(self, http: web.Request) -> LoggedStatement | None:
        if self.user is None or self.request is None:
            return None
        insert = is_insert(self.request.sql)
        return LoggedStatement(
            time_ms=self.time_ns // 1_000_000,
            user=self.user.name,
            address=http.remote or "",
            client=short(http.headers.get("User-Agent", "")),
            statement="INSERT" if insert else without_values(self.request.sql),  # what follows is values
            named=[] if insert else ids_in(self.request.sql, self.request.parameters.values()),
            duration_ms=int((time.monotonic() - self.begun) * 1000),
            outcome=self.outcome,
            error_code=self.error_code,
        )


async def _read(http: web.Request, query_id: str) -> QueryRequest:
    fields: dict[str, str] = {}
    body = b""
    if http.content_type == "multipart/form-data":
        form = await http.post()
        for name, value in form.items():
            if not isinstance(value, str):
                raise ClickHouseError(48, "NOT_IMPLEMENTED", "external data is not supported by this endpoint")
            fields[name] = value
    else:
        try:
            body = await http.read()
        except web.HTTPRequestEntityTooLarge:
            raise ClickHouseError(307, "TOO_MANY_BYTES", f"statement over {_MAX_STATEMENT_BYTES} bytes") from None
        body = decode_body(
            body,
            http.headers.get("Content-Encoding", ""),
            limit_bytes=_MAX_STATEMENT_BYTES,
            blocks=is_on(http.query.get("decompress")),
        )
    return parse_request(http.query, http.headers, body, query_id, fields)


async def _pump(pieces: Generator[Head | bytes], threads: ThreadPoolExecutor) -> AsyncGenerator[Head | bytes]:
    """Yield from a blocking generator, each step in a worker thread."""
    loop = asyncio.get_running_loop()
    end: Any = object()
    step: asyncio.Future[Any] | None = None
    try:
        while True:
            step = loop.run_in_executor(threads, next, pieces, end)
            # shielded: a cancelled handler must not leave the generator running with no one to close it
            piece = await asyncio.shield(step)
            if piece is end:
                return
            yield piece
    finally:
        await asyncio.shield(asyncio.ensure_future(_close(pieces, step, threads)))


async def _close(pieces: Generator[Head | bytes], step: asyncio.Future[Any] | None, threads: ThreadPoolExecutor) -> None:
    """Close the generator once its last step has ended, in a worker thread."""
    if step is not None and not step.done():
        await asyncio.wait((step,))
    await asyncio.get_running_loop().run_in_executor(threads, pieces.close)


def _head_headers(head: Head, tag: str) -> dict[str, str]:
    summary = {
        "read_rows": str(head.read_rows),
        "read_bytes": str(head.read_bytes),
        "written_rows": "0",
        "written_bytes": "0",
        "total_rows_to_read": "0",
        "result_rows": str(head.result_rows),
        "result_bytes": "0",
        "elapsed_ns": str(head.elapsed_ns),
    }
    return {
        "X-ClickHouse-Summary": json.dumps(summary),
        "X-ClickHouse-Format": head.format,
        "X-ClickHouse-Exception-Tag": tag,
        "Content-Type": _CONTENT_TYPES.get(head.format, "text/plain; charset=UTF-8"),
    }


def _exception_frame(error: ClickHouseError, tag: str) -> bytes:
    text = error.text.encode()
    return b"\r\n".join((b"", b"__exception__", tag.encode(), text + f"{len(text)} {tag}".encode(), b"__exception__", b""))


def _failure(error: ClickHouseError, headers: dict[str, str], *, blocks: bool) -> web.Response:
    extra = {"X-ClickHouse-Exception-Code": str(error.code)}
    if error.http_status == 401:
        extra["WWW-Authenticate"] = 'Basic realm="ClickHouse server HTTP API"'
    body = error.text.encode()
    if blocks and error.http_status not in _ALWAYS_PLAIN:
        body = BlockEncoder().compress(body)
    return web.Response(
        status=error.http_status, body=body, content_type="text/plain", charset="utf-8", headers={**headers, **extra}
    )


# -- Administration of the embedded store, over the port that readers use ----------------------------------------------
# Pin, delete, back up; see `store.administration`.
# Only for those who can read the token in the data directory, that is, those who could touch the files themselves.


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
