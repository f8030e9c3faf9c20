"""A provider and a shop for each test of the order-lookup example."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from order_shop import Shop, open_shop, serving


@pytest.fixture(scope="session")
def provider() -> Iterator[dict[str, str]]:
    """The local provider's `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL`."""
    with serving("provider.py") as addresses:
        yield addresses


@pytest.fixture
def shop(tmp_path: Path, provider: dict[str, str]) -> Iterator[Shop]:
    """A shop at 3 PM, whose agent's spans go nowhere."""
    with open_shop(tmp_path / "world", provider) as shop:
        yield shop
