"""What the pages offer for download, as bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

from freezeframe_replay.engine.freeze import freeze
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.run import Run


def fixture_archive(run: Run) -> bytes:
    """Return the run's fixture as a tar.gz with one folder, ``fixture-<run id>/``; equal runs give equal bytes."""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        write_fixture(freeze(run), Path(scratch))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted(Path(scratch).rglob("*")):
                archive.add(path, f"fixture-{run.trace_id}/{path.relative_to(scratch)}", recursive=False, filter=_anonymous)
    return gzip.compress(packed.getvalue(), mtime=0)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove owner and time from an archive entry."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member
