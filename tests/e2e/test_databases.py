"""What a run asks of its databases, asked of the real ones: recorded, answered in a replay without them, and never written to.

Each program begins with a table or keys of its own, which it fills outside the run; then it reads and writes in the run.
"""

from __future__ import annotations

import itertools
import os
import socketserver
import struct
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from database_servers import none, postgres_server, redis_server

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import GapKind
from freezeframe_schemas.run import Run, readiness
from freezeframe_schemas.verdict import Verdict, verdict

_HEADER = struct.Struct("<iiii")
_HELLO: dict[str, Any] = {
    "isWritablePrimary": True, "ismaster": True, "helloOk": True, "minWireVersion": 0, "maxWireVersion": 21,
    "maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30, "readOnly": False, "ok": 1.0,
}  # fmt: skip
Document = dict[str, Any]


class FakeMongo:
    """A server that speaks MongoDB's wire (OP_MSG) and keeps documents in memory: no real one can be installed here.

    It knows equality in filters, ``$set`` and ``$inc``, counts, batches of cursors and unique ids: what the tests ask.
    """

    def __init__(self) -> None:
        self._collections: dict[str, list[Document]] = {}
        self._cursors: dict[int, list[Document]] = {}
        self._ids = itertools.count(7001)
        self._lock = threading.Lock()

    def answer(self, command: Document) -> Document:
        """Return the reply to a command."""
        name = next(iter(command))
        if name.lower() in ("hello", "ismaster"):
            return _HELLO
        act: Any = getattr(self, f"_{name.lower()}", None)
        if act is None:
            return {"ok": 0.0, "errmsg": f"no such command: '{name}'", "code": 59, "codeName": "CommandNotFound"}
        with self._lock:
            return {"ok": 1.0, **act(command, f"{command['$db']}.{command[name]}")}

    def _ping(self, command: Document, where: str) -> Document:
        return {}

    _endsessions = _killcursors = _ping

    def _insert(self, command: Document, where: str) -> Document:
        found, errors = self._collections.setdefault(where, []), list[Document]()
        for index, document in enumerate(command["documents"]):
            if any(document["_id"] == other["_id"] for other in found):
                text = f"E11000 duplicate key error collection: {where} index: _id_"
                errors.append({"index": index, "code": 11000, "errmsg": text})
                break
            found.append(document)
        return {"n": len(command["documents"]) - len(errors), **({"writeErrors": errors} if errors else {})}

    def _matching(self, where: str, wanted: Document) -> list[Document]:
        return [
            document
            for document in self._collections.get(where, [])
            if all(document.get(name) == value for name, value in wanted.items())
        ]

    def _cursor(self, documents: list[Document], where: str, size: int, batch: str) -> Document:
        number = 0
        if len(documents) > size:
            number = next(self._ids)
            self._cursors[number] = documents[size:]
        return {"cursor": {"id": bson.Int64(number), "ns": where, batch: documents[:size]}}

    def _find(self, command: Document, where: str) -> Document:
        found = self._matching(where, command.get("filter", {}))
        found = found[: command["limit"]] if command.get("limit") else found
        return self._cursor(found, where, command.get("batchSize", 101), "firstBatch")

    def _getmore(self, command: Document, where: str) -> Document:
        found = self._cursors.pop(command["getMore"])
        return self._cursor(found, f"{command['$db']}.{command['collection']}", command.get("batchSize", 101), "nextBatch")

    def _aggregate(self, command: Document, where: str) -> Document:
        match, *_ = command["pipeline"]
        count = len(self._matching(where, match["$match"]))
        return self._cursor([{"_id": 1, "n": count}] if count else [], where, 101, "firstBatch")

    def _update(self, command: Document, where: str) -> Document:
        [update] = command["updates"]
        found = self._matching(where, update["q"])
        found = found if update.get("multi") else found[:1]
        for document in found:
            document |= update["u"].get("$set", {})
            for name, value in update["u"].get("$inc", {}).items():
                document[name] = document.get(name, 0) + value
        return {"n": len(found), "nModified": len(found)}

    def _delete(self, command: Document, where: str) -> Document:
        [delete] = command["deletes"]
        gone = self._matching(where, delete["q"])
        gone = gone[: delete["limit"]] if delete["limit"] else gone
        self._collections[where] = [document for document in self._collections.get(where, []) if document not in gone]
        return {"n": len(gone)}


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: Any = self.server
        while head := self.rfile.read(_HEADER.size):
            size, request_id, _, op_code = _HEADER.unpack(head)
            body = self.rfile.read(size - _HEADER.size)
            if op_code == 2013:
                payload = struct.pack("<IB", 0, 0) + bson.encode(server.mongo.answer(_command(body)))
            else:  # the first words of older clients
                payload = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(_HELLO)
            answer = _HEADER.pack(_HEADER.size + len(payload), 1, request_id, 2013 if op_code == 2013 else 1)
            self.wfile.write(answer + payload)


