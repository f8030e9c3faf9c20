"""A provider and a shop for each test of the order-lookup example."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from order_shop import EXAMPLE, Shop, serving


@pytest.fixture(scope="session")
def provider() -> Iterator[dict[str, str]]:
    """The local provider's `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL`."""
    with serving("provider.py") as addresses:
        yield addresses


@pytest.fixture
def shop(tmp_path: Path, provider: dict[str, str]) -> Iterator[Shop]:
    """A shop at 3 PM, whose spans go nowhere: no one listens on the exporter's port."""
    directory = tmp_path / "world"
    subprocess.run([sys.executable, EXAMPLE / "world.py", directory, "set", "3pm"], check=True)
    with serving("pricing_api.py", str(directory)) as addresses:
        environment = {
            **provider,
            **addresses,
            "ORDER_WORLD": str(directory),
            "OPENAI_API_KEY": "local",
            "ANTHROPIC_API_KEY": "local",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        }
        yield Shop(directory=directory, environment=environment)
