"""Python imports this at its start, if `command_costs` starts it: at the end, it writes what this process cost.

The file is opened at once, since a replay answers later openings itself.
"""

import atexit
import cProfile
import gc
import json
import os
import sys

_FOLDER = os.environ.get("COUNT_PROCESSES_INTO", "")


def _write(profile: cProfile.Profile, descriptor: int) -> None:
    profile.disable()
    modules = list(sys.modules)  # what follows may import more
    entries = profile.getstats()
    calls = sum(entry.callcount for entry in entries)
    builtins = [entry for entry in entries if isinstance(entry.code, str)]
    found = {
        "command": sys.orig_argv,
        "modules": len(modules),
        "calls": calls,
        "sleeps": sum(entry.callcount for entry in builtins if entry.code == "<built-in method time.sleep>"),
        "statements": sum(
            entry.callcount
            for entry in entries
            if not isinstance(entry.code, str) and entry.code.co_qualname == "HTTPConnection.putrequest"
        ),
        "names": modules,
    }
    os.write(descriptor, json.dumps(found).encode())


if _FOLDER:
    gc.disable()  # when it runs depends on what was freed, and it calls finalizers
    _profile = cProfile.Profile()
    _descriptor = os.open(f"{_FOLDER}/{os.getpid()}.json", os.O_WRONLY | os.O_CREAT, 0o600)
    atexit.register(_write, _profile, _descriptor)
    _profile.enable()
