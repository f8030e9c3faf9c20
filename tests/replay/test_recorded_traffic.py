"""Every recorded provider exchange of the test data replays through the real SDK, with the provider gone."""

from __future__ import annotations

import pytest
from recorded_traffic import (
    PAGE,
    Checked,
    Row,
    body_of,
    check,
    client_of,
    coverage_section,
    failures,
    load_conversations,
    page_with,
)

from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.exchange import Completion
from freezeframe_schemas.verdict import Verdict, verdict

# The SDKs are imported; the recordings name models that have retired since.
# Each fixture of a module takes a minute or two of CPU time.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def sample(conversations: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the shortest conversation of each client, streamed and not, with errors and without."""
    chosen: dict[tuple[str, bool, bool], tuple[str, list[Row]]] = {}
    for file, rows in sorted(conversations.items(), key=lambda item: (len(item[1]) == 1, len(item[1]), item[0])):
        for row in rows:
            kind = (client_of(row), bool(row["stream"]), row["response"]["status"] >= 400)
            chosen.setdefault(kind, (file, rows))
    return dict(chosen.values())


@pytest.fixture(scope="module")
def everything() -> list[Checked]:
    """All conversations, played, recorded, frozen and replayed once."""
    return check(load_conversations().items())


def test_a_conversation_of_each_client_replays_exactly() -> None:
    checked = check(sample(load_conversations()).items())
    assert len(checked) > 8
    assert failures(checked) == []
    assert all(verdict(item.report) is Verdict.IDENTICAL for item in checked)
    assert {completion for item in checked for completion in item.completions} == {Completion.COMPLETE}


def test_a_request_that_was_not_recorded_is_named() -> None:
    file, rows = next(
        (file, rows)
        for file, rows in load_conversations().items()
        if len(rows) == 1 and "openai SDK, `chat" in client_of(rows[0]) and b'"role":"user"' in body_of(rows[0]["request"])
    )
    asked = rows[0]["request"]
    other = {**rows[0], "request": {**asked, "text": asked["text"].replace('"role":"user"', '"role":"developer"')}}
    (checked,) = check([(file, rows)], again={file: [other]})
    assert [item.kind for item in checked.report.divergences] == [DivergenceKind.REQUEST_CHANGED]


def test_no_conversation_diverges(everything: list[Checked]) -> None:
    assert [item.file for item in everything if item.report.divergences] == []
    assert {served.how for item in everything for served in item.report.served} == {"exact"}


def test_every_sdk_gives_the_recorded_result_in_the_recorded_chunks(everything: list[Checked]) -> None:
    assert [item.file for item in everything if not (item.results_equal and item.chunks_equal)] == []


def test_every_answer_that_its_sdk_read_to_the_end_is_complete(everything: list[Checked]) -> None:
    assert [item.file for item in everything if set(item.completions) != {Completion.COMPLETE}] == []


def test_every_fixture_holds_the_recorded_bytes(everything: list[Checked]) -> None:
    assert [item.file for item in everything if not item.recorded_bytes_equal] == []


def test_the_page_on_coverage_is_current(everything: list[Checked]) -> None:
    """`python tests/support/recorded_traffic.py` writes it anew."""
    text = PAGE.read_text("utf-8")
    assert text == page_with(coverage_section(everything), text)
