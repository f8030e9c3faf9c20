"""`freezeframe pack RUN -o FILE.ffz`: the recording of a run, its code and a page to read it, as one file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.cli.command import Command, flag, option
from freezeframe_replay.cli.options import JSON, RUN_OR_FIXTURE, STORE, place_of, print_json
from freezeframe_replay.cli.progress import Progress
from freezeframe_replay.cli.writing import frozen, write_whole
from freezeframe_replay.local.code import Code
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.packing import PackedRecording, code_of, files_of, pack_of, refuse_bare_recording
from freezeframe_replay.report.render import counted, printable
from freezeframe_replay.sources.fixture_archive import PACK_SUFFIX
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture

_CODE: Final = {"commit": "of the recorded commit", "now": "as they are", "none": "none"}
_DIGITS: Final = 12


COMMAND: Final = Command(
    description="The file holds the redacted recording, the files of the recorded commit that this folder held, the "
    "lock file, and run.html, a self-contained page. Code is not redacted; files whose names say that they hold "
    "keys, and files that git ignores, are left out.",
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


def execute(arguments: argparse.Namespace) -> int:
    """Write the file and say what is in it."""
    output: Path = arguments.output
    if output.suffix != PACK_SUFFIX:
        raise ConfigError(f"-o {output}: expected a name that ends in {PACK_SUFFIX}", do=f"-o {output.stem}{PACK_SUFFIX}")
    with Progress(f"packing run {arguments.run}", quiet=arguments.json):
        recorded = _load(arguments)
        if not arguments.unredacted:
            refuse_bare_recording(recorded)
        code, note = code_of(arguments.code, recorded.fixture, Path.cwd())
        _refuse_without_entry(recorded.fixture, code)
        files = files_of(recorded, code, output.name, Path.cwd())
        write_whole(output, pack_of(recorded, files, code))
    for line in filter(None, (note, *_warnings(recorded.fixture, code))):
        print(f"freezeframe pack: {line}", file=sys.stderr)
    if arguments.json:
        print_json(_as_json(output, recorded, code, files))
    else:
        print("\n".join(_lines(output, recorded, code)))
    return 0


def _load(arguments: argparse.Namespace) -> PackedRecording:
    found = RunSource(place_of(arguments)).load(arguments.run)
    if isinstance(found, Fixture):
        return PackedRecording(fixture=found, run=None)
    return PackedRecording(fixture=frozen(found, command="pack"), run=found)


def _refuse_without_entry(fixture: Fixture, code: Code | None) -> None:
    """Refuse code without the file in which the run begins: it cannot be replayed.

    Raises:
        ConfigError: the file is missing; the message says why.
    """
    script = fixture.entry.file
    if code is None or not script or Path(script).is_absolute() or Path(script).as_posix() in code.files:
        return
    named = f"{printable(script)}, where the run begins,"
    if not Path(script).is_file():
        raise ConfigError(f"{named} is not in this folder", do="run this in the agent's folder, or pack no code: --code none")
    if code.changed:
        raise ConfigError(f"{named} is left out: git ignores it, or its name says that it holds keys", do="--code none")
    raise ConfigError(
        f"{named} is not in commit {code.commit[:_DIGITS]}",
        do="commit it and record the run again, or pack the files as they are: --code now",
    )


def _warnings(fixture: Fixture, code: Code | None) -> Iterator[str]:
    """Yield what a replay of the packed code may lack."""
    if code is None:
        return
    if fixture.environment.get(genai.VCS_DIRTY) == "true" and not code.changed:
        yield (
            f"warning: recorded with uncommitted changes on top of {code.commit[:_DIGITS]}, which the packed files lack; "
            "--code now packs the files as they are"
        )


def _lines(output: Path, recorded: PackedRecording, code: Code | None) -> Iterator[str]:
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


def _as_json(output: Path, recorded: PackedRecording, code: Code | None, files: Mapping[str, bytes]) -> dict[str, Any]:
    about_code = None
    if code is not None:
        about_code = {
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
        "code": about_code,
        "files": len(files),
        "bytes": output.stat().st_size,
    }
