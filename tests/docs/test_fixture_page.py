"""`docs/fixture-format.md` describes the format that the code writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.fixture import FORMAT, VERSION
from freezeframe_schemas.fixture_bodies import BLOB_LIMIT
from freezeframe_schemas.run import EntryKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/fixture-format.md").read_text()
EVERY_FORM = ROOT / f"tests/golden/fixtures/v{VERSION}/every-form"
NAMED = set(re.findall(r"`([a-z0-9_-]+)`", PAGE)) | set(re.findall(r'"([a-z0-9_]+)"', PAGE))


def fields_of(value: Any) -> set[str]:
    """Return the names of the format's own fields in a manifest or step, without those inside a recorded body."""
    if isinstance(value, list):
        return set[str]().union(*(fields_of(item) for item in value))
    if not isinstance(value, dict):
        return set()
    if "json" in value:
        return {"json", "form"}
    mine = {str(name) for name in value}
    return mine.union(*(fields_of(item) for name, item in value.items() if name not in ("environment", "surrogates")))


def test_every_field_that_is_written_is_described() -> None:
    written = fields_of(json.loads((EVERY_FORM / "manifest.json").read_text()))
    written |= fields_of(json.loads((EVERY_FORM / "steps.json").read_text()))
    surrogates = {name for name in written if "." in name}
    assert sorted(written - surrogates - NAMED) == []


def test_every_field_that_is_described_exists() -> None:
    """The first column of each table names fields of the code, or forms of a body."""
    code = (ROOT / "schemas/freezeframe_schemas/fixture.py").read_text() + (
        ROOT / "schemas/freezeframe_schemas/run.py"
    ).read_text()
    cells = re.findall(r"^\| ((?:`[a-z_0-9]+`(?:, )?)+) \|", PAGE, flags=re.MULTILINE)
    described = {name for cell in cells for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert len(described) > 40
    assert sorted(name for name in described if not re.search(rf'"{name}"|\b{name}:', code)) == []


def test_constants_and_enumerations_are_named() -> None:
    assert f'"{FORMAT}"' in PAGE
    assert f"{BLOB_LIMIT:,}" in PAGE
    assert {member.value for enum in (Kind, Completion, EntryKind) for member in enum} <= NAMED
