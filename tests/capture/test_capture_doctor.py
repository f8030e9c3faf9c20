"""`freezeframe.doctor()`: what this environment has that is captured, and what it has that is not, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import freezeframe
from freezeframe.testing import capture


def install(home: Path, distribution: str, version: str, *requires: str) -> None:
    """Make a distribution known, as an installer does."""
    folder = home / f"{distribution.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    required = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n" + required)


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


@pytest.mark.parametrize(
    ("requirement", "named"), [("grpcio<2,>=1.49", True), ("grpcio-status", False), ('grpcio; extra == "fast"', False)]
)
def test_grpc_is_named_where_somebody_brought_it_whose_calls_would_be_missed(
    requirement: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """freezeframe's own extras install it, too, and so do exporters: about those it says nothing."""
    install(tmp_path, "vectors-client", "1.2.3", requirement)
    monkeypatch.syspath_prepend(tmp_path)
    rows = [row for row in freezeframe.doctor() if row.library == "grpcio"]
    assert [(row.state.value, row.what.endswith("(required by vectors-client)")) for row in rows] == [
        ("not captured", True)
    ] * named
