"""A private value that a program's own text has in two forms, or that it joins: redaction's difference is not the program's.

Recorded texts go through the cast of their run, as in the collector; live ones are compared as a replay does it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import pytest
from bare_spans import bare_span

from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_redaction.casts.book import texts_of
from freezeframe_replay.engine.pairs import Settled
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_schemas.divergence import BY_REDACTION, Why
from freezeframe_schemas.fixture import Redaction

pytestmark = pytest.mark.long  # compiles the redactor's engine

KEY: Final = TenantKey(id="test/1", secret=b"f" * 32)
REDACTOR: Final = Redactor(load_policy("strict"), KEY)
TWO_FORMS: Final = {
    "slug in an address": "Marta Lindqvist wrote https://notes.example.org/marta-lindqvist/on-tea",
    "handle of initial and name": "Ask Pavel Novotny, pavel.novotny@harbour-post.com, github.com/pnovotny",
    "last name in a path": "Reviewer: Helga Brandstetter, https://git.example.org/users/brandstetter/7",
    "capitals": "Signed by Aoife Gallagher\n\nAOIFE GALLAGHER, head of sales",
    "small letters": "author: Giulia Bonaventura; tags: giulia bonaventura, pasta",
    "underscores": "Owner Tomasz Wisniewski, bucket tomasz_wisniewski_backups",
    "points": "Dear Chidinma Okonkwo, your page is /people/chidinma.okonkwo",
    "glued": "Thanks to Katarzyna Yamamoto (irc: katarzynayamamoto)",
    "last word first": "By Hiroshi Yamamoto, cite as Yamamoto, Hiroshi (2021)",
    "mail alone and in a query": "mail ingrid.solberg@north-quay.org or /unsubscribe?of=ingrid.solberg%40north-quay.org",
    "mail in capitals": "mail ingrid.solberg@north-quay.org (INGRID.SOLBERG@NORTH-QUAY.ORG)",
    "number without signs": "call +1 415 867 2671, tel:+14158672671",
    "title of a page": 'found "https://example.net/simon-bakker-facts", "title": "Simon Bakker Facts"',
}
PERSON: Final = {
    "name": "Benedikt Harrington",
    "mail": "ben.harr@mill-lane.net",
    "street": "1186 Bellevue Avenue",
    "zip": "60614",
    "token": "ghp_QRSTqrstUVWXuvwx23456789YZyzabABcdCD",
}


def run_of(*values: Any) -> tuple[list[Any], dict[str, str]]:
    """Return what the collector stores of the texts of a run, and the surrogates that it lists."""
    spans = [bare_span({"app.value": json.dumps(value)}, span_id=f"{at:016x}") for at, value in enumerate(values, 1)]
    cast, stored = Cast(), []
    for span in spans:
        redacted, cast = REDACTOR.redact_in_run(span, cast)
        stored.append(redacted)
    whole = cast.weighed(text for span in spans for text in texts_of(span))
    stored = [REDACTOR.rewrite(span, whole) for span in stored]
    surrogates: dict[str, str] = {}
    for span in stored:
        surrogates |= json.loads(span.text("freezeframe.redaction.surrogates") or "{}")
    return [json.loads(str(span.attributes["app.value"])) for span in stored], surrogates


@cache
def _recorded(text: str) -> tuple[list[Any], dict[str, str]]:
    return run_of(_request(text))


def _request(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


def _compared(values: PrivateValues, recorded: Any, live: Any, **how: bool) -> Settled:
    marked = (json.loads(values.mark(json.dumps(value))) for value in (recorded, live))
    return values.settle(*marked, **how)


def _values(surrogates: dict[str, str], *, key: bool) -> PrivateValues:
    return PrivateValues(Redaction(policy="strict@x", key_id=KEY.id, surrogates=surrogates), KEY if key else None)


@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("text", TWO_FORMS.values(), ids=TWO_FORMS.keys())
def test_a_second_form_of_a_value_agrees_with_the_recorded_one(text: str, key: bool) -> None:
    """With the key nothing is assumed; without it, each value is paired and counted."""
    (recorded,), surrogates = _recorded(text)
    assert recorded != _request(text)
    values = _values(surrogates, key=key)
    settled = _compared(values, recorded, _request(text))
    assert settled.agrees
    values.assume(settled, step=1)
    assert {item.why for item in values.uncompared} == (set() if key else {Why.KEY})


@pytest.mark.parametrize("text", TWO_FORMS.values(), ids=TWO_FORMS.keys())
def test_with_the_key_another_person_in_either_form_is_a_difference(text: str) -> None:
    """The changed text has the same shape: each letter of the second half is another one."""
    (recorded,), surrogates = _recorded(text)
    at = len(text) // 2
    others = [
        "".join(chr((ord(char) - 97 + 1) % 26 + 97) if char in "abcdefghijklmnopqrstuvwxyz" else char for char in part)
        for part in (text[:at], text[at:])
    ]
    for changed in (others[0] + text[at:], text[:at] + others[1]):
        assert not _compared(_values(surrogates, key=True), recorded, _request(changed)).agrees


@pytest.mark.parametrize(
    ("said", "before"),
    [
        ("page of ulrike-feldmann", "Ulrike Feldmann asks"),
        ("login: ufeldmann", "this is Ulrike Feldmann"),
        ("the Feldmann file", "Contact Ulrike Feldmann today"),
    ],
)
@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
def test_a_form_agrees_if_an_earlier_text_of_the_run_has_the_value(said: str, before: str, key: bool) -> None:
    recorded, surrogates = run_of(_request(before), _request(said))
    assert recorded[1] != _request(said)
    values = _values(surrogates, key=key)
    for was, text in zip(recorded, (before, said), strict=True):
        settled = _compared(values, was, _request(text))
        assert settled.agrees
        values.assume(settled, step=1)


JOINED: Final[dict[str, Callable[[dict[str, str]], str]]] = {
    "street and postcode": lambda of: f"Send it to {of['street']}, {of['zip']}",
    "label": lambda of: f"{of['name']}\n{of['street']}\n{of['zip']}",
    "row of a table": lambda of: ";".join(of.values()),
    "comma and no space": lambda of: f"{of['street']},{of['zip']}",
    "token in a word": lambda of: of["token"] + "abc",
    "name and mail": lambda of: f"{of['name']} <{of['mail']}>",
    "in JSON": lambda of: json.dumps({"to": f"{of['street']}, {of['zip']}"}),
}


@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED.keys())
def test_what_a_program_joins_of_surrogates_is_paired_with_the_surrogate_of_the_whole(
    join: Callable[[dict[str, str]], str], key: bool
) -> None:
    (given, recorded), surrogates = run_of(PERSON, _request(join(PERSON)))
    values = _values(surrogates, key=key)
    settled = _compared(values, recorded, _request(join(given)))
    assert settled.agrees
    values.assume(settled, step=2)
    assert {item.why for item in values.uncompared} <= {Why.DERIVED}


GLUED: Final[dict[str, Callable[[str], str]]] = {
    "before a word": lambda name: f"{name}Traceback (most recent call last)",
    "after a word": lambda name: f"by_{name.split()[1]}",
    "between words": lambda name: f"see draft_{name.split()[1]}V2 and stop",
}


@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("glue", GLUED.values(), ids=GLUED.keys())
def test_a_name_that_a_program_glues_to_a_word_is_paired_and_another_one_is_not(glue: Callable[[str], str], key: bool) -> None:
    (given, recorded), surrogates = run_of(PERSON["name"], _request(glue(PERSON["name"])))
    values = _values(surrogates, key=key)
    settled = _compared(values, recorded, _request(glue(given)))
    assert settled.agrees
    values.assume(settled, step=2)
    assert {item.why for item in values.uncompared} <= {Why.DERIVED}
    assert not _compared(values, recorded, _request("see " + glue(given))).agrees
    assert not _compared(values, recorded, _request(glue(given.swapcase()))).agrees


def test_a_joined_value_is_not_what_another_one_or_fewer_or_other_words_are() -> None:
    other = {"street": "77 Harcourt Terrace", "zip": "02139"}
    texts = [f"ship to {of['street']}, {of['zip']}" for of in (PERSON, other)]
    (given, given_other, recorded, recorded_other), surrogates = run_of(PERSON, other, *map(_request, texts))
    values = _values(surrogates, key=True)
    live, live_other = (f"ship to {of['street']}, {of['zip']}" for of in (given, given_other))
    values.assume(_compared(values, recorded, _request(live)), step=1)
    assert _compared(values, recorded_other, _request(live_other)).agrees
    for changed in (
        live,  # the first person's again
        f"ship to {given_other['street']}",
        f"ship to {given_other['street']} by train {given_other['zip']}",
        f"ship to {given['name']}, {given['mail']}",
        f"send to {given_other['street']}, {given_other['zip']}",
    ):
        assert not _compared(values, recorded_other, _request(changed)).agrees


@pytest.mark.parametrize(
    ("was", "now", "is_redaction"),
    [
        ("ask Marta Lindqvist today", "ask the team today", True),
        ("ask Marta Lindqvist today", "ask Marta Lindqvist tomorrow", False),
        ("we wait for a parcel", "we wait for Pavel Novotny", True),
        ("ask Marta Lindqvist today", "ask Pavel Novotny today", False),
    ],
)
def test_a_difference_says_whether_redaction_may_be_the_reason(was: str, now: str, is_redaction: bool) -> None:
    (recorded,), surrogates = run_of(_request(was))
    values = _values(surrogates, key=True)
    marked = json.loads(values.mark(json.dumps(recorded)))
    settled = _compared(values, recorded, _request(now))
    assert not settled.agrees
    assert (BY_REDACTION in values.note(marked, settled)) == is_redaction


@pytest.mark.parametrize("at", [9, 12, 20, 37])
def test_a_secret_that_the_program_wraps_is_the_same_or_redaction_may_be_the_reason(at: int) -> None:
    """Alone it is a token of a vendor, under its key a secret; of 37 characters and 3, only the first are one."""

    def wrapped(token: str) -> Any:
        return _request(f'"token": "{token[:at]}\n{token[at:]}" end')

    (given, recorded), surrogates = run_of(PERSON["token"], wrapped(PERSON["token"]))
    values = _values(surrogates, key=True)
    settled = _compared(values, recorded, wrapped(given))
    assert settled.agrees == (at != 37)
    if not settled.agrees:
        assert BY_REDACTION in values.note(json.loads(values.mark(json.dumps(recorded))), settled)
    assert not _compared(values, recorded, wrapped(given.replace("Bq25", "Bq26"))).agrees


def test_lines_that_break_elsewhere_since_a_surrogate_has_another_length_are_put_down_to_redaction() -> None:
    def wrapped(of: dict[str, str]) -> Any:
        text = json.dumps(of)
        return _request("\n".join(text[at : at + 40] for at in range(0, 240, 40)))

    (given, recorded), surrogates = run_of(PERSON, wrapped(PERSON))
    values = _values(surrogates, key=True)
    marked = json.loads(values.mark(json.dumps(recorded)))
    settled = _compared(values, recorded, wrapped(given))
    assert not settled.agrees
    assert BY_REDACTION in values.note(marked, settled)
