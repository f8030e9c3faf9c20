"""Check digits of national identity, tax and social insurance numbers: the engine of the checks in ``rules/national.toml``.

Each takes the bare upper-case characters of the right length and returns whether the number can exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from freezeframe_redaction.rules.checksums import luhn, mod11_10, verhoeff, weighted
from freezeframe_redaction.rules.read import Rules

Check = Callable[[str], bool]
_RULES: Final = Rules("national")


def always(d: str) -> bool:
    """For numbers without check digits: context decides alone."""
    return len(set(d)) > 2


def varied(d: str) -> bool:
    return len(set(d)) > 1


def de_repeats(d: str) -> bool:
    return d[0] != "0" and 2 <= max(map(d[:10].count, "0123456789")) <= 3


def _born(form: str, months: int = 100, days: int = 100) -> Check:
    month, day = form.index("m"), form.index("d")
    return lambda d: 1 <= int(d[month : month + 2]) % months <= 12 and 1 <= int(d[day : day + 2]) % days <= 31


def _sum(step: Mapping[str, Any]) -> Check:
    weights: Sequence[int] = step["sum"]
    digits: str = step["gives"]
    place: int = step.get("at", len(weights))
    modulus, width = len(digits), step.get("pad", 0)
    letters: Sequence[str] = step.get("letters", ("", ""))
    values = str.maketrans(
        letters[0], letters[1] if len(letters) > 1 else "".join(chr(48 + at) for at in range(len(letters[0])))
    )
    otherwise = _step(step["otherwise"]) if "otherwise" in step else None

    def check(d: str) -> bool:
        d = d.rjust(width, letters[0][-1:] or "0") if width else d
        digit = digits[weighted(d.translate(values) if values else d, weights) % modulus]
        return otherwise(d) if digit == "?" and otherwise is not None else digit == d[place]

    return check


def _number(step: Mapping[str, Any]) -> Check:
    places = [slice(*place) for place in step["number"]]
    heads: Sequence[str] = step.get("heads", ("",))
    as_digits: Mapping[str, str] = step.get("as", {})
    gives: Sequence[str] = step.get("gives", "") or [f"{97 - rest:02d}" for rest in range(97)]
    at = places[-1].stop

    def check(d: str) -> bool:
        body = "".join(d[place] for place in places)
        for letters, digits in as_digits.items():
            body = body.replace(letters, digits)
        return d[at:] in [gives[int(head + body) % len(gives)] for head in heads]

    return check


def _step(step: Any) -> Check:
    if isinstance(step, str):
        return NAMED[step]
    at = step.get("at")
    if "sum" in step:
        return _sum(step)
    if "number" in step:
        return _number(step)
    if "any" in step:
        either = [every(steps) for steps in step["any"]]
        return lambda d: any(check(d) for check in either)
    if "last" in step:
        last, of_them = step["last"], every(step["are"])
        return lambda d: of_them(d[-last:])
    if "form" in step:
        form = re.compile(step["form"])
        return lambda d: form.match(d) is not None
    if "luhn" in step:
        return lambda d: luhn(step["luhn"] + d)
    if "born" in step:
        return _born(step["born"], step.get("months", 100), step.get("days", 100))
    if "of" in step:
        return lambda d: d[at] in step["of"]
    if "between" in step:
        low, high = step["between"]
        return lambda d: low <= d[at or 0 :][: len(low)] <= high
    heads = tuple(step.get("begins") or step["not"])
    return (lambda d: d.startswith(heads)) if "begins" in step else (lambda d: not d.startswith(heads, at or 0))


def every(steps: Sequence[Any]) -> Check:
    """Return the check of all steps, which ``rules/national.toml`` explains."""
    checks = [_step(step) for step in steps]
    return checks[0] if len(checks) == 1 else lambda d: all(check(d) for check in checks)


def cz_rc(d: str) -> bool:
    month = int(d[2:4]) % 50
    month = month - 20 if month > 20 else month
    return 1 <= month <= 12 and "01" <= d[4:6] <= "31" and (int(d) % 11 == 0 or (int(d[:9]) % 11 == 10 and d[9] == "0"))


def it_codice_fiscale(d: str) -> bool:
    odd = [_IT_ODD.index(char if char.isalpha() else "ABCDEFGHIJ"[int(char)]) for char in d[:15:2]]
    even = [int(char) if char.isdigit() else ord(char) - 65 for char in d[1:15:2]]
    return chr(65 + (sum(odd) + sum(even)) % 26) == d[15]


_IT_ODD = "BAKPLCQDREVOSFTGUHMINJWZYX"
"""The letters in the order of their values at odd places."""


def ru_snils(d: str) -> bool:
    return weighted(d[:9], range(9, 0, -1)) % 101 % 100 == int(d[9:])


# -- whose they are ------------------------------------------------------------------------------------------------------

NAMED: Final[dict[str, Check]] = {
    check.__name__: check
    for check in (always, cz_rc, de_repeats, it_codice_fiscale, luhn, mod11_10, ru_snils, varied, verhoeff)
}
NAMED.update({name: every(steps) for name, steps in _RULES.entries("checks").items()})
NUMBERS: Final[dict[str, tuple[tuple[int, ...], Check]]] = {
    row["country"]: (tuple(row["digits"]), NAMED[row["check"]]) for row in _RULES.table("numbers")
}
"""Numbers of digits alone: their length and check."""
LETTERED: Final[dict[str, tuple[str, Check]]] = {
    row["country"]: (row["bare"], NAMED[row["check"]]) for row in _RULES.table("lettered") if row["bare"]
}
"""Numbers with letters, or with special separators: the shape without separators, and the check."""

_BY_LENGTH = {
    length: tuple({check for lengths, check in NUMBERS.values() if length in lengths and check is not always})
    for length in range(8, 19)
}
_BY_SHAPE = tuple((re.compile(shape), check) for shape, check in LETTERED.values())


def may_be_issued(bare: str) -> bool:
    """Return whether upper-case letters and digits pass the check of any country whose numbers have their shape.

    Numbers without check digits (`always`) do not count: any number of their length would pass.
    """
    checks = [check for shape, check in _BY_SHAPE if shape.fullmatch(bare)]
    if bare.isdigit():
        checks.extend(_BY_LENGTH.get(len(bare), ()))
    return any(passes(check, bare) for check in checks)


def passes(check: Check, bare: str) -> bool:
    """Return whether the check holds; it does not for letters where it expects digits, nor for too few characters."""
    try:
        return check(bare)
    except (ValueError, IndexError):  # a letter where the number has none
        return False
