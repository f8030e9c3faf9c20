"""The environment of a packed run, made by uv: the recorded Python, the recorded packages, and the freezeframe that runs here.

Installing a package can run its code, and so can reading a project's settings: only for code that may run anyway.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from freezeframe_replay.process.surroundings import Interpreter
from freezeframe_replay.sources.fixture_archive import Unpacked
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.fixture import Fixture

_READ_BY_UV: Final = ("uv.lock", "pylock.toml", "requirements.txt")
_OWN: Final = "freezeframe"
_PACKAGES: Final = ("freezeframe_schemas", "freezeframe", "freezeframe_redaction", "freezeframe_replay")
_ASK: Final = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"


def make_environment(opened: Unpacked, fixture: Fixture, *, quiet: bool) -> Interpreter:
    """Make the environment next to the unpacked code, with which it disappears, and return its Python.

    Raises:
        ConfigError: uv is missing, or failed; its output is on stderr.
    """
    place = opened.fixture / "environment"
    place.mkdir()
    uv = [*find_uv(), *(["--quiet"] if quiet else [])]
    minor = ".".join(fixture.environment.get(genai.RUNTIME_VERSION, "").split(".")[:2])
    python = sys.executable if minor in ("", f"{sys.version_info[0]}.{sys.version_info[1]}") else minor
    _call(uv, ["venv", "--no-project", "--python", python, str(place / "venv")], opened.code)
    install = ["pip", "install", "--python", str(place / "venv")]
    packages, note = _recorded_packages(uv, opened, fixture, place)
    if packages[-1:] == ["pylock.toml"]:  # uv accepts nothing else with it
        _call(uv, [*install, *packages], opened.code)
        packages = []
    own = place / "own.txt"
    own.write_text(f"{_OWN}[replay] @ {_own_wheel(place).as_uri()}\n", encoding="utf-8")
    _call(uv, [*install, "-r", str(own), "--overrides", str(own), *packages], opened.code)
    programs = place / "venv" / "bin"
    found = subprocess.run([programs / "python", "-I", "-c", _ASK], capture_output=True, text=True, check=True)
    version, path = json.loads(found.stdout)
    path_variable = os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])
    return Interpreter(
        executable=str(programs / "python"),
        version=version,
        path=tuple(path),
        variables={"VIRTUAL_ENV": str(programs.parent), "PATH": path_variable},
        note=note,
    )


def find_uv() -> list[str]:
    """Return the command that starts uv.

    Raises:
        ConfigError: it is missing.
    """
    if found := shutil.which("uv"):
        return [found]
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    raise ConfigError(
        "--with-uv: uv is neither on PATH nor installed next to freezeframe",
        do="install it (pip install uv); or install the agent's packages yourself and leave --with-uv out",
    )


def _call(uv: Sequence[str], arguments: Sequence[str], folder: Path) -> None:
    if status := subprocess.run([*uv, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode:
        raise ConfigError(
            f"--with-uv: uv {' '.join(arguments[:2])} failed with status {status}; it says why above",
            do="install the agent's packages yourself, in an environment that also holds freezeframe, and leave --with-uv out",
        )


def _recorded_packages(uv: Sequence[str], opened: Unpacked, fixture: Fixture, place: Path) -> tuple[list[str], str]:
    """Return the packages as arguments of `uv pip install`, and a note if they do not come from a lock file."""
    lock = next((name for name in _READ_BY_UV if (opened.fixture / name).is_file()), None)
    if lock is None:
        recorded: dict[str, str] = json.loads(fixture.environment.get(genai.PACKAGES) or "{}")
        names = f"{', '.join(_READ_BY_UV[:-1])} or {_READ_BY_UV[-1]}"
        note = f"the file holds no {names}, so uv installed only the packages that every run records"
        return [f"{name}=={version}" for name, version in recorded.items() if name != _OWN], note
    shutil.copy(opened.fixture / lock, opened.code)  # paths in it are relative to the code
    if lock != "uv.lock":
        return ["-r", lock], ""
    exported = place / "requirements.txt"
    _call(uv, ["export", "--frozen", "--quiet", "--output-file", str(exported)], opened.code)
    return ["-r", str(exported)], ""


def _own_wheel(place: Path) -> Path:
    """Return a wheel of the freezeframe that runs here, however it was installed: both halves of a replay are one version."""
    own = importlib.metadata.distribution(_OWN)
    wheel, about = place / f"{_OWN}-{own.version}-py3-none-any.whl", f"{_OWN}-{own.version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for root in (Path(str(files(package))) for package in _PACKAGES):
            for file in root.rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(root.parent))
        archive.writestr(f"{about}/METADATA", own.read_text("METADATA") or "")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel
