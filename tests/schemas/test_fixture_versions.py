"""Every version of the fixture format that was ever released still loads, and says what it said."""

from __future__ import annotations

from pathlib import Path

from golden_fixture import every_form

from freezeframe_schemas.fixture import load_fixture, write_fixture

GOLDEN = Path(__file__).parents[1] / "golden/fixtures"


def test_a_fixture_of_version_1_loads_as_it_was_written() -> None:
    """Each form of body, chunks, errors and nesting; the digests of its keys included."""
    assert load_fixture(GOLDEN / "v1/every-form") == every_form()


def test_version_1_is_written_byte_for_byte_as_before(tmp_path: Path) -> None:
    """A change here is a change of every fixture in every user's repository."""
    write_fixture(every_form(), tmp_path)
    folder = GOLDEN / "v1/every-form"
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()) == names
    assert [name for name in names if (tmp_path / name).read_bytes() != (folder / name).read_bytes()] == []
