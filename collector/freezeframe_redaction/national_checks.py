"""Check digits of national identity, tax and social insurance numbers: weights, and what each remainder stands for.

Each takes the bare upper-case characters of the right length and says whether the number can exist. Sources: the issuing
authorities' rules as documented with each country's entry in python-stdnum (which served as the oracle).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from freezeframe_redaction.checksums import luhn, mod11_10, verhoeff, weighted

Check = Callable[[str], bool]


def always(d: str) -> bool:
    """For numbers without check digits: context decides alone."""
    return len(set(d)) > 2


def _varied(d: str) -> bool:
    return len(set(d)) > 1


def _every(*checks: Check) -> Check:
    return lambda d: all(check(d) for check in checks)


def _at(position: int, characters: str) -> Check:
    return lambda d: d[position] in characters


def _begins(*heads: str) -> Check:
    return lambda d: d.startswith(heads)


def _born(form: str, *, months: int = 100, days: int = 100) -> Check:
    """Return whether month and day, where the form has m and d, are a date; some countries add to either (`months`, `days`)."""
    month, day = form.index("m"), form.index("d")
    return lambda d: 1 <= int(d[month : month + 2]) % months <= 12 and 1 <= int(d[day : day + 2]) % days <= 31


_PLAIN, _LAST_DIGIT = "0123456789?", "01234567890"
"""The remainder modulo 11 is the digit; for a remainder of 10 there is no digit, or it is the last digit of 10."""
_REST, _REST_DIGIT = "0?987654321", "00987654321"
"""Eleven minus the remainder is the digit."""
_TENS, _REST_TENS = "0123456789", "0987654321"


def _sum(weights: Iterable[int], digits: str, *, at: int | None = None, otherwise: Check | None = None) -> Check:
    """Return whether the weighted sum gives the character after the weighted ones, or the one `at` a position.

    `digits` has the character for each remainder; for ``?`` there is none, and `otherwise` decides.
    """
    factors = tuple(weights)
    place = len(factors) if at is None else at
    modulus = len(digits)

    def check(d: str) -> bool:
        digit = digits[weighted(d, factors) % modulus]
        return otherwise(d) if digit == "?" and otherwise is not None else digit == d[place]

    return check


ymd, _dmy = _born("yymmdd"), _born("ddmmyy")
_zeros = _begins("0" * 9)

ae_eid = _every(_begins("784"), luhn)
ar_cuit = _every(
    _begins("20", "23", "24", "25", "26", "27", "30", "33", "34", "50", "51", "55"),
    _sum((5, 4, 3, 2, 7, 6, 5, 4, 3, 2), "09987654321"),
)
at_svnr = _every(_at(0, "123456789"), _sum((3, 7, 9, 0, 5, 8, 4, 2, 1, 6), _PLAIN, at=3))
au_tfn = _sum((1, 4, 3, 7, 5, 8, 6, 9), _PLAIN)
bg_egn = _every(_born("yymmdd", months=20), _sum((2, 4, 8, 5, 10, 9, 7, 3, 6), _LAST_DIGIT))
br_cpf = _every(_varied, _sum(range(10, 1, -1), _REST_DIGIT), _sum(range(11, 1, -1), _REST_DIGIT))
ch_ahv = _every(_begins("756"), _sum((1, 3) * 6, _REST_TENS))
cn_ric = _every(_born("      yyyymmdd"), _sum((7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2), "10X98765432"))
co_cedula_nit = _sum((41, 37, 29, 23, 19, 17, 13, 7, 3), "01987654321")
de_idnr = _every(lambda d: d[0] != "0" and 2 <= max(map(d[:10].count, _TENS)) <= 3, mod11_10)
dk_cpr = _dmy
ec_cedula = _every(lambda d: "01" <= d[:2] <= "24" and d[2] < "6", luhn)
ee_isikukood = _every(
    _at(0, "12345678"),
    _born("cyymmdd"),
    _sum((1, 2, 3, 4, 5, 6, 7, 8, 9, 1), _PLAIN, otherwise=_sum((3, 4, 5, 6, 7, 8, 9, 1, 2, 3), _LAST_DIGIT)),
)
eg_tn = _every(_at(0, "23"), _born("cyymmdd"))
gb_nhs = _sum(range(10, 1, -1), _REST)
gr_afm = _every(lambda d: not _zeros(d), _sum((256, 128, 64, 32, 16, 8, 4, 2), _LAST_DIGIT))
gr_amka = _every(_dmy, luhn)
hu_ado = _every(_at(0, "8"), _sum(range(1, 10), _PLAIN))
hu_taj = _sum((3, 7) * 4, _TENS)
id_nik = _every(lambda d: "11" <= d[:2] <= "94", _born("rrrrrrddmmyy", days=40))
in_aadhaar = _every(_at(0, "23456789"), verhoeff)
in_pan = _at(3, "PCHFATBLJG")
ir_nid = _every(_varied, _sum(range(10, 1, -1), "01987654321"))
is_kennitala = _every(_sum((3, 2, 7, 6, 5, 4, 3, 2), _REST), _at(9, "890"))
jp_my_number = _sum((6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2), _REST_DIGIT)
kr_rrn = _every(ymd, _sum((2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5), "10987654321"))
kz_iin = _every(ymd, _sum(range(1, 12), _PLAIN, otherwise=_sum((3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2), _PLAIN)))
_lv_born = _every(_dmy, _sum((10, 5, 8, 4, 2, 1, 6, 3, 7, 9), "12345678900"))
my_nric = _every(ymd, lambda d: d[6:8] not in "00 17 18 19 20 69 70 73 80 81 94 95 96 97".split())
nl_bsn = _every(lambda d: not _zeros(d), _sum((9, 8, 7, 6, 5, 4, 3, 2), _PLAIN))
no_fnr = _every(_sum((3, 7, 6, 1, 8, 9, 4, 5, 2), _REST), _sum((5, 4, 3, 2, 7, 6, 5, 4, 3, 2), _REST))
_nz_nine = _sum((3, 2, 7, 6, 5, 4, 3, 2), _REST, otherwise=_sum((7, 4, 3, 2, 5, 2, 7, 6), _REST))
pl_nip = _sum((6, 5, 7, 2, 3, 4, 5, 6, 7), _PLAIN)
pl_pesel = _every(_born("yymmdd", months=20), _sum((1, 3, 7, 9, 1, 3, 7, 9, 1, 3), _REST_TENS))
pt_nif = _every(_at(0, "1235689"), _sum(range(9, 1, -1), _REST_DIGIT))
ro_cnp = _every(_at(0, "123456789"), _born("cyymmdd"), _sum((2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9), "01234567891"))
ru_inn = _every(_sum((7, 2, 4, 10, 3, 5, 9, 4, 6, 8), _LAST_DIGIT), _sum((3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8), _LAST_DIGIT))
sa_id = _every(_at(0, "12"), luhn)
_se_ten = _every(_born("yymmdd", days=60), luhn)
si_emso = _every(_dmy, _sum((7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2), _REST_DIGIT))
th_pin = _every(_at(0, "12345678"), _sum(range(13, 1, -1), "10987654321"))
ua_rnokpp = _sum((-1, 5, 7, 9, 4, 6, 10, 5, 7), _LAST_DIGIT)
uy_ci = _sum((2, 9, 8, 7, 6, 3, 4), _REST_TENS)
za_id = _every(ymd, _at(10, "012"), luhn)

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
    return _dmy(d) and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(d[:6] + d[-4:-1]) % 31] == d[-1]


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


def lk_nic(d: str) -> bool:
    return "001" <= d[2:5] <= "866"


def lv_pk(d: str) -> bool:
    return d[:2] == "32" or _lv_born(d)


def mx_curp(d: str) -> bool:
    alphabet = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(alphabet.index(char) * (18 - position) for position, char in enumerate(d[:17]))
    return ymd(d[4:10]) and -total % 10 == int(d[17])


def mx_rfc(d: str) -> bool:
    return ymd(d[4:10])


def nz_ird(d: str) -> bool:
    return _nz_nine(d.rjust(9, "0"))


def ru_snils(d: str) -> bool:
    return weighted(d[:9], range(9, 0, -1)) % 101 % 100 == int(d[9:])


def se_pnr(d: str) -> bool:
    return _se_ten(d[-10:])


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

NUMBERS: Final[dict[str, tuple[tuple[int, ...], Check]]] = {
    "CA SIN": ((9,), luhn),
    "AU TFN": ((9,), au_tfn),
    "NL BSN": ((9,), nl_bsn),
    "PT NIF": ((9,), pt_nif),
    "GR AFM": ((9,), gr_afm),
    "HU TAJ": ((9,), hu_taj),
    "IL TZ": ((9,), luhn),
    "NZ IRD": ((8, 9), nz_ird),
    "GB NHS": ((10,), gb_nhs),
    "DK CPR": ((10,), dk_cpr),
    "SE PNR": ((10, 12), se_pnr),
    "BG EGN": ((10,), bg_egn),
    "CZ RC": ((10,), cz_rc),
    "AT SVNR": ((10,), at_svnr),
    "IS KT": ((10,), is_kennitala),
    "PL NIP": ((10,), pl_nip),
    "UA RNOKPP": ((10,), ua_rnokpp),
    "HU ADO": ((10,), hu_ado),
    "EC CI": ((10,), ec_cedula),
    "CO NIT": ((10,), co_cedula_nit),
    "IR NID": ((10,), ir_nid),
    "BD NID": ((10, 13, 17), always),
    "SA ID": ((10,), sa_id),
    "BR CPF": ((11,), br_cpf),
    "DE IDNR": ((11,), de_idnr),
    "PL PESEL": ((11,), pl_pesel),
    "TR TCKN": ((11,), tr_tckn),
    "BE NN": ((11,), be_nn),
    "NO FNR": ((11,), no_fnr),
    "EE LT": ((11,), ee_isikukood),
    "LV PK": ((11,), lv_pk),
    "HU SZAM": ((11,), always),
    "HR OIB": ((11,), mod11_10),
    "GR AMKA": ((11,), gr_amka),
    "RU SNILS": ((11,), ru_snils),
    "AR CUIT": ((11,), ar_cuit),
    "NG NIN": ((11,), always),
    "CO NUIP": ((8, 10), always),
    "SV DUI": ((9,), always),
    "PH SSS": ((10,), always),
    "PH PHIC": ((12,), always),
    "JO NID": ((10,), always),
    "UZ PINFL": ((14,), always),
    "LK NIC": ((12,), always),
    "DO CED": ((11,), luhn),
    "PH TIN": ((12,), always),
    "KW CIVIL": ((12,), always),
    "IN AADHAAR": ((12,), in_aadhaar),
    "JP MY": ((12,), jp_my_number),
    "RU INN": ((12,), ru_inn),
    "ES NSS": ((11, 12), always),
    "KZ IIN": ((12,), kz_iin),
    "MY NRIC": ((12,), my_nric),
    "VN CCCD": ((12,), always),
    "FR SPI": ((13,), always),
    "CH AHV": ((13,), ch_ahv),
    "ZA ID": ((13,), za_id),
    "KR RRN": ((13,), kr_rrn),
    "RO CNP": ((13,), ro_cnp),
    "SI EMSO": ((13,), si_emso),
    "MD IDNP": ((13,), always),
    "GT CUI": ((13,), always),
    "TH PIN": ((13,), th_pin),
    "PK CNIC": ((13,), always),
    "EG TN": ((14,), eg_tn),
    "FR NIR": ((15,), fr_nir),
    "AE EID": ((15,), ae_eid),
    "ID NIK": ((16,), id_nik),
    "CN RIC": ((18,), cn_ric),
}
"""Numbers of digits alone: how many, and their check."""
LETTERED: Final[dict[str, tuple[str, Check]]] = {
    "GB NINO": (r"[A-Z]{2}[0-9]{6}[A-D]", gb_nino),
    "IT CF": (r"[A-Z]{6}[0-9A-Z]{9}[A-Z]", it_codice_fiscale),
    "MX CURP": (r"[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]", mx_curp),
    "IN PAN": (r"[A-Z]{5}[0-9]{4}[A-Z]", in_pan),
    "SG NRIC": (r"[STFGM][0-9]{7}[A-Z]", sg_nric),
    "ES DNI": (r"[0-9]{8}[A-Z]", es_dni),
    "ES NIE": (r"[XYZ][0-9]{7}[A-Z]", es_dni),
    "FI HETU": (r"[0-9]{6}[A-Y]?[0-9]{3}[0-9A-Y]", fi_hetu),
    "CL RUT": (r"[0-9]{7,8}[0-9K]", cl_rut),
    "UY CI": (r"[0-9]{8}", uy_ci),
    "IE PPS": (r"[0-9]{7}[A-W][A-IW]?", ie_pps),
    "TW ID": (r"[A-Z][12][0-9]{8}", tw_id),
    "HK ID": (r"[A-Z]{1,2}[0-9]{6}[0-9A]", hk_id),
    "LK NIC": (r"[0-9]{9}[VX]", lk_nic),
    "CN RIC": (r"[1-9][0-9]{16}X", cn_ric),
    "FR NIR": (r"[12][0-9]{4}2[AB][0-9]{8}", fr_nir),
    "MX RFC": (r"[A-ZÑ&]{4}[0-9]{6}[A-Z0-9]{3}", mx_rfc),
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
    return any(_passes(check, bare) for check in checks)


def _passes(check: Check, bare: str) -> bool:
    try:
        return check(bare)
    except (ValueError, IndexError):  # a letter where the number has none
        return False
