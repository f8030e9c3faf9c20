"""Recordings of a stranger: each tries to make its replay run something, and that would create, or delete, one file."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from freezeframe_schemas import genai, values
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import CELL, Entry, EntryKind

MODULE: Final = "agent_of_the_hostile_recordings"
"""A name that no other test imports."""
EVIL_VALUE: Final = "/evil/value"
EVIL_WORD: Final = "evil-word"
RUN: Final = "ab" * 16

_AGENT = """
import os, pathlib, subprocess, sys
from os import system
from subprocess import getoutput as helper
import freezeframe

MARK = {mark!r}

def wipe(*args, **kwargs):
    pathlib.Path(MARK).touch()

class Tool:
    def __init__(self): self.other = os
    def use(self, request=None, command=None): wipe()
    @property
    def lazy(self): wipe()
    def __getattr__(self, name): wipe(); return wipe
    def __call__(self, *args): wipe()

def create(): wipe(); return Tool()

tool, alias, run = Tool(), wipe, subprocess.run

@freezeframe.run
def answer(question="?"):
    return question

if __name__ == "__main__":
    answer()
"""
_EVIL = "import pathlib\npathlib.Path({mark!r}).touch()\ndef answer(*args): pass\nfreezeframe = app = answer\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A user's folder, with a stranger's files in and around it."""

    folder: Path
    mark: Path
    recording: Path

    @property
    def code(self) -> str:
        return f"import pathlib; pathlib.Path({str(self.mark)!r}).touch()"

    @property
    def command(self) -> str:
        return f"touch {self.mark}"


