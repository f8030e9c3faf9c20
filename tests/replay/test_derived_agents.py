"""Small agents that derive, split, hash, format, compare, sort and cut private values: recorded, redacted, replayed.

In the replay they get surrogates. What they ask then is what was recorded, or the replay names it as not comparable.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

import pytest
from derivations import DERIVED, FURTHER, MARIA, Derive, Person
from forms_on_disk import forms_in, forms_on_disk, rows_of_a_stopped_store
from running_collector import CollectorProcess

import freezeframe
from freezeframe import seams
from freezeframe.seams import serve, stop_serving
from freezeframe.testing import capture
from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_redaction.casts.book import texts_of
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.fixture import Fixture, write_fixture
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

AGENTS: Final = {**DERIVED, **FURTHER}
NAMED: Final = frozenset(
    {
        "length of the name", "length of the mail", "sum of the phone's digits", "sum of the card's digits", "month of birth",
        "mail cut at twelve letters", "key cut at eight letters", "domain", "name with points",
    }
)  # fmt: skip
"""Neither a surrogate nor a replay can tell: named as not comparable."""
PRIVATE: Final = (*MARIA.values(), "Keller", "Maria Keller", "867 2671")
IN_CLEAR: Final = frozenset(
    {
        "length of the name", "length of the mail", "sum of the phone's digits", "sum of the card's digits", "month of birth",
        "year of birth", "is of age", "network of the card", "country of the account", "has the mail the name",
        "same mail in capitals", "domain", "house number", "key cut at eight letters",
    }
)  # fmt: skip
"""What agents derive that is stored as it is: no form of a value (docs/decisions/0091), or one that many things have."""


@freezeframe.tool
def customer() -> Person:
    return dict(MARIA)


@freezeframe.tool
def note(text: str) -> str:
    return f"noted {len(text) > 0}"


def agent(derive: Derive) -> str:
    """Ask for the customer, and tell another tool what follows from that."""
    return freezeframe.run(name="derives")(lambda: note(derive(customer())))()


def _stored(spans: list[SpanRecord], redactor: Redactor) -> list[SpanRecord]:
    """Return the run as the collector stores it, settled."""
    cast, made = Cast(), list[SpanRecord]()
    for span in spans:
        redacted, cast = redactor.redact_in_run(span, cast)
        made.append(redacted)
    cast = cast.weighed(text for span in made for text in texts_of(span))
    return [redactor.rewrite(span, cast) for span in made]


def _captured() -> list[SpanRecord]:
    try:
        with capture() as captured:
            for derive in AGENTS.values():
                agent(derive)
            captured.handle.flush(30)
            return list(captured.spans)
    finally:
        seams.uninstall()


def _recorded() -> dict[str, Fixture]:
    runs = defaultdict[str, list[SpanRecord]](list)
    for span in _captured():
        runs[span.trace_id].append(span)
    redactor = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
    return {name: freeze(build_run(_stored(spans, redactor))) for name, spans in zip(AGENTS, runs.values(), strict=True)}


def _replayed(fixture: Fixture, derive: Derive) -> Verdict:
    session = ReplaySession(fixture)
    serve(session)
    try:
        agent(derive)
    except ReplayMiss:
        pass
    finally:
        stop_serving()
    return verdict(session.report())


@pytest.mark.proof
def test_what_agents_derive_of_private_values_replays_or_is_named_as_not_comparable(tmp_path: Path) -> None:
    assert len(AGENTS) >= 60
    try:
        fixtures = _recorded()
        found = {name: _replayed(fixture, AGENTS[name]) for name, fixture in fixtures.items()}
    finally:
        seams.uninstall()
    assert [name for name, one in found.items() if one is Verdict.DIVERGED] == []
    assert {name for name, one in found.items() if one is Verdict.INCOMPARABLE} == NAMED
    for number, fixture in enumerate(fixtures.values()):
        write_fixture(fixture, tmp_path / str(number))
    assert forms_on_disk(tmp_path, PRIVATE) == []


def test_no_file_of_the_data_directory_holds_a_form_of_a_value_in_any_encoding(tmp_path: Path) -> None:
    spans, data = _captured(), tmp_path / "data"
    collector = CollectorProcess(data, policy="strict")
    try:
        collector.post(spans)
        collector.flush()
        assert collector.rows("SELECT count(), sum(settled) FROM runs") == [[len(AGENTS), len(AGENTS)]]
        assert collector.stop() == 0
    finally:
        if collector.process.poll() is None:
            collector.kill()
    rows = rows_of_a_stopped_store(data / "store").encode()
    assert rows.count(b"derives") >= len(AGENTS)
    assert forms_in(rows, PRIVATE) == []
    assert forms_on_disk(data, PRIVATE) == []
    assert {name for name, derive in AGENTS.items() if forms_in(rows, [derive(MARIA)])} == IN_CLEAR


@pytest.mark.parametrize("value", ["Maria Keller", "+1 415 867 2671", "María?Keller=1"])
def test_a_form_is_found_in_each_encoding(value: str) -> None:
    data = value.encode()
    for coded in (
        data, json.dumps(value).encode(), quote(value).encode(), quote_plus(value).encode(), data.hex().upper().encode(),
        value.encode("utf-16"), value.encode("utf-16-be"), *(base64.b64encode(b"x" * at + data + b"y") for at in range(3)),
    ):  # fmt: skip
        assert forms_in(b"something " + coded + b" else", [value]) == [value]
