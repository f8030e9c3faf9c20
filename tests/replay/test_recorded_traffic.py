"""Every recorded provider exchange of the test data replays through the real SDK, with the provider gone."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

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
    section,
)

from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.exchange import Completion
from freezeframe_schemas.verdict import Verdict, verdict

# The SDKs are imported; the recordings name models that have retired since.
# Each fixture of a module takes a minute or two of CPU time.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def sample(conversations: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return conversations that hold each kind of exchange: client, provider, path, streamed or not, status."""
    chosen: dict[tuple[str, str, str, bool, int], tuple[str, list[Row]]] = {}
    for file, rows in sorted(conversations.items(), key=lambda item: (len(item[1]) == 1, len(item[1]), item[0])):
        for row in rows:
            path, status = urlsplit(row["request"]["url"]).path, row["response"]["status"]
            chosen.setdefault((client_of(row), row["provider"], path, bool(row["stream"]), status), (file, rows))
    return dict(chosen.values())


@pytest.fixture(scope="module", params=["of each kind", pytest.param("all", marks=pytest.mark.soak)])
def checked(request: pytest.FixtureRequest) -> list[Checked]:
    """Conversations, played, recorded, frozen and replayed once."""
    conversations = load_conversations()
    return check((conversations if request.param == "all" else sample(conversations)).items())


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


def test_no_conversation_diverges(checked: list[Checked]) -> None:
    assert len(checked) > 150
    assert failures(checked) == []
    assert {verdict(item.report) for item in checked} == {Verdict.IDENTICAL}
    assert {served.how for item in checked for served in item.report.served} == {"exact"}


def test_every_sdk_gives_the_recorded_result_in_the_recorded_chunks(checked: list[Checked]) -> None:
    assert [item.file for item in checked if not (item.results_equal and item.chunks_equal)] == []


def test_every_answer_that_its_sdk_read_to_the_end_is_complete(checked: list[Checked]) -> None:
    assert [item.file for item in checked if set(item.completions) != {Completion.COMPLETE}] == []


def test_every_fixture_holds_the_recorded_bytes(checked: list[Checked]) -> None:
    assert [item.file for item in checked if not item.recorded_bytes_equal] == []


def test_the_page_on_coverage_counts_the_recorded_exchanges() -> None:
    """Asking all of them tells what is in brackets, too: how many requests today's SDK builds as recorded."""
    without = re.sub(r" \([\d,]+\)$", "", PAGE.read_text("utf-8").replace("), ", ")\n"), flags=re.MULTILINE)
    assert section(load_conversations()).replace(", ", "\n") in without.replace(", ", "\n")


@pytest.mark.soak
@pytest.mark.parametrize("checked", ["all"], indirect=True)
def test_the_page_on_coverage_is_current(checked: list[Checked]) -> None:
    """`python tests/support/recorded_traffic.py` writes it anew."""
    text = PAGE.read_text("utf-8")
    assert text == page_with(coverage_section(checked), text)
