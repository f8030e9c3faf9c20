"""The demo's bug as one file: packed where it happened, opened in an empty home that has freezeframe and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import CHROMIUM, Chromium
from order_shop import copy_example, fix, open_shop

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

ELSEWHERE = {"OPENAI_BASE_URL": "https://api.openai.com/v1", "PRICING_URL": "", "ORDER_WORLD": ""}
GIT = ("git", "-c", "user.name=bot", "-c", "user.email=bot@example.com", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A packed run in an empty home, on the machine to which it was sent."""

    file: Path
    home: Path

    def freezeframe(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command where nothing is known of the agent."""
        environment = {**os.environ, **ELSEWHERE, "HOME": str(self.home)}
        return freezeframe(*arguments, cwd=self.home, environment=environment)


def freezeframe(*arguments: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from freezeframe_replay.cli import main; sys.exit(main(sys.argv[1:]))"]
    return subprocess.run([*command, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def packed(provider: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Packed:
    root = tmp_path_factory.mktemp("packed")
    bot = copy_example(root / "bot")
    (bot / ".env").write_text("OPENAI_API_KEY=sk-live-0123456789\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "bot"]):
        subprocess.run([*GIT, *words], cwd=bot, check=True)
    with open_shop(root / "world", provider) as shop:
        assert "A-1057" in shop.ask(variant="sync", example=bot, spans=root / "spans.jsonl")
    environment = {**os.environ, "FREEZEFRAME_DATA": str(root / "data")}
    redacted = freezeframe("store", "redact-file", str(root / "spans.jsonl"), cwd=bot, environment=environment)
    (root / "redacted.jsonl").write_text(redacted.stdout)
    fix(bot)
    words = ("export", str(root / "redacted.jsonl"), "--as", "pack", "-o", str(root / "bug.ffz"))
    done = freezeframe(*words, cwd=bot, environment=environment)
    assert done.returncode == 0, done.stderr
    assert "left out: .env: may hold secrets, by its name" in done.stdout
    home = root / "home"
    home.mkdir()
    return Packed(file=(root / "bug.ffz").rename(home / "bug.ffz"), home=home)


def test_a_packed_bug_is_reenacted_where_nothing_but_freezeframe_is(packed: Packed) -> None:
    """By the code in the file, the wrong answer included, though the bug is fixed where it was recorded."""
    done = packed.freezeframe("replay", "bug.ffz", "--packed-code", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert json.loads(done.stdout)["verdict"] == "identical"
    assert "A-1057" in done.stdout
    assert not list(packed.home.rglob("*.py")), "the code is gone with the replay"


def test_packed_code_runs_only_if_that_is_asked_for(packed: Packed) -> None:
    done = packed.freezeframe("replay", "bug.ffz")
    assert done.returncode == 125
    assert "code in a file that someone sent can do all that you can" in done.stderr
    assert "freezeframe replay bug.ffz --packed-code" in done.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_the_page_in_a_packed_file_opens_without_anything(packed: Packed, tmp_path: Path) -> None:
    """Extracted with tar, opened from the disk: it loads nothing, every link stays on it, and it fits a phone."""
    with tarfile.open(packed.file) as archive:
        name = next(name for name in archive.getnames() if name.endswith("run.html"))
        archive.extract(name, tmp_path / "read", filter="data")
    browser = Chromium(tmp_path / "profile")
    try:
        text = browser.visit((tmp_path / "read" / name).as_uri())
        loaded = browser.run(
            "[performance.getEntriesByType('resource').length, document.scripts.length, document.forms.length]"
        )
        lost = browser.run(
            "[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
            ".filter(at => !at.startsWith('#') || !document.getElementById(at.slice(1)))"
        )
        ids = browser.run("[...document.querySelectorAll('[id]')].map(found => found.id)")
        browser.show_as(width=390)  # as a phone
        fits = browser.run("document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.close()
    assert loaded == [0, 0, 0]
    assert lost == []
    assert len(ids) == len(set(ids))
    assert fits
    assert "lookup_orders" in text
    assert "A-1057" in text
    assert "freezeframe replay bug.ffz" in text
