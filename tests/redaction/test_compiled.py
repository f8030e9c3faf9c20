"""The cache of compiled patterns never decides what is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hyperscan
import pytest

from freezeframe_redaction.triggers.compiled import load_or_compile

EXPRESSIONS = [(b"[0-9]{3}-[0-9]{4}", 0), (b"@[a-z]+", 1)]


def hits(database: Any, data: bytes = b"call 555-0199 or x@corp") -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []

    def hit(expression: int, start: int, end: int, flags: int, context: object) -> None:
        found.append((expression, end))

    database.scan(data, match_event_handler=hit, scratch=hyperscan.Scratch(database))
    return sorted(found)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FREEZEFRAME_CACHE", str(tmp_path))
    return tmp_path


def test_what_is_read_back_finds_the_same(cache: Path) -> None:
    compiled = hits(load_or_compile(EXPRESSIONS))
    assert len(list(cache.iterdir())) == 1
    assert hits(load_or_compile(EXPRESSIONS)) == compiled != []


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x00" * 4096])
def test_a_damaged_file_is_compiled_again_and_mended(cache: Path, damage: bytes) -> None:
    compiled = hits(load_or_compile(EXPRESSIONS))
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert hits(load_or_compile(EXPRESSIONS)) == compiled
    assert file.read_bytes() == whole


def test_a_flipped_byte_is_noticed(cache: Path) -> None:
    compiled = hits(load_or_compile(EXPRESSIONS))
    (file,) = cache.iterdir()
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 0xFF
    file.write_bytes(body)
    assert hits(load_or_compile(EXPRESSIONS)) == compiled


def test_a_file_that_others_may_write_is_not_read(cache: Path) -> None:
    load_or_compile(EXPRESSIONS)
    (file,) = cache.iterdir()
    other = load_or_compile([(b"never", 0), (b"anything", 1)])
    theirs = next(path for path in cache.iterdir() if path != file)
    file.write_bytes(theirs.read_bytes())
    file.chmod(0o666)
    assert hits(load_or_compile(EXPRESSIONS)) != hits(other)


def test_other_patterns_have_another_file(cache: Path) -> None:
    load_or_compile(EXPRESSIONS)
    load_or_compile(EXPRESSIONS[:1])
    assert len(list(cache.iterdir())) == 2


def test_the_same_patterns_for_other_checks_have_another_file(cache: Path) -> None:
    load_or_compile(EXPRESSIONS)
    load_or_compile([(expression, 1 - number) for expression, number in EXPRESSIONS])
    assert len(list(cache.iterdir())) == 2


def test_without_a_place_to_keep_it_everything_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FREEZEFRAME_CACHE", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("no directory")
    assert hits(load_or_compile(EXPRESSIONS)) != []


_COMPILE_IN_A_THREAD = """
import re
from threading import Thread

import freezeframe_redaction.triggers.compiled as compiled

def held_mb():
    with open("/proc/self/smaps_rollup") as file:
        return int(re.search(r"Anonymous:\\s+(\\d+)", file.read())[1]) / 1024

patterns = [(rb"\\b(?:%d|a{3,9}[0-9]{2,7}x?b+)\\b" % number, number) for number in range(600)]
before = held_mb()
thread = Thread(target=lambda: kept.append(compiled.load_or_compile(patterns)))
kept = []
thread.start()
thread.join()
print(held_mb() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="needs the C library of Linux")
def test_what_compiling_took_is_given_back() -> None:
    environ = {**os.environ, "FREEZEFRAME_CACHE": ""}
    command = [sys.executable, "-c", _COMPILE_IN_A_THREAD]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 8
