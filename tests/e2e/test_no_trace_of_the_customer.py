"""Nothing that reveals who the customer is reaches the disk: not in the store, not in the log, not in a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from theatre import VARIANTS, Theatre

from freezeframe_schemas.fixture import write_fixture

# the first test of a session also waits for everything to start, and for four agents to answer
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PRIVATE = (
    b"Keller",
    b"maria.keller",
    b"northbay-mail",
    b"415 555 2671",
    b"4155552671",
    b"4539 1488 0343 6467",
    b"4539148803436467",
)


def found_in(directory: Path) -> list[str]:
    """Return where any private value occurs in the bytes of any file below the directory."""
    return [
        f"{path.relative_to(directory)}: {value.decode()}"
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        for value in PRIVATE
        if value.lower() in path.read_bytes().lower()
    ]


def test_no_file_of_the_data_directory_holds_a_private_value(theatre: Theatre) -> None:
    assert len(theatre.runs) == len(VARIANTS)
    assert found_in(theatre.data) == []


def test_no_query_gives_a_private_value(theatre: Theatre) -> None:
    for run in theatre.runs.values():
        text = repr(run.run).lower()
        assert not [value for value in PRIVATE if value.decode().lower() in text]


def test_no_fixture_holds_a_private_value(theatre: Theatre, tmp_path: Path) -> None:
    for name, run in theatre.runs.items():
        write_fixture(run.fixture, tmp_path / name)
    assert found_in(tmp_path) == []
