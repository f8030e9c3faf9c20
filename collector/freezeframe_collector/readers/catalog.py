"""A reader's own metadata: copies of the writer's table definitions, and disks that are the writer's, read-only.

Parts are under ``store/<first 3 of the uuid>/<uuid>/``, so a table that is attached with the writer's uuid over a disk with the
writer's path finds the writer's parts. Parts are listed when the table is attached: a reader sees what was inserted before it
opened. Attaching takes most of the opening time, so a reader that knows its statement attaches only the tables named in it.

``<type>local</type>`` ignores ``readonly`` (chDB 26.9), so the disk is an object storage of plain files, which honours it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

_CONFIG: Final = """\
<clickhouse>
  <storage_configuration>
    <disks>{disks}</disks>
    <policies>
      <readers><volumes><default><disk>hot</disk></default></volumes></readers>{tiered}
    </policies>
  </storage_configuration>
  <merge_tree><storage_policy>readers</storage_policy><refresh_parts_interval>0</refresh_parts_interval></merge_tree>
  <user_directories><users_xml><path>{own}/engine.xml</path></users_xml></user_directories>
  <profiles><default>
    <max_execution_time>0</max_execution_time>
    <allow_introspection_functions>0</allow_introspection_functions>
  </default></profiles>
  <users><default>
    <password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>{grants}
  </default></users>
  <quotas><default></default></quotas>
  <background_schedule_pool_size>1</background_schedule_pool_size>
  <background_pool_size>1</background_pool_size>
  <background_move_pool_size>1</background_move_pool_size>
  <background_fetches_pool_size>1</background_fetches_pool_size>
  <background_common_pool_size>1</background_common_pool_size>
  <background_merges_mutations_concurrency_ratio>16</background_merges_mutations_concurrency_ratio>
  <memory_worker_use_cgroup>0</memory_worker_use_cgroup>
  <async_load_databases>true</async_load_databases>
  <tables_loader_foreground_pool_size>2</tables_loader_foreground_pool_size>
</clickhouse>
"""
_DISK: Final = (
    "<{name}><type>object_storage</type><object_storage_type>local</object_storage_type>"
    "<metadata_type>plain</metadata_type><path>{path}/</path><readonly>1</readonly></{name}>"
)
_TIERED: Final = "<tiered><volumes><default><disk>hot</disk></default><cold><disk>cold</disk></cold></volumes></tiered>"
"""The writer's policy of this name, over this reader's disks: definitions name it and its volumes."""
_GRANTS: Final = "<grants><query>GRANT SELECT, SHOW ON *.*</query></grants>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A reader's directory, in which the definitions of its tables are still missing."""

    target: str
    """Address to connect to."""
    definitions: Mapping[str, str]
    """Table or view -> its definition."""
    folder: Path
    """Their expected place."""
    database: str

    def put(self, names: Iterable[str] | None = None) -> None:
        """Write the definitions of these tables and of those they depend on; of all tables without names."""
        for name in self.definitions if names is None else self._with_parts(names):
            (self.folder / f"{name}.sql").write_text(self.definitions[name], encoding="utf-8")

    def named_in(self, *texts: bytes) -> list[str]:
        """Return the tables whose names occur anywhere in the texts."""
        return [name for name in self.definitions if any(name.encode() in text for text in texts)]

    def _with_parts(self, names: Iterable[str]) -> set[str]:
        found, open_names = set[str](), list(names)
        while open_names:
            name = open_names.pop()
            if name in self.definitions and name not in found:
                found.add(name)
                open_names += re.findall(rf"\b{re.escape(self.database)}\.(\w+)", self.definitions[name])
        return found


def make_catalog(writer: Path, own: Path, *, database: str, cold: Path | None, grants: bool) -> Catalog:
    """Write a reader's directory, all but the definitions of its tables, and return it.

    Args:
        writer: the writer's engine directory, which holds ``metadata`` and ``store``.
        own: the reader's directory, empty.
        database: the database of the tables.
        cold: the writer's directory for old days.
        grants: whether the engine grants reading only; False is for the test that the other walls suffice.
    """
    engine = own / "engine"
    (engine / "metadata").mkdir(parents=True)
    disks = {"hot": writer, **({} if cold is None else {"cold": cold})}
    (own / "engine.xml").write_text(_config(disks, own, grants=grants), encoding="utf-8")
    (engine / "metadata" / f"{database}.sql").write_bytes((writer / "metadata" / f"{database}.sql").read_bytes())
    definitions = (writer / "metadata" / database).resolve()
    mine = engine / "store" / definitions.parent.name / definitions.name
    mine.mkdir(parents=True)
    texts = {file.stem: file.read_text(encoding="utf-8") for file in definitions.glob("*.sql")}
    return Catalog(
        target=f"{engine}?config-file={own}/engine.xml",
        # a materialized view would only run on inserts
        definitions={name: text for name, text in texts.items() if not text.startswith("ATTACH MATERIALIZED")},
        folder=mine,
        database=database,
    )


def _config(disks: Mapping[str, Path], own: Path, *, grants: bool) -> str:
    return _CONFIG.format(
        disks="".join(_DISK.format(name=name, path=escape(str(path))) for name, path in disks.items()),
        tiered=_TIERED if "cold" in disks else "",
        own=escape(str(own)),
        grants=_GRANTS if grants else "",
    )


def state_of(writer: Path, cold: Path | None) -> tuple[tuple[str, int], ...]:
    """Return a state that changes with each new or removed part or table: the last change of each directory of the store.

    The engine removes a dropped table's directory minutes later: one that disappears meanwhile is left out.
    """
    tables = (
        table for root in (writer, cold) if root is not None for group in _entries(root / "store") for table in _entries(group)
    )
    return tuple(sorted(found for table in tables for found in _last_change(table)))


def _entries(directory: str | Path) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(directory) if entry.is_dir()]
    except FileNotFoundError:
        return []


def _last_change(directory: str) -> Iterator[tuple[str, int]]:
    with suppress(FileNotFoundError):
        yield directory, os.stat(directory).st_mtime_ns
