"""No value that people have is left in clear because it looks like a surrogate, and no surrogate is redacted again."""

from __future__ import annotations

import os
import random

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from real_values import BANKS, KINDS, Kind, draw_iban, texts
from redacted_again import again

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.prf import Prf
from freezeframe_redaction.surrogates.make import number_for

POLICY = load_policy()
REDACTOR = Redactor(POLICY, TenantKey(id="test/1", secret=b"k" * 32), cache_characters=100_000)
OTHER_KEY = TenantKey(id="other/1", secret=b"o" * 32)

_AT_ONCE = 500
_SOAK = int(os.environ.get("FREEZEFRAME_SOAK_VALUES", "100000"))


def _left_in_clear(kind: Kind, seed: int, count: int) -> list[str]:
    pairs = list(texts(kind, random.Random(seed), count))
    made = REDACTOR.redact(tuple(text for text, _ in pairs)).value
    assert isinstance(made, tuple)
    return [value for (_, value), text in zip(pairs, made, strict=True) if value in str(text)]


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_value_is_left_in_clear(kind: Kind) -> None:
    assert _left_in_clear(kind, 1, _AT_ONCE) == []


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_none_of_many_values_is_left_in_clear(kind: Kind) -> None:
    """Some 15 s a kind."""
    for seed in range(_SOAK // _AT_ONCE):
        assert _left_in_clear(kind, seed, _AT_ONCE) == []


@pytest.mark.parametrize(("country", "bank"), BANKS)
def test_no_account_of_any_bank_is_left_in_clear(country: str, bank: str) -> None:
    """Among them those whose bank code begins with zeros, as that of Banco do Brasil does."""
    for seed in range(50):
        account = draw_iban(random.Random(seed), country, bank)
        assert account not in str(REDACTOR.redact(f"pay {account} today").value)


_DRAWS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2**32)), min_size=1, max_size=4)


@given(_DRAWS, st.sampled_from(("; ", "\n", ", and ")))
@settings(max_examples=examples(100), deadline=None)
def test_what_is_listed_as_a_surrogate_is_not_redacted_again(draws: list[tuple[Kind, int]], between: str) -> None:
    """Under the key that made it and under another, which has no other way to know."""
    said = [next(texts(kind, random.Random(seed), 1)) for kind, seed in draws]
    made = REDACTOR.redact(between.join(text for text, _ in said))
    parts = str(made.value).split(between)
    assert [value for (_, value), part in zip(said, parts, strict=True) if value in part] == []
    assert again(REDACTOR, made) == made.value
    assert again(Redactor(POLICY, OTHER_KEY), made) == made.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ssn 210-62-8341, and BSN 961896073", "961896073"),
        ("my SSN, no, account number: 912-07-1234", "912-07-1234"),
        ("postgres://app:rDxq81Lmzz@db.internal/shop", "rDxq81Lmzz"),
        ("password: rDxq81Lmzz!", "rDxq81Lmzz!"),
        ("password: eNV8Vc9j0", "eNV8Vc9j0"),
    ],
)
def test_a_value_that_looks_like_a_surrogate_of_any_class_is_not_left_in_clear(text: str, value: str) -> None:
    """Each of these begins as a surrogate does, or as the name of a variable."""
    assert value not in str(REDACTOR.redact(text).value)


def test_a_surrogate_in_another_layout_is_not_redacted_again() -> None:
    """A program writes the same digits in other groups."""
    made = REDACTOR.redact("call +49 30 901820 now")
    (surrogate,) = made.surrogates
    digits = "".join(filter(str.isdigit, surrogate))
    for spelled in (f"+{digits}", f"00{digits}", f"+{digits[:2]} ({digits[2:4]}) {digits[4:]}"):
        text = f"phone: {spelled}"
        assert REDACTOR.with_known_surrogates(made.surrogates).redact(text).value == text


def test_no_code_that_is_a_number_becomes_itself() -> None:
    """Every surrogate of a number begins with a 9, so of the codes that do, one in ten thousand would."""
    prf = Prf(b"k" * 32)
    codes = [str(code) for code in range(90_000, 100_000)]
    assert [code for code in codes if number_for(prf, f"r{code}", code) == code] == []
