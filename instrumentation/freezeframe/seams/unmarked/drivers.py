"""Drivers whose work no audit hook sees: they connect, or open a database, in C, or query over an open connection.

A row per driver names the functions that do it; a run's call of one is a gap of that run. In a replay those
that connect are stopped, as Python's sockets are: they announce themselves as an audit event, `CONNECTS`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Final

from freezeframe.seams.recorder.patching import Patches
from freezeframe.seams.unmarked.accesses import note
from freezeframe_schemas.gaps import GapKind

CONNECTS: Final = "freezeframe.connect"
"""Audit event; its argument is the name of the driver's module."""
REMOTE: Final[Mapping[str, tuple[str, ...]]] = {
    "psycopg2": ("connect",),
    "MySQLdb": ("connect", "Connect", "Connection"),
    "mariadb": ("connect",),
    "oracledb": ("connect",),
    "pyodbc": ("connect",),
    "pymssql": ("connect",),
    "ibm_db": ("connect", "pconnect"),
    "curl_cffi.curl": ("Curl.perform",),
    "curl_cffi.aio": ("AsyncCurl.add_handle",),
    "pylibmc.client": ("Client.__init__",),
}
"""Module -> its functions that connect to another process, and methods of its classes."""
LOCAL: Final[Mapping[str, tuple[str, ...]]] = {
    "duckdb": ("connect", "read_csv", "read_json", "read_parquet"),
    "chdb": ("connect", "query", "sql"),
    "lmdb": ("open",),
    "kuzu.database": ("Database.__init__",),
}
"""Module -> its functions that open a database of this machine, or read files.

Functions that read their caller's variables, as ``duckdb.sql("SELECT * FROM frame")`` does, are left out: the
wrapper would be the caller.
"""
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "pymysql.connections": ("Connection.query",),
    "aiomysql.connection": ("Connection.query",),
    "MySQLdb.connections": ("Connection.query",),
    **dict.fromkeys(
        ("mysql.connector.connection", "mysql.connector.aio.connection"),
        ("MySQLConnection.cmd_query", "MySQLConnection.cmd_stmt_execute"),
    ),
    "mysql.connector.connection_cext": ("CMySQLConnection.cmd_query", "CMySQLConnection.cmd_stmt_execute"),
    "asyncpg.connection": ("Connection.execute", "Connection._get_statement", "Connection._copy_out", "Connection._copy_in"),
    "asyncpg.prepared_stmt": ("PreparedStatement._PreparedStatement__do_execute",),
    "oracledb.cursor": tuple(f"{name}.{how}" for name in ("Cursor", "AsyncCursor") for how in ("execute", "executemany")),
}
"""Module -> its query methods, for drivers without a seam whose connections an application opens at its start."""
DRIVERS: Final[Mapping[str, tuple[str, ...]]] = {**REMOTE, **LOCAL, **QUERIES}


def install(module: ModuleType, patches: Patches) -> None:
    """Patch one of the drivers."""
    does = "queries by" if module.__name__ in QUERIES else "opens a database by"
    hook = _connects if module.__name__ in REMOTE else partial(_reaches, does)
    for path in DRIVERS[module.__name__]:
        owner_name, _, name = path.rpartition(".")
        owner: Any = getattr(module, owner_name, None) if owner_name else module
        if hasattr(owner, name):
            patches.around(owner, name, partial(hook, module.__name__.partition(".")[0]))


def _connects(driver: str, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    note(GapKind.CONNECTION, "connects by", driver)
    sys.audit(CONNECTS, driver)
    return original(*args, **kwargs)


def _reaches(does: str, driver: str, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    note(GapKind.CONNECTION, does, driver)
    return original(*args, **kwargs)
