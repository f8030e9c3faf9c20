"""Recorded exchanges, read once per session."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from recorded_exchanges import Recorded, load_exchanges


@pytest.fixture(scope="session")
def exchanges() -> Sequence[Recorded]:
    """Every recorded exchange, in the order of the file."""
    return load_exchanges()
