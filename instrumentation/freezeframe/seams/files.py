"""Files that a run's unmarked code reads by `open`, as exchanges: content, size and SHA-256, when `record_files` asks for it.

Which files: those that would be a gap of the run (`unmarked.accesses`), up to `MAX_BYTES` each and `MAX_FILES` in a run; larger
ones and more of them stay gaps. Only `open` for reading is replaced, and only while the option is on, or a replay has such
files. A replay gives the program a real file object, with the recorded content.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import io
import os
import stat
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from freezeframe._guard import guard
from freezeframe.context.accesses import LARGE, UnrecordedAccesses, shown_path
from freezeframe.context.current import PLACE, Place, current_place
from freezeframe.seams.functions import calls
from freezeframe.seams.recorder import switch
from freezeframe.seams.unmarked import accesses
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.gaps import GapKind

if TYPE_CHECKING:
    from freezeframe.seams.recorder.patching import Patches

MAX_BYTES: Final = 1 << 20
"""Of one file."""
MAX_FILES: Final = 200
"""Of one run."""
SEAM: Final = "open"
_OF_THE_PROGRAM: Final = UnrecordedAccesses()
"""The accesses of a replayed program that is a run as a whole."""
_OF_TOOLS: Final = UnrecordedAccesses()
"""Those of the tools that a replay runs."""


def install(patches: Patches) -> None:
    """Replace `open`, under both of its names."""
    original: Any = io.open

    @functools.wraps(original)
    def opened(file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        return _open(original, file, mode, args, kwargs)

    for module in (builtins, io):
        patches.replace(module, "open", lambda _: opened)


def _open(original: Any, file: Any, mode: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    path: str | None = None
    place = current_place()
    with guard("files.open"):
        found = _accesses(place)
        if found is not None and "opener" not in kwargs and len(args) < 6:
            path = _wanted(file, str(mode), found)
    if path is None:
        return original(file, mode, *args, **kwargs)
    made: list[Any] = []

    def make() -> dict[str, Any]:
        try:
            made.append(original(file, mode, *args, **kwargs))
        except OSError as error:
            made.append(error)
            return {"errno": error.errno, "strerror": error.strerror}
        return _content(made[0])

    shown = shown_path(path)
    outcome = calls.run(lambda: calls.FunctionCall.of(Kind.FILE, SEAM, SEAM, shown, kwargs={}), make)
    if "errno" in outcome:  # the exception has the path as the program gave it
        raise made[0] if made else OSError(outcome["errno"], outcome["strerror"], file)
    if made:
        if "content" not in outcome:
            accesses.note(GapKind.FILE_READ, LARGE, path)
        return made[0]
    if "content" not in outcome:
        return original(file, mode, *args, **kwargs)
    token = PLACE.set(place.aside())  # no fence keeps it from a file that it was given
    try:
        return original(file, mode, *args, **kwargs, opener=functools.partial(_new_file_content, outcome["content"]))
    finally:
        PLACE.reset(token)


def _accesses(place: Place) -> UnrecordedAccesses | None:
    """Return the accesses of the calling code's run; None if its files are neither recorded nor answered."""
    if not place.is_followed or (place.lane.apart and not place.inside_call):
        return None
    if switch.serving() is not None:
        where = switch.files()
        if where == "as they are" or (where == "in runs" and place.run is None):
            return None
        if place.run_anew:
            return _OF_TOOLS
        return _OF_THE_PROGRAM if place.run is None else place.run.accesses
    recorder = switch.recorder()
    if recorder is None or not recorder.settings.record_files:
        return None
    if place.inside is not None:
        place.inside.accesses = found = place.inside.accesses or UnrecordedAccesses()
        return found
    return recorder.root.accesses() if place.run is None else place.run.accesses


def _wanted(file: Any, mode: str, found: UnrecordedAccesses) -> str | None:
    """Return the path of a file whose content is part of the run; None for any other, and for files that it writes itself."""
    if set(mode) & set("wxa+"):
        if (path := accesses.path_of(file)) is not None:
            found.own.add(path)  # a replay has nothing else that sees it
        return None
    path = accesses.path_read(file, found)
    if path is None or accesses.is_temporary(path) or found.files >= MAX_FILES or not accesses.is_of_run(sys._getframe(3)):
        return None
    found.files += 1
    return path


def _content(opened: Any) -> dict[str, Any]:
    """Return the content of an open file, without moving its position; only the size of a file that is too large."""
    outcome: dict[str, Any] = {}
    with guard("files.content"):
        number = opened.fileno()
        state = os.fstat(number)
        if stat.S_ISREG(state.st_mode):
            outcome["bytes"] = state.st_size
            data = os.pread(number, MAX_BYTES + 1, 0) if state.st_size <= MAX_BYTES else None
            if data is not None and len(data) <= MAX_BYTES:
                outcome |= {"sha256": hashlib.sha256(data).hexdigest(), "content": _text(data)}
    return outcome


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _new_file_content(content: str | bytes, path: str, flags: int) -> int:
    """Return the descriptor of a file with this content, in place of the requested one."""
    with tempfile.TemporaryFile() as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())
