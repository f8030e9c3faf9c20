"""A file is replaced whole or not at all."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from freezeframe_schemas.whole_file import replace_file


def breaks_off() -> Iterator[bytes]:
    yield b"half"
    raise KeyboardInterrupt


@pytest.mark.parametrize(("content", "read"), [("é", "é".encode()), (b"\xff", b"\xff"), ([b"a", b"b"], b"ab"), ("", b"")])
@pytest.mark.parametrize("is_there", [False, True])
def test_the_file_has_the_new_content_and_nothing_is_left_beside_it(
    tmp_path: Path, content: str | bytes | list[bytes], read: bytes, *, is_there: bool
) -> None:
    path = tmp_path / "file"
    if is_there:
        path.write_text("longer than the new content")
    replace_file(path, content)
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (read, [path])


@pytest.mark.parametrize(("is_private", "others"), [(True, False), (False, True)])
def test_only_a_private_file_is_hidden_from_others(tmp_path: Path, *, is_private: bool, others: bool) -> None:
    path = tmp_path / "file"
    path.touch(mode=0o644)
    replace_file(path, "text", is_private=is_private)
    assert bool(stat.S_IMODE(path.stat().st_mode) & stat.S_IROTH) is others


def test_a_write_that_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, breaks_off())
    assert (path.read_text(), [*tmp_path.iterdir()]) == ("old", [path])
