"""Let the server of `warm_python` run Python with these arguments in place of this process; end as that program does.

    python -IS ask_warm_python.py SOCKET ARGUMENT...

It starts for each program of a test, so it imports next to nothing: `socket`, `json` and `subprocess` take three times as long
as Python itself.
"""

import _socket
import marshal
import os
import signal
import sys

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_LENGTH = 4


def _ask(path: str, arguments: list[str]) -> int:
    """Return the exit status, negative for a signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))
    connection = _socket.socket(_socket.AF_UNIX)
    connection.connect(path)
    streams = b"".join(stream.to_bytes(_LENGTH, sys.byteorder) for stream in (0, 1, 2))
    connection.sendmsg([len(request).to_bytes(_LENGTH, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    connection.sendall(request)
    program = int.from_bytes(connection.recv(_LENGTH), "big")

    def pass_on(number: int, _: object) -> None:
        os.kill(program, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    answer = connection.recv(_LENGTH)
    return int.from_bytes(answer, "big", signed=True) if answer else 1


def _end(status: int) -> None:
    if status < 0:  # ended by a signal: so is this process
        if -status != signal.SIGKILL:  # which has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


_end(_ask(sys.argv[1], sys.argv[2:]))
