"""The layer: a replayed program changes copies of files, which are removed after the replay, never the files themselves.

A file is copied when it is first opened for writing, and from then on the program's own path leads to the copy, in each of its
Python processes. Files of `tempfile` are real. C code that opens files itself and other programs see and change
the real files. Imports find the real modules.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote, unquote

from freezeframe.context.current import current_place
from freezeframe.seams.recorder.patching import IMPORT_HOOK

_SYSTEM: Final = ("/dev", "/proc", "/sys")
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TEMPORARY: Final = getattr(os, "O_TMPFILE", -1)
_READ: Final = ("access", "chdir", "getxattr", "listxattr", "lstat", "readlink", "stat", "statvfs")
_CHANGE: Final = ("chmod", "chown", "lchown", "removexattr", "setxattr", "truncate", "utime")
_OF_THE_LINK: Final = frozenset({"lstat", "readlink", "lchown"})
_SETS: Final = ("supports_dir_fd", "supports_effective_ids", "supports_fd", "supports_follow_symlinks")
_SUFFIXES: Final = ("", ".db", ".dat", ".dir", ".pag", ".bak")
"""Suffixes that the kinds of dbm add to a file's name."""
_LOCKED_S: Final = 2.0


def copies_of(root: str) -> str:
    """Return the folder that holds the copies of a layer, by their whole paths."""
    return f"{os.path.realpath(root)}/files"


