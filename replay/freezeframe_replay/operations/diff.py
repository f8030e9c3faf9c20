"""Compare two runs; other runs of the same entry point show which fields vary by themselves."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from freezeframe_replay.engine.compare import CONTEXT, WHOLE
from freezeframe_replay.operations.operation import Operation
from freezeframe_replay.operations.source import RunSource
from freezeframe_replay.report.align import Comparison, How, compare_runs
from freezeframe_replay.report.comparison_text import comparison_text
from freezeframe_replay.report.varying import varying_fields

MAX_OTHERS: Final = 3
"""Runs that are read to learn what varies by itself."""
MAX_STEPS: Final = 300
"""Calls of such a run: it is read while someone waits."""
_OTHERS: Final = """
SELECT trace_id FROM runs WHERE (service, name) IN (SELECT service, name FROM runs WHERE trace_id = {first:String})
AND trace_id NOT IN {compared:Array(String)} AND exchanges BETWEEN 1 AND {steps:UInt32}
ORDER BY start_time DESC LIMIT {number:UInt32}
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DiffParameters:
    """The two runs."""

    before: str
    after: str
    whole: bool = False
    """True if differing texts are whole, up to 10,000 characters, and not shortened to their first difference."""


def diff(source: RunSource, parameters: DiffParameters) -> Comparison:
    """Return two runs side by side; what varies by itself is apart (decision 0104).

    Raises:
        FreezeframeError: one of them cannot be read.
    """
    one, other = source.fixture(parameters.before), source.fixture(parameters.after)
    context = WHOLE if parameters.whole else CONTEXT
    found = compare_runs(one, other, varying=(), context=context)
    stored = [run.run_id for run, name in ((one, parameters.before), (other, parameters.after)) if source.is_stored(name)]
    if not stored or not any(pair.says_otherwise and pair.how is How.CHANGED for pair in found.pairs):
        return found
    chosen = {"first": stored[0], "compared": [one.run_id, other.run_id], "steps": MAX_STEPS, "number": MAX_OTHERS}
    _, rows = source.use(lambda store: store.sql(_OTHERS, chosen))
    others = [source.fixture(str(row[0])) for row in rows]
    varying = varying_fields((side, run) for run in others for side in (one, other))
    if not varying:
        return found
    return dataclasses.replace(compare_runs(one, other, varying=varying, context=context), learned_from=len(others))


def _to_json(found: Comparison) -> dict[str, Any]:
    return {"alike": found.alike, "compared": found.compared, **dataclasses.asdict(found)}


DIFF: Final = Operation(
    name="diff",
    parameters=DiffParameters,
    compute=diff,
    to_json=_to_json,
    to_text=lambda found, width: comparison_text(found, width=width),
)
