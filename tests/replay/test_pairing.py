"""Pairs of a program's own values and recorded surrogates: one to one throughout a replay, and compared if the key is there."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_replay.engine.private_values import PrivateValues
from freezeframe_schemas.divergence import Why
from freezeframe_schemas.fixture import Redaction

pytestmark = pytest.mark.long  # compiles the redactor's engine

KEY = TenantKey(id="test/1", secret=b"p" * 32)
MAILS = tuple(f"{name}@corp-mail.io" for name in ("ada.frost", "ben.hurst", "cleo.marsh", "dan.oaks"))
people = st.integers(0, 3)
own_or_handed = st.tuples(st.sampled_from(["own", "handed"]), people)
handed_on = people.map(lambda place: (place, ("handed", place)))
own = people.map(lambda place: (place, ("own", place)))
spoken = own | own | handed_on | st.tuples(people, own_or_handed)  # mostly right, so that a wrong one comes late, too
conversations = st.lists(st.lists(spoken, min_size=1, max_size=2), min_size=1, max_size=5)


@cache
def _surrogates() -> tuple[str, ...]:
    redactor = Redactor(load_policy("strict"), KEY)
    return tuple(str(redactor.redact(mail).value) for mail in MAILS)


def _values(key: TenantKey | None = None) -> PrivateValues:
    surrogates = {**dict.fromkeys(_surrogates(), "EMAIL"), "Balomuzq": "PERSON", "Tivorax": "PERSON"}
    return PrivateValues(Redaction(policy="strict@x", key_id=KEY.id, surrogates=surrogates), key)


def _marked(values: PrivateValues, text: str) -> Any:
    return json.loads(values.mark(json.dumps({"messages": [{"content": text}]})))


def _texts(said: list[tuple[int, tuple[str, int]]]) -> tuple[str, str]:
    """Return what was recorded and what is said now."""
    recorded = " and ".join(_surrogates()[place] for place, _ in said)
    live = " and ".join((MAILS if how == "own" else _surrogates())[which] for _, (how, which) in said)
    return f"write to {recorded}", f"write to {live}"


def _one_to_one(pairs: set[tuple[int, int]]) -> bool:
    return all((a == c) == (b == d) for (a, b), (c, d) in itertools.combinations(pairs, 2))


@settings(max_examples=examples(200))
@given(conversation=conversations)
@example(conversation=[[(0, ("own", 0))], [(0, ("own", 1))]])
@example(conversation=[[(0, ("own", 0))], [(1, ("own", 0))]])
@example(conversation=[[(0, ("own", 1)), (1, ("own", 0))], [(0, ("own", 0))]])
def test_without_the_key_values_agree_if_and_only_if_the_pairs_of_the_whole_run_are_one_to_one(
    conversation: list[list[tuple[int, tuple[str, int]]]],
) -> None:
    values = _values()
    pairs: set[tuple[int, int]] = set()
    for said in conversation:
        recorded, live = _texts(said)
        settled = values.settle(_marked(values, recorded), _marked(values, live))
        assumed = pairs | {(place, which) for place, (how, which) in said if how == "own"}
        handed = all(place == which for place, (how, which) in said if how == "handed")
        assert settled.agrees == (handed and _one_to_one(assumed))
        if not settled.agrees:
            assert settled.conflict
            assert not [mail for mail in MAILS if mail in settled.conflict]
            break
        values.assume(settled, step=1)
        pairs = assumed
        assert len(values.uncompared) == len(pairs)


@settings(max_examples=examples(200))
@given(said=st.lists(st.tuples(st.integers(0, 3), own_or_handed), min_size=1, max_size=4))
def test_with_the_key_values_agree_if_and_only_if_they_are_the_recorded_ones(said: list[tuple[int, tuple[str, int]]]) -> None:
    values = _values(KEY)
    recorded, live = _texts(said)
    settled = values.settle(_marked(values, recorded), _marked(values, live))
    assert settled.agrees == all(place == which for place, (_, which) in said)
    assert values.assume(settled) == []


@settings(max_examples=examples(100))
@given(conversation=conversations)
def test_pairs_told_by_another_process_bind_as_ones_own(conversation: list[list[tuple[int, tuple[str, int]]]]) -> None:
    one, other = _values(), _values()
    for turn, said in enumerate(conversation):
        recorded, live = _texts(said)
        here, there = (one, other) if turn % 2 else (other, one)
        settled = here.settle(_marked(here, recorded), _marked(here, live))
        both = there.settle(_marked(there, recorded), _marked(there, live))
        assert settled.agrees == both.agrees
        if not settled.agrees:
            break
        there.learn(here.assume(settled, step=turn))
        assert here.uncompared == there.uncompared


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("refund Balomuzq", "refund Maria"),
        ("Balomuzq and Patel", "Balomuzq and Patel"),
        (["to Balomuzq", "Balomuzq!"], ["to Houston", "Houston!"]),
        ({"last_name": "Balomuzq", "note": "Tivorax"}, {"last_name": "Maria", "note": "Patel"}),
        (3, 3),
    ],
)
def test_a_name_that_redaction_saw_on_one_side_only_pairs_with_the_word_on_the_other(recorded: Any, live: Any) -> None:
    values = _values()
    for one, other in ((recorded, live), (live, recorded)):
        assert values.settle(_tree(values, one), _tree(values, other)).agrees


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("refund Balomuzq", "cancel Balomuzq"),
        ("refund Balomuzq", "refund everybody"),
        ("refund Balomuzq", "refund 12"),
        ("refund Balomuzq", "refund Maria and Joe"),
        ("refund Balomuzq", "refund Tivorax"),
        (["Balomuzq", "Tivorax"], ["Tivorax", "Balomuzq"]),
        (["see Balomuzq", "see Balomuzq"], ["see Houston", "see Dallas"]),
        (["see Balomuzq", "see Tivorax"], ["see Houston", "see Houston"]),
        ("Maria", "Clara"),
        ({"to": "Balomuzq"}, {"for": "Balomuzq"}),
        (["Balomuzq"], ["Balomuzq", "Balomuzq"]),
        (1, True),
    ],
)
def test_any_other_difference_is_a_difference(recorded: Any, live: Any) -> None:
    values = _values()
    for one, other in ((recorded, live), (live, recorded)):
        assert not values.settle(_tree(values, one), _tree(values, other)).agrees


def test_the_key_tells_whether_a_word_is_the_name_that_redaction_saw() -> None:
    redactor = Redactor(load_policy("strict"), KEY)
    made = redactor.redact('{"last_name": "Patel"}')
    values = PrivateValues(Redaction(policy="strict@x", surrogates=made.surrogates), KEY)
    recorded = _tree(values, json.loads(str(made.value)))
    assert values.settle(recorded, {"last_name": "Patel"}).agrees
    assert values.settle({"last_name": "Patel"}, recorded).agrees
    assert not values.settle(recorded, {"last_name": "Keller"}).agrees


def test_keys_of_an_object_are_compared_like_other_texts() -> None:
    values = _values()
    first, second = _surrogates()[:2]
    recorded = _tree(values, {first: 1, second: 2})
    settled = values.settle(recorded, _tree(values, {MAILS[0]: 1, MAILS[1]: 2}))
    assert settled.agrees
    assert [pair.why for pair in settled.pairs] == [Why.KEY] * 2
    assert not values.settle(recorded, _tree(values, {MAILS[0]: 1, second: 3})).agrees


def _tree(values: PrivateValues, tree: Any) -> Any:
    return json.loads(values.mark(json.dumps(tree)))


def test_what_all_secrets_of_a_kind_begin_with_is_no_sign_of_a_surrogate() -> None:
    """Otherwise another token would be taken for one that the program made from the recorded one, and not be compared."""
    tokens = [f"github_pat_{letter * 22}_{letter * 59}" for letter in "kM"]
    made = Redactor(load_policy("strict"), KEY).redact(f"token {tokens[0]}")
    values = PrivateValues(Redaction(policy="strict@x", surrogates=made.surrogates), KEY)
    recorded, same, other = (_tree(values, text) for text in (made.value, f"token {tokens[0]}", f"token {tokens[1]}"))
    assert values.settle(recorded, same).agrees
    assert not values.settle(recorded, other).agrees
