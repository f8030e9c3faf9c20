"""`freezeframe run setup`: the lines are those of the guide, and a file of settings keeps everything else."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from freezeframe_replay.cli import main
from freezeframe_replay.local.agent_settings import AGENTS, Receiver

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "coding-agents.md"
TOKEN = "a-token-of-forty-letters-for-the-senders"
HEADER = f"authorization=Bearer%20{TOKEN}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home directory with a data directory whose collector once ran; commands are typed there."""
    for agent in AGENTS.values():
        monkeypatch.delenv(agent.home_variable, raising=False)
    monkeypatch.delenv("FREEZEFRAME_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".freezeframe").mkdir()
    (tmp_path / ".freezeframe" / "sender-token").write_text(TOKEN)
    return tmp_path


def written(agent: str, home: Path) -> Path:
    assert main(["run", "setup", agent, "--write"]) == 0
    return AGENTS[agent].path(home, {})


@pytest.mark.parametrize("agent", AGENTS)
def test_the_guide_has_the_lines_that_are_printed(agent: str) -> None:
    receiver = Receiver(grpc=4317, http=4318, token="TOKEN", token_file=Path(".freezeframe/sender-token"))
    section = PAGE.read_text().partition(f"\n## {AGENTS[agent].title}\n")[2].partition("\n## ")[0]
    [block] = re.findall(r"^```\w+\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    assert block.splitlines() == AGENTS[agent].lines(receiver)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_second_write_changes_nothing(agent: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(agent, home)
    first = path.read_bytes()
    assert written(agent, home).read_bytes() == first
    assert "nothing to change" in capsys.readouterr().out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in path.parent.iterdir()] == [path.name]


OTHERS = {
    "claude-code": '{"model": "opus", "env": {"EDITOR": "vi"}}',
    "codex": 'model = "o4"  # mine\n\n[tui]\ntheme = "dark"',
    "gemini": "GEMINI_API_KEY=mine\n# a note",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_other_settings_stay_and_the_file_before_is_kept(agent: str, home: Path) -> None:
    path = AGENTS[agent].path(home, {})
    path.parent.mkdir(parents=True)
    path.write_text(OTHERS[agent])
    text = written(agent, home).read_text()
    [backup] = path.parent.glob("*.backup")
    assert backup.read_text() == OTHERS[agent]
    if agent == "claude-code":
        settings: Any = json.loads(text)
        assert settings["model"] == "opus"
        assert settings["env"]["EDITOR"] == "vi"
        assert settings["env"]["OTEL_EXPORTER_OTLP_HEADERS"] == HEADER
    elif agent == "codex":
        assert text.startswith(OTHERS[agent])
        told = tomllib.loads(text)
        assert told["tui"] == {"theme": "dark"}
        assert told["otel"]["exporter"]["otlp-http"]["headers"] == {"authorization": f"Bearer {TOKEN}"}
    else:
        assert text.startswith(OTHERS[agent])
        assert f"\nOTEL_EXPORTER_OTLP_HEADERS={HEADER}\n" in text


@pytest.mark.parametrize("agent", AGENTS)
def test_a_new_token_replaces_the_old_one(agent: str, home: Path) -> None:
    written(agent, home)
    new = TOKEN.upper()
    (home / ".freezeframe" / "sender-token").write_text(new)
    text = written(agent, home).read_text()
    assert new in text
    assert TOKEN not in text


TAKEN = {
    "claude-code": '{"env": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere:4317"}}',
    "codex": '[otel]\nenvironment = "prod"\n',
    "gemini": "GEMINI_TELEMETRY_OTLP_ENDPOINT=http://elsewhere:4317\n",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_settings_for_another_receiver_are_left_alone(agent: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = AGENTS[agent].path(home, {})
    path.parent.mkdir(parents=True)
    path.write_text(TAKEN[agent])
    assert main(["run", "setup", agent, "--write"]) == 1
    assert str(path) in capsys.readouterr().err
    assert path.read_text() == TAKEN[agent]
    if agent != "codex":
        assert main(["run", "setup", agent, "--write", "--force"]) == 0
        assert "elsewhere" not in path.read_text()


@pytest.mark.parametrize(("agent", "broken"), [("claude-code", "{// mine\n}"), ("claude-code", "[]"), ("codex", "[otel")])
def test_a_file_that_cannot_be_read_is_named_and_left_alone(
    agent: str, broken: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = AGENTS[agent].path(home, {})
    path.parent.mkdir(parents=True)
    path.write_text(broken)
    assert main(["run", "setup", agent, "--write", "--force"]) == 1
    assert str(path) in capsys.readouterr().err
    assert path.read_text() == broken


def test_a_link_to_the_file_stays_a_link(home: Path) -> None:
    """People keep such files elsewhere, under version control."""
    kept = home / "dotfiles.toml"
    kept.write_text("")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(kept)
    assert written("codex", home).is_symlink()
    assert TOKEN in kept.read_text()


@pytest.mark.proof("command run setup")
def test_json_names_the_lines_the_file_and_what_was_done(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "setup", "gemini", "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["file"] == str(home / ".gemini" / ".env")
    assert (told["agent"], told["changed"], told["backup"]) == ("gemini", False, None)
    assert "export GEMINI_TELEMETRY_ENABLED=true" in told["lines"]
    assert TOKEN not in str(told)


def test_without_a_collector_the_first_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "setup", "codex", "--data", "nowhere"]) == 1
    assert "freezeframe up" in capsys.readouterr().err
