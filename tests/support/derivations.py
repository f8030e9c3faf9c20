"""Values that programs derive from a person's: tables of small functions, each of a record of texts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus

Person = dict[str, str]
Derive = Callable[[Person], str]

MARIA: Final[Person] = {
    "first_name": "Maria",
    "last_name": "Keller",
    "email": "maria.keller@acme-corp.com",
    "phone": "+1 415 867 2671",
    "card": "4539 1488 0343 6467",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ssn": "536-22-1834",
    "date_of_birth": "1983-04-12",
    "address": "1274 Willow Street",
    "password": "sk-proj-Qm4xT7vB2nL9kR5wZ8cY3aH6",
}


def digits_of(text: str) -> str:
    return re.sub("[^0-9]", "", text)


def name_of(of: Person) -> str:
    return f"{of['first_name']} {of['last_name']}"


def _date(of: Person, layout: str) -> str:
    year, month, day = of["date_of_birth"].split("-")
    return layout.format(year=year, month=month, day=day)


DERIVED: Final[dict[str, Derive]] = {
    "name in capitals": lambda of: name_of(of).upper(),
    "name in small letters": lambda of: name_of(of).lower(),
    "name, last word first": lambda of: f"{of['last_name']}, {of['first_name']}",
    "slug": lambda of: name_of(of).lower().replace(" ", "_"),
    "slug with hyphen and number": lambda of: name_of(of).lower().replace(" ", "-") + "-77",
    "name with points": lambda of: name_of(of).lower().replace(" ", "."),
    "glued": lambda of: name_of(of).replace(" ", ""),
    "glued, small": lambda of: name_of(of).replace(" ", "").lower(),
    "swapped": lambda of: f"{of['last_name']}.{of['first_name']}".lower(),
    "initial and word": lambda of: f"{of['first_name'][0]}. {of['last_name']}",
    "word and initial": lambda of: f"{of['first_name']} {of['last_name'][0]}.",
    "login": lambda of: (of["first_name"][0] + of["last_name"]).lower(),
    "login, word first": lambda of: (of["first_name"] + of["last_name"][0]).lower(),
    "name for a query": lambda of: quote_plus(name_of(of)),
    "name for a path": lambda of: quote(name_of(of)),
    "greeting": lambda of: f"Dear {of['first_name']},\nthank you",
    "hash of the name": lambda of: hashlib.sha256(name_of(of).encode()).hexdigest(),
    "length of the name": lambda of: f"name of {len(name_of(of))} letters",
    "name cut at eight letters": lambda of: name_of(of)[:8],
    "mail in capitals": lambda of: of["email"].upper(),
    "local part": lambda of: of["email"].partition("@")[0],
    "domain": lambda of: of["email"].partition("@")[2],
    "mail for a query": lambda of: f"https://x.io/?to={quote(of['email'], safe='')}",
    "hash of the mail": lambda of: hashlib.md5(of["email"].lower().encode(), usedforsecurity=False).hexdigest(),
    "mail in base64": lambda of: base64.b64encode(of["email"].encode()).decode(),
    "mail cut at twelve letters": lambda of: of["email"][:12],
    "phone, digits": lambda of: digits_of(of["phone"]),
    "phone, inland": lambda of: digits_of(of["phone"])[1:],
    "phone with points": lambda of: "{}.{}.{}".format(*of["phone"].split()[1:]),
    "phone in brackets": lambda of: "({}) {}-{}".format(*of["phone"].split()[1:]),
    "phone, without area": lambda of: "-".join(of["phone"].split()[2:]),
    "phone, last four": lambda of: f"the phone ending in {of['phone'][-4:]}",
    "card, digits": lambda of: digits_of(of["card"]),
    "card with hyphens": lambda of: of["card"].replace(" ", "-"),
    "card, last four": lambda of: f"card **** {of['card'][-4:]}",
    "hash of the card": lambda of: hashlib.sha256(digits_of(of["card"]).encode()).hexdigest(),
    "account, bare": lambda of: of["iban"].replace(" ", ""),
    "account, bank": lambda of: of["iban"].replace(" ", "")[4:12],
    "social security number, digits": lambda of: digits_of(of["ssn"]),
    "date of birth, German": lambda of: _date(of, "{day}.{month}.{year}"),
    "date of birth, American": lambda of: _date(of, "{month}/{day}/{year}"),
    "date of birth, bare": lambda of: _date(of, "{year}{month}{day}"),
    "address in capitals": lambda of: of["address"].upper(),
    "address for a query": lambda of: quote_plus(of["address"]),
    "house number": lambda of: of["address"].split()[0] + " is the number",
    "key cut at eight letters": lambda of: of["password"][:8],
    "hash of the key": lambda of: hashlib.sha256(of["password"].encode()).hexdigest(),
}


DIFFERS: Final = frozenset(
    {
        "length of the name", "name cut at eight letters", "mail cut at twelve letters", "key cut at eight letters",  # lengths
        "name with points",  # the local part of the mail is written the same, and has a surrogate of its own
        "domain", "house number",  # hosts of tools, and any number: too often something else
    }
)  # fmt: skip
"""Derivations that do not commute; docs/decisions/0091 gives the reasons."""
IN_SHORT_NAMES: Final = frozenset({"name cut at eight letters"})
"""Of these, what does if the first name is not cut itself."""


FURTHER: Final[dict[str, Derive]] = {
    "sum of the phone's digits": lambda of: f"{sum(map(int, digits_of(of['phone'])))} in all",
    "sum of the card's digits": lambda of: f"{sum(map(int, digits_of(of['card'])))} in all",
    "length of the mail": lambda of: f"mail of {len(of['email'])} signs",
    "month of birth": lambda of: f"born in month {of['date_of_birth'][5:7]}",
    "year of birth": lambda of: f"born in {of['date_of_birth'][:4]}",
    "is of age": lambda of: f"adult: {int(of['date_of_birth'][:4]) < 2006}",
    "network of the card": lambda of: f"visa: {of['card'].startswith('4')}",
    "country of the account": lambda of: f"country {of['iban'][:2]}",
    "has the mail the name": lambda of: f"two names: {len(name_of(of).split()) == 2}",
    "same mail in capitals": lambda of: f"same: {of['email'] == of['email'].upper().lower()}",
    "mail and name in one line": lambda of: f"{name_of(of)} <{of['email']}>",
    "three in order": lambda of: ", ".join(sorted([of["email"], of["phone"], of["iban"]])),
    "row of CSV": lambda of: ",".join([of["last_name"], of["first_name"], of["email"]]),
    "record as JSON": lambda of: json.dumps({"who": {"mail": of["email"], "call": of["phone"]}}),
    "card number masked": lambda of: f"**** **** **** {digits_of(of['card'])[-4:]}",
}
"""Those that compare, format and add up."""
