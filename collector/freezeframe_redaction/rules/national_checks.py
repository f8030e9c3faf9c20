"""Check digits of national identity, tax and social insurance numbers: the engine of the checks in ``rules/national.toml``.

Each takes the bare upper-case characters of the right length and says whether the number can exist.
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
    modulus = len(digits)
    values = str.maketrans(*step["letters"]) if "letters" in step else None
    otherwise = _step(step["otherwise"]) if "otherwise" in step else None

    def check(d: str) -> bool:
        digit = digits[weighted(d if values is None else d.translate(values), weights) % modulus]
        return otherwise(d) if digit == "?" and otherwise is not None else digit == d[place]

    return check


def _step(step: Any) -> Check:
    """Return one step of a check."""
    if isinstance(step, str):
        return NAMED[step]
    at = step.get("at")
    if "sum" in step:
        return _sum(step)
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
    """Return the check that all steps hold; ``rules/national.toml`` says what each means."""
    checks = [_step(step) for step in steps]
    return checks[0] if len(checks) == 1 else lambda d: all(check(d) for check in checks)


_YMD, _DMY = _born("yymmdd"), _born("ddmmyy")

# -- those that are not a weighted sum of the digits ---------------------------------------------------------------------


def be_nn(d: str) -> bool:
    body, check = int(d[:9]), int(d[9:])
    return check in (97 - body % 97, 97 - (2_000_000_000 + body) % 97)


def cl_rut(d: str) -> bool:
    return "0K987654321"[weighted(d[-2::-1], (2, 3, 4, 5, 6, 7) * 2) % 11] == d[-1]


def cz_rc(d: str) -> bool:
    month = int(d[2:4]) % 50
    month = month - 20 if month > 20 else month
    return 1 <= month <= 12 and "01" <= d[4:6] <= "31" and (int(d) % 11 == 0 or (int(d[:9]) % 11 == 10 and d[9] == "0"))


def es_dni(d: str) -> bool:
    number = d[:-1].translate({88: "0", 89: "1", 90: "2"})
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == d[-1]


def fi_hetu(d: str) -> bool:
    """With the letter of the century between, or without its sign (``-``, ``+``)."""
    return _DMY(d) and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(d[:6] + d[-4:-1]) % 31] == d[-1]


def fr_nir(d: str) -> bool:
    number = d[:13].replace("2A", "19").replace("2B", "18")
    return d[0] in "123478" and number.isdigit() and d[13:].isdigit() and 97 - int(number) % 97 == int(d[13:])


def gb_nino(d: str) -> bool:
    return d[0] not in "DFIQUV" and d[1] not in "DFIQUVO" and d[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")


def hk_id(d: str) -> bool:
    letters = d[:-7].rjust(2)
    total = sum((36 if char == " " else ord(char) - 55) * weight for char, weight in zip(letters, (9, 8), strict=True))
    return "0123456789A"[-(total + weighted(d[-7:-1], (7, 6, 5, 4, 3, 2))) % 11] == d[-1]


def ie_pps(d: str) -> bool:
    total = weighted(d[:7], (8, 7, 6, 5, 4, 3, 2)) + (9 * (ord(d[8]) - 64) if len(d) == 9 and d[8] != "W" else 0)
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == d[7]


_IT_ODD = dict(zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21,
         2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    ))  # fmt: skip


def it_codice_fiscale(d: str) -> bool:
    total = sum(
        _IT_ODD[char] if position % 2 == 0 else int(char, 36) % 10 if char.isdigit() else ord(char) - 65
        for position, char in enumerate(d[:15])
    )
    return chr(65 + total % 26) == d[15]


def lv_pk(d: str) -> bool:
    return d[:2] == "32" or NAMED["lv_born"](d)


def mx_curp(d: str) -> bool:
    alphabet = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(alphabet.index(char) * (18 - position) for position, char in enumerate(d[:17]))
    return _YMD(d[4:10]) and -total % 10 == int(d[17])


def nz_ird(d: str) -> bool:
    return NAMED["nz_nine"](d.rjust(9, "0"))


def ru_snils(d: str) -> bool:
    return weighted(d[:9], range(9, 0, -1)) % 101 % 100 == int(d[9:])


def se_pnr(d: str) -> bool:
    return NAMED["se_ten"](d[-10:])


def sg_nric(d: str) -> bool:
    total = weighted(d[1:8], (2, 7, 6, 5, 4, 3, 2)) + (4 if d[0] in "TG" else 3 if d[0] == "M" else 0)
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "KLJNPQRTUWX"}.get(d[0], "XWUTRQPNMLK")
    return letters[10 - total % 11 if d[0] == "M" else total % 11] == d[8]


def tr_tckn(d: str) -> bool:
    odd, even = sum(map(int, d[0:9:2])), sum(map(int, d[1:8:2]))
    return d[0] != "0" and (7 * odd - even) % 10 == int(d[9]) and sum(map(int, d[:10])) % 10 == int(d[10])


def tw_id(d: str) -> bool:
    number = str(10 + "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(d[0])) + d[1:]
    return weighted(number, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)) % 10 == 0


# -- whose they are ------------------------------------------------------------------------------------------------------

NAMED: Final[dict[str, Check]] = {
    check.__name__: check
    for check in (
        always, be_nn, cl_rut, cz_rc, de_repeats, es_dni, fi_hetu, fr_nir, gb_nino, hk_id, ie_pps, it_codice_fiscale, luhn,
        lv_pk, mod11_10, mx_curp, nz_ird, ru_snils, se_pnr, sg_nric, tr_tckn, tw_id, varied, verhoeff,
    )
}  # fmt: skip
NAMED.update({name: every(steps) for name, steps in _RULES.entries("checks").items()})
NUMBERS: Final[dict[str, tuple[tuple[int, ...], Check]]] = {
    row["country"]: (tuple(row["digits"]), NAMED[row["check"]]) for row in _RULES.table("numbers")
}
"""Numbers of digits alone: how many, and their check."""
LETTERED: Final[dict[str, tuple[str, Check]]] = {
    row["country"]: (row["bare"], NAMED[row["check"]]) for row in _RULES.table("lettered") if row["bare"]
}
"""Numbers with letters, or with signs of their own between the digits: their bare shape, and their check."""

_BY_LENGTH = {
    length: tuple({check for lengths, check in NUMBERS.values() if length in lengths and check is not always})
    for length in range(8, 19)
}
_BY_SHAPE = tuple((re.compile(shape), check) for shape, check in LETTERED.values())


def may_be_issued(bare: str) -> bool:
    """Whether upper-case letters and digits pass the check of any country whose numbers have their shape.

    Numbers without check digits (`always`) do not count: any number of their length would pass.
    """
    checks = [check for shape, check in _BY_SHAPE if shape.fullmatch(bare)]
    if bare.isdigit():
        checks.extend(_BY_LENGTH.get(len(bare), ()))
    return any(passes(check, bare) for check in checks)


def passes(check: Check, bare: str) -> bool:
    """Whether the check holds; it does not for letters where it expects digits, nor for too few characters."""
    try:
        return check(bare)
    except (ValueError, IndexError):  # a letter where the number has none
        return False
