"""Where the data directory is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from loopback import QuietHandler, listening

from freezeframe_replay.local.collector import flush, read_ports, store_url
from freezeframe_replay.local.home import Home, find_home, make_home
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


@pytest.mark.parametrize(("status", "is_there"), [(503, True), (504, True), (401, False), (404, False)])
def test_a_busy_collector_is_there_and_another_process_on_its_port_is_not(tmp_path: Path, status: int, is_there: bool) -> None:
    """Another directory's collector refuses the token, any other server knows no such page. No store is read through them."""

    class Answer(QuietHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

    with listening(Answer) as url:
        port = int(url.rpartition(":")[2])
        (tmp_path / "ports.json").write_text(json.dumps({"http": port, "clickhouse": 2, "pid": os.getpid()}))
        home = Home(directory=tmp_path)
        assert flush(home) is is_there
        if is_there:
            assert store_url(home, environ={}).endswith("@127.0.0.1:2/freezeframe")
        else:
            with pytest.raises(ConfigError, match="no collector is running"):
                store_url(home, environ={})
