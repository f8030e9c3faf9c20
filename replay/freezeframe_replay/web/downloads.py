"""Files that the pages offer for download, as bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.regression import Expect, regression_test, slug
from freezeframe_replay.sources.fixture_archive import archive_bytes, fixture_files
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import Run


def fixture_archive(run: Run) -> bytes:
    """Return the run's fixture as a tar.gz with one folder, ``fixture-<run id>/``; equal runs give equal bytes."""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        write_fixture(freeze(run), Path(scratch))
        return archive_bytes(f"fixture-{run.trace_id}", fixture_files(Path(scratch)))


def archive_with_test(fixture: Fixture, name: str, expect: Expect) -> bytes:
    """Return a fixture as a tar.gz with one folder, ``name/``, and a test next to it."""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        write_fixture(fixture, Path(scratch))
        files = fixture_files(Path(scratch))
    return archive_bytes(name, {**files, f"test_{slug(name)}.py": regression_test(fixture, name, expect=expect).encode()})
