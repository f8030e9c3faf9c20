"""A redacted run asked again with its originals: names that only another step tells are paired, or compared by the key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from handmade_runs import make_run, tool_call

from freezeframe.seams import Call
from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_redaction.casts.book import texts_of
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import Relaxed, Report, Why
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Chunk, Exchange, Kind, Request, Response
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.run import build_run

KEY: Final = TenantKey(id="test/1", secret=b"k" * 32)
REDACTOR: Final = Redactor(load_policy(), KEY)


def _stored(recorded: Sequence[Exchange]) -> Fixture:
    """Return the exchanges as the collector stores them, settled."""
    cast, made = Cast(), []
    for span in make_run(*recorded):
        stored, cast = REDACTOR.redact_in_run(span, cast)
        made.append(stored)
    cast = cast.weighed(text for span in made for text in texts_of(span))
    return freeze(build_run([REDACTOR.rewrite(span, cast) for span in made]))


def _replayed(recorded: Sequence[Exchange] | Fixture, live: Sequence[Exchange], key: TenantKey | None = None) -> Report:
    session = ReplaySession(recorded if isinstance(recorded, Fixture) else _stored(recorded), key=key)
    for asked in live:
        try:
            session.respond(Call(kind=asked.kind, name=asked.name, seam=asked.seam, request=asked.request))
        except ReplayMiss:
            break
    return session.report()


def _talk(text: str) -> list[Exchange]:
    return [tool_call("note", "noted", text), tool_call("customer", {"name": "Maria Keller"})]


WRITTEN: Final = ("data/maria_keller/maria_keller_essay.txt", "by maria-keller", "see mariakeller.com", "Maria")


@pytest.mark.parametrize("text", WRITTEN)
def test_a_name_that_only_another_step_tells_is_paired_and_compared_by_the_key(text: str) -> None:
    paired = _replayed(_talk(text), _talk(text))
    assert [(item.how, item.relaxed) for item in paired.served] == [("exact", ())] * 2
    assert {(item.class_name, item.why) for item in paired.uncompared} == {("PERSON", Why.KEY)}
    compared = _replayed(_talk(text), _talk(text), KEY)
    assert [(item.how, item.relaxed) for item in compared.served] == [("exact", ())] * 2
    assert compared.uncompared == ()


@pytest.mark.parametrize("text", WRITTEN)
def test_the_name_of_someone_else_is_a_divergence_with_the_key(text: str) -> None:
    other = text.replace("maria", "paula").replace("Maria", "Paula")
    assert [item.step for item in _replayed(_talk(text), _talk(other), KEY).divergences][:1] == [1]


def test_two_people_in_the_place_of_one_are_a_divergence_without_the_key() -> None:
    report = _replayed(_talk("maria_keller and maria-keller"), _talk("maria_keller and paula-keller"))
    assert [item.step for item in report.divergences][:1] == [1]


def test_a_word_that_no_list_has_is_relaxed_in_the_place_of_a_name_and_in_small_letters_a_divergence() -> None:
    told = _replayed(_talk("Maria"), _talk("Everybody"))
    assert (told.served[0].how, told.served[0].relaxed) == ("relaxed", (Relaxed.NAMES,))
    assert [item.step for item in _replayed(_talk("data/maria_keller"), _talk("data/order_list")).divergences][:1] == [1]


def _exchange(row: dict[str, Any], body: Any) -> Exchange:
    asked, answered = row["request"], row["response"]
    headers = tuple(
        (name.lower(), str(text)) for name, text in answered["headers"].items() if name.lower() != "content-encoding"
    )
    return Exchange(
        kind=Kind.MODEL,
        name=f"{asked['method']} {asked['url']}",
        seam="httpx",
        request=Request(
            method=asked["method"],
            url=asked["url"],
            headers=tuple((name, str(text)) for name, text in asked["headers"].items()),
            body=body(asked),
        ),
        response=Response(status=answered["status"], headers=headers, chunks=(Chunk(data=body(answered)),)),
    )


@pytest.mark.long
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_recorded_conversations_of_several_calls_replay_exactly_without_the_key_and_with_it(every: int) -> None:
    from recorded_traffic import body_of, load_conversations  # imports SDKs

    conversations = [(file, rows) for file, rows in load_conversations().items() if len(rows) > 1]
    assert len(conversations) == 461
    wrong = list[str]()
    for file, rows in conversations[::every]:
        asked = [_exchange(row, body_of) for row in rows]
        fixture = _stored(asked)
        without, by_key = _replayed(fixture, asked), _replayed(fixture, asked, KEY)
        how = {item.how for report in (without, by_key) for item in report.served}
        if without.divergences or by_key.divergences or by_key.uncompared or how != {"exact"}:
            wrong.append(file)
    assert wrong == []
