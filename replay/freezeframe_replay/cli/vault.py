"""`freezeframe store vault`: reveal the original of a surrogate, list who did, forget a run's originals, change the key."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from freezeframe_redaction.keyring.vault_keys import VaultPlace, vault_of
from freezeframe_replay.cli.command import Command, option
from freezeframe_replay.cli.options import DATA, JSON
from freezeframe_schemas.data_directory import find_data_directory
from freezeframe_schemas.errors import ConfigError

_TENANT: Final = option("--tenant", default="default", help="whose run it is (default: default)")
COMMAND: Final = Command(
    description="A collector with `vault = true` in [redaction] seals the original of each surrogate, under a key "
    "for each run. Anyone who can read the vault's keys can reveal originals: keep them where only that person can.",
    examples={
        "freezeframe store vault reveal u7k3q9x2mfa@dq2x7kq.example.com --who 'A. Officer' --why T-71": "one value; logged",
        "freezeframe store vault log": "every reveal, and every forgotten run",
        "freezeframe store vault forget 4bf92f3577b34da6a3ce929d0e0e4736": "a run's originals, for good",
        "freezeframe store vault rotate": "the next key, with the collector stopped",
    },
    exit_codes={1: "the vault holds nothing for it (or no longer does)", 2: "wrong usage, or no vault"},
    config_error=2,
    options=(
        DATA,
        option("--keys", type=Path, metavar="DIR", help="directory of its keys (default: the collector's)"),
    ),
    actions={
        "reveal": (
            "Print what a surrogate stands for, after logging who asked and why.",
            (
                _TENANT,
                option("surrogate", metavar="SURROGATE", help="as it appears in the run"),
                option("--run", metavar="RUN", help="id of the run that it appears in (default: any)"),
                option("--who", required=True, metavar="NAME", help="who asks"),
                option("--why", required=True, metavar="REASON", help="what for: a ticket, a subject's request"),
            ),
        ),
        "log": ("List every reveal and every run that was forgotten, oldest first.", (JSON,)),
        "forget": (
            "Destroy the key of a run's originals: they can never be revealed again.",
            (_TENANT, option("run", metavar="RUN", help="id of the run, all 32 digits")),
        ),
        "rotate": ("Create the next key of the vault, and protect everything with it. Stop the collector first.", ()),
    },
)


def execute(arguments: argparse.Namespace) -> int:
    """Open the vault and run the action."""
    place = vault_of(find_data_directory(arguments.data), arguments.keys)
    if not place.file.is_file():
        raise ConfigError(
            f"{place.file}: no vault here",
            do="set `vault = true` in [redaction] of the collector, or name another --data DIR",
        )
    if not any(place.keys.glob("*.key.json")):
        raise ConfigError(f"{place.keys}: no vault keys here", do="name their directory with --keys DIR")
    return _ACTIONS[arguments.action](place, arguments)


def _reveal(place: VaultPlace, arguments: argparse.Namespace) -> int:
    who, why = str(arguments.who).strip(), str(arguments.why).strip()
    if not who or not why:
        raise ConfigError("--who and --why must not be empty", do="say who asks and what for; both are recorded")
    original = place.open().reveal(arguments.tenant, arguments.surrogate, who=who, reason=why, subject=arguments.run)
    if original is None:
        print(
            "freezeframe store vault: the vault holds nothing for this surrogate (or no longer does); the request is logged",
            file=sys.stderr,
        )
        return 1
    print(original)
    return 0


def _log(place: VaultPlace, arguments: argparse.Namespace) -> int:
    vault = place.open()
    rows = [
        {
            "at": _when(line.at_unix_nano),
            "what": "revealed" if line.found else "asked for",
            "tenant": line.tenant,
            "of": line.surrogate,
            "who": line.who,
            "why": line.reason,
        }
        for line in vault.log()
    ]
    rows += [{"at": _when(at), "what": "forgotten", "tenant": tenant, "of": run} for at, tenant, run in vault.forgotten()]
    rows.sort(key=lambda row: row["at"])
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    for row in rows:
        reason = f"  by {row['who']}: {row['why']}" if "who" in row else ""
        print(f"{row['at']}  {row['what']:9s}  {row['tenant']}  {row['of']}{reason}")
    return 0


def _when(unix_nano: int) -> str:
    return datetime.fromtimestamp(unix_nano // 1_000_000 / 1000, UTC).isoformat(timespec="milliseconds")


def _forget(place: VaultPlace, arguments: argparse.Namespace) -> int:
    count = place.open().forget(arguments.tenant, arguments.run)
    print(f"{arguments.run}: {count} originals are gone for good; copies in other runs are not")
    return 0 if count else 1


def _rotate(place: VaultPlace, arguments: argparse.Namespace) -> int:
    del arguments
    key_id, count = place.rotate()
    print(f"{key_id} wraps the keys of {count} runs; older files in {place.keys} no longer open anything and can be destroyed")
    return 0


_ACTIONS = {"reveal": _reveal, "log": _log, "forget": _forget, "rotate": _rotate}
