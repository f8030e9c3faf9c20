"""Tiers: days that are rarely queried move to a slower, cheaper disk automatically.

A rule on the tables of spans and pieces moves each day's partition, a run's rows together, once the day is some days old; rows
that come late go there at once. `run_rows`, the source of lists, stays. An embedded store's disk is a
directory; a server's volume
is part of a storage policy in its configuration, and is named ``POLICY/VOLUME``.

A table whose rows may be on a disk cannot be opened without it. So the embedded store remembers its directory, and checks that
the disk is there, by a file with an id in it: an empty mount point would otherwise look like days without runs.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from freezeframe_collector.files import replace_durably
from freezeframe_collector.store.engine import Engine, quote_text
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.tables.ddl import RECOMPRESSED

COLD_TABLES: Final = ("span_rows", "piece_rows")
_EMBEDDED_POLICY: Final = "tiered"
_EMBEDDED_VOLUME: Final = "cold"
_REMEMBERED: Final = "cold-directory"
"""File of the data directory: two lines, the directory and its identity."""
_IDENTITY: Final = "freezeframe-cold-directory"
"""File of the cold directory: its identity."""
_DISKS: Final = """\
  <storage_configuration>
    <disks><cold><path>{path}/</path></cold></disks>
    <policies><tiered><volumes>
      <default><disk>default</disk></default><cold><disk>cold</disk></cold>
    </volumes></tiered></policies>
  </storage_configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdTier:
    """Rules for data on the slower disk."""

    after_days: int = 0
    """Days after which a day's runs move there; 0 moves none."""
    volume: str = ""
    """A directory of the embedded store's machine, or a server's ``POLICY/VOLUME``."""


def cold_directory(data: Path, wanted: str) -> Path | None:
    """Return the cold directory of the embedded store in `data`, made or remembered; None if it has none.

    Raises:
        ConfigError: it is not the same one as before, or is another store's.
        PermanentStoreError: its disk is missing.
    """
    remembered = data / _REMEMBERED
    if not remembered.exists():
        return _make_cold_directory(remembered, Path(wanted)) if wanted else None
    then, identity = remembered.read_text(encoding="utf-8").splitlines()
    directory = Path(wanted or then)
    if _identity_of(directory) == identity:
        if directory != Path(then):  # it was moved, with all that it holds
            _remember(remembered, directory, identity)
        return directory
    if directory == Path(then):
        raise PermanentStoreError(
            f"store: cold directory {directory}: found no file {_IDENTITY} of this store", do="is its disk mounted?"
        )
    raise ConfigError(
        f"store.cold_volume: found {directory}, but runs are stored in {then}",
        do=f"stop the collector, move the directory {then} to the new place, and start the collector again",
    )


def disks_xml(directory: Path) -> str:
    """Return the part of the embedded engine's configuration for its cold directory."""
    return _DISKS.format(path=escape(str(directory)))


def set_cold_tier(engine: Engine, database: str, stored: Mapping[str, str], tier: ColdTier) -> None:
    """Make the tables move their days according to `tier`.

    0 days stop an embedded store from moving any, and leave a server as is.

    Args:
        engine: the engine with the tables.
        database: their database.
        stored: the tables that have their own rows, each with its name in statements.
        tier: the new rules.

    Raises:
        ConfigError: the server has no such policy or volume, or the policy lacks the volume that holds the tables.
    """
    if not tier.after_days and not engine.embedded:
        return
    policy, volume = (_EMBEDDED_POLICY, _EMBEDDED_VOLUME) if engine.embedded else tier.volume.split("/")
    if tier.after_days:
        _look_for(engine, policy, volume)
    for table, name in stored.items():
        _, rows = engine.rows(
            "SELECT storage_policy, create_table_query FROM system.tables WHERE database = {db:String} AND name = {t:String}",
            {"db": database, "t": table},
        )
        of_now, query = rows[0]
        if not tier.after_days:
            if " TO VOLUME " in query:
                engine.command(f"ALTER TABLE {name} MODIFY TTL {RECOMPRESSED}")
            continue
        rule = f"toDate(run_hour) + toIntervalDay({tier.after_days + 1}) TO VOLUME {quote_text(volume)}, {RECOMPRESSED}"
        if of_now != policy:
            _look_for(engine, policy, *_volumes(engine, of_now))
            engine.command(f"ALTER TABLE {name} MODIFY SETTING storage_policy = {quote_text(policy)}")
        if f"TTL {rule}" not in query:
            engine.command(f"ALTER TABLE {name} MODIFY TTL {rule}")


def _look_for(engine: Engine, policy: str, *volumes: str) -> None:
    found = _volumes(engine, policy)
    if not found:
        _, rows = engine.rows("SELECT DISTINCT policy_name FROM system.storage_policies ORDER BY policy_name")
        raise ConfigError(
            f"store.cold_volume: the server has no storage policy {policy!r}, found {', '.join(row[0] for row in rows)}",
            do="name one from its configuration, as POLICY/VOLUME",
        )
    if missing := [volume for volume in volumes if volume not in found]:
        raise ConfigError(
            f"store.cold_volume: storage policy {policy!r} has no volume {missing[0]!r}, found {', '.join(found)}",
            do="it requires the named volume and the volume that holds the tables now (of the policy default: default)",
        )


def _volumes(engine: Engine, policy: str) -> list[str]:
    _, rows = engine.rows(
        "SELECT volume_name FROM system.storage_policies WHERE policy_name = {p:String} ORDER BY volume_priority", {"p": policy}
    )
    return [str(row[0]) for row in rows]


def _make_cold_directory(remembered: Path, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    if any(entry.name != _IDENTITY for entry in directory.iterdir()):
        raise ConfigError(f"store.cold_volume: {directory} is not empty", do="name a new directory on the other disk")
    identity = uuid.uuid4().hex
    replace_durably(directory / _IDENTITY, f"{identity}\n".encode())
    _remember(remembered, directory, identity)
    return directory


def _remember(remembered: Path, directory: Path, identity: str) -> None:
    replace_durably(remembered, f"{directory}\n{identity}\n".encode())


def _identity_of(directory: Path) -> str:
    try:
        return (directory / _IDENTITY).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
