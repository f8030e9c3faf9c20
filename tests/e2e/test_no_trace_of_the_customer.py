"""Nothing that reveals who the customer is reaches the disk: not in the store, not in the log, not in a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from forms_on_disk import forms_in, forms_on_disk
from theatre import VARIANTS, Theatre

from freezeframe_schemas.fixture import write_fixture

# the first test of a session also waits for everything to start, and for four agents to answer
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PRIVATE = ("Keller", "maria.keller", "northbay-mail", "415 555 2671", "4539 1488 0343 6467")


@pytest.mark.proof("law no private value reaches the disk")
def test_no_file_of_the_data_directory_holds_a_private_value(theatre: Theatre) -> None:
    assert len(theatre.runs) == len(VARIANTS)
    assert (theatre.data / "wal" / "casts.db").is_file()
    assert forms_on_disk(theatre.data, PRIVATE) == []


@pytest.mark.proof
def test_no_query_gives_a_private_value(theatre: Theatre) -> None:
    for run in theatre.runs.values():
        assert forms_in(repr(run.run).encode(), PRIVATE) == []


@pytest.mark.proof
def test_no_fixture_holds_a_private_value(theatre: Theatre, tmp_path: Path) -> None:
    for name, run in theatre.runs.items():
        write_fixture(run.fixture, tmp_path / name)
    assert forms_on_disk(tmp_path, PRIVATE) == []
