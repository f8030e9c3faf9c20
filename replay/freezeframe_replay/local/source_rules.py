"""The calls that a replay could not repeat, as a table: each row has the kind of the gap that a recording would name.

A dotted name is that of a function after imports, ``pathlib.Path.read_text``; a star at its end stands for all below it.
Model calls, times, random draws of `random` and `uuid` and HTTP inside tools are not here: they are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from freezeframe.seams.unmarked import drivers
from freezeframe_schemas.gaps import GapKind

_TOOL: Final = "mark {by} with @freezeframe.tool"
_FILES: Final = "set record_files (FREEZEFRAME_RECORD_FILES=1), commit the file, or mark {by} with @freezeframe.tool"
_DATABASES: Final = "set record_databases (FREEZEFRAME_RECORD_DATABASES=1), or mark {by} with @freezeframe.tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    kind: GapKind
    verb: str
    """Effect of the call, between the function's name and the call's."""
    calls: frozenset[str]
    do: str = _TOOL
    """The remedy; ``{by}`` is the function that makes the call."""


def _of(prefix: str, names: str) -> list[str]:
    return [f"{prefix}.{name}" for name in names.split()]


RULES: Final = (
    CallRule(
        kind=GapKind.FILE_READ,
        verb="reads a file by",
        do=_FILES,
        calls=frozenset(
            [
                *("open", "io.open", "os.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open", "zipfile.ZipFile"),
                *("tarfile.open", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "shelve.open", "linecache.getline"),
                *_of("pathlib.Path", "open read_text read_bytes"),
                *_of("pandas", "read_csv read_json read_excel read_parquet read_pickle read_table read_feather"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.FILE_READ,
        verb="lists a folder by",
        calls=frozenset(
            [
                *("os.listdir", "os.scandir", "os.walk", "os.fwalk", "glob.glob", "glob.iglob"),
                *_of("pathlib.Path", "iterdir glob rglob walk"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.FILE_WRITTEN,
        verb="changes files by",
        calls=frozenset(
            [
                *_of("pathlib.Path", "write_text write_bytes touch mkdir unlink rmdir rename replace symlink_to hardlink_to"),
                *_of("os", "mkdir makedirs remove unlink rename renames replace rmdir removedirs link symlink truncate"),
                *_of("shutil", "copy copy2 copyfile copytree move rmtree make_archive unpack_archive"),
                *("numpy.save", "numpy.savez", "numpy.savetxt"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.PROCESS,
        verb="starts a program by",
        calls=frozenset(
            [
                *_of("subprocess", "run Popen call check_call check_output getoutput getstatusoutput"),
                *_of("os", "system popen startfile posix_spawn posix_spawnp execv execve execvp execl execlp spawnl spawnv"),
                *_of("asyncio", "create_subprocess_exec create_subprocess_shell"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.CONNECTION,
        verb="connects by",
        calls=frozenset(
            [
                *_of("socket", "create_connection socket.connect socket.connect_ex"),
                *("asyncio.open_connection", "asyncio.open_unix_connection"),
                *("smtplib.SMTP", "smtplib.SMTP_SSL", "imaplib.IMAP4", "imaplib.IMAP4_SSL", "poplib.POP3", "poplib.POP3_SSL"),
                *("ftplib.FTP", "ftplib.FTP_TLS", "telnetlib.Telnet", "paramiko.SSHClient", "pika.BlockingConnection"),
                *(
                    "websockets.connect",
                    "websockets.sync.client.connect",
                    "websocket.create_connection",
                    "websocket.WebSocketApp",
                ),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.CONNECTION,
        verb="reaches, by a driver in C,",
        calls=frozenset(
            [
                *(f"{module}.{path.removesuffix('.__init__')}" for module, paths in drivers.REMOTE.items() for path in paths),
                *(f"{module}.{path.removesuffix('.__init__')}" for module, paths in drivers.LOCAL.items() for path in paths),
                *(
                    f"{package}.{name}"
                    for package in (*{module.partition(".")[0] for module in drivers.QUERIES}, "mysql.connector")
                    for name in ("connect", "create_pool", "connect_async", "create_pool_async")
                ),
                *("curl_cffi.*", "pycurl.Curl", "pylibmc.Client", "kuzu.Database", "duckdb.sql", "duckdb.query"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.HTTP_UNRECORDED,
        verb="calls a host by",
        do="name the host in record_hosts, or mark {by} with @freezeframe.tool",
        calls=frozenset(
            [
                *(
                    f"{library}.{how}"
                    for library in ("requests", "httpx")
                    for how in ("get", "post", "put", "patch", "delete", "request")
                ),
                *("urllib.request.urlopen", "urllib.request.urlretrieve", "requests.Session.get", "requests.Session.post"),
                *("httpx.Client.get", "httpx.Client.post", "httpx.AsyncClient.get", "httpx.AsyncClient.post"),
                *("aiohttp.ClientSession.get", "aiohttp.ClientSession.post"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.DATABASE,
        verb="opens a database by",
        do=_DATABASES,
        calls=frozenset(
            [
                *("sqlite3.connect", "aiosqlite.connect", "sqlalchemy.create_engine", "psycopg.connect", "psycopg_pool.*"),
                *(
                    "sqlalchemy.ext.asyncio.create_async_engine",
                    "psycopg.AsyncConnection.connect",
                    "psycopg.Connection.connect",
                ),
                *("redis.Redis", "redis.StrictRedis", "redis.from_url", "redis.asyncio.Redis", "redis.asyncio.from_url"),
                *("pymongo.MongoClient", "pymongo.AsyncMongoClient", "motor.motor_asyncio.AsyncIOMotorClient"),
            ]
        ),
    ),
    CallRule(
        kind=GapKind.RANDOM_UNRECORDED,
        verb="draws what is not recorded by",
        do="draw what is not secret from random or uuid, or mark {by} with @freezeframe.tool",
        calls=frozenset(["os.urandom", "os.getrandom", "secrets.*", "random.SystemRandom.*", "ssl.RAND_bytes"]),
    ),
    CallRule(
        kind=GapKind.RANDOM_UNRECORDED,
        verb="draws from a generator of its library by",
        do="set the library's seed first, or mark {by} with @freezeframe.tool",
        calls=frozenset(_of("torch", "rand randn randint randperm bernoulli multinomial normal rand_like randn_like")),
    ),
    CallRule(
        kind=GapKind.CLOCK_UNRECORDED,
        verb="reads the clock of numpy by",
        do="use datetime.datetime.now()",
        calls=frozenset(["numpy.datetime64"]),
    ),
)
"""Of an effect in code that a run executes outside tools."""

ON_IMPORT: Final = frozenset({GapKind.FILE_READ, GapKind.DATABASE, GapKind.CONNECTION})
"""Kinds that count while a module is imported: a replay imports it again. Draws there have a rule of their own."""
DRAWS: Final = frozenset(
    _of("random", "random randint randrange choice choices shuffle sample uniform gauss normalvariate getrandbits betavariate")
)
"""Draws that are recorded in a run, but not during an import, unless a seed was set before."""
ANY_PATH: Final = frozenset(_of("pathlib.Path", "read_text read_bytes write_text write_bytes"))
"""Methods that only paths have, whatever their object is called."""

MUTATORS: Final = frozenset(
    "append extend insert remove pop clear update setdefault add discard sort reverse popitem appendleft extendleft put".split()
)
"""Methods that change what they are called on."""
TOOL_MARKS: Final = frozenset({"tool", "retriever", "function_tool", "tool_plain"})
"""Last words of decorators whose functions are answered from the recording."""

SERVED_MARKS: Final = frozenset("get post put patch delete route websocket task shared_task actor job defn cloud_event".split())
"""Last words of decorators of servers and workers, whose functions are runs: many in one process."""


def rule_of(call: str) -> CallRule | None:
    """Return the row of a call by its dotted name."""
    above = {f"{call[:at]}.*" for at, sign in enumerate(call) if sign == "."}
    return next((rule for rule in RULES if call in rule.calls or not above.isdisjoint(rule.calls)), None)
