"""A run as one file: its recording, its code and a page to read it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.local.code import Code, code_as_it_is, code_of_commit, recorded_lock_file
from freezeframe_replay.operations.writing import frozen
from freezeframe_replay.report.outline import outline_fixture, outline_run
from freezeframe_replay.report.render import counted, printable
from freezeframe_replay.sources.fixture_archive import CODE, PAGE, Pack, archive_bytes, fixture_files, pack_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import Run

CODES: Final = ("commit", "now", "none")
"""The files of the folder to pack: those of the recorded commit, the present ones, or none."""
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRun:
    fixture: Fixture
    code: Code | None
    has_page: bool
    files: int
    content: bytes
    warnings: tuple[str, ...]

    def document(self) -> Mapping[str, Any]:
        """Return the facts about it for programs."""
        code = self.code and {
            "commit": self.code.commit,
            "changed": self.code.changed,
            "files": len(self.code.files),
            "left_out": list(self.code.left_out),
        }
        facts = {"run": self.fixture.run_id, "steps": len(self.fixture.steps), "page": self.has_page}
        return {**facts, "code": code, "files": self.files, "bytes": len(self.content)}

    def lines(self, output: str) -> Iterator[str]:
        """Yield the facts about it for people."""
        page = ", its page" if self.has_page else ""
        steps = counted(len(self.fixture.steps), "step")
        yield f"wrote {output}: {steps} of run {self.fixture.run_id}{page}, {_code_text(self.code)}"
        yield from (f"  left out: {printable(line)}" for line in (self.code.left_out if self.code else ()))


def pack(found: Run | Fixture, folder: Path, *, code: str | None, name: str) -> PackedRun:
    """Return a run as a file; raises as `frozen`.

    Args:
        found: the run; a fixture has no spans for a page.
        folder: the folder of the agent's code.
        code: one of `CODES`; None for the recorded commit, if the folder is a clone that holds it.
        name: of the file, for the page.

    Raises:
        ConfigError: the code cannot be read, or lacks the file in which the run begins.
    """
    fixture, cold = frozen(found)
    run = found if isinstance(found, Run) else None
    chosen, note = _code_of(code, fixture, folder)
    _refuse_without_entry(fixture, chosen, folder)
    files = _files_of(fixture, run, chosen, name, folder)
    executable = {f"{CODE}{path}" for path in chosen.executable} if chosen else set[str]()
    return PackedRun(
        fixture=fixture,
        code=chosen,
        has_page=run is not None,
        files=len(files),
        content=archive_bytes(f"run-{fixture.run_id}", files, executable=executable),
        warnings=(*cold, *filter(None, [note]), *_warnings(fixture, chosen)),
    )


def _code_of(parameters: str | None, fixture: Fixture, folder: Path) -> tuple[Code | None, str]:
    """Return the folder's code, and the reason for missing code unless `code` is "none".

    Raises:
        ConfigError: the requested code cannot be read.
    """
    commit = fixture.environment.get(genai.VCS_REVISION, "")
    if parameters == "none":
        return None, ""
    if parameters == "now":
        return code_as_it_is(folder), ""
    try:
        if not commit:
            raise ConfigError(
                f"run {fixture.run_id}: the commit of its code was not recorded",
                do="pack the files as they are (--code now), or none (--code none)",
            )
        return code_of_commit(folder, commit), ""
    except ConfigError as error:
        if parameters is not None:
            raise
        return None, f"no code is packed: {error}"


def _refuse_without_entry(fixture: Fixture, code: Code | None, folder: Path) -> None:
    """Refuse code without the file in which the run begins: it cannot be replayed.

    Raises:
        ConfigError: the file is missing; the message says why.
    """
    script = fixture.entry.file
    if code is None or not script or Path(script).is_absolute() or Path(script).as_posix() in code.files:
        return
    named = f"{printable(script)}, in which the run begins,"
    if not (folder / script).is_file():
        raise ConfigError(f"{named} is not in this folder", do="run this in the agent's folder, or pack no code: --code none")
    if code.changed:
        raise ConfigError(f"{named} is left out: git ignores it, or its name says that it holds keys", do="--code none")
    raise ConfigError(
        f"{named} is not in commit {code.commit[:_DIGITS]}",
        do="commit it and record the run again, or pack the files as they are: --code now",
    )


def _files_of(fixture: Fixture, run: Run | None, code: Code | None, name: str, folder: Path) -> dict[str, bytes]:
    """Return everything that is packed, by its name in the file."""
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as scratch:
        write_fixture(fixture, Path(scratch))
        files = fixture_files(Path(scratch))
    if code is not None:
        files |= {f"{CODE}{path}": content for path, content in code.files.items()}
        files |= recorded_lock_file(folder, fixture.environment.get(genai.LOCK_FILE, ""))
    if run is not None:
        from freezeframe_replay.web.run_pages import page_of_a_file  # needs the extra `ui`

        files[PAGE] = page_of_a_file(run, outline_run(run), named=name).encode("utf-8", "backslashreplace")
    return files | pack_file(_manifest(fixture, run, code, files))


def _manifest(fixture: Fixture, run: Run | None, code: Code | None, files: Mapping[str, bytes]) -> Pack:
    outline = outline_fixture(fixture) if run is None else outline_run(run)
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


def _warnings(fixture: Fixture, code: Code | None) -> Iterator[str]:
    """Yield warnings about parts that a replay of the packed code may lack."""
    if code is not None and fixture.environment.get(genai.VCS_DIRTY) == "true" and not code.changed:
        yield (
            f"recorded with uncommitted changes on top of {code.commit[:_DIGITS]}, which the packed files lack; "
            "--code now packs the files as they are"
        )


def _code_text(code: Code | None) -> str:
    if code is None:
        return "no code"
    of = "as they are, on top of" if code.changed else "commit"
    return f"{counted(len(code.files), 'file')} of code ({of} {code.commit[:_DIGITS]})"
