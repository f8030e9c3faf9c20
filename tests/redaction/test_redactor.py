"""The redactor through its public door."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import phonenumbers
import pytest
from redacted_again import again

from freezeframe_redaction import Aliaser, Redactor, TenantKey, load_policy, redact
from freezeframe_redaction.detectors import ALL
from freezeframe_redaction.model import Detector
from freezeframe_redaction.rules.checksums import iban, luhn
from freezeframe_redaction.rules.vendors import VENDORS

DATA = Path(__file__).parents[1] / "data" / "pii"
KEY = TenantKey(id="test/1", secret=b"k" * 32)


@pytest.fixture(scope="session")
def redactor() -> Redactor:
    return Redactor(load_policy(), KEY)


_LONG = 50_000
"""Characters of an input that takes a while."""


_AT_ONCE: Final = 40
"""Cases of one test: a separate test for each of thousands costs more than the case."""


def _adversarial() -> Iterator[Any]:
    """Yield the cases by category, some at a time; a long one alone."""
    named: dict[str, list[dict[str, Any]]] = {}
    for case in map(json.loads, (DATA / "adversarial.jsonl").read_text("utf-8").splitlines()):
        if len(case["input"]) > _LONG:
            yield pytest.param([case], id=f"{case['category']}-{case['id']}", marks=pytest.mark.long)
        else:
            named.setdefault(case["category"], []).append(case)
    for category, cases in named.items():
        for start in range(0, len(cases), _AT_ONCE):
            some = cases[start : start + _AT_ONCE]
            yield pytest.param(some, id=f"{category}-{some[0]['id']}-to-{some[-1]['id']}")


@pytest.mark.parametrize("cases", list(_adversarial()))
def test_hostile_input_is_masked_and_nothing_else_is(redactor: Redactor, cases: Sequence[dict[str, Any]]) -> None:
    """Each case names what must go and what must stay; a second pass changes nothing."""
    faults = {f"{case['category']}-{case['id']}": fault for case in cases if (fault := _fault(redactor, case))}
    assert faults == {}


def _fault(redactor: Redactor, case: dict[str, Any]) -> str:
    """Return what is wrong with the case as it is redacted, an empty text if all is as it says."""
    made = redactor.redact(case["input"])
    out = made.value
    assert isinstance(out, str)
    seen = [value for value in case["must_mask"] if value in out]
    lost = [value for value in case["must_keep"] if value not in out]
    if case["format"] == "json":
        json.loads(out)
    twice = again(redactor, made)
    told = {"still there": seen, "lost": lost, "another when redacted again": [twice] if twice != out else []}
    return "; ".join(f"{fault}: {values}" for fault, values in told.items() if values)


@pytest.mark.parametrize("detector", [detector for detector in ALL if detector.examples], ids=lambda detector: detector.name)
def test_each_detector_finds_its_examples(redactor: Redactor, detector: Detector) -> None:
    """Each listed value is found whole, and the near miss is left alone."""
    for example in detector.examples:
        result = redactor.redact(example.text)
        found = {example.text[finding.start : finding.end] for finding in result.findings}
        assert any(example.value in value or value in example.value for value in found), (example, found)
        assert isinstance(result.value, str)
        assert example.value not in result.value, example
        if example.near_miss:
            assert redactor.redact(example.near_miss).value == example.near_miss, example


def test_no_detector_lacks_an_example() -> None:
    """A detector without an example cannot be reviewed."""
    assert [detector.name for detector in ALL if not detector.examples] == []
    assert len({detector.name for detector in ALL}) == len(ALL)


def test_labelled_sample_reaches_the_goals(redactor: Redactor) -> None:
    """Recall of each class on a sample of the labelled corpus; the benchmark prints exact figures."""
    total: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    with gzip.open(DATA / "labelled_sample.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = file.readlines()
    for line in lines:
        row = json.loads(line)
        covered: set[int] = set()
        for finding in redactor.redact(row["text"]).findings:
            covered.update(range(finding.start, finding.end))
        for start, end, class_, _ in row["spans"]:
            total[class_] += 1
            whole[class_] += all(at in covered for at in range(start, end) if row["text"][at].isalnum())
    low = {
        name: whole[name] / total[name]
        for name in total
        if whole[name] / total[name] < (0.9 if name in ("PERSON", "ADDRESS") else 0.95)
    }
    assert low == {}


def test_surrogates_keep_the_shape_that_programs_parse(redactor: Redactor) -> None:
    """An e-mail is one, a card passes Luhn, an IBAN mod 97, a phone parses, JSON keeps its types."""
    text = json.dumps(
        {
            "email": "bob.smith@gmail.com",
            "card": 4111111111111111,
            "iban": "DE89 3704 0044 0532 0130 00",
            "phone": "+49 30 901820",
            "ip": "8.8.8.8",
        }
    )
    result = redactor.redact(text)
    assert isinstance(result.value, str)
    made = json.loads(result.value)
    assert made["email"].count("@") == 1
    assert made["email"] != "bob.smith@gmail.com"
    assert isinstance(made["card"], int)
    assert made["card"] != 4111111111111111
    assert luhn(str(made["card"]))
    assert iban(made["iban"].replace(" ", ""))
    assert made["iban"].startswith("DE")
    assert made["phone"].startswith("+49 ")
    phonenumbers.parse(made["phone"], None)
    assert sorted(result.surrogates.values()) == ["CARD", "EMAIL", "IBAN", "IP", "PHONE"]


def test_equal_values_get_equal_surrogates_wherever_they_stand(redactor: Redactor) -> None:
    """Text, JSON, JSON in JSON, URL-encoded, full-width: one value, one surrogate."""
    made = [
        redactor.redact(text).value
        for text in (
            "bob.smith@gmail.com",
            '{"a": "bob.smith@gmail.com"}',
            json.dumps({"a": json.dumps({"b": "Bob.Smith@Gmail.com"})}),
            "?e=bob.smith%40gmail.com&",
            "bob.smith＠gmail．com",
        )
    ]
    local = str(made[0]).partition("@")[0]
    assert all(local in str(text) for text in made), made


def test_the_same_value_gets_another_surrogate_under_another_key(redactor: Redactor) -> None:
    """Tenants cannot be joined on their surrogates."""
    other = redact("bob.smith@gmail.com", (), load_policy(), TenantKey(id="other/1", secret=b"o" * 32))
    assert other.value != redactor.redact("bob.smith@gmail.com").value


def test_findings_carry_offsets_of_the_original_text(redactor: Redactor) -> None:
    """Also through escapes and JSON in JSON."""
    text = json.dumps({"a": json.dumps({"note": "line\nmail bob@gmail.com now"}), "caf\u00e9": "call (415) 555-2671"})
    found = {text[finding.start : finding.end]: finding.class_ for finding in redactor.redact(text).findings}
    assert found == {"bob@gmail.com": "EMAIL", "(415) 555-2671": "PHONE"}


def test_json_around_a_finding_stays_byte_exact(redactor: Redactor) -> None:
    """Spacing, number formats, escapes, key order and repeated keys survive."""
    text = '{"x":1.10,\n "m" : "\\u00e9 bob@gmail.com \\/", "x":1e5, "d":"caf\\u00e9",  "z":[1, 2]}'
    made = redactor.redact(text).value
    assert isinstance(made, str)
    head, tail = text.split("bob@gmail.com")
    assert made.startswith(head)
    assert made.endswith(tail)


def test_a_value_under_a_repeated_key_is_not_overlooked(redactor: Redactor) -> None:
    """A parser that keeps the last of two equal keys would hide the first."""
    made = redactor.redact('{"a":"bob@gmail.com","a" :"x"}').value
    assert "bob@gmail.com" not in str(made)


def test_numbers_in_json_stay_numbers(redactor: Redactor) -> None:
    """A phone or account kept as a number is replaced by a number."""
    made = json.loads(str(redactor.redact('{"phone": 4155552671, "order": 123456789012, "ssn": 123456789}').value))
    assert isinstance(made["phone"], int)
    assert made["phone"] != 4155552671
    assert made["order"] == 123456789012
    assert isinstance(made["ssn"], int)
    assert made["ssn"] != 123456789


@pytest.mark.parametrize(
    "text",
    [
        "order AC-1027 costs $1,299.00 since 2026-04-22T10:15:30.123456Z",
        "chunk-17 of doc_2024-11 scored 0.8444218515250481",
        "3f2b8c1e-6f0a-4d51-9b7e-0d5f2a7c9e11 gpt-4o-mini-2024-07-18 claude-sonnet-4-20250514",
        "sha256:5b7899edc5d082ca39ae67f0a9b8c50b3d0ab5339dc3a4def5874bf14396069d",
        "call_9rGmHkQ2vXw1Zb3T toolu_01A09q90qw90lq917835lq9 chatcmpl-AbC123dEf456GhI789",
        "git@github.com:org/repo.git lodash@4.17.21 127.0.0.1:8080",
        '{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","created":1698283932,"tokens":123456789}',
        "invoice INV-2024-000123, 3 items at 19.99 EUR, total 59.97",
    ],
)
def test_what_is_nobodys_data_stays_byte_exact(redactor: Redactor, text: str) -> None:
    """Order ids, prices, dates, hashes, UUIDs, model names and protocol ids are not findings."""
    assert redactor.redact(text).value == text


def test_known_surrogates_are_left_alone(redactor: Redactor) -> None:
    """A replay without the key takes the fixture's surrogates as such."""
    first = redactor.redact("My name is Lena Vogelsang, call +49 30 901820")
    other = Redactor(load_policy(), TenantKey.generate(), surrogates=first.surrogates)
    assert other.redact(first.value).value == first.value


