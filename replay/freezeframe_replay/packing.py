"""A run as one file: its recording, its code and a page to read it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from freezeframe_replay.local.code import Code, code_as_it_is, code_of_commit, recorded_lock_file
from freezeframe_replay.report.outline import outline_fixture, outline_run
from freezeframe_replay.sources.fixture_archive import CODE, PAGE, Pack, archive_bytes, fixture_files, pack_file
from freezeframe_replay.sources.passing_on import policies_of, refuse_bare
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRecording:
    """What is packed, before the code is."""

    fixture: Fixture
    run: Run | None
    """None if a fixture was named, which holds no spans to make a page of."""


def refuse_bare_recording(recorded: PackedRecording) -> None:
    """Refuse a run that was never redacted.

    Raises:
        ConfigError: it is such a run.
    """
    policies = {recorded.fixture.redaction.policy} | (policies_of(recorded.run.spans) if recorded.run else set())
    refuse_bare(recorded.fixture.run_id, policies, made="a file", anyway="pack it as it is: --unredacted")


def code_of(asked: str | None, fixture: Fixture, folder: Path) -> tuple[Code | None, str]:
    """Return the folder's code as `--code` asks for it, and why there is none if it was not refused.

    Raises:
        ConfigError: the code that was asked for cannot be read.
    """
    commit = fixture.environment.get(genai.VCS_REVISION, "")
    if asked == "none":
        return None, ""
    if asked == "now":
        return code_as_it_is(folder), ""
    try:
        if not commit:
            raise ConfigError(
                f"run {fixture.run_id}: the commit of its code was not recorded",
                do="pack the files as they are (--code now), or none (--code none)",
            )
        return code_of_commit(folder, commit), ""
    except ConfigError as error:
        if asked is not None:
            raise
        return None, f"warning: no code is packed: {error}"


def files_of(recorded: PackedRecording, code: Code | None, name: str, folder: Path) -> dict[str, bytes]:
    """Return everything that is packed, by its name in the file."""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        write_fixture(recorded.fixture, Path(scratch))
        files = fixture_files(Path(scratch))
    if code is not None:
        files |= {f"{CODE}{path}": content for path, content in code.files.items()}
        files |= recorded_lock_file(folder, recorded.fixture.environment.get(genai.LOCK_FILE, ""))
    if recorded.run is not None:
        from freezeframe_replay.web.run_pages import page_of_a_file  # needs the extra `ui`

        page = page_of_a_file(recorded.run, outline_run(recorded.run), named=name)
        files[PAGE] = page.encode("utf-8", "backslashreplace")
    return files | pack_file(_pack(recorded, code, files))


def _pack(recorded: PackedRecording, code: Code | None, files: Mapping[str, bytes]) -> Pack:
    fixture = recorded.fixture
    outline = outline_fixture(fixture) if recorded.run is None else outline_run(recorded.run)
    return Pack(
        run=fixture.run_id,
        created_by=fixture.created_by,
        python=fixture.environment.get(genai.RUNTIME_VERSION, ""),
        commit=code.commit if code else "",
        changed=code.changed if code else False,
        left_out=code.left_out if code else (),
        readiness={
            "level": outline.level,
            "means": outline.level_means,
            "missing": outline.missing,
            "gaps": outline.gaps,
            "ledger": [asdict(loss) for loss in outline.ledger],
        },
        files={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )


def pack_of(recorded: PackedRecording, files: dict[str, bytes], code: Code | None) -> bytes:
    executable = {f"{CODE}{path}" for path in code.executable} if code else set[str]()
    return archive_bytes(f"run-{recorded.fixture.run_id}", files, executable=executable)
