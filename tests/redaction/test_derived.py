"""What programs derive of a run's private values: redacted, it is what they derive of the surrogates.

A replay hands the program surrogates, so it compares what the program makes of them with what was recorded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from datetime import date
from typing import Final
from urllib.parse import quote, quote_plus

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_schemas.span import SpanRecord

Person = dict[str, str]
Derive = Callable[[Person], str]

MARIA: Final[Person] = {
    "first_name": "Maria",
    "last_name": "Keller",
    "email": "maria.keller@acme-corp.com",
    "phone": "+1 415 867 2671",
    "card": "4539 1488 0343 6467",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ssn": "536-22-1834",
    "date_of_birth": "1983-04-12",
    "address": "1274 Willow Street",
    "password": "sk-proj-Qm4xT7vB2nL9kR5wZ8cY3aH6",
}
REDACTOR: Final = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))


def _digits(text: str) -> str:
    return re.sub("[^0-9]", "", text)


def _name(of: Person) -> str:
    return f"{of['first_name']} {of['last_name']}"


def _date(of: Person, layout: str) -> str:
    year, month, day = of["date_of_birth"].split("-")
    return layout.format(year=year, month=month, day=day)


DERIVED: Final[dict[str, Derive]] = {
    "name in capitals": lambda of: _name(of).upper(),
    "name in small letters": lambda of: _name(of).lower(),
    "name, last word first": lambda of: f"{of['last_name']}, {of['first_name']}",
    "slug": lambda of: _name(of).lower().replace(" ", "_"),
    "slug with hyphen and number": lambda of: _name(of).lower().replace(" ", "-") + "-77",
    "name with points": lambda of: _name(of).lower().replace(" ", "."),
    "glued": lambda of: _name(of).replace(" ", ""),
    "glued, small": lambda of: _name(of).replace(" ", "").lower(),
    "swapped": lambda of: f"{of['last_name']}.{of['first_name']}".lower(),
    "initial and word": lambda of: f"{of['first_name'][0]}. {of['last_name']}",
    "word and initial": lambda of: f"{of['first_name']} {of['last_name'][0]}.",
    "login": lambda of: (of["first_name"][0] + of["last_name"]).lower(),
    "login, word first": lambda of: (of["first_name"] + of["last_name"][0]).lower(),
    "name for a query": lambda of: quote_plus(_name(of)),
    "name for a path": lambda of: quote(_name(of)),
    "greeting": lambda of: f"Dear {of['first_name']},\nthank you",
    "hash of the name": lambda of: hashlib.sha256(_name(of).encode()).hexdigest(),
    "length of the name": lambda of: f"name of {len(_name(of))} letters",
    "name cut at eight letters": lambda of: _name(of)[:8],
    "mail in capitals": lambda of: of["email"].upper(),
    "local part": lambda of: of["email"].partition("@")[0],
    "domain": lambda of: of["email"].partition("@")[2],
    "mail for a query": lambda of: f"https://x.io/?to={quote(of['email'], safe='')}",
    "hash of the mail": lambda of: hashlib.md5(of["email"].lower().encode(), usedforsecurity=False).hexdigest(),
    "mail in base64": lambda of: base64.b64encode(of["email"].encode()).decode(),
    "mail cut at twelve letters": lambda of: of["email"][:12],
    "phone, digits": lambda of: _digits(of["phone"]),
    "phone, inland": lambda of: _digits(of["phone"])[1:],
    "phone with points": lambda of: "{}.{}.{}".format(*of["phone"].split()[1:]),
    "phone in brackets": lambda of: "({}) {}-{}".format(*of["phone"].split()[1:]),
    "phone, without area": lambda of: "-".join(of["phone"].split()[2:]),
    "phone, last four": lambda of: f"the phone ending in {of['phone'][-4:]}",
    "card, digits": lambda of: _digits(of["card"]),
    "card with hyphens": lambda of: of["card"].replace(" ", "-"),
    "card, last four": lambda of: f"card **** {of['card'][-4:]}",
    "hash of the card": lambda of: hashlib.sha256(_digits(of["card"]).encode()).hexdigest(),
    "account, bare": lambda of: of["iban"].replace(" ", ""),
    "account, bank": lambda of: of["iban"].replace(" ", "")[4:12],
    "social security number, digits": lambda of: _digits(of["ssn"]),
    "date of birth, German": lambda of: _date(of, "{day}.{month}.{year}"),
    "date of birth, American": lambda of: _date(of, "{month}/{day}/{year}"),
    "date of birth, bare": lambda of: _date(of, "{year}{month}{day}"),
    "address in capitals": lambda of: of["address"].upper(),
    "address for a query": lambda of: quote_plus(of["address"]),
    "house number": lambda of: of["address"].split()[0] + " is the number",
    "key cut at eight letters": lambda of: of["password"][:8],
    "hash of the key": lambda of: hashlib.sha256(of["password"].encode()).hexdigest(),
}


DIFFERS: Final = frozenset(
    {
        "length of the name", "name cut at eight letters", "mail cut at twelve letters", "key cut at eight letters",  # lengths
        "name with points",  # the local part of the mail is written the same, and has a surrogate of its own
        "domain", "house number",  # hosts of tools, and any number: too often something else
    }
)  # fmt: skip
"""What does not commute, as docs/redaction.md says."""


def _span(value: object, at: int) -> SpanRecord:
    text = json.dumps(value)
    return SpanRecord(
        trace_id="1" * 32,
        span_id=f"{at:016x}",
        name="x",
        start_time_unix_nano=at,
        end_time_unix_nano=at,
        attributes={"app.value": text},
    )


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
    assert commuting(MARIA, early=False) == DERIVED.keys() - DIFFERS


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


@pytest.mark.long
@settings(max_examples=examples(25), deadline=None)
@given(PEOPLE)
def test_each_supported_form_of_each_value_becomes_the_same_form_of_its_surrogate(person: Person) -> None:
    """The law of `forms`: in a run that holds v, what f(v) becomes is f(what v becomes)."""
    assert not DERIVED.keys() - DIFFERS - commuting(person, early=False)
