"""Accesses of unmarked code to files, hosts, databases and programs, each kept once per run, and the gaps they cause."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from freezeframe_schemas import values
from freezeframe_schemas.gaps import NOT_MARKED, NOT_REPEATED, Gap, GapKind

MAX_ACCESSES: Final = 50
"""Accesses kept per run; a gap reports that there were more."""
LARGE: Final = "reads the large file"
"""Verb for a file whose content `seams.files` does not keep."""
_MAX_KEPT: Final = 20
_MAX_RESULT_LENGTH: Final = 20_000
"""Results of tools that a run keeps to detect changes, and characters of one as JSON."""
_PATHS: Final = frozenset({GapKind.FILE_READ, GapKind.FILE_WRITTEN, GapKind.DATABASE})
_TRACKED: Final[dict[str, bool]] = {}
"""File -> whether git tracks it. Looked up once per process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedAccess:
    """The first access of one kind in a run."""

    kind: GapKind
    verb: str
    what: str
    """A path as the program opened it, ``host:port``, a program's name."""
    by: str
    """Name of the application's function, or of a library's module; empty if neither is on the stack."""
    where: str
    """``agent.py:41``."""
    imported: tuple[str, str, int] | None = None
    """Name, file and line of the module whose import caused the access."""


class UnrecordedAccesses:
    """The accesses of the unmarked code of one run, each once."""

    __slots__ = ("_kept", "_seen", "files", "full", "known", "looked", "own")

    def __init__(self) -> None:
        self._seen: dict[tuple[GapKind, str], UnrecordedAccess | None] = {}
        self.known: set[object] = set()
        """Accesses already examined, as the program named them."""
        self.own: set[str] = set()
        """Files that the run made itself: reading them again is not an input."""
        self.files = 0
        """Number of file reads recorded or answered (`seams.files`)."""
        self._kept: list[tuple[object, str, UnrecordedAccess]] = []
        self.full = False
        self.looked: Counter[str] = Counter()
        """Function -> number of its results checked for whether they can be rebuilt."""

    def may_be_new(self, kind: GapKind, what: str) -> bool:
        """Return whether this is unseen so far, and would be kept."""
        return not self.full and (kind, what) not in self._seen

    def is_new(self, kind: GapKind, what: str) -> bool:
        """Return whether this is new and should be examined, and remember it as seen."""
        if (kind, what) in self._seen or self.full:
            return False
        if len(self._seen) >= MAX_ACCESSES:
            self.full = True
            return False
        self._seen[kind, what] = None
        return True

    def note(self, access: UnrecordedAccess) -> None:
        """Record an access."""
        is_of_call = access.kind in (GapKind.TOOL_CHANGES, GapKind.RESULT_CHANGED)  # several functions may do the same
        self._seen[access.kind, f"{access.by} {access.verb} {access.what}" if is_of_call else access.what] = access

    def keep(self, result: object, access: UnrecordedAccess) -> None:
        """Keep a result and a picture of it until `note_changes`, if it is data; the access counts if it changes."""
        if len(self._kept) >= _MAX_KEPT or any(kept is result for kept, _, _ in self._kept):
            return
        if len(text := values.encode(result)) < _MAX_RESULT_LENGTH and not values.is_opaque(text):
            self._kept.append((result, text, access))

    def note_changes(self) -> None:
        """Note which of the kept results have changed, at the end of the run."""
        while self._kept:
            result, text, access = self._kept.pop()
            if values.encode(result) != text and self.is_new(access.kind, f"{access.by} {access.what}"):
                self.note(access)

    def __iter__(self) -> Iterator[UnrecordedAccess]:
        """Yield the accesses, without files of the recorded commit; on the exporter's thread."""
        seen = [access for access in list(self._seen.values()) if access is not None]
        tracked = tracked_by_git(access.what for access in seen if access.kind is GapKind.FILE_READ and access.verb == "reads")
        return (access for access in seen if access.what not in tracked)

    def gaps(self, entry: str) -> Iterator[Gap]:
        """Yield the accesses as gaps; on the exporter's thread. `entry` is the qualified name of the entry point."""
        for access in self:
            yield _gap(access, entry)
        if self.full:
            yield Gap(
                kind=GapKind.UNSEEN, text=f"unmarked code reached over {MAX_ACCESSES} files, databases, hosts and programs"
            )


def _gap(access: UnrecordedAccess, entry: str) -> Gap:
    what = shown_path(access.what) if access.kind in _PATHS else access.what
    where = f" ({access.where})" if access.where else ""
    if access.kind is GapKind.TOOL_CHANGES:
        do = f"return the change from {access.by}, and make it where {access.by} is called"
        if access.verb == "returns":
            do = f"return a copy from {access.by}"
        elif access.verb == "is answered by":
            do = f"give {access.by} all that it needs as arguments"
        return Gap(kind=access.kind, text=f"tool {access.by}{where} {access.verb} {what}, {NOT_REPEATED}", do=do)
    if access.kind is GapKind.RESULT_CHANGED:
        do = f"return plain data from {access.by}: JSON types, dataclasses, pydantic models"
        return Gap(kind=access.kind, text=f"{access.by}{where} {access.verb} {what}", do="" if access.verb == "raises" else do)
    by = access.by or "a thread of a library"
    if not access.by or access.where.startswith("<"):
        do = "do it in a function marked @freezeframe.tool"
    elif access.by in (entry, "<module>"):
        do = f"move it from {access.where} into a function marked @freezeframe.tool"
    else:
        do = f"mark {access.by}{where} with @freezeframe.tool"
    if access.kind is GapKind.FILE_READ and access.verb == "reads":
        do = f"set record_files (FREEZEFRAME_RECORD_FILES=1), or {do}"
    if access.kind is GapKind.DATABASE:
        do = f"set record_databases (FREEZEFRAME_RECORD_DATABASES=1), or {do}"
    return Gap(kind=access.kind, text=f"{by}{where} {access.verb} {what}, {NOT_MARKED}", do=do)


def shown_path(path: str) -> str:
    """Return a path below the working directory as relative to it, of any other only the name."""
    inside = os.path.relpath(path)
    return os.path.basename(path) if inside.startswith(os.pardir) else inside


def tracked_by_git(paths: Iterable[str]) -> frozenset[str]:
    """Return those of the paths that are files of the program's repository: the recorded commit holds them."""
    from freezeframe.context.environment import git_output

    known = _TRACKED
    unknown = [path for path in dict.fromkeys(paths) if path not in known]
    for path in unknown:
        folder = Path(path).parent
        inside = any((above / ".git").exists() for above in (folder, *folder.parents))
        known[path] = bool(inside and git_output(folder, "ls-files", "--", path))
    return frozenset(path for path, tracked in known.items() if tracked)
