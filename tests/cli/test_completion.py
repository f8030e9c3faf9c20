"""The scripts for shells: each command, each option, as bash itself completes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from freezeframe_replay.cli import main
from freezeframe_replay.cli.commands import SUMMARIES


def completed(script: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _freezeframe; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask, "bash", str(script), *words], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_actions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    assert completed(script, "freezeframe", "") == [*SUMMARIES]
    assert completed(script, "freezeframe", "exper") == ["experiment"]
    assert completed(script, "freezeframe", "experiment", "--max-") == ["--max-changed", "--max-cost", "--max-p95"]
    assert "pin" in completed(script, "freezeframe", "store", "p")
    assert completed(script, "freezeframe", "nothing", "--") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_get_the_same_words(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in (*SUMMARIES, "max-changed"))