def test_an_alias_of_the_original_equals_the_alias_of_the_redacted_text(redactor: Redactor) -> None:
    """What lets a live request match a recording without the key."""
    text = "I am Lena Vogelsang <lena@corp.com>. Lena Vogelsang again, born 1985-03-04, card 4111 1111 1111 1111"
    made = redactor.redact(text)
    aliaser = Aliaser(load_policy(), made.surrogates)
    assert aliaser.alias(str(made.value)) == aliaser.alias(text)
    assert aliaser.alias(text).startswith("I am <PERSON#1> <PERSON#2> <<EMAIL#1>>. <PERSON#1> <PERSON#2> again")


def test_nested_values_and_bytes_are_redacted(redactor: Redactor) -> None:
    """Tuples, dicts, bytes in UTF-8 and in no encoding at all."""
    made = redactor.redact(
        {"who": ("bob@gmail.com", 7, None), "raw": b"mail bob@gmail.com", "bin": b"\xff\xfe bob@gmail.com"}
    ).value
    assert "bob@gmail" not in repr(made)
    assert isinstance(made, dict)
    assert made["who"][1:] == (7, None)  # type: ignore[index]


def test_off_changes_nothing_and_shouts(capsys: pytest.CaptureFixture[str]) -> None:
    """Redaction can be switched off only by name, and never quietly."""
    made = Redactor(load_policy("off"), KEY).redact("bob@gmail.com")
    assert made.value == "bob@gmail.com"
    assert "REDACTION IS OFF" in capsys.readouterr().err


