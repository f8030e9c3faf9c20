"""What of a run is edited in a page, and what is not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.experiments.fork import Edit, Target
from freezeframe_replay.report.reading import Reading
from freezeframe_replay.service.history import History
from freezeframe_replay.service.job import Job
from freezeframe_replay.web.edit_page import Editable, EditedPart, find_editable
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.exchange import Exchange
from freezeframe_schemas.run import build_run


def found(step: int | None, *exchanges: Exchange, inside: dict[int, int] | None = None) -> Editable:
    reading = Reading(build_run(make_run(*exchanges, inside=inside)))
    return find_editable(reading.run, reading.outline, reading.transcript, step)


def test_a_model_is_edited_as_the_text_that_it_said_and_a_tool_as_json() -> None:
    said = found(1, model_call("Where?", "In Lyon."))
    assert (said.answer, said.text) == (EditedPart.TEXT, "In Lyon.")
    returned = found(1, tool_call("track", {"place": "Lyon"}))
    assert (returned.answer, returned.text) == (EditedPart.RESULT, '{\n  "place": "Lyon"\n}')
    assert found(None, tool_call("track", 1)).answer is EditedPart.INPUT


@pytest.mark.parametrize(("step", "told"), [(2, "inside step 1"), (1, "more than the 200,000")])
def test_what_is_not_edited_in_a_page_is_refused_with_the_reason(step: int, told: str) -> None:
    """A step inside another one, which a replay does not ask for; an answer too long for a form."""
    with pytest.raises(ReplayError, match=told):
        found(step, tool_call("track", "x" * 200_000), tool_call("look", 1), inside={1: 0})


def test_a_change_is_there_after_a_restart_of_the_service(tmp_path: Path) -> None:
    spans = make_run(tool_call("orders", ["AC-1"]))
    run = freeze(build_run(spans))
    edit = Edit(target=Target.RESULT, step=1, value=[{"order": ["AC-2"]}])
    job = Job(number=1, run_id=run.run_id, fixture=run, folder=tmp_path, started=dt.datetime.now(dt.UTC), origin=run, edit=edit)
    History(tmp_path).keep(job)
    (noted,) = History(tmp_path).noted()
    assert History(tmp_path).open(noted, lambda _: build_run(spans)).edit == edit
