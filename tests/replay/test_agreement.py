"""A judge next to labels by hand: counts, and Cohen's kappa as the textbook has it."""

from __future__ import annotations

import pytest

from freezeframe_replay.experiments.agreement import Target, agreement, class_of


def pairs(**counts: int) -> tuple[dict[Target, str], dict[Target, str]]:
    """Return both sides from counts such as ``good_bad=3``: good by hand, bad by the judge."""
    both = [pair.split("_") for pair, count in counts.items() for _ in range(count)]
    targets = [(f"{number:032x}", number % 3) for number in range(len(both))]
    return (
        {target: hand for target, (hand, _) in zip(targets, both, strict=True)},
        {target: judge for target, (_, judge) in zip(targets, both, strict=True)},
    )


def test_kappa_is_that_of_the_textbook() -> None:
    """Fifty proposals by two readers: both yes 20, both no 15; kappa 0.4."""
    found = agreement("j", *pairs(good_good=20, good_bad=5, bad_good=10, bad_bad=15))
    assert (found.compared, found.agreed, len(found.differ)) == (50, 35, 15)
    assert found.kappa == pytest.approx(0.4)
    assert found.classes == ["good", "bad"]


def test_kappa_tells_agreement_from_chance() -> None:
    """A judge that says good to everything agrees often, and no better than chance; one class only defines no kappa."""
    assert agreement("j", *pairs(good_good=9, bad_good=1)).kappa == 0
    assert agreement("j", *pairs(good_bad=5, bad_good=5)).kappa == -1
    assert agreement("j", *pairs(good_good=7)).kappa is None
    assert agreement("j", *pairs()).kappa is None


def test_only_what_both_judged_is_compared() -> None:
    by_hand, by_judge = pairs(good_good=3)
    assert agreement("j", by_hand | {("f" * 32, 0): "bad"}, by_judge | {("f" * 32, 1): "bad"}).compared == 3


@pytest.mark.parametrize(
    ("label", "value", "found"),
    [
        ("PASS", 0.0, "good"),
        ("hallucinated", 1.0, "bad"),
        ("", 0.5, "good"),
        ("", 0.49, "bad"),
        ("somewhat", 0.9, "good"),
        ("late-order", None, "late-order"),
    ],
)
def test_a_verdict_is_good_bad_or_its_own_word(label: str, value: float | None, found: str) -> None:
    assert class_of(label, value, passes_from=0.5) == found


def test_a_high_number_may_be_bad() -> None:
    assert class_of("", 0.9, passes_from=0.5, high_is_bad=True) == "bad"
    assert class_of("", 0.1, passes_from=0.5, high_is_bad=True) == "good"
