"""What programs derive of a run's private values: redacted, it is what they derive of the surrogates.

A replay hands the program surrogates, so it compares what the program makes of them with what was recorded.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Final

import pytest
from bare_spans import bare_span
from derivations import DERIVED, DIFFERS, IN_SHORT_NAMES, MARIA, Person
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_schemas.span import SpanRecord

REDACTOR: Final = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))


def _span(value: object, at: int) -> SpanRecord:
    text = json.dumps(value)
    return bare_span({"app.value": text}, span_id=f"{at:016x}", start_time_unix_nano=at, end_time_unix_nano=at)


def _value_of(span: SpanRecord) -> Person:
    return json.loads(str(span.attributes["app.value"]))


def commuting(person: Person, *, early: bool) -> set[str]:
    """Return what is, redacted in a run that holds the person, what is made of the surrogates; `early`: stored before."""
    told, cast = REDACTOR.redact_in_run(_span(person, 1), Cast())
    surrogates = _value_of(told)
    held: set[str] = set()
    for name, derive in DERIVED.items():
        span = _span({"made": derive(person)}, 2)
        if early:
            alone, found = REDACTOR.redact_in_run(span, Cast())
            made = REDACTOR.rewrite(alone, cast) if not found else None
        else:
            made = REDACTOR.redact_in_run(span, cast)[0]
        if made is None or _value_of(made) == {"made": derive(surrogates)}:
            held.add(name)
    return held


def test_most_of_what_programs_derive_is_derived_of_the_surrogates() -> None:
    assert commuting(MARIA, early=False) == (DERIVED.keys() - DIFFERS) | IN_SHORT_NAMES


def test_what_was_stored_before_the_run_told_of_it_is_rewritten_to_the_same() -> None:
    """Unless a detector found something in it: then that has a surrogate by then."""
    assert commuting(MARIA, early=True) >= DERIVED.keys() - DIFFERS


def _luhn(digits: str) -> str:
    total = sum(sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(digits))
    return digits + str(-total % 10)


_NUMBER = st.integers
PEOPLE = st.fixed_dictionaries(
    {
        "first_name": st.sampled_from(["Maria", "Tomasz", "Giulia", "Chidinma", "Aoife", "Hiroshi", "Katarzyna"]),
        "last_name": st.sampled_from(["Keller", "Wisniewski", "Bonaventura", "Okonkwo", "Gallagher", "Yamamoto", "Lindqvist"]),
        "email": st.builds("{}.{}{}@{}".format, st.sampled_from(["mk", "post", "anna.l"]), st.sampled_from("abc"),
                           _NUMBER(10, 99), st.sampled_from(["acme-corp.com", "gmail.com", "mail.co.uk"])),
        "phone": st.builds("+1 {} {} {:04}".format, st.sampled_from([212, 415, 617, 904]), _NUMBER(222, 899).filter(lambda n: n % 100 != 11),
                           _NUMBER(1000, 9999)),
        "card": _NUMBER(10**13, 10**14 - 1).map(lambda n: _luhn(f"4{n}")).map(lambda d: " ".join(d[at : at + 4] for at in (0, 4, 8, 12))),
        "iban": st.just(MARIA["iban"]),
        "ssn": st.builds("{}-{:02}-{:04}".format, _NUMBER(101, 665), _NUMBER(10, 99), _NUMBER(1000, 9999)),
        "date_of_birth": st.dates(min_value=date(1930, 1, 1), max_value=date(2005, 12, 31)).map(date.isoformat),
        "address": st.builds("{} {} Street".format, _NUMBER(1000, 9999), st.sampled_from(["Willow", "Harrington", "Bellevue"])),
        "password": st.text("ABCDEFGHJKMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789", min_size=24, max_size=24).map("sk-proj-{}".format),
    }
).map(lambda drawn: {key: drawn[key] for key in MARIA}).filter(
    lambda person: len({person[key][-4:] for key in ("phone", "card", "ssn", "iban")}) == 4  # else an end means several numbers
)  # fmt: skip


@pytest.mark.proof
@pytest.mark.long
@settings(max_examples=examples(25), deadline=None)
@given(PEOPLE)
def test_each_supported_form_of_each_value_becomes_the_same_form_of_its_surrogate(person: Person) -> None:
    """The law of `forms`: in a run that holds v, what f(v) becomes is f(what v becomes)."""
    assert not DERIVED.keys() - DIFFERS - commuting(person, early=False)
