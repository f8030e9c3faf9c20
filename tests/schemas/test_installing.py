"""The command that installs an extra names this copy of freezeframe, wherever it was installed from."""

from __future__ import annotations

import json

import pytest

from freezeframe_schemas.installing import install_command

WHEEL = "freezeframe-0.1.0-py3-none-any.whl"
COPIES = [
    ({"url": "file:///src/freezeframe", "dir_info": {"editable": True}}, "pip install -e '/src/freezeframe[replay]'"),
    ({"url": "file:///src/freezeframe", "dir_info": {}}, "pip install '/src/freezeframe[replay]'"),
    ({"url": "file:///my%20code/ff"}, "pip install '/my code/ff[replay]'"),
    ({"url": f"file:///wheels/{WHEEL}", "archive_info": {}}, f"pip install '/wheels/{WHEEL}[replay]'"),
    (
        {"url": f"https://files.example/{WHEEL}", "archive_info": {}},
        f"pip install 'freezeframe[replay] @ https://files.example/{WHEEL}'",
    ),
    (
        {"url": "https://git.example/ff.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
        "pip install 'freezeframe[replay] @ git+https://git.example/ff.git@ab12'",
    ),
    (
        {"url": "ssh://git@git.example/ff.git", "vcs_info": {"vcs": "git"}},
        "pip install 'freezeframe[replay] @ git+ssh://git@git.example/ff.git'",
    ),
]


@pytest.mark.parametrize(("said", "expected"), COPIES, ids=lambda item: str(item)[:40])
def test_the_command_names_where_this_copy_came_from(said: dict[str, object], expected: str) -> None:
    assert install_command("replay", direct_url=json.dumps(said)) == expected


@pytest.mark.parametrize("text", ["{", "[]", "null", "{}", '{"url": null}'])
def test_the_wheel_is_named_if_it_is_not_known_where_the_copy_came_from(text: str) -> None:
    """The bare name would install whatever an index has under it."""
    found = install_command("embedded", "replay", direct_url=text)
    assert found.startswith("pip install './freezeframe-")
    assert "[embedded,replay]'" in found
