"""Statement: shares, intervals and the sign test, and the majority of repeats. No process is started."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_replay.experiments.statement import most_of, score, sentence, sign_test, wilson

Values = list[bool | None]
KNOWN = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))


def runs(**found: str) -> dict[str, Values]:
    """Return runs by name with one value a repeat: ``+`` true, ``-`` false, ``?`` unknown."""
    return {name: [{"+": True, "-": False, "?": None}[mark] for mark in marks] for name, marks in found.items()}


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(9, 12, 0.4677, 0.9111), (1, 40, 0.0044, 0.1288), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_wilsons(count: int, of: int, low: float, high: float) -> None:
    """The values are those of `proportion_confint(method="wilson")` of statsmodels."""
    assert wilson(count, of) == pytest.approx((low, high), abs=5e-5)


@settings(max_examples=examples(200), deadline=None)
@given(KNOWN)
def test_an_interval_holds_its_share_and_mirrors_that_of_the_rest(pair: tuple[int, int]) -> None:
    count, of = pair
    low, high = wilson(count, of)
    assert 0 <= low <= high <= 1
    if of:
        assert low - 1e-9 <= count / of <= high + 1e-9
        assert wilson(of - count, of) == pytest.approx((1 - high, 1 - low))


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 40), st.integers(0, 40))
def test_the_sign_test_counts_the_splits_that_are_as_uneven(one: int, other: int) -> None:
    total = one + other
    splits = [math.comb(total, k) for k in range(total + 1) if abs(2 * k - total) >= abs(one - other)]
    assert sign_test(one, other) == pytest.approx(float(Fraction(sum(splits), 2**total)))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from([True, False, None]), max_size=9))
def test_a_run_is_decided_only_if_its_unknown_repeats_could_not_change_that(values: Values) -> None:
    def decided(unknown: bool) -> bool:
        return 2 * sum(unknown if value is None else value for value in values) > len(values)

    expected = decided(unknown=True) if values and decided(unknown=True) == decided(unknown=False) else None
    assert most_of(values) is expected


def test_a_score_counts_runs_by_what_they_were_before() -> None:
    before = {"a": False, "b": False, "c": True, "d": True, "e": None, "f": True}
    passed = runs(a="+++", b="+--", c="+", d="-+-", e="+", f="??-")
    found = score(before, passed, runs(a="+++", b="+-+", c="-", d="+++", e="+", f="???"))
    assert (found.fixes.count, found.fixes.of) == (1, 2)
    assert (found.breaks.count, found.breaks.of) == (1, 2)
    assert (found.changes.count, found.changes.of) == (4, 5)
    assert (found.unknown, found.unsteady) == (2, 2)


def test_the_spread_is_over_single_repeats_and_exact_runs_are_in_each() -> None:
    found = score({"a": False, "b": False}, runs(a="+", b="-++"), {})
    assert (found.fixes.count, found.fixes.least, found.fixes.most) == (2, 1, 2)


def test_the_statement_has_counts_intervals_and_a_word() -> None:
    before = {f"f{n}": False for n in range(12)} | {f"p{n}": True for n in range(40)}
    passed = runs(**{f"f{n}": "+" if n < 9 else "-" for n in range(12)}, **{f"p{n}": "-" if n < 1 else "+" for n in range(40)})
    text = sentence("B", score(before, passed, {name: [n < 11] for n, name in enumerate(passed)}))
    assert text == (
        "B: fixes 9 of 12 (47 % to 91 %), breaks 1 of 40 (0 % to 13 %): better, p = 0.021; changes 11 of 52 (12 % to 34 %)"
    )


@pytest.mark.parametrize(("fixed", "broken", "word"), [(6, 0, "better"), (5, 0, "no difference is shown"), (0, 6, "worse")])
def test_better_and_worse_need_more_than_chance(fixed: int, broken: int, word: str) -> None:
    before = {f"f{n}": False for n in range(6)} | {f"p{n}": True for n in range(6)}
    passed = {f"f{n}": [n < fixed] for n in range(6)} | {f"p{n}": [n >= broken] for n in range(6)}
    assert score(before, dict(passed), {}).word == word
