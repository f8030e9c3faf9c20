"""Check digits of national identity, tax and social insurance numbers, one small function each.

Each takes the bare upper-case characters of the right length and says whether the number can exist. Sources: the issuing
authorities' rules as documented with each country's entry in python-stdnum (which served as the oracle).
"""

from __future__ import annotations

from freezeframe_redaction.checksums import luhn, mod11_10, verhoeff, weighted

_CENTURY_MONTHS = (0, 20, 40, 50, 60, 70, 80)


def date(year: str, month: str, day: str) -> bool:
    """Whether month and day can be a date (the year is not judged)."""
    return "01" <= month <= "12" and "01" <= day <= "31" and year.isdigit()


def ymd(digits: str) -> bool:
    """Whether six digits are a date year first."""
    return date(digits[:2], digits[2:4], digits[4:6])


def dmy(digits: str) -> bool:
    """Whether six digits are a date day first."""
    return date(digits[4:6], digits[2:4], digits[:2])


def au_tfn(d: str) -> bool:
    return weighted(d, (1, 4, 3, 7, 5, 8, 6, 9, 10)) % 11 == 0


def at_svnr(d: str) -> bool:
    return d[0] != "0" and weighted(d, (3, 7, 9, 0, 5, 8, 4, 2, 1, 6)) % 11 == int(d[3])


def be_nn(d: str) -> bool:
    body, check = int(d[:9]), int(d[9:])
    return check in (97 - body % 97, 97 - (2_000_000_000 + body) % 97)