def _command(body: bytes) -> Document:
    command, at = dict[str, Any](), 4
    while at < len(body):
        (size,) = struct.unpack_from("<i", body, at + 1)
        section = body[at + 1 : at + 1 + size]
        if body[at] == 0:
            command |= bson.decode(section)
        else:
            name, _, documents = section[4:].partition(b"\0")
            command[name.decode()] = bson.decode_all(documents)
        at += 1 + size
    return command


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    mongo = FakeMongo()


@contextmanager
def mongo_server() -> Generator[str]:
    """Yield the address of a new server."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.mongo = FakeMongo()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"mongodb://127.0.0.1:{server.server_address[1]}/?uuidRepresentation=standard"
        finally:
            server.shutdown()


pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

_HEAD = """
import datetime, os
import freezeframe

freezeframe.instrument()


@freezeframe.tool
def told(text):
    return f"told {text}"

"""
_SQLITE = f"""{_HEAD}
from sqlite3 import IntegrityError, Row, connect

setup = connect("shop.db")
setup.execute("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, what TEXT UNIQUE, photo BLOB)")
setup.execute("INSERT OR IGNORE INTO orders(what, photo) VALUES ('kettle', x'ff00')")
setup.commit()


@freezeframe.run
def main(who):
    db = connect("shop.db")
    db.row_factory = Row
    with db:
        added = db.execute("INSERT INTO orders(what) VALUES (?)", ("cup",)).lastrowid
    by_name = [dict(row) for row in db.execute("SELECT what, photo FROM orders WHERE id < :most", {{"most": 9}})]
    [count] = db.execute("SELECT count(*) FROM orders").fetchone()
    cursor = db.cursor()
    some = [tuple(row) for row in cursor.execute("SELECT id FROM orders ORDER BY id").fetchmany(1)]
    try:
        db.execute("INSERT INTO orders(what) VALUES ('kettle')")
    except IntegrityError as error:
        refused = str(error)
    return [told(who), added, by_name, count, some, refused, [column[0] for column in cursor.description]]


if __name__ == "__main__":
    print(main("maria"))
"""
_SQLALCHEMY = f"""{_HEAD}
import asyncio
from sqlalchemy import Numeric, create_engine, delete, exc, func, orm, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

engine = create_engine(os.environ.get("SYNC_URL", "sqlite:///shop.db"))
later = create_async_engine(os.environ.get("ASYNC_URL", "sqlite+aiosqlite:///shop.db"))


