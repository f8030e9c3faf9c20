"""`docs/http-api.md`: each command has its route there, or the reason why it has none; and each route is there."""

from __future__ import annotations

import re
from pathlib import Path

from freezeframe_replay.cli.commands import HIDDEN, TOP
from freezeframe_replay.service.api import ROUTES

PAGE = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")


def test_each_command_has_a_route_or_a_reason() -> None:
    named = set(re.findall(r"`(?:freezeframe )?(\w+)", PAGE))
    commands = TOP.keys() | HIDDEN.keys()
    assert commands <= named, commands - named


def test_each_route_is_on_the_page() -> None:
    assert {f"`{route.method} {route.path}`" for route in ROUTES} <= set(re.findall(r"`[A-Z]+ /[^`]*`", PAGE))
