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
from freezeframe_replay.engine.pairs import Settled
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


def _values(key: TenantKey | None = None, **more: str) -> PrivateValues:
    surrogates = {**dict.fromkeys(_surrogates(), "EMAIL"), "Balomuzq": "PERSON", "Tivorax": "PERSON", **more}
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


@pytest.mark.proof
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


@pytest.mark.proof
@settings(max_examples=examples(200))
@given(said=st.lists(st.tuples(st.integers(0, 3), own_or_handed), min_size=1, max_size=4))
def test_with_the_key_values_agree_if_and_only_if_they_are_the_recorded_ones(said: list[tuple[int, tuple[str, int]]]) -> None:
    values = _values(KEY)
    recorded, live = _texts(said)
    settled = values.settle(_marked(values, recorded), _marked(values, live))
    assert settled.agrees == all(place == which for place, (_, which) in said)
    assert values.assume(settled) == []


@pytest.mark.proof
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


@pytest.mark.proof
@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("refund Balomuzq", "refund Maria"),
        ("BalomuzqTraceback: refund", "MariaTraceback: refund"),
        ("refund byBalomuzq twice", "refund byMaria twice"),
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


@pytest.mark.proof
@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        ("refund Balomuzq", "cancel Balomuzq"),
        ("refund Balomuzq", "refund everybody"),
        ("BalomuzqTraceback: refund", "MariaWarning: refund"),
        ("refund Balomuzq", "refund 12"),
        ("refund Balomuzq", "refund Maria and Joe"),
        ("refund Balomuzq", "refund Balomuzq!"),
        ("refund Balomuzq", "please refund Balomuzq"),
        ("refund Balomuzq and Tivorax", "refund Balomuzq twice, and Tivorax"),
        ("refund Balomuzq", "refund Balomuzq Balomuzq"),
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


@pytest.mark.proof
@settings(max_examples=examples(100))
@given(
    words=st.lists(
        st.sampled_from(["Balomuzq", "Tivorax", "3605 Plinugaqv Street", "ask", "7", ",", "now"]), min_size=1, max_size=8
    ),
    place=st.integers(0, 8),
    more=st.sampled_from(["!", ", now", "not", "Balomuzq", "7", "\n"]),
    key=st.booleans(),
)
def test_what_was_added_to_a_text_or_left_out_of_it_is_a_difference(words: list[str], place: int, more: str, key: bool) -> None:
    values = _values(KEY if key else None, **{"3605 Plinugaqv Street": "ADDRESS"})
    one, other = (" ".join(text) for text in (words, [*words[:place], more, *words[place:]]))
    for recorded, live in ((one, other), (other, one)):
        assert not values.settle(_tree(values, recorded), _tree(values, live)).agrees


@pytest.mark.proof
def test_the_key_tells_whether_a_word_is_the_name_that_redaction_saw() -> None:
    redactor = Redactor(load_policy("strict"), KEY)
    made = redactor.redact('{"last_name": "Patel"}')
    values = PrivateValues(Redaction(policy="strict@x", surrogates=made.surrogates), KEY)
    recorded = _tree(values, json.loads(str(made.value)))
    assert values.settle(recorded, {"last_name": "Patel"}).agrees
    assert values.settle({"last_name": "Patel"}, recorded).agrees
    assert not values.settle(recorded, {"last_name": "Keller"}).agrees


@pytest.mark.proof
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


@pytest.mark.proof
def test_what_all_secrets_of_a_kind_begin_with_is_no_sign_of_a_surrogate() -> None:
    """Otherwise another token would be taken for one that the program made from the recorded one, and not be compared."""
    tokens = [f"github_pat_{letter * 22}_{letter * 59}" for letter in "kM"]
    made = Redactor(load_policy("strict"), KEY).redact(f"token {tokens[0]}")
    values = PrivateValues(Redaction(policy="strict@x", surrogates=made.surrogates), KEY)
    recorded, same, other = (_tree(values, text) for text in (made.value, f"token {tokens[0]}", f"token {tokens[1]}"))
    assert values.settle(recorded, same).agrees
    assert not values.settle(recorded, other).agrees


