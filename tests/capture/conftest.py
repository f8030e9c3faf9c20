"""Shared by the capture tests: errors of the capture itself are raised, and nothing stays instrumented."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from capture_provider import Provider


@pytest.fixture(autouse=True)
def loud_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREEZEFRAME_RAISE", "1")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running
