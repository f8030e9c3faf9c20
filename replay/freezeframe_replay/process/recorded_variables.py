"""The environment variables of a recorded run: which of them a replay sets again.

A recording is a stranger's data. A variable by which a process finds or loads code, starts another program, or decides whom it
trusts is never taken from it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from freezeframe.context.environment import DATABASES_VARIABLE, FILES_VARIABLE, HASH_SEED_VARIABLE, is_hash_seed
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import SECRET_REMOVED
from freezeframe_schemas.fixture import Fixture

_PLACEHOLDER: Final = "replay"
"""Replaces a recorded key: clients cannot be created without one, and a replay never sends any."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUNTIMES: Final = re.compile(
    r"_?(LD_|DYLD_|MALLOC|GLIBC|GCONV|NLSPATH"  # loaders and the C library
    r"|PY(THON|ENV|TEST)|NODE_|NPM_|DENO_|BUN_|RUBY|GEM_|PERL|PHP|LUA_|JAVA|JDK|JVM|JULIA_|CARGO|RUST|DOTNET|COMPLUS|GO(FLAGS|DEBUG)|R_"
    r"|BASH|ZSH|ENV$|PS4$|IFS$|TERM|GIT_|SSH_|GPG|SUDO|LESS|DOCKER_|KUBE"  # shells, and programs that start others
    r"|PIP_|UV_|CONDA|VIRTUAL|XDG_|DJANGO_|FLASK_|CELERY|GUNICORN|UVICORN|FREEZEFRAME)"  # what is installed; us
)
_PARTS: Final = re.compile(
    r"PATH|PRELOAD|LIBRAR|PLUGIN|MODULE|LOADER|CONFIG|FILE|SHELL|EDITOR|PAGER|BROWSER|ASKPASS|COMMAND|CREDENTIALS"
    r"|PROXY|CERT|BUNDLE|SSL|TLS"
    r"|(^|_)(HOME|DIRS?|ROOT|PREFIX|TMP|TMPDIR|TEMP|TEMPDIR|LIBS?|CONF|RC|CMD|EXEC|ARGS|OPTS|OPTIONS|HOOKS?|INIT|STARTUP|CA"
    r"|VISUAL|IMPORTS?|PACKAGES?)($|_)"
)
"""What is in the name of a variable that says where something is loaded from, what is started, or whom to trust."""
_PATH: Final = re.compile(r"(?:^|[:;,=\s])(?:~|\.{0,2}/(?!/)|file:)")
"""A value that names a file of this machine."""
_ADDRESS: Final = re.compile(r"(^|_)(URL|URI|BASE|ENDPOINT|HOST|HOSTS|ADDR|ADDRESS|SERVER|DOMAIN|ORIGIN|PORT)($|_)")
_VALUES: Final = {
    DATABASES_VARIABLE: re.compile("true"),
    FILES_VARIABLE: re.compile("true"),
    "TZ": re.compile(r"(?!:?/)[A-Za-z0-9_+\-,.<>:/]+"),
}
"""Variables that are set to a value of this form."""
_LOCALE: Final = re.compile(r"[\w.@-]*")


def recorded_variables(fixture: Fixture, *, goes_live: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables that reproduce the run's environment, and the names of those that are left out.

    `goes_live`: the program asks a model for real, with the user's own key; then no address is taken from the recording.
    """
    recorded: Any = json.loads(fixture.entry.environment or "{}")
    if not isinstance(recorded, dict):
        recorded = {}
    zone = fixture.environment.get(genai.TIMEZONE)
    variables: Mapping[str, Any] = {**recorded, "TZ": zone} if zone else recorded
    safe = {name: value for name, value in variables.items() if _is_safe(name, value, goes_live=goes_live)}
    left_out = tuple(
        name
        for name in recorded
        if name not in safe and not name.startswith("FREEZEFRAME_") and recorded[name] != os.environ.get(name)
    )
    return {name: _PLACEHOLDER if value == SECRET_REMOVED else value for name, value in safe.items()}, left_out


def _is_safe(name: str, value: object, *, goes_live: bool) -> bool:
    if not isinstance(value, str) or "\0" in value or not _NAME.fullmatch(name):
        return False
    upper = name.upper()
    if name == HASH_SEED_VARIABLE:
        return is_hash_seed(value)
    if name in _VALUES:
        return _VALUES[name].fullmatch(value) is not None and ".." not in value
    if upper in ("LANG", "LANGUAGE") or upper.startswith("LC_"):
        return _LOCALE.fullmatch(value) is not None
    if goes_live and ("://" in value or _ADDRESS.search(upper)):
        return False
    return not (_PATH.search(value) or _RUNTIMES.match(upper) or _PARTS.search(upper))
