"""The replay law for the order-lookup agent in each style: its run is re-enacted exactly, and its fix is what differs."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from order_shop import Shop, copy_example, fix

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.verdict import Verdict, verdict

ELSEWHERE = {
    "OPENAI_BASE_URL": "https://api.openai.com/v1",
    "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
    "PRICING_URL": "",
    "ORDER_WORLD": "",
}
"""As on a colleague's machine: the hosted addresses, no shop at all."""


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("variant", ["async", "langgraph"])
def test_a_run_is_reenacted_exactly_until_the_code_is_fixed(shop: Shop, variant: str, tmp_path: Path) -> None:
    """Every step is answered from the recording, no socket, no tool; the fix shows as another model request."""
    code = copy_example(tmp_path / "code")
    answer = shop.ask(variant=variant, example=code, spans=tmp_path / "spans.jsonl")
    fixture = _fixture(tmp_path / "spans.jsonl")
    assert "A-1057" in answer
    before = shop.calls()

    report = reenact(fixture, cwd=code, env=ELSEWHERE)
    assert verdict(report) is Verdict.IDENTICAL, report
    assert len(report.served) == report.steps == 8
    assert report.sockets_tried == 0
    assert values.decode(report.outcome or "null") == answer.rstrip("\n"), "which LangChain gives as a class of text"

    fix(code)
    first = reenact(fixture, cwd=code, env=ELSEWHERE).first
    assert first is not None
    assert first.kind is DivergenceKind.REQUEST_CHANGED
    assert (first.recorded, first.live) == ('"A-1057"', '"A-1042"')
    assert shop.calls() == before


def _fixture(spans_file: Path) -> Fixture:
    by_trace: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for line in spans_file.read_text(encoding="utf-8").splitlines():
        for span in spans_from_otlp_json(json.loads(line)):
            by_trace[span.trace_id].append(span)
    (spans,) = by_trace.values()
    return freeze(build_run(spans))
