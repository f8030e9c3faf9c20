"""The address of a store holds a password: no command prints the password, whatever is wrong with the address."""

from __future__ import annotations

import re

import pytest

from freezeframe_collector.settings.config_file import load_config
from freezeframe_collector.store import open_store
from freezeframe_replay.cli import main
from freezeframe_schemas.errors import FreezeframeError

PASSWORD = "open-sesame"
TRACE = "ab" * 16
pytestmark = pytest.mark.long

COMMANDS = (
    ["runs"],
    ["show", TRACE],
    ["sql", "SELECT 1"],
    ["replay", TRACE],
    ["store", "stats"],
    ["store", "check"],
    ["fixture", TRACE, "-o", "nowhere"],
    ["export", "--as", "audit", TRACE, "-o", "nowhere"],
    ["fixture", "verify", TRACE],
    ["diff", TRACE, "last"],
    ["experiment", "dataset", "-o", "nowhere", "--sql", "SELECT 1"],
    ["failures"],
)
WRONG = (
    f"mysql://me:{PASSWORD}@127.0.0.1:1/db",
    f"me:{PASSWORD}@127.0.0.1:1/db",
    f"clickhouse://me:{PASSWORD}@127.0.0.1:99999/db",
    f"clickhouse://me:a/{PASSWORD}@127.0.0.1/db",
    f"clickhouse://me:{PASSWORD}@/db",
    f"clickhouse://me:{PASSWORD}@127.0.0.1:1/db",
    f"clickhouse://me:{PASSWORD}@127.0.0.1:1/db?table=otel_traces",
    f"clickhouses://me:{PASSWORD}@127.0.0.1:1/db?ca=/nowhere",
    f"http://127.0.0.1:1/?password={PASSWORD}",
    f"tape+http://me:{PASSWORD}@127.0.0.1:1",
    f"otlp+http://me:{PASSWORD}@127.0.0.1:1",
    f"phoenix+http://me:{PASSWORD}@127.0.0.1:1/x",
    f"chdb://me:{PASSWORD}@relative",
)


@pytest.mark.parametrize(
    ("command", "address"),
    [*((COMMANDS[0], address) for address in WRONG), *((command, WRONG[at]) for command in COMMANDS[1:] for at in (3, 5))],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_no_command_prints_the_password_of_a_store(
    command: list[str], address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--store", address]) == 1
    printed = "".join(capsys.readouterr())
    assert re.match(rf"freezeframe {command[0]}( \w+)?: ", printed)
    assert PASSWORD not in printed


@pytest.mark.parametrize("address", WRONG)
def test_the_collector_prints_no_password_of_its_store(address: str) -> None:
    said: list[str] = []
    for door in (lambda: load_config(None, {}, {"store.dsn": address}), lambda: open_store(address)):
        try:
            door()
        except FreezeframeError as error:
            said.append(str(error))
    assert said
    assert PASSWORD not in "".join(said)