def _settled(values: PrivateValues, recorded: Any, live: Any) -> Settled:
    return values.settle(_tree(values, recorded), _tree(values, live))


@pytest.mark.proof
def test_values_of_two_classes_are_never_the_same() -> None:
    values, (mail, *_) = _values(), _surrogates()
    for one, other in ((mail, "Balomuzq"), (MAILS[0], "Balomuzq"), (MAILS[0], "+49 30 83921734")):
        for recorded, live in ((one, other), (other, one)):
            assert not _settled(values, f"tell {recorded}", f"tell {live}").agrees


@pytest.mark.proof
def test_two_values_of_the_programs_own_are_compared_as_they_are() -> None:
    values = _values()
    assert _settled(values, f"tell {MAILS[0]}", f"tell {MAILS[0]}").agrees
    other = _settled(values, f"tell {MAILS[0]}", f"tell {MAILS[1]}")
    assert (other.agrees, other.conflict) == (False, "a private value that differs from the recorded one")
    assert other.tree == _tree(values, f"tell {MAILS[1]}")
    longer = f"tell {MAILS[1]} or somebody else"
    assert _settled(values, f"tell {MAILS[0]}", longer).tree == _tree(values, longer)
    assert _settled(values, {"last_name": "Maria"}, {"last_name": "Maria"}).agrees
    assert values.settle({"last_name": "Maria"}, _tree(values, {"last_name": "Maria"})).agrees


@pytest.mark.proof
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("text", ["api_key: f3A9bC2dE8gH1jK\n  4mN7pQ0sT5vW6xY", "IBAN DE12 5001 0517\n5547 0808 76 today"])
def test_a_value_that_a_line_break_cuts_agrees_with_its_surrogate_over_the_same_break(text: str, key: TenantKey | None) -> None:
    made = Redactor(load_policy("strict"), KEY).redact(text)
    values = PrivateValues(Redaction(policy="strict@x", key_id=KEY.id, surrogates=dict(made.surrogates)), key)
    assert made.value != text
    assert _settled(values, str(made.value), text).agrees
    assert not _settled(values, str(made.value), text.replace("\n", "\nno ")).agrees


@pytest.mark.proof
def test_the_recorded_values_in_another_order_are_said_to_be_that() -> None:
    values, (first, second, third, _) = _values(), _surrogates()
    turned = _settled(values, [first, second], [second, first])
    assert (turned.agrees, turned.conflict.partition(" (")[0]) == (False, "the recorded private values in a different order")
    other = _settled(values, [first, second], [second, third])
    assert (other.agrees, other.conflict) == (False, "a private value that differs from the recorded one")


@pytest.mark.proof
@pytest.mark.parametrize(
    ("recorded", "live"),
    [({"a": 1}, [1]), ([1], {"a": 1}), ({"a": 1}, {"b": 1, "c": 2}), ({"a": 1, "b": 2}, {"c": 1}), ({}, {"a": 1}), ([1], [])],
)
def test_values_of_another_shape_differ(recorded: Any, live: Any) -> None:
    values = _values()
    settled = _settled(values, recorded, live)
    assert (settled.agrees, settled.tree) == (False, live)


@pytest.mark.proof
def test_a_year_of_birth_is_compared_although_its_day_cannot_be() -> None:
    """The surrogate of a date of birth is the first day of its year, which many people share."""
    values = PrivateValues(Redaction(policy="strict@x", surrogates={"1961-01-01": "DOB"}))
    settled = _settled(values, "born 1961-01-01", "born 1961-03-05")
    assert [pair.why for pair in settled.pairs] == [Why.SHARED]
    assert settled.agrees
    assert not _settled(values, "born 1961-01-01", "born 1962-03-05").agrees


@pytest.mark.proof
def test_a_value_made_from_a_surrogate_is_counted_as_that() -> None:
    values, (mail, *_) = _values(), _surrogates()
    settled = _settled(values, f"write to {mail}", f"write to {mail.partition('@')[0]}@corp-mail.io")
    assert [pair.why for pair in settled.pairs] == [Why.DERIVED]
    assert settled.agrees