class Base(orm.DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    what: orm.Mapped[str]
    at: orm.Mapped[datetime.datetime] = orm.mapped_column(default=datetime.datetime(2026, 1, 2, 3))
    price: orm.Mapped[float] = orm.mapped_column(Numeric(10, 2), default=3)


Base.metadata.create_all(engine)
with orm.Session(engine) as session:
    session.execute(delete(Order))
    session.commit()


@freezeframe.run
def main(who):
    with orm.Session(engine) as session:
        session.add_all([Order(what="cup"), Order(what=who)])
        session.commit()
        found = [(order.what, order.at.year, str(order.price)) for order in session.scalars(select(Order).order_by(Order.id))]
        count = session.scalar(select(func.count()).select_from(Order))
        changed = session.execute(update(Order).values(what="x").where(Order.what == "cup")).rowcount
        session.rollback()
    with engine.connect() as connection:
        named = dict(connection.execute(text("SELECT what FROM orders WHERE what = :w"), {{"w": who}}).mappings().one())
    with engine.connect() as connection:
        try:
            connection.execute(text("SELECT * FROM nowhere"))
        except (exc.OperationalError, exc.ProgrammingError) as error:
            refused = type(error).__name__
    return [told(who), found, count, changed, named, refused, asyncio.run(ask_later(who))]


async def ask_later(who):
    async with AsyncSession(later) as session:
        session.add(Order(what="later"))
        await session.commit()
        found = [order.what for order in await session.scalars(select(Order).order_by(Order.id))]
    await later.dispose()
    return found


if __name__ == "__main__":
    print(main("maria"))
"""
_REDIS = f"""{_HEAD}
import asyncio, redis, redis.asyncio

at = {{"host": "127.0.0.1", "port": int(os.environ["WHERE"]), "decode_responses": True}}
client = redis.Redis(**at)
client.flushall()


def step(pipeline):
    count = int(pipeline.get("count"))
    pipeline.multi()
    pipeline.set("count", count + 10)


@freezeframe.run
def main(who):
    client.rpush("chat", "cup", who)
    client.hset("user", mapping={{"name": who}})
    found = [client.lrange("chat", 0, -1), client.hgetall("user"), client.get("no"), client.incr("count")]
    with client.pipeline() as pipeline:
        found.append(pipeline.get("count").incr("count").execute())
    found.append(client.transaction(step, "count"))
    try:
        client.get("chat")
    except redis.ResponseError as error:
        found.append(str(error))
    return [told(who), found, asyncio.run(ask_later(who))]


async def ask_later(who):
    async with redis.asyncio.Redis(**at) as later:
        async with later.pipeline() as pipeline:
            first = await pipeline.set("later", who).get("later").execute()
        return [first, *await asyncio.gather(later.get("later"), later.get("count"))]


if __name__ == "__main__":
    print(main("maria"))
"""


_PSYCOPG = f"""{_HEAD}
import asyncio, psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

where = os.environ["WHERE"]
with psycopg.connect(where) as setup:
    setup.execute("DROP TABLE IF EXISTS orders")
    setup.execute(
        "CREATE TABLE orders(id serial PRIMARY KEY, what text UNIQUE, at timestamptz DEFAULT '2026-01-02 03:04:05+00',"
        " price numeric(10, 2), doc jsonb, photo bytea, tags int[])"
    )


@freezeframe.run
def main(who):
    with psycopg.connect(where, row_factory=dict_row) as db:
        with db.transaction():
            added = db.execute(
                "INSERT INTO orders(what, price, doc, photo, tags) VALUES (%s, %s, %s, %s, %s) RETURNING id",
                ("cup", 3.5, Jsonb({{"a": [1]}}), b"\\xff\\0", [1, 2]),
            ).fetchone()
        cursor = db.cursor()
        cursor.executemany("INSERT INTO orders(what) VALUES (%s)", [("a",), ("b",)])
        found = [added, cursor.rowcount, db.execute("SELECT * FROM orders WHERE id < %(most)s", {{"most": 9}}).fetchall()]
        found.append(db.execute("SELECT id, tags FROM orders WHERE what = %s", ("cup",), binary=True).fetchone())
        try:
            with db.transaction():
                db.execute("INSERT INTO orders(what) VALUES (%s)", ("a",))
        except psycopg.errors.UniqueViolation as error:
            found += [str(error), error.sqlstate, error.diag.message_primary, error.diag.constraint_name]
        found += [db.execute("SELECT %s::int AS n", (number,)).fetchone() for number in range(7)]  # prepared on the way
        found.append(db.execute("SELECT 1 AS one; SELECT 2 AS two").fetchall())
    return [told(who), found, asyncio.run(ask_later(who))]


async def ask_later(who):
    async with await psycopg.AsyncConnection.connect(where) as db, db.cursor() as cursor:
        found = await (await cursor.execute("SELECT what FROM orders ORDER BY id")).fetchall()
        await cursor.execute("UPDATE orders SET what = %s WHERE what = %s", (who, "b"))
        return [found, cursor.rowcount]


if __name__ == "__main__":
    print(main("maria"))
"""

_PYMONGO = f"""{_HEAD}
import asyncio, uuid
from bson import Decimal128, ObjectId
from pymongo import AsyncMongoClient, InsertOne, MongoClient
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

where = os.environ["WHERE"]
client = MongoClient(where, tz_aware=True, username=None)
shop = client.shop
shop.orders.delete_many({{}})
shop.orders.insert_many([{{"_id": number, "what": "kettle", "number": number}} for number in range(250)])


@freezeframe.run
def main(who):
    at = datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.timezone.utc)
    order = {{"what": "cup", "at": at, "price": Decimal128("3.50"), "key": uuid.UUID(int=7), "photo": bytes([255])}}
    added = shop.orders.insert_one(order)
    found = [shop.orders.find_one({{"_id": added.inserted_id}}), shop.orders.find_one({{"what": "none"}})]
    found.append(sum(order["number"] for order in shop.orders.find({{"what": "kettle"}})))  # in three batches
    some = iter(shop.orders.find({{"what": "kettle"}}, batch_size=2))
    found.append([next(some)["number"] for _ in range(3)])
    found.append(shop.orders.count_documents({{"what": "kettle"}}))
    found.append(shop.orders.update_many({{"number": 3}}, {{"$set": {{"what": who}}}}).modified_count)
    found.append(shop.orders.bulk_write([InsertOne({{"what": "late"}})]).inserted_count)
    try:
        shop.orders.insert_one({{"_id": 1}})
    except DuplicateKeyError as error:
        found.append(str(error))
    try:
        shop.command("nonsense")
    except OperationFailure as error:
        found += [error.code, str(error)]
    return [told(who), [str(one) for one in found], str(added.inserted_id), asyncio.run(ask_later(who))]


async def ask_later(who):
    async with AsyncMongoClient(where) as later:
        await later.shop.orders.insert_one({{"what": who, "number": 5000}})
        await asyncio.gather(*(later.shop.orders.update_one({{"number": n}}, {{"$inc": {{"number": 1000}}}}) for n in range(2)))
        return [order["number"] async for order in later.shop.orders.find({{"what": who}})]


