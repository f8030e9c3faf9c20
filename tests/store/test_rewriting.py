"""A run's stored spans are replaced: by all of the new ones, redacted, or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import agent_loops
import pytest

from freezeframe_collector.store import Store
from freezeframe_collector.store.administration import administer
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.span import SpanRecord

pytestmark = pytest.mark.long  # fills a store of its own

STAMP = {genai.REDACTION_POLICY: "acme@0123456789ab"}


def _run() -> list[SpanRecord]:
    return [span.with_attributes({genai.TOOL_CALL_RESULT: "xylophonequartz"}) for span in agent_loops.agent_run(1, turns=2)]


def _file(folder: Path, spans: Sequence[SpanRecord]) -> str:
    path = folder / "spans.json"
    path.write_text(json.dumps(spans_to_otlp_json(spans)))
    return str(path)


def _held(store: Store) -> tuple[int, int]:
    """Return how many spans there are, and how many rows contain the old word."""
    _, counted = store.query(f"SELECT count() FROM {store.database}.span_rows FINAL")
    found = [
        store.query(f"SELECT countIf(position(toString(tuple(*)), 'xylophonequartz') > 0) FROM {store.database}.{table}")[1][0][
            0
        ]
        for table in ("span_rows", "piece_rows")
    ]
    return counted[0][0], sum(found)


@pytest.mark.proof
def test_a_run_is_replaced_by_what_the_file_holds_as_often_as_the_order_is_given(own: Store, tmp_path: Path) -> None:
    run = _run()
    own.insert(run, token="run")
    before = _held(own)
    assert before[1] > 0
    redacted = [span.with_attributes({**STAMP, genai.TOOL_CALL_RESULT: "rDx"}) for span in run]
    order = {"action": "redact", "run": run[0].trace_id, "file": _file(tmp_path, redacted), "note": "asked for"}
    for _ in range(2):
        assert administer(own, order) == {"run": run[0].trace_id, "spans": len(run), "policy": "acme@0123456789ab"}
        assert _held(own) == (before[0], 0)
    _, audited = own.query(f"SELECT action, rows, note FROM {own.database}.audit")
    assert [list(row) for row in audited] == [["redact_run", len(run), "acme@0123456789ab asked for"]] * 2


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        pytest.param("fewer", "are not in it", marks=pytest.mark.proof),
        ("plain", "no redaction policy"),
        ("foreign", "other spans"),
        ("none", "cannot be read"),
    ],
)
def test_a_file_that_is_not_the_whole_run_redacted_changes_nothing(own: Store, tmp_path: Path, fault: str, says: str) -> None:
    run = _run()
    own.insert(run, token=f"run-{fault}")
    before = _held(own)
    redacted = [span.with_attributes(STAMP) for span in run]
    given = {
        "fewer": redacted[1:],
        "plain": run,
        "foreign": [span.with_attributes(STAMP) for span in agent_loops.agent_run(2, turns=2)],
        "none": redacted,
    }[fault]
    file = _file(tmp_path, given)
    if fault == "none":
        Path(file).write_text("{")
    with pytest.raises(ConfigError, match=says):
        administer(own, {"action": "redact", "run": run[0].trace_id, "file": file})
    assert _held(own) == before