def test_nothing_that_the_redactor_says_holds_a_value(redactor: Redactor) -> None:
    """Findings, results and keys print without the value or the secret."""
    result = redactor.redact("mail bob.smith@gmail.com")
    assert "bob" not in repr(result)
    assert "kkkk" not in repr(KEY)


@pytest.mark.parametrize(
    ("token", "kept"),
    [("ghp_htADkvwcFHBJvK2xxxxG7qnJ8muwm9yzhB37", False), ("ghp_xxxxxxxxxxxxxxxxxxxx1234xxxxxxxxxxxx", True)],
)
def test_a_token_with_a_few_x_in_a_row_is_none_of_the_documentation(redactor: Redactor, token: str, kept: bool) -> None:
    """Found with a million generated leaves: one random token in half a million has four."""
    assert (token in str(redactor.redact(f"key {token} leaked").value)) == kept


def test_a_table_is_read_to_its_last_row(redactor: Redactor) -> None:
    """The heading applies to every row, however far below it is."""
    rows = [f"{index},0824{index * 7:06d}" for index in range(2000)]
    out = redactor.redact("\n".join(["id,phone", *rows])).value
    assert isinstance(out, str)
    assert [row for row in rows if row in out] == []


def test_the_surrogate_of_a_name_with_an_apostrophe_has_one(redactor: Redactor) -> None:
    """A program that puts the ``repr`` of a text into a prompt writes different quotes around a text with an apostrophe."""
    text = "this is Tom O'Brien."
    redacted = redactor.redact(text)
    made = str(redacted.value)
    assert "Brien" not in made
    assert repr(made)[0] == repr(text)[0] == '"'
    assert again(redactor, redacted) == made


@pytest.mark.parametrize("around", ["+", "/", "-", "_", "n"])
def test_what_looks_like_a_key_inside_a_picture_or_a_vector_is_none(around: str) -> None:
    """By chance a blob of 300 kB of base64 holds one in one case of ten; changed, the picture is damaged."""
    redactor = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
    letters = base64.b64encode(random.Random(1).randbytes(900)).decode()
    letters = letters.translate(str.maketrans("+/", "-_")) if around in "-_" else letters
    keys = [vendor.example for vendor in VENDORS if re.fullmatch(r"[A-Za-z0-9+/_-]+", vendor.example)]
    assert len(keys) > len(VENDORS) // 2
    changed = [key for key in keys if redactor.redact(blob := f"{letters}{around}{key}{around}{letters}").value != blob]
    assert changed == []
    assert [key for key in keys if key in str(redactor.redact(f"{letters} {key} {letters}").value)] == []


@pytest.mark.parametrize(
    "text",
    [
        ".text:00400621   4883c480             ADD         RSP,-0x80",
        "Llama 2 (tel. no.) 0.25 0.26 0.24 0.26 0.34",
        "# comment state\n8.2.4.45 Markup declaration open state, 2.7.2.2",
        "THE 10 BEST Yosemite National Park Hiking Trails - Tripadvisor",
        "With approximately 500,000 American alligators. On May 31, 1783, Parliament used it.",
        "(Wall Street Journal, September 21, 2001), 2nd Street Brew House: 950.91 meters",
        "served as Executive Chairman during 2022",
        "a city and state, such as 'San Francisco' or 'San Francisco, CA'; the western Tama area",
        "Excerpts from Acme's 2024 Berkshire Hathaway Letter",
        "ninja      1.11.1.2\nEC 3.1.3.1; 1.11.1.7",
        "Address: bing: Apple Board of Directors members 2023",
        '{"name": "Point Pleasant Gym", "address": "Address1, Point Pleasant, WV"}',
        "password=auth_info[2]; self._password = to_bytes(password); options['password'] = parsed_path.password",
        "if name is NOTSET: return",
        "will wait for an answer to its Ping event",
        "set-cookie: WMF-Last-Access=19-Dec-2024;Path=/",
    ],
)
def test_numbers_of_machines_tables_and_sections_stay(text: str) -> None:
    """Each was changed once in traffic of agents."""
    assert Redactor(load_policy(), KEY).redact(text).value == text
