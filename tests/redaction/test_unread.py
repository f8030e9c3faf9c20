"""A span that takes too long to redact: what was not read in time is a keyed hash, and the span says so.

The clock of these tests advances by one whenever it is read, so a deadline is a number of steps.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bare_spans import bare_span

from freezeframe_collector.batch import Appended, Batch
from freezeframe_collector.front import build_pipeline, build_redaction
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.settings.config import CollectorConfig, RedactionConfig, ServiceConfig
from freezeframe_collector.settings.policies import Policies
from freezeframe_redaction import Redactor, TenantKey, load_or_create_keys, load_policy
from freezeframe_redaction.deadline import Allowance
from freezeframe_redaction.surrogates.make import BASE32
from freezeframe_schemas import genai
from freezeframe_schemas.errors import FreezeframeError
from freezeframe_schemas.gaps import GapKind, span_gaps
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import Event, Resource, SpanRecord

MAIL = "bob.smith@gmail.com"
DENSE = " ".join(f"bob.smith{number}@gmail.com" for number in range(6_000))
STEPS = 150
"""More than a span of short texts takes, and fewer than `DENSE`."""


def _clock() -> Callable[[], float]:
    return itertools.count().__next__


def _redactor(secret: bytes = b"k" * 32, steps: int = STEPS) -> Redactor:
    return Redactor(load_policy(), TenantKey(id="test/1", secret=secret), span_cpu_s=steps, cpu_clock=_clock())


def _span(**attributes: Any) -> SpanRecord:
    return bare_span(attributes)


def test_the_longest_texts_become_keyed_hashes_and_the_others_are_redacted() -> None:
    made = _redactor().redact_span(_span(text=DENSE, user=MAIL, model="gpt-4o"))
    hashed = str(made.attributes["text"])
    assert hashed.startswith("unread:")
    assert set(hashed.rpartition("rDx")[2]) <= set(BASE32)
    assert "smith" not in repr(made)
    assert str(made.attributes["user"]).endswith(".example.com")
    assert made.attributes["model"] == "gpt-4o"
    assert "redaction.span_cpu_s" in str(made.attributes[genai.REDACTION_UNREAD])
    assert f'"{hashed}":"UNREAD"' in str(made.attributes[genai.REDACTION_SURROGATES])
    assert _redactor().redact_span(made) == made
    again, other = _redactor().redact_span(_span(text=DENSE)), _redactor(b"o" * 32).redact_span(_span(text=DENSE))
    assert again.attributes["text"] == hashed != other.attributes["text"]


def test_a_body_that_was_not_read_is_left_out_and_no_replay_asks_for_it() -> None:
    body = {genai.RESPONSE_BODY: DENSE, genai.RESPONSE_CHUNK_SIZES: (len(DENSE),), genai.RESPONSE_CHUNK_OFFSETS_NS: (1,)}
    made = _redactor().redact_span(_span(**{genai.EXCHANGE_KIND: "model", genai.REQUEST_BODY: "{}", **body}))
    assert genai.RESPONSE_BODY not in made.attributes
    assert made.attributes[genai.RESPONSE_CHUNK_SIZES] == ()
    assert made.attributes[genai.REQUEST_BODY] == "{}"
    gaps = {gap.kind: gap for gap in span_gaps(made)}
    assert set(gaps) == {GapKind.RESPONSE_OMITTED, GapKind.UNREAD}
    assert {gap.ceiling for gap in gaps.values()} == {2}
    assert "unread:rDx" in gaps[GapKind.RESPONSE_OMITTED].text
    assert gaps[GapKind.UNREAD].do == "raise redaction.span_cpu_s of the collector"


def test_where_even_the_short_texts_take_too_long_all_are_hashed() -> None:
    events = tuple(Event(time_unix_nano=1, name=MAIL, attributes={"to": DENSE[: 7_000 + n]}) for n in range(8))
    made = _redactor(steps=100).redact_span(replace(_span(to=MAIL, model="gpt-4o"), events=events))
    texts = [made.name, *made.attributes.values(), *(event.name for event in made.events)]
    texts += [event.attributes["to"] for event in made.events]
    ours = [value for name, value in made.attributes.items() if name.startswith("freezeframe.redaction.")]
    assert all(str(text).startswith("unread:") for text in texts if text not in ours)


def test_a_span_that_cannot_even_be_hashed_in_time_is_refused() -> None:
    with pytest.raises(FreezeframeError, match="took too long"):
        _redactor(steps=-1).redact_span(_span(**{"a name of 20 letters": "x" * 10, "4111 1111 1111 1111": 1}))


def test_a_resource_that_takes_too_long_costs_its_time_once() -> None:
    resource = Resource(attributes={"owner": DENSE, "contact": MAIL})
    clock = _clock()
    redactor = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32), span_cpu_s=STEPS, cpu_clock=clock)
    first, *_, last = [redactor.redact_span(replace(_span(number=n), resource=resource)) for n in range(50)]
    assert str(last.resource.attributes["owner"]).startswith("unread:")
    assert str(last.resource.attributes["contact"]).endswith(".example.com")
    assert first.resource is last.resource
    assert genai.REDACTION_UNREAD in last.attributes
    assert clock() < 5 * STEPS


def test_a_request_of_many_slow_spans_is_bounded_as_a_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = _clock()
    keys = load_or_create_keys(tmp_path)
    stage = RedactStage(Policies(default=load_policy()), keys, span_cpu_s=STEPS, request_cpu_s=2 * STEPS, cpu_clock=clock)
    spans = [_span(text=f"{number} {DENSE}", user=MAIL, model="gpt-4o") for number in range(20)]
    before = clock()
    with caplog.at_level(logging.WARNING):
        apply = stage.begin()
        made = [apply(span, "") for span in spans]
    assert clock() - before < 9 * STEPS
    late = made[-1]
    assert str(late.attributes["text"]).startswith("unread:")
    assert str(late.attributes["user"]).startswith("unread:")
    assert "redaction.request_cpu_s" in str(late.attributes[genai.REDACTION_UNREAD])
    assert "raise redaction.request_cpu_s of the collector" in {gap.do for gap in span_gaps(late)}
    assert sum("redaction.request_cpu_s" in line for line in caplog.messages) == 1
    assert str(stage.begin()(_span(user=MAIL), "").attributes["user"]).endswith(".example.com")


class _Log:
    """A log that keeps the spans in memory."""

    def __init__(self) -> None:
        self.spans: list[SpanRecord] = []

    def submit(self, batch: Batch) -> Future[Appended]:
        self.spans.extend(batch.spans or ())
        done = Future[Appended]()
        done.set_result(Appended(segment=1, duplicate=0))
        return done


def test_hashing_has_its_time_however_long_the_last_span_was_read() -> None:
    now = 0.0
    allowance = Allowance(1, lambda: now)
    now = 50.0
    assert allowance.to_read.has_passed()
    assert not allowance.to_hash.has_passed()
    now = 51.5
    assert allowance.to_hash.has_passed()


@pytest.mark.proof
@pytest.mark.long
def test_the_collector_bounds_each_request(tmp_path: Path) -> None:
    """The setting reaches the pipeline, each request has its own time, and no span is lost by it."""
    config = CollectorConfig(service=ServiceConfig(data=str(tmp_path)), redaction=RedactionConfig(request_cpu_s=0.3))
    log = _Log()
    pipeline = build_pipeline(config, log, build_redaction(config))
    slow = [replace(_span(text=f"{number} {DENSE[:20_000]}"), span_id=f"{number + 1:016x}") for number in range(60)]
    for spans in (slow, [_span(user=MAIL)]):
        assert pipeline.export(encode_traces(spans)).rejected == 0
    *_, last, later = log.spans
    assert len(log.spans) == 61
    assert str(last.attributes["text"]).startswith("unread:")
    assert str(later.attributes["user"]).endswith(".example.com")


def test_the_collector_logs_and_counts_such_a_span(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = load_or_create_keys(tmp_path)
    stage = RedactStage(Policies(default=load_policy()), keys, span_cpu_s=STEPS, cpu_clock=_clock())
    counted: list[int] = []
    stage.on_unread = lambda: counted.append(1)
    with caplog.at_level(logging.WARNING):
        made = stage(_span(text=DENSE, user=MAIL), "")
        stage(_span(user=MAIL), "")
        stage(made, "")
    assert counted == [1]
    (line,) = caplog.messages
    assert line.startswith(f"span {'2' * 16}: redaction took over {STEPS} s of CPU time")