class Layer:
    """The copies of one replay. State is in the folder `root`, which its processes share.

    Args:
        root: a folder of the replay; made when something is written first.
        real: files and folders that the program may change.
    """

    def __init__(self, root: str, real: Collection[str]) -> None:
        self._root = root = os.path.realpath(root)
        self._files = copies_of(root)
        self._gone = f"{root}/gone"
        self._made = f"{root}/made"
        self._real = tuple(os.path.realpath(path) for path in (os.path.dirname(root), *real)) + _SYSTEM
        self._temporary = os.path.realpath(tempfile.gettempdir())
        self._own = threading.local()
        """True if this thread is in the layer's own code, which sees the real files."""
        self._is_used = False
        self._lock = threading.RLock()
        self._os: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """Put the layer between the program and the functions of `os`, `open`, sqlite3 and dbm. Only once in a process."""
        own: dict[str, Callable[..., Any]] = {
            "open": self._open, "mkdir": self._mkdir, "rmdir": self._rmdir, "unlink": self._unlink, "remove": self._unlink,
            "rename": self._rename, "replace": self._rename, "link": self._link, "symlink": self._symlink,
            "listdir": self._listdir, "scandir": self._scandir,
        }  # fmt: skip
        for name in (*_READ, *_CHANGE, *own):
            if hasattr(os, name):
                self._put(name, own.get(name) or functools.partial(self._call, name))
        os.register_at_fork(after_in_child=self._after_fork)
        original = io.open

        @functools.wraps(original)
        def opened(file: Any, mode: Any = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
            only_reads = not set("wax+") & set(str(mode))
            if len(args) >= 5 or kwargs.get("opener") is not None or self._passes(file, only_reads=only_reads):
                return original(file, mode, buffering, *args, **kwargs)
            kwargs["opener"] = self._opener
            return original(file, mode, buffering, *args, **kwargs)

        builtins.open = io.open = opened
        if "bz2" in sys.modules:
            setattr(sys.modules["bz2"], "_builtin_open", opened)  # noqa: B010 - typed as private
        setattr(shutil, "_use_fd_functions", False)  # noqa: B010 - likewise
        IMPORT_HOOK.when_imported("sqlite3", self._take_sqlite)
        IMPORT_HOOK.when_imported("dbm", self._take_dbm)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def _opener(self, path: Any, flags: int) -> int:
        with self._as_its_own(path):
            return self._open(path, flags, 0o666)

    def _put(self, name: str, function: Callable[..., Any]) -> None:
        original = self._os[name] = getattr(os, name)
        only_read = (*_READ, "listdir", "scandir")

        @functools.wraps(original)
        def replaced(*args: Any, **kwargs: Any) -> Any:
            path = args[0] if args else kwargs.get("path", kwargs.get("src"))
            if path is None and name in ("listdir", "scandir"):
                args, kwargs, path = (".",), {}, "."
            if self._passes(path, only_reads=name in only_read):
                return original(*args, **kwargs)
            with self._as_its_own(path):
                return function(*args, **kwargs)

        setattr(os, name, replaced)
        for held in _SETS:
            if original in getattr(os, held):
                getattr(os, held).add(replaced)

    def _passes(self, path: Any, *, only_reads: bool = False) -> bool:
        """Return whether a call bypasses the layer: on a descriptor, of a tool that runs for real, or the layer's own.

        So does one that only reads, as long as the program has made no changes.
        """
        is_path = isinstance(path, str | bytes | os.PathLike)
        if not is_path or getattr(self._own, "busy", False) or current_place().is_real:
            return True
        if only_reads and not self._is_used:
            with self._as_its_own(path):
                self._is_used = os.path.isdir(self._root)
        return only_reads and not self._is_used

    @contextlib.contextmanager
    def _as_its_own(self, path: Any) -> Generator[None]:
        self._own.busy = True
        try:
            yield
        except OSError as error:
            if isinstance(error.filename, str | bytes) and self._files in os.fsdecode(error.filename):
                error.filename = path
            raise
        finally:
            self._own.busy = False

    # -- places -----------------------------------------------------------------------------------------------------------

    def _path(self, path: Any, folder: int | None = None, *, follow: bool = True) -> str:
        """Return the program's path of a file, absolute and without links."""
        text = os.fsdecode(path)
        if folder is not None:
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        whole = os.path.abspath(text).removeprefix(self._files)
        head, name = os.path.split(whole)
        return os.path.realpath(whole) if follow else os.path.join(os.path.realpath(head), name)

    def _is_real(self, path: str) -> bool:
        if any(path == root or path.startswith(root + os.sep) for root in self._real):
            return True
        if not path.startswith(self._temporary + os.sep):
            return False
        first = path[len(self._temporary) + 1 :].partition(os.sep)[0]
        return os.path.lexists(f"{self._made}/{first}")

    def _is_gone(self, path: str) -> bool:
        if not os.path.isdir(self._gone):
            return False
        each = Path(path)
        return any(os.path.lexists(self._mark(str(part))) for part in (each, *each.parents))

    def _mark(self, path: str) -> str:
        return f"{self._gone}/{hashlib.sha256(os.fsencode(path)).hexdigest()}"

    def _note(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))

    def _place(self, path: str) -> str:
        """Return the place to read a file from: its copy, if one exists or the program removed the file."""
        if self._is_real(path):
            return path
        copy = self._files + path
        return copy if os.path.lexists(copy) or self._is_gone(path) else path

    def _exists(self, path: str) -> bool:
        return os.path.lexists(self._place(path))

    def _copy(self, path: str, *, content: bool = True) -> str:
        """Return the place to write a file to: its copy, made now if missing. Its folder exists, as the program sees it."""
        copy = self._files + path
        if self._is_real(path):
            return path
        with self._lock:
            if not os.path.lexists(copy) and os.path.isdir(self._place(os.path.dirname(path))):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                if content and os.path.lexists(path) and not self._is_gone(path):
                    with self._whole(copy) as partial:
                        if os.path.isdir(path) and not os.path.islink(path):
                            shutil.copytree(path, partial, symlinks=True)
                        else:
                            shutil.copy2(path, partial, follow_symlinks=False)
        return copy

    @contextlib.contextmanager
    def _whole(self, copy: str) -> Generator[str]:
        """Rename a copy to its final name once complete, unless another process of the program was quicker."""
        partial = f"{self._made}-{os.getpid()}-{threading.get_ident()}"
        yield partial
        if os.path.isdir(partial) or os.path.islink(partial):
            self._os["rename"](partial, copy)
            return
        with contextlib.suppress(FileExistsError):
            self._os["link"](partial, copy)
        self._os["unlink"](partial)

    def _is_refused(self, path: str) -> bool:
        """Return whether the system would refuse a write here, so that the program sees the same."""
        there = self._place(path)
        if not os.path.lexists(there):
            there = self._place(os.path.dirname(path))
        return not self._os["access"](there, os.W_OK)

    def _remove(self, path: str) -> None:
        if os.path.lexists(path):
            self._note(self._mark(path))

    # -- functions of os --------------------------------------------------------------------------------------------------

    def _call(self, name: str, path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        """Call a function that reads, or changes something other than the content."""
        where = self._path(path, dir_fd, follow=name not in _OF_THE_LINK and kwargs.get("follow_symlinks", True))
        there = self._place(where) if name in _READ or not self._exists(where) else self._copy(where)
        if there == where:
            return self._os[name](path, *args, **kwargs, **({} if dir_fd is None else {"dir_fd": dir_fd}))
        return self._os[name](there, *args, **kwargs)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        original = self._os["open"]
        options = {} if dir_fd is None else {"dir_fd": dir_fd}
        where = self._path(path, dir_fd)
        if self._is_real(where) or flags & _TEMPORARY == _TEMPORARY:
            return original(path, flags, mode, **options)
        there = self._place(where)
        if not flags & _WRITES:
            return original(path, flags, mode, **options) if there == where else original(there, flags, mode)
        if os.path.lexists(there):
            if flags & os.O_EXCL and flags & os.O_CREAT:
                raise _error(errno.EEXIST, path)
            if not stat.S_ISREG(os.stat(there).st_mode):
                return original(there, flags, mode)
        elif not flags & os.O_CREAT:
            raise _error(errno.ENOENT, path)
        elif self._is_temporary(where):
            self._note_made(where)
            return original(path, flags, mode, **options)
        if self._is_refused(where):
            return original(path, flags, mode, **options)
        return original(self._copy(where, content=not flags & os.O_TRUNC), flags, mode)

    def _is_temporary(self, path: str) -> bool:
        """Return whether `tempfile` is about to make this in the folder for such files."""
        if os.path.dirname(path) != self._temporary:
            return False
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in (__file__, contextlib.__file__):
            frame = frame.f_back
        return frame is not None and frame.f_globals.get("__name__") == "tempfile"

    def _note_made(self, path: str) -> None:
        self._note(f"{self._made}/{os.path.basename(path)}")

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        where = self._path(path, dir_fd, follow=False)
        if self._is_real(where) or (not self._exists(where) and self._is_refused(where)):
            return self._os["mkdir"](path, mode, **({} if dir_fd is None else {"dir_fd": dir_fd}))
        if self._exists(where):
            raise _error(errno.EEXIST, path)
        if self._is_temporary(where):
            self._note_made(where)
            return self._os["mkdir"](path, mode)
        return self._os["mkdir"](self._copy(where, content=False), mode)

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        where = self._path(path, dir_fd, follow=False)
        there = self._place(where)
        if there == where and (self._is_real(where) or os.path.isdir(where) or not os.path.lexists(where)):
            return self._os["unlink"](path, **({} if dir_fd is None else {"dir_fd": dir_fd}))
        if there != where:
            self._os["unlink"](there)
        elif self._is_refused(os.path.dirname(where)):
            raise _error(errno.EACCES, path)
        return self._remove(where)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        where = self._path(path, dir_fd, follow=False)
        there = self._place(where)
        if self._is_real(where) or not os.path.isdir(there) or os.path.islink(there):
            return self._os["rmdir"](there)
        if self._names(where):
            raise _error(errno.ENOTEMPTY, path)
        if there != where:
            self._os["rmdir"](there)
        return self._remove(where)

    def _rename(self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        old = self._move("rename", self._path(src, src_dir_fd, follow=False), self._path(dst, dst_dir_fd, follow=False))
        if not self._is_real(old):
            self._remove(old)

    def _link(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None, follow_symlinks: bool = True
    ) -> None:
        self._move("link", self._path(src, src_dir_fd, follow=follow_symlinks), self._path(dst, dst_dir_fd, follow=False))

    def _move(self, name: str, old: str, new: str) -> str:
        if not self._exists(old):
            raise _error(errno.ENOENT, old)
        if any(not self._is_real(path) and self._is_refused(os.path.dirname(path)) for path in (old, new)):
            raise _error(errno.EACCES, old)
        self._os[name](self._copy(old), self._copy(new, content=False))
        return old

    def _symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        where = self._path(dst, dir_fd, follow=False)
        if self._exists(where):
            raise _error(errno.EEXIST, dst)
        self._os["symlink"](src, self._copy(where, content=False), target_is_directory)

    def _names(self, folder: str) -> list[str]:
        """Return the names in a folder, as the program sees it."""
        names: dict[str, None] = {}
        for place in {folder, self._files + folder}:
            if os.path.isdir(place) and not (place == folder and self._is_gone(folder)):
                names |= dict.fromkeys(self._os["listdir"](place))
        return [name for name in names if self._exists(os.path.join(folder, name))]

    def _is_plain(self, folder: str) -> bool:
        return self._is_real(folder) or not (os.path.isdir(self._gone) or os.path.isdir(self._files + folder))

    def _listdir(self, path: Any) -> list[Any]:
        folder = self._path(path)
        if self._is_plain(folder) or not os.path.isdir(self._place(folder)):
            return self._os["listdir"](path if self._place(folder) == folder else self._place(folder))
        names = self._names(folder)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def _scandir(self, path: Any) -> Any:
        folder = self._path(path)
        if self._is_plain(folder) or not os.path.isdir(self._place(folder)):
            return self._os["scandir"](path if self._place(folder) == folder else self._place(folder))
        names: list[Any] = list(map(os.fsencode, self._names(folder))) if isinstance(path, bytes) else self._names(folder)
        above: Any = os.fspath(path)
        return _Entries(_Entry(name, os.path.join(above, name)) for name in names)

    # -- databases in C -----------------------------------------------------------------------------------------------------

    def _take_sqlite(self, module: Any) -> None:
        connect = module.connect

        @functools.wraps(connect)
        def connected(database: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._passes(database):
                with self._as_its_own(database):
                    database = self._database(connect, database, is_uri=bool(kwargs.get("uri")))
            return connect(database, *args, **kwargs)

        module.connect = module.dbapi2.connect = connected

    def _database(self, connect: Callable[..., Any], database: Any, *, is_uri: bool) -> Any:
        """Return the name of a database's copy. A copy is made as SQLite makes one, since the database may be in use."""
        text = os.fsdecode(database)
        name, options = text, ""
        if is_uri and text.startswith("file:"):
            name, _, options = text.removeprefix("file:").partition("?")
            name = unquote(name)
        if name in ("", ":memory:") or "mode=memory" in options:
            return database
        where = self._path(name)
        copy = self._copy(where, content=False)
        if self._is_real(where) or (not self._exists(where) and self._is_refused(where)):
            return database
        if not os.path.lexists(copy) and os.path.isfile(where) and not self._is_gone(where):
            # a database that no process has open is read without SQLite's own files next to it
            in_use = any(os.path.lexists(where + suffix) for suffix in ("-wal", "-journal"))
            how = "mode=ro" if in_use else "immutable=1"
            with self._whole(copy) as partial:
                try:
                    with (
                        contextlib.closing(connect(f"file:{quote(where)}?{how}", uri=True, timeout=_LOCKED_S)) as source,
                        contextlib.closing(connect(partial)) as made,
                    ):
                        source.backup(made)
                except Exception:  # it is not a database, or is locked: as it is
                    shutil.copy2(where, partial)
        return f"file:{quote(copy)}{'?' + options if options else ''}" if text.startswith("file:") and is_uri else copy

    def _take_dbm(self, module: Any) -> None:
        original = module.open

        @functools.wraps(original)
        def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._passes(file):
                with self._as_its_own(file):
                    where = self._path(file)
                    for suffix in _SUFFIXES:
                        if self._exists(where + suffix):
                            self._copy(where + suffix)
                    file = self._copy(where, content=False)
            return original(file, *args, **kwargs)

        module.open = opened


class _Entry:
    """An ``os.DirEntry`` of a folder that is partly in the layer."""

    def __init__(self, name: Any, path: Any) -> None:
        self.name, self.path = name, path

    def __fspath__(self) -> Any:
        return self.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def is_symlink(self) -> bool:
        return os.path.islink(self.path)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return os.path.isdir(self.path) and (follow_symlinks or not self.is_symlink())

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return os.path.isfile(self.path) and (follow_symlinks or not self.is_symlink())


class _Entries:
    """Result of `os.scandir`."""

    def __init__(self, entries: Iterator[_Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[_Entry]:
        return self._entries

    def __next__(self) -> _Entry:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _error(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), path)