COMPUTED = (
    ("name of 12 letters", "name of 16 letters", True),  # Balomuzq Tivorax
    ("name of 12 letters", "name of 14 letters", False),
    ("item PS-12", "item PS-16", False),  # a code is not computed
    ("in 1961-04", "in 1961-01", True),
    ("born in month 04", "born in month 01", True),
    ("born in April", "born in January", True),
    ("born in April", "born in March", False),
    ("sum 61", "sum 34", True),  # of +1 295 555 2000
    ("Balomuzq Ke", "Balomuzq", True),
    ("Balomuzq Ke", "Tivorax", False),
    ("to +1 415 867", "to +1 295 555", True),
    ("to +1 415 867", "to +1 333 867", False),
)


@pytest.mark.proof
@pytest.mark.parametrize(("recorded", "live", "may_be"), COMPUTED)
def test_what_may_be_computed_of_a_surrogate_is_counted_as_that_and_nothing_else_is(
    recorded: str, live: str, may_be: bool
) -> None:
    held = {"Balomuzq": "PERSON", "Tivorax": "PERSON", "1961-01-01": "DOB", "+1 295 555 2000": "PHONE"}
    values = PrivateValues(Redaction(policy="strict@x", surrogates=held))
    values.mark("this is Balomuzq Tivorax")
    was, now = _marked(values, recorded), _marked(values, live)
    assert not values.settle(was, now).agrees
    settled = values.settle(was, now, with_computed=True)
    assert (settled.agrees, [pair.why for pair in settled.pairs]) == (may_be, [Why.COMPUTED] if may_be else [])


@pytest.mark.proof
def test_three_values_that_a_program_sorted_may_have_another_order_and_two_exchanged_ones_may_not() -> None:
    values, mails = _values(), sorted(_surrogates()[:3])
    turned = [mails[1], mails[2], mails[0]]
    for recorded, live, may_be in ((turned, mails, True), (mails, turned, False), (mails[:2][::-1], mails[:2], False)):
        was, now = _marked(values, ", ".join(recorded)), _marked(values, ", ".join(live))
        settled = values.settle(was, now, with_computed=True)
        assert settled.agrees is may_be
        assert {pair.why for pair in settled.pairs} == ({Why.COMPUTED} if may_be else set())


@pytest.mark.proof
def test_what_breaks_a_pair_is_named_with_the_step_that_made_it() -> None:
    values, (first, second, *_) = _values(), _surrogates()
    values.assume(_settled(values, first, MAILS[0]), step=3)
    one = _settled(values, second, MAILS[0]).conflict
    assert one == f"one value of the program stands for {first} at step 3 and for {second} here"
    other = _settled(values, first, MAILS[1]).conflict
    assert other == f"{first} stands for one value of the program at step 3 and for another one here"
    at_once = _settled(values, [second, second], [MAILS[1], MAILS[2]]).conflict
    assert at_once == f"{second} stands for one value of the program before and for another one here"


@pytest.mark.proof
def test_what_was_assumed_before_is_not_new_and_the_input_is_said_to_be_that() -> None:
    values, (first, second, *_) = _values(), _surrogates()
    assert [pair.surrogate for pair in values.assume(_settled(values, first, MAILS[0]), is_input=True)] == [first]
    both = [*_settled(_values(), [first, second], [MAILS[0], MAILS[1]]).pairs]
    assert [pair.surrogate for pair in values.learn(both)] == [second]
    assert [item.why for item in values.uncompared] == [Why.INPUT, Why.KEY]


@pytest.mark.proof
def test_a_report_shows_surrogates_and_classes_and_never_a_value() -> None:
    values, (mail, *_) = _values(), _surrogates()
    tree = {MAILS[0]: [f"to {mail}", 1, None], "cc": f"to {MAILS[1]}"}
    assert values.show_tree(_tree(values, tree)) == {"<EMAIL>": [f"to {mail}", 1, None], "cc": "to <EMAIL>"}
    values.assume(_settled(values, mail, MAILS[0]))
    assert values.show(f"to {MAILS[0]}") == f"to {mail}"
    assert _values(KEY).show(f"to {MAILS[0]}") == f"to {mail}"
    plain = PrivateValues(Redaction())
    assert plain.show_tree(tree) is tree
