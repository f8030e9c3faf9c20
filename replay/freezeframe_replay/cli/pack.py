"""`freezeframe pack RUN -o FILE.ffz`: the recording of a run, its code and a page to read it, as one file."""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, RUN_OR_FIXTURE, STORE, place_of, print_json
from freezeframe_replay.cli.writing import frozen, policies_of, refuse_bare, write_whole
from freezeframe_replay.local.code import Code, code_as_it_is, code_of_commit, recorded_lock_file
from freezeframe_replay.local.target import load_target
from freezeframe_replay.report.outline import outline_fixture, outline_run
from freezeframe_replay.report.render import counted, printable
from freezeframe_replay.sources.fixture_archive import CODE, PACK_SUFFIX, PAGE, Pack, archive_bytes, fixture_files, pack_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import Run

_CODE: Final = {"commit": "of the recorded commit", "now": "as they are", "none": "none"}
_DIGITS: Final = 12


COMMAND: Final = Command(
    description="The file holds the redacted recording, the files of the recorded commit that this folder held, the "
    "lock file, and run.html, a self-contained page. Code is not redacted; files that hold keys by their name, and "
    "files that git ignores, are left out.",
    examples={
        "freezeframe pack 4bf92f35 -o bug.ffz": "in the agent's folder",
        "freezeframe pack 4bf92f35 -o bug.ffz --code now": "with the files as they are, uncommitted changes included",
        "freezeframe pack 4bf92f35 -o bug.ffz --code none": "the recording and its page only",
        "freezeframe replay bug.ffz --packed-code": "on the machine of the recipient",
        "tar xzf bug.ffz": "to read run.html, and the code",
    },
    options=(
        RUN_OR_FIXTURE,
        option("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write; its name ends in .ffz"),
        option(
            "--code",
            choices=list(_CODE),
            help="which files of this folder: of the recorded commit (default, if this is a clone that holds it); now, as they "
            "are in the work tree; none",
        ),
        flag("--unredacted", "pack a run that was never redacted"),
        JSON,
        STORE,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is packed, before the code is."""

    fixture: Fixture
    run: Run | None
    """None if a fixture was named, which holds no spans to make a page of."""


def execute(arguments: argparse.Namespace) -> int:
    """Write the file and say what is in it."""
    output: Path = arguments.output
    if output.suffix != PACK_SUFFIX:
        raise ConfigError(f"-o {output}: expected a name that ends in {PACK_SUFFIX}", do=f"-o {output.stem}{PACK_SUFFIX}")
    recorded = _load(arguments)
    if not arguments.unredacted:
        refuse_bare_recording(recorded)
    code, note = code_of(arguments.code, recorded.fixture, Path.cwd())
    files = files_of(recorded, code, output.name, Path.cwd())
    write_whole(output, pack_of(recorded, files, code))
    for line in filter(None, (note, *_warnings(recorded.fixture, code))):
        print(f"freezeframe pack: {line}", file=sys.stderr)
    if arguments.json:
        print_json(_as_json(output, recorded, code, files))
    else:
        print("\n".join(_lines(output, recorded, code)))
    return 0


def _load(arguments: argparse.Namespace) -> Recorded:
    found = load_target(place_of(arguments), arguments.run)
    if isinstance(found, Fixture):
        return Recorded(fixture=found, run=None)
    return Recorded(fixture=frozen(found, command="pack"), run=found)


def refuse_bare_recording(recorded: Recorded) -> None:
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


def files_of(recorded: Recorded, code: Code | None, name: str, folder: Path) -> dict[str, bytes]:
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


def _pack(recorded: Recorded, code: Code | None, files: Mapping[str, bytes]) -> Pack:
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


def pack_of(recorded: Recorded, files: dict[str, bytes], code: Code | None) -> bytes:
    """Return the pack that holds the files."""
    executable = {f"{CODE}{path}" for path in code.executable} if code else set[str]()
    return archive_bytes(f"run-{recorded.fixture.run_id}", files, executable=executable)


def _warnings(fixture: Fixture, code: Code | None) -> Iterator[str]:
    """Yield what a replay of the packed code may lack."""
    if code is None:
        return
    if fixture.environment.get(genai.VCS_DIRTY) == "true" and not code.changed:
        yield (
            f"warning: recorded with uncommitted changes on top of {code.commit[:_DIGITS]}, which the packed files lack; "
            "--code now packs the files as they are"
        )
    script = fixture.entry.file
    if script and not Path(script).is_absolute() and Path(script).as_posix() not in code.files:
        yield f"warning: {printable(script)}, where the run begins, is not packed: run this in the agent's folder"


def _lines(output: Path, recorded: Recorded, code: Code | None) -> Iterator[str]:
    fixture = recorded.fixture
    page = "" if recorded.run is None else ", its page"
    yield f"wrote {output}: {counted(len(fixture.steps), 'step')} of run {fixture.run_id}{page}, {_code_text(code)}"
    for line in code.left_out if code else ():
        yield f"  left out: {printable(line)}"
    yield f"next: freezeframe replay {output}{' --packed-code' if code else ''}"


def _code_text(code: Code | None) -> str:
    if code is None:
        return "no code"
    of = "as they are, on top of" if code.changed else "commit"
    return f"{counted(len(code.files), 'file')} of code ({of} {code.commit[:_DIGITS]})"


def _as_json(output: Path, recorded: Recorded, code: Code | None, files: Mapping[str, bytes]) -> dict[str, Any]:
    told = None
    if code is not None:
        told = {
            "commit": code.commit,
            "changed": code.changed,
            "files": len(code.files),
            "left_out": list(code.left_out),
        }
    return {
        "run": recorded.fixture.run_id,
        "pack": str(output),
        "steps": len(recorded.fixture.steps),
        "page": recorded.run is not None,
        "code": told,
        "files": len(files),
        "bytes": output.stat().st_size,
    }
