"""chDB's engine without its package.

``import chdb`` takes a third of a second (numpy, pyarrow) and 25 MB, and opens an engine, which leaves 14
threads behind. A process with threads can neither be forked safely nor shut itself in. The extension module
alone loads in some 50 ms and starts no thread.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_RTLD_DEEPBIND: Final = 0x8
"""glibc: the library prefers its own symbols. The package loads it the same way."""


def load_engine() -> Any:
    """Return the module ``chdb._chdb``. Afterwards ``import chdb`` gives an empty package in this process.

    Raises:
        ImportError: chDB is not installed.
    """
    spec = importlib.util.find_spec("chdb")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the package chdb is not installed")
    folder = Path(next(iter(spec.submodule_search_locations)))
    package = ModuleType("chdb")
    package.__path__, package.__spec__ = [str(folder)], spec
    sys.modules["chdb"] = package
    if sys.platform == "linux":
        library = next(folder.glob("_chdb*.so"))
        ctypes.CDLL(
            str(library), mode=os.RTLD_NOW | os.RTLD_GLOBAL * bool(sys.getdlopenflags() & os.RTLD_GLOBAL) | _RTLD_DEEPBIND
        )
    return importlib.import_module("chdb._chdb")


def load_connect() -> Callable[[str], Any]:
    """Return ``chdb.connect``, whose handles stream. pyarrow is left out: it serves data frames only.

    Raises:
        ImportError: chDB is not installed.
    """
    if "chdb" not in sys.modules:
        load_engine()
    left_out: dict[str, Any] = {"pyarrow": None} if "pyarrow" not in sys.modules else {}
    sys.modules.update(left_out)
    try:
        return importlib.import_module("chdb.state.sqlitelike").connect
    finally:
        for name in left_out:
            del sys.modules[name]
