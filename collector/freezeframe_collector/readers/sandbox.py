"""Confine this process: no files except those named, no network, no programs, no signals. Linux, and without any privilege.

Landlock (a kernel feature since Linux 5.13) restricts files, TCP and signals, seccomp the system calls. Both
apply to the calling thread and its children only, so the process must have one thread when it enters. Neither
can be undone.

Source: Linux ``Documentation/userspace-api/landlock.rst``, ``linux/seccomp.h``, ``linux/filter.h``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_SIGKILL: Final = 9

# Landlock has the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Version of Landlock -> number of file rights it knows; they are the lowest bits."""
_TCP: Final = 0b11
"""Bind and connect, since version 4."""
_SCOPES: Final = 0b11
"""Abstract sockets of, and signals to, processes outside; since version 6."""

_AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN: Final = {"x86_64": 0, "aarch64": 1}
_X32_BIT: Final = 0x40000000
_CLONE_THREAD: Final = 0x10000
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_REFUSED: Final[dict[str, tuple[int | None, int | None]]] = {
    # the network: Landlock knows TCP only
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # programs and processes
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kill": (62, 129),
    "tkill": (200, 130),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    # the file system's shape
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    # the kernel
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),  # its calls would go round this filter
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
}
"""System call -> its numbers on x86_64 and aarch64, or None."""


NOT_PROTECTED: Final = (
    "SQL is still checked and limited to reading, but a flaw in either would expose every file of the collector's user;"
    " give the collector its own user and container"
)


def why_no_sandbox() -> str | None:
    """Return why this machine cannot confine a process, or None if it can."""
    if sys.platform != "linux":
        return f"{platform.system()} has no Landlock"
    if platform.machine() not in _AUDIT_ARCH:
        return f"no list of system calls for {platform.machine()}"
    if landlock_version() == 0:
        return "this kernel has no Landlock, or it is disabled (see lsm= on the kernel's command line)"
    return None


def sandbox_state() -> dict[str, object]:
    """Return the state for the collector's status: whether readers are confined, if not why, and the remaining risk."""
    why = why_no_sandbox()
    return {"sandboxed": why is None, "why_not": why, "not_protected": None if why is None else NOT_PROTECTED}


def landlock_version() -> int:
    """Return the kernel's version of Landlock, 0 if it has none."""
    try:
        return _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG))
    except OSError:  # ENOSYS: an old kernel; EOPNOTSUPP: not in lsm=; EPERM: a container's older seccomp profile
        return 0


def enter(*, read: Iterable[Path], write: Iterable[Path], file_bytes: int) -> None:
    """Confine the calling process for good.

    Args:
        read: files and directories that may be read, with all below them.
        write: those that may be written too.
        file_bytes: maximum size of a file.

    Raises:
        OSError: the kernel refused a part of it; nothing may run in this process then.
        RuntimeError: the process has several threads, and only one would be confined.
    """
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"found {threads} threads, expected one")
    forgo_privileges(file_bytes)
    _landlock(read, write)
    _seccomp()
    _prctl(_PR_SET_DUMPABLE, 0)


def forgo_privileges(file_bytes: int) -> None:
    """Apply the measures that need no sandbox: die with the parent, be killed first when memory runs out, leave no core."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if sys.platform != "linux":
        return
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    with suppress(OSError):  # a container may hide it; only the order in which processes die changes
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _landlock(read: Iterable[Path], write: Iterable[Path]) -> None:
    version = landlock_version()
    rights = (1 << _FILE_RIGHTS[min(version, 5)]) - 1
    attributes = struct.pack("QQQ", rights, _TCP if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    attributes = attributes[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    try:
        on_a_file = _EXECUTE | _WRITE_FILE | _READ_FILE | (_TRUNCATE if version >= 3 else 0)
        for paths, allowed in ((read, _READ_FILE | _READ_DIR), (write, rights & ~_EXECUTE)):
            for path in paths:
                handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    here = allowed if path.is_dir() else allowed & on_a_file
                    rule = struct.pack("=Qi", here, handle)
                    _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), rule, ctypes.c_uint(0))
                finally:
                    os.close(handle)
        _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _seccomp() -> None:
    """Install a classic BPF filter: refuse the calls in `_REFUSED`, new processes, and other architectures' calls."""
    machine = platform.machine()
    column = _COLUMN[machine]
    load, equal, any_bit, at_least, give = 0x20, 0x15, 0x45, 0x35, 0x06
    allow, kill, eperm, enosys = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
    number, architecture, first_argument = 0, 4, 16
    program: list[bytes] = []

    def add(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> None:
        program.append(struct.pack("HBBI", code, if_true, if_false, operand))

    add(load, architecture)
    add(equal, _AUDIT_ARCH[machine], 1, 0)
    add(give, kill)
    add(load, number)
    if machine == "x86_64":
        add(at_least, _X32_BIT, 0, 1)
        add(give, kill)
    add(equal, _CLONE3[column], 0, 1)
    add(give, enosys)  # glibc falls back to clone, whose flags a filter can see
    add(equal, _CLONE[column], 0, 4)
    add(load, first_argument)
    add(any_bit, _CLONE_THREAD, 1, 0)
    add(give, eperm)
    add(give, allow)
    for numbers in _REFUSED.values():
        refused = numbers[column]
        if refused is not None:
            add(equal, refused, 0, 1)
            add(give, eperm)
    add(give, allow)
    code = ctypes.create_string_buffer(b"".join(program))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))


def _prctl(option: int, *arguments: int | bytes) -> None:
    padded = [*arguments, 0, 0, 0, 0][:4]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *(_as_c(one) for one in padded)) < 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def _as_c(argument: int | bytes) -> ctypes.c_ulong | ctypes.c_char_p:
    return ctypes.c_char_p(argument) if isinstance(argument, bytes) else ctypes.c_ulong(argument)


def _syscall(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
    return result
