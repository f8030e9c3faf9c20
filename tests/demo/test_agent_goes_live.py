"""The order-lookup agent, fixed, goes on live once it leaves the recording, and answers about the right order."""

from pathlib import Path

import pytest
from order_shop import Shop, copy_example, fix

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.exchange import Kind

NEEDED = frozenset({"get_price", "file_note"})
"""What the fixed agent asks about the other order, which the recording of the wrong one cannot hold."""


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("variant", ["sync", "stream"])
def test_the_fixed_agent_reaches_the_right_answer_with_all_but_the_named_tools_frozen(
    shop: Shop, variant: str, tmp_path: Path
) -> None:
    """In each style: the model is asked for real, and so are the shop's two named tools."""
    code = copy_example(tmp_path / "code")
    assert "A-1057" in shop.ask(variant=variant, example=code, spans=tmp_path / "spans.jsonl")
    before = shop.calls()
    fix(code)
    report = reenact(
        freeze(load_run_of_file(tmp_path / "spans.jsonl")),
        cwd=code,
        env=dict(shop.environment),
        policy=ReplayPolicy(live=frozenset({Kind.MODEL}), allow_tools=NEEDED),
    )
    assert "A-1042" in (report.outcome or ""), report
    assert {call.name for call in report.live if call.call_kind == "tool"} == NEEDED
    after = shop.calls()
    assert {name for name in after if after[name] != before.get(name)} == {"pricing_api", "file_note"}
