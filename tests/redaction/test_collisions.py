"""Surrogates that stand for several values are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.settings.policies import Policies
from freezeframe_redaction import Redactor, TenantKey, load_or_create_keys, load_policy
from freezeframe_schemas.span import SpanRecord

_KEY = TenantKey(id="test/1", secret=b"k" * 32)


@pytest.mark.proof
@pytest.mark.long
def test_codes_that_share_a_surrogate_are_counted() -> None:
    redactor = Redactor(load_policy(), _KEY)
    codes = [f"{code:04d}" for code in range(1000, 9999, 3)]
    made = {code: str(redactor.redact(f"Your PIN is {code}.").value) for code in codes}
    shared = len(made) - len(set(made.values()))
    assert redactor.collisions == shared


def test_codes_that_are_numbers_collide_once_each() -> None:
    """There is one surrogate for all numbers of four digits under such a key."""
    redactor = Redactor(load_policy(), _KEY)
    for code in (1111, 2222, 3333, 2222):
        redactor.redact(f'{{"pin": {code}}}')
        redactor.redact({"pin": code})
    assert redactor.collisions == 2


def test_spellings_of_one_value_are_no_collision() -> None:
    redactor = Redactor(load_policy(), _KEY)
    for text in (
        "mail Jane.Roe@corp.io and jane.roe@corp.io",
        "phone: +49 30 9012345, phone: +49309012345",
        "card 4111 1111 1111 1111 or 4111111111111111",
        "My name is Maria Keller. MARIA KELLER signed",
        "born 1984-05-06, born 1984-07-08",
    ):
        redactor.redact(text)
    assert redactor.collisions == 0


def test_many_values_of_a_class_with_room_do_not_collide() -> None:
    redactor = Redactor(load_policy(), _KEY)
    for number in range(2_000):
        redactor.redact(f"mail user{number}@corp-mail.io from 11.22.{number // 250}.{number % 250 + 1}, iban, card none")
    assert redactor.collisions == 0


def test_the_collector_counts_them(tmp_path: Path) -> None:
    stage = RedactStage(Policies(default=load_policy()), load_or_create_keys(tmp_path))
    counted: list[int] = []
    stage.on_collisions = counted.append
    span = SpanRecord(trace_id="1" * 32, span_id="2" * 16, name="chat", start_time_unix_nano=0, end_time_unix_nano=1)
    for codes in ("1111", "1111", "2222, 3333", "1111"):
        stage(replace(span, attributes={"said": f'[{{"pin": {codes.split(",")[0]}}}, {{"pin": {codes.split(",")[-1]}}}]'}), "")
    assert counted == [2]
