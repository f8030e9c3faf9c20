"""`freezeframe.doctor()`: what this environment has that is captured, and what it has that is not, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import freezeframe
from freezeframe.testing import capture


def install(home: Path, distribution: str, version: str) -> None:
    """Make a distribution known, as an installer does."""
    folder = home / f"{distribution.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")


@pytest.mark.parametrize(
    "distribution",
    ["google-cloud-aiplatform", "google-generativeai", "google-ai-generativelanguage", "xai-sdk"],
)
def test_a_client_that_asks_over_grpc_is_named_with_what_to_do(
    distribution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, distribution, "1.2.3")
    monkeypatch.syspath_prepend(tmp_path)
    with capture():
        row = next(row for row in freezeframe.doctor() if row.library == distribution)
    assert (row.version, row.state.value) == ("1.2.3", "not captured")
    assert "gRPC" in row.what
    assert "captured" in row.what


def test_grpc_itself_is_named_where_it_is_installed() -> None:
    row = next(row for row in freezeframe.doctor() if row.library == "grpcio")
    assert row.state.value == "not captured"
