"""The dialects' page says what the registry says."""

from __future__ import annotations

import re
from pathlib import Path

from dialects_page import dialects_page

from freezeframe_schemas.wire import registry

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == dialects_page(), "run: python tests/support/dialects_page.py > docs/dialects.md"


def test_the_page_names_every_dialect_and_provider() -> None:
    """And the page has no regular expression left."""
    text = dialects_page()
    for route in registry.ROUTES:
        assert f"| `{route.dialect.name}` |" in text
    for provider in registry.PROVIDERS:
        assert f"| `{provider.name}` |" in text
    assert not re.search(r"\(\?|\\|\[\^|\$", text)
