"""Backup and restore of the store while it runs: its rows as files, with checksums, readable by any later version.

    DIR/manifest.json       {"format": 2, "migrations": [...], "tables": {"span_rows": {"rows": 10, "sha256": "..."}}}
    DIR/span_rows.native    [u32 little-endian length][zstd of one block in ClickHouse's Native format] ...

Rows, not the engine's files: the engine needs no right to touch files, and an embedded store restores into a server.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import zstandard

from freezeframe_collector.store.call_rows import join_all_calls
from freezeframe_collector.store.store import Store
from freezeframe_schemas.errors import PermanentStoreError
from freezeframe_schemas.tables.ddl import migrations

FORMAT: Final = 2
_TABLES: Final = (
    "piece_rows",
    "span_rows",
    "rejected_rows",
    "policy_rows",
    "prices",
    "pins",
    "labels",
    "unsettled_rows",
    "audit",
    "queries",
)
"""`run_rows` and `call_rows` are made from `span_rows`. Payloads first: a span never names a missing piece."""
_COUNT_ONCE: Final = ("piece_rows", "span_rows", "policy_rows", "prices", "pins", "labels", "unsettled_rows")
"""Tables whose rows count once, however often they are inserted; rows of the others are not restored a second time."""
_LENGTH: Final = struct.Struct("<I")
_INSERT_BYTES: Final = 32 << 20
"""Size of the blocks inserted together: the engine returns blocks of some hundred spans, and an insert costs 0.1 s."""


def backup(store: Store, directory: Path) -> dict[str, int]:
    """Write the store's rows to a new directory and return their number, by table.

    Spans that arrive meanwhile may be in it or not, each with all its payloads.

    Raises:
        PermanentStoreError: the directory is there already.
    """
    if directory.exists():
        raise PermanentStoreError(f"backup: {directory} already exists", do="name a new directory")
    partial = directory.with_name(directory.name + ".partial")
    partial.mkdir(parents=True)
    tables: dict[str, Any] = {}
    # spans are read first, so that the pieces of all of them are among the payloads that are read after
    for name in sorted(_TABLES, key=lambda table: table != "span_rows"):
        tables[name] = _write_table(store, name, partial / f"{name}.native")
    manifest = {"format": FORMAT, "migrations": [name for name, _ in migrations()], "tables": tables}
    (partial / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    partial.rename(directory)
    return {name: table["rows"] for name, table in tables.items()}


def restore(store: Store, directory: Path) -> dict[str, int]:
    """Insert a backup's rows into a migrated store and return their number, by table. Existing rows are not duplicated.

    Raises:
        PermanentStoreError: it is not a backup, is damaged, or is of a newer version; checked before the first row is inserted.
    """
    manifest = _read_manifest(directory)
    # one that an earlier version wrote has fewer tables
    tables = {name: manifest["tables"][name] for name in _TABLES if name in manifest["tables"]}
    for name, table in tables.items():
        _verify(directory / f"{name}.native", table)
    # the engine recognises blocks by their tokens: it would leave out one that it has had, though rows of it were deleted since
    _, deletions = store.query(f"SELECT count() FROM {store.database}.audit WHERE startsWith(action, 'delete_')")
    for name, table in tables.items():
        path = directory / f"{name}.native"
        with path.open("rb") as file:
            for index, blocks in enumerate(_joined(_blocks(file, path))):
                columns: list[str] = table["columns"]
                since = deletions[0][0] if name in _COUNT_ONCE else 0
                token = f"restore/{directory.name}/{name}/{index}/{since}"
                store.engine.insert(f"{store.database}.{name}", columns, blocks, token)
    store.forget()
    join_all_calls(store.engine, store.database)
    return {name: table["rows"] for name, table in tables.items()}


def _write_table(store: Store, name: str, path: Path) -> dict[str, Any]:
    source = f"{store.database}.{name}"
    _, described = store.query(
        "SELECT name FROM system.columns WHERE database = {db:String} AND table = {t:String} AND default_kind != 'ALIAS'"
        " ORDER BY position",
        {"db": store.database, "t": name},
    )
    columns = [str(row[0]) for row in described]
    compressor = zstandard.ZstdCompressor(level=3)
    digest = hashlib.sha256()
    blocks = 0
    names = ", ".join(f"`{column}`" for column in columns)
    with path.open("wb") as file:
        for block in store.engine.blocks(f"SELECT {names} FROM {source}"):
            raw = compressor.compress(block)
            for part in (_LENGTH.pack(len(raw)), raw):
                digest.update(part)
                file.write(part)
            blocks += 1
    _, counted = store.query(f"SELECT count() FROM {source}")
    return {"rows": counted[0][0], "blocks": blocks, "columns": columns, "sha256": digest.hexdigest()}


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / "manifest.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PermanentStoreError(f"restore: {path}: expected a backup's manifest ({error})") from None
    if manifest.get("format") != FORMAT:
        raise PermanentStoreError(f"restore: {path}: found format {manifest.get('format')}, this version reads {FORMAT}")
    newer = sorted(set(manifest["migrations"]) - {name for name, _ in migrations()})
    if newer:
        raise PermanentStoreError(f"restore: {path}: of a newer version ({', '.join(newer)})", do="upgrade freezeframe")
    return manifest


def _verify(path: Path, table: dict[str, Any]) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PermanentStoreError(f"restore: {path}: {error.strerror}") from None
    if found != table["sha256"]:
        raise PermanentStoreError(f"restore: {path}: found checksum {found[:12]}, expected {table['sha256'][:12]}: damaged")


def _blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor()
    while head := file.read(_LENGTH.size):
        if len(head) < _LENGTH.size:
            raise PermanentStoreError(f"restore: {path}: ends within a block")
        yield decompressor.decompress(file.read(_LENGTH.unpack(head)[0]))


def _joined(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield several blocks as one text: the format allows that."""
    held: list[bytes] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= _INSERT_BYTES:
            yield b"".join(held)
            held.clear()
    if held:
        yield b"".join(held)
