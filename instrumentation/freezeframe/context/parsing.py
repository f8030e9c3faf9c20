"""Parsing Python beside threads that parse, too."""

from __future__ import annotations

import ast
from typing import Final

_TRIES: Final = 5


def parse(source: str | bytes) -> ast.Module:
    """Return the tree of a module's source.

    In CPython 3.11 all threads count the depth of a tree in one place. If garbage collection lets another thread parse in the
    middle, one raises SystemError (CPython's issue 106905), and parses again here.

    Raises:
        SyntaxError: it is no Python.
        ValueError: it holds a NUL byte.
    """
    for _ in range(_TRIES - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