def bg_egn(d: str) -> bool:
    return date(d[:2], f"{int(d[2:4]) % 20:02d}", d[4:6]) and weighted(d[:9], (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(
        d[9]
    )


def br_cpf(d: str) -> bool:
    if len(set(d)) == 1:
        return False
    first = (11 - weighted(d[:9], range(10, 1, -1)) % 11) % 11 % 10
    second = (11 - weighted(d[:10], range(11, 1, -1)) % 11) % 11 % 10
    return d[9:] == f"{first}{second}"


def br_cnpj(d: str) -> bool:
    first = (11 - weighted(d[:12], (5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) % 11) % 11 % 10
    second = (11 - weighted(d[:13], (6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) % 11) % 11 % 10
    return d[12:] == f"{first}{second}"


def ca_sin(d: str) -> bool:
    return luhn(d)


def ch_ahv(d: str) -> bool:
    return d[:3] == "756" and ean13(d)


def ean13(d: str) -> bool:
    return -weighted(d[:12], (1, 3) * 6) % 10 == int(d[12])


def cl_rut(d: str) -> bool:
    total = sum(int(char) * weight for char, weight in zip(reversed(d[:-1]), (2, 3, 4, 5, 6, 7) * 2, strict=False))
    return "0123456789K"[(11 - total % 11) % 11] == d[-1]


def cn_ric(d: str) -> bool:
    return (
        date(d[6:10], d[10:12], d[12:14])
        and "10X98765432"[weighted(d[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)) % 11] == d[17]
    )


def co_cedula_nit(d: str) -> bool:
    return "01987654321"[weighted(d[:9], (41, 37, 29, 23, 19, 17, 13, 7, 3)) % 11] == d[9]


def cz_rc(d: str) -> bool:
    month = int(d[2:4]) % 50
    month = month - 20 if month > 20 else month
    return 1 <= month <= 12 and "01" <= d[4:6] <= "31" and (int(d) % 11 == 0 or (int(d[:9]) % 11 == 10 and d[9] == "0"))


def de_idnr(d: str) -> bool:
    counts = [d[:10].count(char) for char in "0123456789"]
    return d[0] != "0" and sum(count > 1 for count in counts) >= 1 and max(counts) <= 3 and mod11_10(d)


def dk_cpr(d: str) -> bool:
    return dmy(d[:6])


def ec_cedula(d: str) -> bool:
    return "01" <= d[:2] <= "24" and d[2] < "6" and luhn(d)


def ee_isikukood(d: str) -> bool:
    if d[0] not in "12345678" or not ymd(d[1:7]):
        return False
    check = weighted(d[:10], (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    if check == 10:
        check = weighted(d[:10], (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10
    return check == int(d[10])


def eg_tn(d: str) -> bool:
    return d[0] in "23" and ymd(d[1:7])


def es_dni(d: str) -> bool:
    number = d[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == d[-1]


def fi_hetu(d: str) -> bool:
    return dmy(d[:6]) and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(d[:6] + d[7:10]) % 31] == d[10]


def fr_nir(d: str) -> bool:
    number = d[:13].replace("2A", "19").replace("2B", "18")
    return d[0] in "123478" and number.isdigit() and d[13:].isdigit() and 97 - int(number) % 97 == int(d[13:])


def gb_nhs(d: str) -> bool:
    return (11 - weighted(d[:9], range(10, 1, -1)) % 11) % 11 == int(d[9])


def gr_afm(d: str) -> bool:
    return d != "0" * 9 and weighted(d[:8], (256, 128, 64, 32, 16, 8, 4, 2)) % 11 % 10 == int(d[8])


def gr_amka(d: str) -> bool:
    return dmy(d[:6]) and luhn(d)


def hk_id(d: str) -> bool:
    letters = d[:-7].rjust(2)
    total = sum((36 if char == " " else ord(char) - 55) * weight for char, weight in zip(letters, (9, 8), strict=True))
    total += weighted(d[-7:-1], (7, 6, 5, 4, 3, 2))
    return "0123456789A"[-total % 11] == d[-1]


def hr_oib(d: str) -> bool:
    return mod11_10(d)


def hu_ado(d: str) -> bool:
    return d[0] == "8" and weighted(d[:9], range(1, 10)) % 11 == int(d[9])


def ir_nid(d: str) -> bool:
    rest = weighted(d[:9], range(10, 1, -1)) % 11
    return len(set(d)) > 1 and int(d[9]) == (rest if rest < 2 else 11 - rest)


def hu_taj(d: str) -> bool:
    return weighted(d[:8], (3, 7, 3, 7, 3, 7, 3, 7)) % 10 == int(d[8])


def id_nik(d: str) -> bool:
    return "11" <= d[:2] <= "94" and date(d[10:12], d[8:10], f"{int(d[6:8]) % 40:02d}")


def ie_pps(d: str) -> bool:
    total = weighted(d[:7], (8, 7, 6, 5, 4, 3, 2)) + (9 * (ord(d[8]) - 64) if len(d) == 9 and d[8] != "W" else 0)
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == d[7]


def il_tz(d: str) -> bool:
    return luhn(d)


def in_aadhaar(d: str) -> bool:
    return d[0] not in "01" and verhoeff(d)


def in_pan(d: str) -> bool:
    return d[3] in "PCHFATBLJG"


def is_kennitala(d: str) -> bool:
    return (11 - weighted(d[:8], (3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11 == int(d[8]) and d[9] in "890"


_IT_ODD = dict(zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    ))  # fmt: skip


def it_codice_fiscale(d: str) -> bool:
    total = sum(
        _IT_ODD[char] if position % 2 == 0 else int(char, 36) % 10 if char.isdigit() else ord(char) - 65
        for position, char in enumerate(d[:15])
    )
    return chr(65 + total % 26) == d[15]


def jp_my_number(d: str) -> bool:
    check = weighted(d[:11], (6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return (0 if check <= 1 else 11 - check) == int(d[11])


def kr_rrn(d: str) -> bool:
    return ymd(d[:6]) and (11 - weighted(d[:12], (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10 == int(d[12])


def kz_iin(d: str) -> bool:
    if not ymd(d[:6]):
        return False
    check = weighted(d[:11], range(1, 12)) % 11
    if check == 10:
        check = weighted(d[:11], (3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2)) % 11
    return check == int(d[11])


def lv_pk(d: str) -> bool:
    if d[:2] == "32":
        return True
    return dmy(d[:6]) and (1 + weighted(d[:10], (10, 5, 8, 4, 2, 1, 6, 3, 7, 9))) % 11 % 10 == int(d[10])


def mx_curp(d: str) -> bool:
    alphabet = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(alphabet.index(char) * (18 - position) for position, char in enumerate(d[:17]))
    return date(d[4:6], d[6:8], d[8:10]) and -total % 10 == int(d[17])


def my_nric(d: str) -> bool:
    return ymd(d[:6]) and d[6:8] not in ("00", "17", "18", "19", "20", "69", "70", "73", "80", "81", "94", "95", "96", "97")


def nl_bsn(d: str) -> bool:
    return d != "0" * 9 and weighted(d, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def no_fnr(d: str) -> bool:
    first = (11 - weighted(d[:9], (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11) % 11
    second = (11 - weighted(d[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return d[9:] == f"{first}{second}"


def nz_ird(d: str) -> bool:
    d = d.rjust(9, "0")
    check = -weighted(d[:8], (3, 2, 7, 6, 5, 4, 3, 2)) % 11
    if check == 10:
        check = -weighted(d[:8], (7, 4, 3, 2, 5, 2, 7, 6)) % 11
    return check == int(d[8])


def pl_pesel(d: str) -> bool:
    return date(d[:2], f"{int(d[2:4]) % 20:02d}", d[4:6]) and -weighted(d[:10], (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10 == int(
        d[10]
    )


def pl_nip(d: str) -> bool:
    return weighted(d[:9], (6, 5, 7, 2, 3, 4, 5, 6, 7)) % 11 == int(d[9])


def pt_nif(d: str) -> bool:
    return d[0] in "1235689" and (11 - weighted(d[:8], range(9, 1, -1)) % 11) % 11 % 10 == int(d[8])


def ro_cnp(d: str) -> bool:
    check = weighted(d[:12], (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return d[0] != "0" and ymd(d[1:7]) and (1 if check == 10 else check) == int(d[12])


def ru_snils(d: str) -> bool:
    return weighted(d[:9], range(9, 0, -1)) % 101 % 100 == int(d[9:])


def ru_inn(d: str) -> bool:
    first = weighted(d[:10], (7, 2, 4, 10, 3, 5, 9, 4, 6, 8)) % 11 % 10
    return d[10:] == f"{first}{weighted(d[:11], (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)) % 11 % 10}"


def sa_id(d: str) -> bool:
    return d[0] in "12" and luhn(d)


def se_pnr(d: str) -> bool:
    d = d[-10:]
    return date(d[:2], d[2:4], f"{int(d[4:6]) % 60:02d}") and luhn(d)


def sg_nric(d: str) -> bool:
    total = weighted(d[1:8], (2, 7, 6, 5, 4, 3, 2)) + (4 if d[0] in "TG" else 3 if d[0] == "M" else 0)
    letters = {"S": "JZIHGFEDCBA", "T": "JZIHGFEDCBA", "M": "KLJNPQRTUWX"}.get(d[0], "XWUTRQPNMLK")
    index = 10 - total % 11 if d[0] == "M" else total % 11
    return letters[index] == d[8]


def si_emso(d: str) -> bool:
    return date(d[4:7], d[2:4], d[:2]) and (11 - weighted(d[:12], (7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11 % 10 == int(
        d[12]
    )


def th_pin(d: str) -> bool:
    return d[0] not in "09" and (11 - weighted(d[:12], range(13, 1, -1)) % 11) % 10 == int(d[12])


def tr_tckn(d: str) -> bool:
    if d[0] == "0":
        return False
    odd, even = sum(map(int, d[0:9:2])), sum(map(int, d[1:8:2]))
    return (7 * odd - even) % 10 == int(d[9]) and sum(map(int, d[:10])) % 10 == int(d[10])


def tw_id(d: str) -> bool:
    number = str(10 + "ABCDEFGHJKLMNPQRSTUVXYWZIO".index(d[0])) + d[1:]
    return weighted(number, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1)) % 10 == 0


def ua_rnokpp(d: str) -> bool:
    return weighted(d[:9], (-1, 5, 7, 9, 4, 6, 10, 5, 7)) % 11 % 10 == int(d[9])


def uy_ci(d: str) -> bool:
    return -weighted(d.rjust(8, "0")[:7], (2, 9, 8, 7, 6, 3, 4)) % 10 == int(d[-1])


def za_id(d: str) -> bool:
    return ymd(d[:6]) and d[10] in "012" and luhn(d)


def ar_cuit(d: str) -> bool:
    return (
        d[:2] in ("20", "23", "24", "25", "26", "27", "30", "33", "34", "50", "51", "55")
        and "012345678990"[(11 - weighted(d[:10], (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11] == d[10]
    )


def gb_nino(d: str) -> bool:
    return d[0] not in "DFIQUV" and d[1] not in "DFIQUVO" and d[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")


def emirates(d: str) -> bool:
    return d[:3] == "784" and luhn(d)


def always(d: str) -> bool:
    """For numbers without check digits: context decides alone."""
    return len(set(d)) > 2
