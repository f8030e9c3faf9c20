"""Where the data directory is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from freezeframe_replay.local.daemon import store_url
from freezeframe_replay.local.home import Home, find_home, make_home, read_ports
from freezeframe_schemas.data_directory import VARIABLE
from freezeframe_schemas.errors import ConfigError


def test_the_option_wins_over_the_environment_over_the_nearest_folder(tmp_path: Path) -> None:
    """The way git finds its directory: named, in the environment, upwards, else here."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / ".freezeframe").mkdir()
    environ = {VARIABLE: "elsewhere"}
    assert find_home(Path("given"), environ=environ, start=below).directory == below / "given"
    assert find_home(environ=environ, start=below).directory == below / "elsewhere"
    assert find_home(environ={}, start=below).directory == tmp_path / ".freezeframe"


def test_without_any_it_is_made_here_for_its_owner_only_and_outside_git(tmp_path: Path) -> None:
    """Finding it makes nothing; making it does."""
    home = find_home(environ={}, start=tmp_path)
    if home.directory != tmp_path / ".freezeframe":
        pytest.skip("a folder above the temporary one holds a data directory")
    assert not home.directory.exists()
    make_home(home)
    assert home.directory.stat().st_mode & 0o077 == 0
    assert (home.directory / ".gitignore").read_text() == "*\n"


def test_a_directory_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    """What, where, and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used as a data directory") as raised:
        make_home(Home(directory=tmp_path / "file" / "below"))
    assert raised.value.do is not None


@pytest.mark.parametrize("text", ["", "[]", '{"http": "4318"}', '{"grpc": 0}', "not json"])
def test_a_ports_file_that_says_nothing_names_no_port(tmp_path: Path, text: str) -> None:
    """Absent, damaged or empty: no port is guessed."""
    (tmp_path / "ports.json").write_text(text)
    assert read_ports(Home(directory=tmp_path)) == {}


def test_a_ports_file_left_by_a_crash_is_not_believed(tmp_path: Path) -> None:
    """Only a collector that runs has a store to read; a named store needs none."""
    (tmp_path / "ports.json").write_text(json.dumps({"http": 1, "grpc": 2, "clickhouse": 3}))
    with pytest.raises(ConfigError, match="no collector is running"):
        store_url(Home(directory=tmp_path), environ={})
    assert store_url(Home(directory=tmp_path), environ={"FREEZEFRAME_STORE": "clickhouse://db"}) == "clickhouse://db"
