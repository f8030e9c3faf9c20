"""A value found late is replaced in stored spans: with a real collector, its engine, two workers, a crash, a deletion."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from forms_on_disk import forms_in, forms_on_disk, rows_of_a_stopped_store
from running_collector import CollectorProcess

from freezeframe_replay.cli.status import collector_figures
from freezeframe_schemas import genai
from freezeframe_schemas.local_tokens import ADMIN, bearer, read_token
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import Resource, Scope, SpanRecord

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.usefixtures("warm_python")]

CAST = {"FREEZEFRAME_COLLECTOR__CAST__ENABLED": "true", "FREEZEFRAME_COLLECTOR__CAST__PAUSE_S": "3600"}
TWO = {"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": "2"}


def span(run: int, number: int, text: str, *, ends: bool = False) -> SpanRecord:
    """Return a span of a run."""
    return SpanRecord(
        trace_id=f"{run:032x}",
        span_id=f"{number:016x}",
        parent_span_id="" if ends else "f" * 16,
        name="step",
        start_time_unix_nano=1_780_000_000_000_000_000 + number,
        end_time_unix_nano=1_780_000_000_000_000_500 + number,
        attributes={"text": text, **({genai.ENTRY_KIND: "function"} if ends else {})},
        resource=Resource(attributes={genai.SERVICE_NAME: "orders"}),
        scope=Scope(name="test"),
    )


HELD, TOLD, END = "for maria_keller/77 asked", "My name is Maria Keller", "what was answered: mariakeller is known"


def texts(collector: CollectorProcess, run: int) -> list[str]:
    """Return the texts of a run as the store shows them."""
    return [
        row[0]
        for row in collector.rows(f"SELECT attributes['text'] FROM spans WHERE trace_id = '{run:032x}' ORDER BY start_time")
    ]


def settled(collector: CollectorProcess) -> list[int]:
    """Return of each run, by id, whether it is settled."""
    return [row[0] for row in collector.rows("SELECT settled FROM runs ORDER BY trace_id")]


def administered(collector: CollectorProcess, order: dict[str, str]) -> dict[str, Any]:
    """Give the store an order."""
    address = f"http://127.0.0.1:{collector.ports['clickhouse']}/store"
    answer = httpx.post(address, json=order, headers=bearer(read_token(collector.data, ADMIN)), timeout=100)
    return answer.json()


def shows(collector: CollectorProcess, run: int) -> str:
    """Return what `freezeframe show` prints of a run."""
    command = [sys.executable, "-m", "freezeframe._cli", "show", f"{run:032x}", "--store", collector.store_url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def made(data: Path) -> Generator[list[CollectorProcess]]:
    """Return a list to put collectors in, which are ended after the test."""
    started: list[CollectorProcess] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.kill()


def test_stored_spans_are_rewritten_once_the_run_has_ended_and_deleting_a_run_destroys_its_cast(
    data: Path, made: list[CollectorProcess]
) -> None:
    made.append(CollectorProcess(data, policy="strict", environment=CAST | TWO))
    collector = made[0]
    for run in (1, 2):
        collector.post([span(run, 1, HELD)])
        collector.post([span(run, 2, TOLD)])
    collector.post([span(3, 1, "nothing of anybody")])
    collector.flush()
    assert settled(collector) == [0, 0, 1]
    assert texts(collector, 1)[0] == HELD
    shown = [shows(collector, run) for run in (1, 3)]
    assert ["unsettled: a value was found late" in text for text in shown] == [True, False]
    assert "2 of 3 open runs" in dict(collector_figures(collector.status()))["unsettled"]
    collector.post([span(1, 3, END, ends=True)])
    collector.flush()
    assert settled(collector) == [1, 0, 1]
    held, told, end = texts(collector, 1)
    first, last = told.removeprefix("My name is ").split()
    assert held == f"for {first}_{last}/77 asked".lower()
    assert end == f"what was answered: {first}{last} is known".lower()
    casts = collector.status()["casts"]
    assert (casts["unsettled_runs"], casts["rewritten_runs"], casts["failures"]) == (1, 1, 0)
    assert (
        "freezeframe_collector_casts_unsettled_runs 1\n" in httpx.get(f"{collector.url}/metrics", headers=collector.reader).text
    )
    assert administered(collector, {"action": "delete", "run": f"{2:032x}"})["left"] == 0
    assert collector.status()["casts"]["open_runs"] == casts["open_runs"] - 1
    assert settled(collector) == [1, 1]
    assert collector.stop() == 0


def test_a_killed_collector_still_knows_what_is_unsettled_and_finishes_a_rewrite(
    data: Path, made: list[CollectorProcess]
) -> None:
    made.append(CollectorProcess(data, policy="strict", environment=CAST))
    made[0].post([span(1, 1, HELD), span(2, 1, "before it was rewritten")])
    made[0].flush()
    made[0].post([span(1, 2, TOLD)])
    made[0].kill()
    interrupted = data / "settling" / "1.pb"  # as if the kill had come between deleting and inserting
    interrupted.parent.mkdir(exist_ok=True)
    interrupted.write_bytes(encode_traces([span(2, 1, "after it was rewritten")]))
    made.append(CollectorProcess(data, policy="strict", environment=CAST))
    made[1].post([span(1, 3, END, ends=True)])
    made[1].flush()
    assert settled(made[1]) == [1, 1]
    assert not any("keller" in text for text in texts(made[1], 1))
    assert texts(made[1], 2) == ["after it was rewritten"]
    assert not interrupted.exists()
    assert made[1].stop() == 0


@pytest.mark.proof("law no private value reaches the disk")
def test_after_settling_no_file_of_the_data_directory_holds_a_form_in_any_encoding(
    data: Path, made: list[CollectorProcess]
) -> None:
    made.append(CollectorProcess(data, policy="strict", environment=CAST))
    long = json.dumps(
        [{"role": "user", "content": f"{number} maria_keller/77 asked for order {number}"} for number in range(40)]
    )
    for number, text in enumerate((HELD, long, TOLD, END)):
        made[0].post([span(1, number + 1, text, ends=text is END)])
        if text is not TOLD:
            made[0].flush()
    assert settled(made[0]) == [1]
    assert made[0].stop() == 0
    rows = rows_of_a_stopped_store(data / "store")
    assert "asked for order 39" in rows
    assert forms_in(HELD.encode(), ("Maria Keller", "Keller")) == ["Maria Keller", "Keller"]
    assert forms_in(rows.encode(), ("Maria Keller", "Keller")) == []
    assert forms_on_disk(data, ("Maria Keller", "Keller")) == []
