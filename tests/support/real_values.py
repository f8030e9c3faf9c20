"""Values such as people have, drawn at random: what a law about every value of a class is tried on.

Each kind is a layout, the check that real values of the kind pass, and the words that make a text of it. In a layout ``n`` is
any digit, ``d`` one from 1 to 9, ``A`` a capital, ``m`` any letter or digit. None of this is the redactor's own judgement of a
text.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from freezeframe_redaction.rules import national_checks as check
from freezeframe_redaction.rules.checksums import IBAN_LENGTHS, iban, luhn, mod11_10, mod97
from freezeframe_redaction.surrogates.plans import is_assigned
from freezeframe_redaction.surrogates.shapes import digits_of

_DRAWN: Final = {"n": "0123456789", "d": "123456789", "A": "ABCDEFGHJKLMNPRSTVWXYZ", "m": string.ascii_letters + string.digits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of value."""

    name: str
    layout: str
    says: str
    """The text around a value, in the place of ``{}``."""
    holds: Callable[[str], bool] = check.always
    """The check, over the digits and letters of a value."""

    def draw(self, rnd: random.Random) -> str:
        """Return one value that real people may have."""
        while True:
            made = "".join(rnd.choice(_DRAWN.get(char, char)) for char in self.layout)
            if self.holds("".join(filter(str.isalnum, made))):
                return made


def _kind(name: str, layout: str, says: str, holds: Callable[[str], bool] = check.always) -> Kind:
    return Kind(name=name, layout=layout, says=says, holds=holds)


def _assigned(value: str) -> bool:
    return is_assigned(digits_of(value))


def _ssn(value: str) -> bool:
    return value[:3] not in ("000", "666") and value[3:5] != "00" and value[5:] != "0000" and value[0] != "9"


def _is_no_year(value: str) -> bool:
    return value[:2] not in ("19", "20")


KINDS: Final = (
    _kind("phone, local", "dnn nnnn", "Phone: {}"),
    _kind("phone, local from 9", "9nn nnnn", "Phone: {}"),
    _kind("phone, US", "(dnn) dnn-nnnn", "call {} now", lambda value: _assigned("1" + value)),
    _kind("phone, Germany", "0dnn dnnnnn", "Tel. {}"),
    _kind("phone, Germany from abroad", "+49 15d dnnnnnnn", "call {} now", _assigned),
    _kind("phone, India", "+91 dnnnn nnnnn", "call {} now", _assigned),
    _kind("phone, India inland", "dnnnn nnnnn", "mobile: {}", lambda value: value[0] in "6789"),
    _kind("phone, Turkey", "+90 5nn nnn nn nn", "call {} now", _assigned),
    _kind("phone, France", "06 nn nn nn nn", "téléphone {}"),
    _kind("card, Visa", "4nnn nnnn nnnn nnnn", "paid with {}", luhn),
    _kind("card, Amex", "37nnnnnnnnnnnnn", "card {}", luhn),
    _kind("US SSN", "nnn-nn-nnnn", "ssn {}", _ssn),
    _kind("NL BSN", "dnnnnnnnn", "BSN {}", check.NAMED["nl_bsn"]),
    _kind("GB NHS", "dnn nnn nnnn", "NHS number {}", check.NAMED["gb_nhs"]),
    _kind("PL PESEL", "nn0dndnnnnn", "PESEL {}", check.NAMED["pl_pesel"]),
    _kind("PL PESEL of the nineties", "9n0d1nnnnnn", "PESEL {}", check.NAMED["pl_pesel"]),
    _kind("IN AADHAAR", "dnnn nnnn nnnn", "aadhaar {}", check.NAMED["in_aadhaar"]),
    _kind("DE IDNR", "dnnnnnnnnnn", "Steuer-ID {}", check.NAMED["de_idnr"]),
    _kind("BR CPF", "nnn.nnn.nnn-nn", "CPF {}", check.NAMED["br_cpf"]),
    _kind("HR OIB", "dnnnnnnnnnn", "OIB {}", mod11_10),
    _kind("PT NIF", "dnnnnnnnn", "NIF {}", check.NAMED["pt_nif"]),
    _kind("AU TFN", "dnn nnn nnn", "tax file number {}", check.NAMED["au_tfn"]),
    _kind("CA SIN", "dnn nnn nnn", "SIN {}", luhn),
    _kind("IN PAN", "AAAPAnnnnA", "PAN card {}", check.NAMED["in_pan"]),
    _kind("medical record", "dnnnnnnn", "MRN: {}"),
    _kind("member id with letters", "Adnnnnnnn", "patient id {}"),
    _kind("passport", "Adnnnnnnn", "passport no. {}"),
    _kind("driving licence", "Adnnnnnnn", "driver's license {}"),
    _kind("bank account", "dnnnnnnnnn", "account number: {}"),
    _kind("postcode", "dnnnn", "zip code: {}"),
    _kind("code", "dnnnnn", "your security code is {}", _is_no_year),
    _kind("password", "mmmmmmmmn", 'password="{}"'),
    _kind("password in a URL", "mmmmmmmmnn", "postgres://app:{}@db.internal/shop"),
    _kind("code in JSON", "dnnnnn", '{{"otp": {}}}', _is_no_year),
)


BANKS: Final = (("DE", "37040044"), ("NL", "ABNA"), ("BR", "00000000"), ("FR", "30006"), ("PL", "10901014"), ("CR", "0152"))
"""Countries, and the code of a bank there; the third is Banco do Brasil. Source: the banks' own pages."""


def draw_iban(rnd: random.Random, country: str, bank: str) -> str:
    """Return an account at a bank of a country."""
    body = bank + "".join(rnd.choice("0123456789") for _ in range(IBAN_LENGTHS[country] - 4 - len(bank)))
    made = f"{country}{98 - mod97(body + country + '00'):02d}{body}"
    assert iban(made)
    return made


def texts(kind: Kind, rnd: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yield texts, each with the value in it."""
    for _ in range(count):
        value = kind.draw(rnd)
        yield kind.says.format(value), value
