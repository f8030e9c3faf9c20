"""The law of the fixture format: what is written is read back equal, and what was damaged is not read at all."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from arbitrary import fixtures
from handmade_runs import model_call, tool_call
from hypothesis import given

from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.exchange import Chunk, Exchange, Response
from freezeframe_schemas.fixture import Fixture, Step, load_fixture, write_fixture
from freezeframe_schemas.fixture_bodies import BLOB_LIMIT
from freezeframe_schemas.run import Entry


def files(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def fixture_of(*exchanges: Exchange) -> Fixture:
    steps = tuple(Step(number=number, exchange=exchange, key="k", ordinal=0) for number, exchange in enumerate(exchanges, 1))
    return Fixture(run_id="ab" * 16, entry=Entry(input='{"args": ["Ä"], "kwargs": {}}'), steps=steps)


@pytest.mark.proof
@pytest.mark.long
@given(fixture=fixtures())
def test_a_fixture_survives_its_files(fixture: Fixture) -> None:
    """Every byte of every body, every chunk border, and each absent field absent."""
    with tempfile.TemporaryDirectory() as name:
        write_fixture(fixture, Path(name))
        assert load_fixture(Path(name)) == fixture


@pytest.mark.proof
@pytest.mark.long
@given(fixture=fixtures())
def test_writing_again_changes_no_byte(fixture: Fixture) -> None:
    """A fixture under version control shows a diff only where the run differs."""
    with tempfile.TemporaryDirectory() as name:
        write_fixture(fixture, Path(name))
        first = files(Path(name))
        write_fixture(load_fixture(Path(name)), Path(name))
        assert files(Path(name)) == first


def test_a_large_body_goes_to_a_file_of_its_own_and_keeps_its_borders(tmp_path: Path) -> None:
    large = tuple(Chunk(data=bytes([index]) * BLOB_LIMIT, offset_ns=index) for index in range(3))
    fixture = fixture_of(replace(model_call("a", "b"), response=Response(status=200, chunks=large)))
    write_fixture(fixture, tmp_path)
    assert len(list((tmp_path / "blobs").iterdir())) == 1
    assert load_fixture(tmp_path) == fixture


def test_replacing_a_fixture_leaves_no_blob_of_the_old_one_and_no_other_file_touched(tmp_path: Path) -> None:
    large = replace(model_call("a", "b"), response=Response(status=200, chunks=(Chunk(data=bytes(BLOB_LIMIT + 1)),)))
    write_fixture(fixture_of(large), tmp_path)
    (tmp_path / "test_it.py").write_text("# mine")
    small = fixture_of(model_call("a", "b"))
    write_fixture(small, tmp_path)
    assert load_fixture(tmp_path) == small
    assert sorted(files(tmp_path)) == ["manifest.json", "steps.json", "test_it.py"]


def test_a_json_body_is_readable_in_the_diff(tmp_path: Path) -> None:
    """The request is written as JSON, not as a string that holds JSON."""
    write_fixture(fixture_of(model_call("where is my order?", "here")), tmp_path)
    (step,) = json.loads((tmp_path / "steps.json").read_text())
    assert step["request"]["body"]["json"]["messages"][0]["content"] == "where is my order?"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the folder of a fixture with two steps and a blob."""
    large = replace(model_call("a", "b"), response=Response(status=200, chunks=(Chunk(data=bytes(BLOB_LIMIT + 1)),)))
    write_fixture(fixture_of(large, tool_call("lookup", {"id": 1}, "AC-1")), tmp_path)
    return tmp_path


def edit(path: Path, **changes: Any) -> None:
    value = json.loads(path.read_text())
    value.update(changes)
    path.write_text(json.dumps(value))


def test_a_version_that_this_library_does_not_know_names_both(written: Path) -> None:
    edit(written / "manifest.json", version=2)
    with pytest.raises(FixtureError, match=r"version 2.*reads version 1"):
        load_fixture(written)


def test_a_folder_without_a_fixture_is_an_error_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FixtureError, match=r"manifest\.json: not found"):
        load_fixture(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "steps.json"])
def test_a_file_that_is_not_json_is_named(written: Path, name: str) -> None:
    (written / name).write_text("{")
    with pytest.raises(FixtureError, match=name):
        load_fixture(written)


def test_another_projects_manifest_is_refused(written: Path) -> None:
    edit(written / "manifest.json", format="cassette")
    with pytest.raises(FixtureError, match="not a freezeframe fixture"):
        load_fixture(written)


def test_an_edited_step_is_refused(written: Path) -> None:
    """A recording that someone edited by hand proves nothing."""
    path = written / "steps.json"
    path.write_text(path.read_text().replace('"AC-1"', '"AC-2"'))
    with pytest.raises(FixtureError, match="digest"):
        load_fixture(written)


def test_an_edited_manifest_is_refused(written: Path) -> None:
    edit(written / "manifest.json", gaps=["none"])
    with pytest.raises(FixtureError, match="digest"):
        load_fixture(written)


def test_a_missing_blob_is_named(written: Path) -> None:
    (blob,) = (written / "blobs").iterdir()
    blob.unlink()
    with pytest.raises(FixtureError, match=blob.name):
        load_fixture(written)


def test_an_edited_blob_is_refused(written: Path) -> None:
    (blob,) = (written / "blobs").iterdir()
    blob.write_bytes(b"other")
    with pytest.raises(FixtureError, match="does not match its name"):
        load_fixture(written)


def test_a_blob_is_read_from_the_blobs_folder_only(written: Path) -> None:
    """A fixture from a stranger cannot make the reader open another file, even if its digest is right."""
    from freezeframe_schemas import fixture as format_v1

    steps = json.loads((written / "steps.json").read_text())
    steps[0]["response"]["body"] = {"blob": "../manifest.json", "size_bytes": 1}
    (written / "steps.json").write_text(json.dumps(steps))
    manifest = json.loads((written / "manifest.json").read_text())
    del manifest["digest"]
    edit(written / "manifest.json", digest=format_v1._digest(manifest, steps))
    with pytest.raises(FixtureError, match="expected 64 hex digits"):
        load_fixture(written)