if __name__ == "__main__":
    print(main("maria"))
"""


_ENTRY = "@freezeframe.run\ndef main(who):\n"
_IN_A_TOOL = f"{_ENTRY}    return work(who)\n\n\n@freezeframe.tool\ndef work(who):\n"

WORLDS = {
    "sqlite3": (_SQLITE, none),
    "sqlalchemy": (_SQLALCHEMY, none),
    "redis": (_REDIS, redis_server),
    "psycopg": (_PSYCOPG, postgres_server),
    "pymongo": (_PYMONGO, mongo_server),
}


def record(folder: Path, *, databases: bool) -> Run:
    environment = {**os.environ, "FREEZEFRAME_FILE": str(folder / "spans.jsonl")}
    environment |= {"FREEZEFRAME_RECORD_DATABASES": "1"} if databases else {}
    subprocess.run([sys.executable, "shop.py"], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    [run] = load_runs_of_file(folder / "spans.jsonl")
    return run


def replay(run: Run, folder: Path, *, changed: tuple[str, str] = ("", ""), policy: ReplayPolicy | None = None) -> Report:
    program = folder / "shop.py"
    source = program.read_text()
    program.write_text(source.replace(*changed))
    try:
        return reenact(freeze(run), cwd=folder, policy=policy)
    finally:
        program.write_text(source)


@pytest.mark.proof(
    "seam databases.sqlite",
    "seam databases.redis",
    "seam databases.sqlalchemy",
    "seam databases.psycopg",
    "seam databases.mongo",
)
@pytest.mark.parametrize("library", WORLDS)
def test_what_a_run_asks_of_a_database_is_answered_without_it(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, world = WORLDS[library]
    (tmp_path / "shop.py").write_text(program)
    with world() as where:
        monkeypatch.setenv("WHERE", where)
        run = record(tmp_path, databases=True)
    for left in tmp_path.glob("shop.db*"):
        left.unlink()
    asked = [exchange for exchange in run.exchanges if exchange.kind is Kind.DATABASE]
    assert len(asked) > 4
    assert not [gap for gap in run.gaps if gap.kind in (GapKind.DATABASE, GapKind.CONNECTION)]
    report = replay(run, tmp_path)
    assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL)
    first = replay(run, tmp_path, changed=('"cup"', '"mug"')).divergences[0]  # in a write: held back, and compared
    step = next(number for number, exchange in enumerate(run.exchanges, 1) if b'"cup"' in exchange.request.body)
    assert (first.kind, first.call_kind, first.step) == (DivergenceKind.REQUEST_CHANGED, "database", step)
    assert not list(tmp_path.glob("shop.db*"))


@pytest.mark.parametrize("library", WORLDS)
def test_what_a_tool_asks_of_a_database_is_answered_without_it_if_the_tool_is_run(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, world = WORLDS[library]
    (tmp_path / "shop.py").write_text(program.replace(_ENTRY, _IN_A_TOOL))
    with world() as where:
        monkeypatch.setenv("WHERE", where)
        run = record(tmp_path, databases=True)
    for left in tmp_path.glob("shop.db*"):
        left.unlink()
    policy = ReplayPolicy(run_tools=frozenset({"work"}))
    report = replay(run, tmp_path, policy=policy)
    assert (report.divergences, report.ran, report.unserved) == ((), ("tool work",), ())
    first = replay(run, tmp_path, changed=('"cup"', '"mug"'), policy=policy).divergences[0]
    assert (first.kind, first.call_kind, first.inside) == (DivergenceKind.REQUEST_CHANGED, "database", "tool work")
    assert not list(tmp_path.glob("shop.db*"))


def test_a_server_that_is_not_recorded_is_not_asked_by_a_tool_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(_PSYCOPG.replace(_ENTRY, _IN_A_TOOL))
    with postgres_server() as where:
        monkeypatch.setenv("WHERE", where)
        run = record(tmp_path, databases=False)
        first = replay(run, tmp_path, policy=ReplayPolicy(run_tools=frozenset({"work"}))).divergences[0]
    assert (first.kind, first.name, first.inside) == (DivergenceKind.EXTRA_CALL, "postgresql connect", "tool work")


def test_a_database_that_is_not_recorded_is_a_gap_which_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(_SQLITE)
    run = record(tmp_path, databases=False)
    [gap] = [gap for gap in run.gaps if gap.kind is GapKind.DATABASE]
    assert "main (shop.py:" in gap.text
    assert "opens the database shop.db" in gap.text
    assert "set record_databases (FREEZEFRAME_RECORD_DATABASES=1), or move it from shop.py:" in gap.do
    assert readiness(replace(run, verified=True)).level < 6
