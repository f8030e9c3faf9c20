"""What is not such a record is refused: the field is named, and its value is never quoted."""

from __future__ import annotations

from typing import Any

import pytest

from freezeframe_schemas.divergence import Ambiguous, Divergence, DivergenceKind, Served
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.records import from_json

SECRET = "4711-secret"


@pytest.mark.parametrize(
    ("cls", "data", "field"),
    [
        (Served, {"step": SECRET, "how": "exact"}, "served.step"),
        (Served, {"step": True, "how": "exact"}, "served.step"),
        (Served, {"step": 1, "how": "exact", "relaxed": [SECRET, 1]}, "served.relaxed[1]"),
        (Served, {"step": 1, "how": "exact", SECRET: 1}, "served"),
        (Served, {"how": SECRET}, "'step'"),
        (Served, SECRET, "served"),
        (Ambiguous, {"steps": [1, 2, 3], "why": SECRET}, "served.steps"),
        (Divergence, {"kind": SECRET}, "served.kind"),
    ],
)
def test_what_is_not_a_record_is_refused_by_its_field(cls: type, data: Any, field: str) -> None:
    with pytest.raises(WireError) as refused:
        from_json(cls, data, "served")
    assert field in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_record_comes_back_with_its_types() -> None:
    found = from_json(Divergence, {"kind": "REPLAY-101", "agreed": ["method"], "step": None}, "divergence")
    assert found == Divergence(kind=DivergenceKind.REQUEST_CHANGED, agreed=("method",))
