"""Tables and lists of records are judged by their columns, once each, however they are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.casts.book import Cast
from freezeframe_redaction.scanner import Scanner
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

KEY = TenantKey(id="columns/1", secret=b"c" * 32)
REDACTOR = Redactor(load_policy(), KEY)
_CITIES = ("Austin", "Boston", "Berlin", "Lyon")
_SURNAMES = ("Keller", "Okafor", "Brandt", "Dvorak", "Lindqvist", "Moreau", "Zhang", "Haddad", "Kimura", "Nowicki")
_GIVEN = ("Anna", "Austin", "Peter", "Marta", "Yusuf")
_MOODS = ("Austin", *(f"{one}{two}" for one in ("Coral", "Tundra", "Meadow") for two in ("dusk", "glow", "haze", "mist")))
Record = dict[str, Any]


def _contacts(count: int = 40) -> list[Record]:
    """Return contacts, of which one in ten has a name that is on no list."""
    return [
        {
            "contact_no": f"C-{at}",
            "name": f"Tvrzko Vlorpe{'abcdefgh'[at % 8]}k" if not at % 10 else f"{_GIVEN[at % 5]} {_SURNAMES[at // 5 % 10]}",
            "email": f"person{at}@firm{at % 7}.io",
            "phone": f"+1 312 {at + 300} {at + 4100}",
            "city": _CITIES[at % 4],
        }
        for at in range(count)
    ]


def _lines(records: Sequence[Record], joint: str, begin: str = "", end: str = "") -> str:
    rows = [list(records[0]), *(list(map(str, one.values())) for one in records)]
    return "\n".join(f"{begin}{joint.join(row)}{end}" for row in rows)


def _ruled(records: Sequence[Record], joint: str, ruler: str, begin: str = "", end: str = "") -> str:
    heading, _, rest = _lines(records, joint, begin, end).partition("\n")
    return f"{heading}\n{ruler}\n{rest}"


_WAYS: dict[str, Callable[[Sequence[Record]], str]] = {
    "a list": json.dumps,
    "a list in an answer": lambda records: json.dumps({"count": 1, "result": {"contacts": records}}, indent=1),
    "rows": lambda records: json.dumps({"columns": list(records[0]), "rows": [list(one.values()) for one in records]}),
    "lines of JSON": lambda records: "\n".join(map(json.dumps, records)),
    "CSV": lambda records: _lines(records, ","),
    "CSV with quotes": lambda records: _lines(records, '","', '"', '"'),
    "TSV": lambda records: _lines(records, "\t"),
    "CSV in a fence": lambda records: f"Here they are:\n```csv\n{_lines(records, ';')}\n```\nAnything else?",
    "markdown": lambda records: "The contacts:\n" + _ruled(records, " | ", "|---|---|---|---|---|", "| ", " |"),
    "psql": lambda records: _ruled(records, " | ", "-----+-----+-----+------+-----") + "\n(40 rows)",
    "mysql": lambda records: "+---+---+\n" + _ruled(records, " | ", "+---+---+---+---+---+", "| ", " |") + "\n+---+---+",
    "INSERT": lambda records: (
        f"INSERT INTO contacts ({', '.join(records[0])}) VALUES\n"
        + ",\n".join(f"({', '.join(repr(value) for value in one.values())})" for one in records)
    ),
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_column_decides_what_its_values_are(way: str) -> None:
    records = _contacts()
    made = str(REDACTOR.redact(_WAYS[way](records)).value)
    for one in records:
        left = [one[key] for key in ("name", "email", "phone") if str(one[key]) in made]
        assert not left
    assert "Vlorpe" not in made


@pytest.mark.parametrize("way", _WAYS)
def test_nothing_spreads_into_a_column_whose_key_says_otherwise(way: str) -> None:
    made = str(REDACTOR.redact(_WAYS[way](_contacts())).value)
    assert made.count("Austin") == 10
    assert made.count("Boston") == 10


@pytest.mark.parametrize("way", _WAYS)
def test_the_surrogates_are_those_of_everywhere_else_and_a_second_pass_changes_nothing(way: str) -> None:
    records = _contacts()
    redacted = REDACTOR.redact(_WAYS[way](records))
    alone = REDACTOR.redact({"email": records[3]["email"], "phone": records[3]["phone"]}).value
    assert isinstance(alone, dict)
    assert all(str(one) in str(redacted.value) for one in alone.values())
    again = REDACTOR.with_known_surrogates(redacted.surrogates).redact(redacted.value)
    assert again.value == redacted.value


def test_a_value_of_another_form_is_read_by_itself() -> None:
    records = _contacts()
    records[5]["name"] = "see anna.keller@firm.io"
    records[6]["name"] = "n/a"
    made = str(REDACTOR.redact(json.dumps(records)).value)
    assert "anna.keller" not in made
    assert '"see u' in made
    assert '"n/a"' in made


def test_a_column_that_holds_things_is_read_value_by_value() -> None:
    things = ("bolt", "nut", "gear", "pipe", "valve", "lamp", "desk", "rope", "nail", "cord", "tray", "hook", "plug", "hose")
    records = [{"name": f"Blue {thing}", "price": at} for at, thing in enumerate(things * 2)]
    assert REDACTOR.redact(text := json.dumps(records)).value == text


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("product", ("Victoria Sponge", "Hugo Boss Shirt", "Anna Keller Mug")),
        ("lane", ("Peter", "Central", "Marta")),
        ("mood", _MOODS),
        ("destination", _MOODS),
    ],
)
def test_what_things_are_called_stays_though_people_have_the_name(key: str, values: tuple[str, ...]) -> None:
    """The key says that the column names no people; or a few values recur in it, some ordinary words; or most are no names."""
    records = [{**one, key: values[at % len(values)]} for at, one in enumerate(_contacts())]
    made = json.loads(str(REDACTOR.redact(json.dumps(records)).value))
    assert {one[key] for one in made} == {*values}


@pytest.mark.parametrize(
    "text",
    [
        '{"customer": {"name": "Austin Kowalczyk"}, "product": {"name": "Austin"}}',
        '{"person": {"first": "Austin", "last": "Kowalczyk"}, "city": {"value": "Austin"}}',
        "- name: Austin Kowalczyk\n  city: Austin\n- name: Marta Keller\n  city: Lyon",
        "<row><name>Austin Kowalczyk</name><city>Austin</city></row>",
        "level=info customer='Austin Kowalczyk' warehouse=Austin took=3ms",
    ],
)
def test_a_name_does_not_spread_into_a_field_of_things(text: str) -> None:
    made = str(REDACTOR.redact(text).value)
    assert made.count("Austin") == 1
    assert "Kowalczyk" not in made


def test_the_halves_of_a_name_are_names_though_they_are_words_too() -> None:
    records = [{"first": first, "last": "Kowalczyk"} for first in ("Paris", "Jordan", "Chelsea", "Phoenix")]
    made = str(REDACTOR.redact(json.dumps({"people": records})).value)
    assert not any(one["first"] in made for one in records)


def test_a_column_of_people_under_any_key_is_read() -> None:
    records = [{**one, "shift": ("Peter", "Marta", "Yusuf")[at % 3]} for at, one in enumerate(_contacts())]
    made = str(REDACTOR.redact(json.dumps(records)).value)
    assert not any(name in made for name in ("Peter", "Marta", "Yusuf"))


def test_a_name_spreads_into_a_column_of_names_that_is_too_short_to_be_judged() -> None:
    firsts = ("Paris", "Austin", "Jordan", "Marta")
    records = [{"name": f"{firsts[at % 4]} Kowalczyk", "first_name": firsts[at % 4]} for at in range(24)]
    made = str(REDACTOR.redact(json.dumps(records)).value)
    assert not any(first in made for first in firsts)


def test_a_decided_column_is_read_by_a_sample_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a megabyte of contacts takes no longer than making its surrogates."""
    read: list[str] = []
    scan = Scanner.scan

    def count(self: Scanner, leaves: Sequence[tuple[str, str]], **options: Any) -> Any:
        read.extend(text for text, _ in leaves)
        return scan(self, leaves, **options)

    monkeypatch.setattr(Scanner, "scan", count)
    records = _contacts(400)
    Redactor(load_policy(), KEY).redact(json.dumps(records))
    assert sum("@" in text for text in read) <= 24


def test_a_list_of_records_that_grows_becomes_what_it_becomes_as_a_whole() -> None:
    records = [{**one, "mood": _MOODS[at % len(_MOODS)]} for at, one in enumerate(_contacts())]
    grown = Redactor(load_policy(), KEY)
    cast = Cast()
    for count in (15, 30, 40):
        made, cast = grown.redact_in_run(_span(records[:count], count), cast)
    assert made.text(genai.TOOL_CALL_RESULT) == Redactor(load_policy(), KEY).redact_in_run(_span(records, 40), cast)[0].text(
        genai.TOOL_CALL_RESULT
    )


def _span(records: Sequence[Record], number: int) -> SpanRecord:
    return SpanRecord(
        trace_id="0" * 31 + "1",
        span_id=f"{number:016x}",
        name="execute_tool find_contacts",
        start_time_unix_nano=0,
        end_time_unix_nano=1,
        attributes={genai.TOOL_CALL_RESULT: json.dumps(records)},
    )
