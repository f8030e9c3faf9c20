"""The scripts for shells: each command, each option, as bash and fish themselves complete them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from freezeframe_replay.cli import main
from freezeframe_replay.cli.commands import TOP


def by_bash(script: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _freezeframe; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask, "bash", str(script), *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


def by_fish(script: Path, *words: str) -> list[str]:
    """Return what fish offers for the last of the words, in an empty folder: it offers files too."""
    (empty := script.parent / "empty").mkdir(exist_ok=True)
    ask = ["fish", "--no-config", "-c", f"source {script}; complete -C '{' '.join(words)}'"]
    home = {**os.environ, "HOME": str(empty)}
    done = subprocess.run(ask, cwd=empty, env=home, capture_output=True, text=True, check=True)
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.proof("command completion")
@pytest.mark.parametrize(("shell", "completed"), [("bash", by_bash), ("fish", by_fish)])
def test_a_shell_completes_commands_options_and_actions(
    shell: str, completed: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    assert main(["completion", shell]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    assert sorted(completed(script, "freezeframe", "")) == sorted(TOP)
    assert completed(script, "freezeframe", "exper") == ["experiment"]
    assert completed(script, "freezeframe", "experiment", "--max-") == [
        "--max-broken",
        "--max-changed",
        "--max-cost",
        "--max-p95",
    ]
    assert "pin" in completed(script, "freezeframe", "store", "p")
    assert completed(script, "freezeframe", "nothing", "--") == []


def test_zsh_gets_the_script_of_bash(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.endswith(f"bashcompinit\n{script}")
