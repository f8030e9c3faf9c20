"""A keeper: a small process that ends a program that we started, if we are killed before we could."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_KEEPER: Final = """
import os, signal, sys
sys.stdin.buffer.read()  # until the process that holds the other end is gone
end = os.killpg if sys.argv[1] == "group" else os.kill
try:
    end(int(sys.argv[2]), signal.SIGKILL)
except (ProcessLookupError, PermissionError):
    pass
"""


@contextmanager
def ended_with_us(pid: int, *, is_group: bool = False) -> Generator[None]:
    """End a process (or the group that it leads) if this process ends within the block, even by SIGKILL.

    The kernel's parent-death signal would not reach processes that the program started, and exists only on Linux.
    """
    command = [sys.executable, "-I", "-S", "-c", _KEEPER, "group" if is_group else "process", str(pid)]
    keeper = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends our own group leaves it alive
    )
    try:
        yield
    finally:
        keeper.kill()
        keeper.wait()
        if keeper.stdin is not None:
            keeper.stdin.close()
