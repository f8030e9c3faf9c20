"""The dialects' page says what the registry says."""

from __future__ import annotations

import os
import re
from pathlib import Path

from freezeframe_schemas.wire import catalogue, registry

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"
UPDATE = "FREEZEFRAME_UPDATE_GOLDEN"
"""Set to 1 to write the page anew."""


def test_the_page_is_current() -> None:
    """FREEZEFRAME_UPDATE_GOLDEN=1 writes it anew."""
    text = catalogue.to_markdown()
    if os.environ.get(UPDATE):
        PAGE.write_text(text)
    assert PAGE.read_text() == text


def test_the_page_names_every_dialect_and_provider() -> None:
    """And no regular expression is left in it."""
    text = catalogue.to_markdown()
    for route in registry.ROUTES:
        assert f"| `{route.dialect.name}` |" in text
    for provider in registry.PROVIDERS:
        assert f"| `{provider.name}` |" in text
    assert not re.search(r"\(\?|\\|\[\^|\$", text)