def make_world(root: Path) -> World:
    """Write the folder of an agent; beside it, in its fixture, and where packages are installed, what must not run."""
    world = World(folder=root / "user", mark=root / "mark", recording=root / "user" / "bug")
    evil = _EVIL.format(mark=str(world.mark))
    own = world.folder
    places = [
        root,
        *(
            own / name
            for name in ("bug", "bug/code", "bug/blobs", ".hidden", ".venv/lib/site-packages", "env/lib", "node_modules/x")
        ),
        own / "site-packages",
    ]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        (place / "evil.py").write_text(evil)
        (place / "evil.sh").write_text(f"#!/bin/sh\n{world.command}\n")
        (place / "evil.sh").chmod(0o755)
    (own / "env" / "pyvenv.cfg").touch()
    for name in ("manifest.json", "steps.json"):
        (own / "bug" / name).write_text("[]")
    (own / "bug" / "blobs" / ("ab" * 32)).write_text(evil)
    (own / "link.py").symlink_to(root / "evil.py")
    (own / "linked").symlink_to(root)
    with zipfile.ZipFile(own / "notes.zip", "w") as archive:
        archive.writestr("__main__.py", evil)
    (own / f"{MODULE}.py").write_text(_AGENT.format(mark=str(world.mark)))
    (own / "notes").write_text(evil)
    return world


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One recording, and whether it may begin: what it names besides must have no effect then."""

    name: str
    entry: Entry
    may_begin: bool = False
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def fixture(self) -> Fixture:
        return Fixture(run_id=RUN, entry=self.entry, steps=(), environment=self.environment)


def hostile_recordings(world: World) -> Iterator[Hostile]:
    """Yield recordings over all fields of an entry point."""
    yield from _targets(world)
    yield from _commands(world)
    yield from _programs(world)
    yield from _variables(world)


def _targets(world: World) -> Iterator[Hostile]:
    mark, command, here = str(world.mark), world.command, MODULE
    named = [
        *("os:system", f"os:system({command!r})", "builtins:exec", "builtins:eval", f"builtins:open({mark!r}, 'w')"),
        *("subprocess:getoutput", f"subprocess:run(['touch', {mark!r}])", f"pathlib:Path({mark!r}).touch"),
        *("runpy:run_path", "pty:spawn", "timeit:main", "http.server:test", "antigravity:geohash", "pip._internal:main"),
        *("pytest:main", "freezeframe_replay.cli:main", "freezeframe.testing:capture", "freezeframe:run", "json.tool:main"),
        *(
            f"{here}:os.system",
            f"{here}:system",
            f"{here}:system({command!r})",
            f"{here}:subprocess.getoutput",
            f"{here}:helper",
        ),
        *(f"{here}:wipe", f"{here}:wipe()", f"{here}:alias", f"{here}:alias()", f"{here}:create()", f"{here}:create().use"),
        *(f"{here}:Tool", f"{here}:Tool()", f"{here}:Tool().use", f"{here}:tool", f"{here}:tool.use", f"{here}:tool.lazy"),
        *(f"{here}:tool.unknown", f"{here}:tool.other.system", f"{here}:run", f"{here}:answer.__wrapped__", f"{here}:answer()"),
        *(
            f"{here}:answer.__globals__",
            f"{here}:answer.__wrapped__.__globals__",
            f"{here}:__builtins__",
            f"{here}:sys.modules",
        ),
        *(f"{here}:DAG('a', 'b')", f"functions_framework:create_app('system', '{here}.py', 'http')", "__main__:answer"),
        *(f"functions_framework:create_app('answer', {str(world.folder.parent / 'evil.py')!r}, 'http')", CELL),
        *("functions_framework:create_app('answer', 'bug/code/evil.py', 'http')", "evil:answer", "bug.evil:answer"),
        *("bug.code.evil:answer", "linked.evil:answer", "link:answer", "env.lib.evil:app", "site-packages.evil:answer"),
        *("..evil:answer", ".evil:answer", "evil\0:answer", f"{here}:", ":answer", f"{here}:<locals>.x", "a" * 5000 + ":x"),
    ]
    files = [None, str(world.folder.parent / "evil.py"), "../evil.py", "bug/code/evil.py", "notes.zip", "link.py", "\0"]
    for number, target in enumerate(named):
        for kind, given in _inputs(world).items():
            entry = Entry(kind=kind, target=target, file=files[number % len(files)], input=given)
            yield Hostile(name=f"{kind.value} {target[:60]!r} in {entry.file}", entry=entry)


def _inputs(world: World) -> dict[EntryKind, str]:
    call = {"args": [world.command], "kwargs": {}}
    return {
        EntryKind.FUNCTION: values.encode(call),
        EntryKind.REQUEST: values.encode(
            {
                "method": "GRPC",
                "path": "/agent/use",
                "shape": "unary_unary",
                "headers": {},
                "client": None,
                "messages": [[0, "x"]],
            }
        ),
        EntryKind.TASK: values.encode({"by": "rq", "id": "1", "attempt": 0, **call}),
    }


def _commands(world: World) -> Iterator[Hostile]:
    code, outside = world.code, str(world.folder.parent / "evil.py")
    lines: list[list[Any]] = [
        *(["-c", code], [f"-c{code}"], ["-Bc", code], ["-uBc", code], ["-W", "x", "-c", code], ["-X", "dev", "-c", code]),
        *(["-m", "timeit", code], ["-mtimeit", code], ["-um", "pip"], ["-m", "pdb", outside], ["-m", "runpy", "evil"]),
        *(["-m", "evil"], ["-m", "bug.evil"], ["-m", "linked.evil"], ["-m", "..evil"], ["-m"], ["-m", "http.server"]),
        *(["-"], [], ["-i"], ["-X", "importtime"], ["--check-hash-based-pycs", "always"], [outside], ["../evil.py"]),
        *(["bug/evil.py"], ["bug/code/evil.py"], [f"bug/blobs/{'ab' * 32}"], [".hidden/evil.py"], ["env/lib/evil.py"]),
        *([".venv/lib/site-packages/evil.py"], ["site-packages/evil.py"], ["link.py"], ["linked/evil.py"], ["linked"]),
        *(["notes.zip"], ["notes"], ["/dev/stdin"], ["/proc/self/fd/0"], ["bug"], [f"{MODULE}.py\0"], [5], ["."], [os.sep]),
    ]
    for words in lines:
        payload = values.encode({"argv": ["python", *words], "stdin": code})
        yield Hostile(name=f"python {words}", entry=Entry(kind=EntryKind.COMMAND, target="python", input=payload))


def _programs(world: World) -> Iterator[Hostile]:
    lines = [
        *(["sh", "-c", world.command], ["touch", str(world.mark)], ["env", "sh", "-c", world.command], ["npx", "evil"]),
        *(
            ["/bin/sh", "-c", world.command],
            ["../evil.sh"],
            ["bug/evil.sh"],
            ["bash", "bug/code/evil.sh"],
            ["./.hidden/evil.sh"],
        ),
        *(
            ["bash", "../evil.sh"],
            ["node", "-e", "1"],
            ["node", "--import", "./x.mjs"],
            ["python", "-c", world.code],
            ["evil.sh"],
        ),
        *(["python3", "../evil.py"], ["perl", "-e", "1"], ["node_modules/x/evil.sh"], ["sudo", "x"], ["sh", "notes"]),
    ]
    for words in lines:
        yield Hostile(name=str(words), entry=Entry(kind=EntryKind.PROGRAM, input=values.encode({"argv": words})))


def _variables(world: World) -> Iterator[Hostile]:
    # A path is refused by its value, the others by the name.
    paths = {"PYTHONHASHSEED", "LC_ALL", "LANG", "TZ", "SHOP_DATA"}
    named = (
        "PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT PYTHONUSERBASE "
        "PYTHONPYCACHEPREFIX PYTHONPLATLIBDIR PYTHONHASHSEED LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES "
        "GLIBC_TUNABLES GCONV_PATH LOCPATH PATH HOME SHELL BASH_ENV ENV IFS PROMPT_COMMAND EDITOR VISUAL PAGER BROWSER "
        "TERMINFO TMPDIR NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS RUBYOPT RUBYLIB PERL5OPT PERL5LIB JAVA_TOOL_OPTIONS "
        "_JAVA_OPTIONS CLASSPATH PHPRC LUA_PATH GOFLAGS HTTP_PROXY https_proxy ALL_PROXY no_proxy SSL_CERT_FILE "
        "SSLKEYLOGFILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE OPENSSL_CONF OPENSSL_MODULES GIT_SSH_COMMAND GIT_DIR "
        "GIT_EXTERNAL_DIFF SSH_ASKPASS AWS_CONFIG_FILE AWS_CA_BUNDLE KUBECONFIG GOOGLE_APPLICATION_CREDENTIALS "
        "DJANGO_SETTINGS_MODULE CELERY_LOADER FLASK_APP PIP_INDEX_URL UV_INDEX VIRTUAL_ENV XDG_CONFIG_HOME "
        "FREEZEFRAME_INJECT FREEZEFRAME_REPLAY_TASK FREEZEFRAME_REPLAY_FIRST FREEZEFRAME_FILE PYTEST_ADDOPTS "
        "CFLAGS_CMD MY_PLUGIN_DIR SHOP_PRELOAD LC_ALL LANG TZ SHOP_DATA "
    ).split()
    for number, name in enumerate(named):
        recorded = json.dumps({name: EVIL_VALUE if name in paths else EVIL_WORD})
        function = Entry(
            kind=EntryKind.FUNCTION, target=f"{MODULE}:answer", environment=recorded, input=_inputs(world)[EntryKind.FUNCTION]
        )
        script = Entry(kind=EntryKind.COMMAND, environment=recorded, input=values.encode({"argv": ["python", f"{MODULE}.py"]}))
        yield Hostile(name=f"the variable {name}", entry=script if number % 2 else function, may_begin=True)
    for name in ("A\0B", "A=B", ""):
        entry = Entry(
            kind=EntryKind.FUNCTION,
            target=f"{MODULE}:answer",
            environment=json.dumps({name: EVIL_WORD}),
            input=_inputs(world)[EntryKind.FUNCTION],
        )
        yield Hostile(name=f"the variable {name!r}", entry=entry, may_begin=True)
    zone = Entry(kind=EntryKind.FUNCTION, target=f"{MODULE}:answer", input=_inputs(world)[EntryKind.FUNCTION])
    yield Hostile(name="the time zone", entry=zone, may_begin=True, environment={genai.TIMEZONE: EVIL_VALUE})
