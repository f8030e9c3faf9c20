"""A packed run replayed with the packages that it was recorded with, which uv installs from a folder of wheels, offline."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from freezeframe_replay.cli import main
from freezeframe_replay.process.packed_environment import find_uv
from freezeframe_schemas.errors import ConfigError


def write_wheels(folder: Path, name: str, extras: tuple[str, ...] = (), *, itself: bool = True) -> None:
    """Write the wheels of a distribution and of all that it requires; without `itself`, of the latter only."""
    found = distribution(name)
    tags = [line[5:].split("-") for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    wheel = folder / f"{found.metadata['Name'].replace('-', '_')}-{found.version}-{tag}.whl"
    if wheel.exists():
        return
    if itself:
        with zipfile.ZipFile(wheel, "w") as archive:
            for file in found.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    archive.write(str(file.locate()), str(file))
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            write_wheels(folder, wanted.name, tuple(wanted.extras), itself=wanted.name != name)


def write_wheel(folder: Path, name: str, code: str) -> None:
    """Write the wheel of a package that is one module, version 1.0."""
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


GREETING = "def greet(name): return f'hello {name}'\n"
AGENT = """
import freezeframe, greeting

@freezeframe.tool
def look_up(order):
    return "Anna"

@freezeframe.run
def answer(order):
    return greeting.greet(look_up(order))

if __name__ == "__main__":
    freezeframe.instrument(service_name="bot", file="spans.jsonl")
    answer("AC-1")
"""
GIT = ("git", "-c", "user.name=bot", "-c", "user.email=bot@example.com", "-c", "commit.gpgsign=false")
UNLOCKED = "freezeframe==0.0.1\ngreeting==1.0\n"
"""As `pip freeze` has it: the freezeframe that recorded the run is not the one that replays it."""


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packed run whose agent imports a package that is not installed here."""
    bot, elsewhere = tmp_path / "bot", tmp_path / "elsewhere"
    for folder in (bot, elsewhere):
        folder.mkdir()
    (elsewhere / "greeting.py").write_text(GREETING)
    (bot / "agent.py").write_text(AGENT)
    (bot / "requirements.txt").write_text(UNLOCKED)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "bot"]):
        subprocess.run([*GIT, *words], cwd=bot, check=True)
    subprocess.run([sys.executable, "agent.py"], cwd=bot, env={**os.environ, "PYTHONPATH": str(elsewhere)}, check=True)
    monkeypatch.chdir(bot)
    assert main(["export", "--as", "pack", "spans.jsonl", "-o", str(tmp_path / "bug.ffz"), "--unredacted"]) == 0
    monkeypatch.chdir(tmp_path)
    return tmp_path / "bug.ffz"


@pytest.mark.long
def test_a_packed_run_is_replayed_with_the_packages_of_its_lock_file(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In an environment that is gone afterwards, by the freezeframe that opens the file; without the packages, not at all."""
    wheels, temporary = tmp_path / "wheels", tmp_path / "tmp"
    wheels.mkdir()
    temporary.mkdir()
    write_wheels(wheels, "freezeframe", ("replay",), itself=False)
    only_these = {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "cache")}
    for name, value in only_these.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    replay = ["replay", str(packed), "--packed-code", "--with-uv"]

    assert main(replay[:3]) == 125
    told = capfd.readouterr()
    assert "No module named 'greeting'" in " ".join(told.out.split())
    assert f"freezeframe replay {packed} --packed-code --with-uv" in told.err
    assert main(replay) == 1
    told = capfd.readouterr()
    assert "Because greeting was not found" in told.err
    assert "--with-uv: uv pip install failed with status 1; it says why above" in told.err

    write_wheel(wheels, "greeting", GREETING)
    assert main(replay) == 0
    told = capfd.readouterr()
    assert told.out.startswith("identical: 1 of 1 step and the outcome")
    assert "hello Anna" in told.out
    assert "(here none)" in told.out, "what is installed here besides is not in that environment"
    assert " + greeting==1.0" in told.err
    assert not list(temporary.iterdir())


def test_packages_are_only_installed_for_code_that_may_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "bug.ffz", "--with-uv"]) == 1
    assert "--with-uv requires --packed-code" in capsys.readouterr().err


def test_a_machine_without_uv_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(ConfigError, match="neither on PATH nor installed") as missing:
        find_uv()
    assert "pip install uv" in str(missing.value)
