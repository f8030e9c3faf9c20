"""Bank accounts other than IBANs: US routing and account numbers, UK sort codes, Indian IFSC, Australian BSB, CLABE."""

from __future__ import annotations

import re

from freezeframe_redaction.checksums import weighted
from freezeframe_redaction.detectors import context, runs
from freezeframe_redaction.model import Candidate, Example
from freezeframe_redaction.rows import after, around, has_digit, row

CLASS = "BANK_ACCOUNT"

_ROUTING = re.compile(r"routing|\baba\b|\brtn\b|transit")
_ACCOUNT = re.compile(
    r"\b(?:bank )?(?:account|acct|a/c|konto(?:nummer)?|compte|cuenta|conta|rekening|konta|conto|rachunk|hesap|c/c|счет|счёт|账号|口座|계좌)(?: ?(?:number|no|num"
    r"|nr|n°|#|番号|번호))?\b.{0,12}$")  # fmt: skip
_NOT_BANK = re.compile(r"user|twitter|github|aws|cloud|service|tenant|project")
_NAMED = re.compile(
    rf"(?:[A-Za-z]{{0,12}}>{context.TAGS})?"
    + (
        r"[\s:=#\"'.]{0,4}(?:is |number |no\.? |:)?[\s\"']{0,2}([0-9]{2}[- ][0-9]{2}[- ][0-9]{2}(?![ -][0-9])|[0-9]{3}-[0-9]{3}(?![ -][0-9])"
        r"|(?:[0-9]{1,6}-)?[0-9]{2,10}/[0-9]{4}|[0-9]{6,28}|[0-9]{2,6}(?:[ .-][0-9]{2,10}){1,7}|[0-9]{3,12}-[0-9Xx])(?![\w-])"
    ),
    re.IGNORECASE,
)


def rule(run: runs.Run) -> Candidate | None:
    """Take a run that is an account or routing number."""
    if run.international or not run.hints & context.HINT_BANK:
        return None
    digits = run.digits
    near = run.before[-36:]
    if len(digits) == 9 and _ROUTING.search(near) and weighted(digits, (3, 7, 1) * 3) % 10 == 0:
        return Candidate(run.start, run.end, CLASS, "routing")
    if (
        len(digits) == 18
        and re.search(r"clabe", near)
        and -sum(int(c) * w % 10 for c, w in zip(digits[:17], (3, 7, 1) * 6, strict=False)) % 10 == int(digits[17])
    ):
        return Candidate(run.start, run.end, CLASS, "clabe")
    if (
        7 <= len(digits) <= 20
        and _ACCOUNT.search(near)
        and not _NOT_BANK.search(near)
        and (run.bare or " " in run.raw or "-" in run.raw)
    ):
        return Candidate(run.start, run.end, CLASS, "account")
    return None


_named = after(_NAMED, CLASS, 48, "account")


_CBU = re.compile(r"(?<![0-9])[0-9]{22}(?![0-9])")


_cbu = around(_CBU, CLASS, 22, 1, "cbu", group=0)


def _ifsc(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    if "ifsc" not in context.before(text, low, at - 11, 24):
        return ()
    return (Candidate(at - 11, at, CLASS, "ifsc"),)


_UPI_BANKS = (
    "okaxis|okicici|oksbi|okhdfcbank|ybl|ibl|axl|paytm|pt(?:yes|axis|hdfc|sbi)|apl|yapl|rapl|upi|ikwik|freecharge|jupiteraxis|fam|slice|naviaxis|superyes"
    "|waaxis|wahdfcbank|waicici|wasbi"
    "|sbi|icici|hdfcbank|axisbank|kotak|kmbl|yesbank|indus|federal|barodampay|pnb|unionbank|cnrb|idfcbank|idbi|rbl|aubank|postbank|airtel|jio"
)
"""Source: NPCI, list of UPI apps and their handles."""
_UPI = re.compile(rf"(?<![\w.@-])[A-Za-z0-9][A-Za-z0-9._-]{{1,63}}@(?:{_UPI_BANKS})(?![\w@-]|\.\w)", re.IGNORECASE)


_upi = around(_UPI, CLASS, 72, 16, "upi", group=0)


NUMBER = runs.NumberKind(
    name="bank: routing number",
    class_=CLASS,
    examples=(Example(text="ABA routing 021000021", value="021000021", near_miss="routing 021000022"),),
)
_MESSAGE_FIELD = re.compile(r":5[0-9][A-Z]?:/{1,2}(?:[A-Z]/)?([A-Z0-9]{6,34})(?![\w])")


_of_message = around(_MESSAGE_FIELD, CLASS, 10, 40, "account", where=has_digit)
"""``:59:/4417882031``: the payee of a SWIFT message. Source: SWIFT Standards MT103, fields 50a to 59a."""


DETECTORS = (
    row("bank: account in a SWIFT message", CLASS, _of_message, r":(?:50[A-Z]|5[79][A-Z]?):/[/A-Z0-9]",
        shows=(":59:/⟦4417882031⟧\nMAX MUSTER", ":59:/ACMEBANK")),
    row("bank: account number", CLASS, _named,
        r"(?i)(?:íslo účtu|účet č\.|\b(?:bank account|(?:cdtr|dbtr)acct|account(?: (?:number|no)| ?#)|\bccc\b|\bdda\b|account_number|acct|kontonummer"
        r"|konto-?nr|numer konta|rachunek(?: nr)?|n[úu]mero de cuenta|n[º°] de compte|numéro de compte|número da conta|conto corrente|con?ta corrente"
        r"|cuenta corriente|rekeningnummer|bankgiro|plusgiro|sort[ _]?code|\bbsb|\bacc\.? (?:no|number)|\ba/c(?: no)?))",
        shows=("account number: ⟦12345678⟧", "account number is required", "sort code ⟦20-00-00⟧")),
    row("bank: account beside a bank's code", CLASS, _named,
        r"(?i)\b(?:bsb|sort code|sort [0-9\-]{6,8}|routing|transit|iban|swift|bic|blz)\b[^\n\x1f]*\b(?:account|acct|acc|a/c|konto|kto)\b",
        shows=("BSB 062-000, Account ⟦12345678⟧", "SWIFT account manager")),
    row("bank: cbu", CLASS, _cbu, r"(?i)\bc[bv]u\b[^0-9\n\x1f]{0,12}[0-9]{22}\b",
        shows=("CBU ⟦2850590940090418135201⟧", "CBU 2850")),
    row("bank: upi handle", CLASS, _upi, rf"(?i)[a-z0-9]@(?:{_UPI_BANKS})\b",
        shows=("pay ⟦rohan.mehta88@okaxis⟧ today", "name@okay, @sbi")),
    row("bank: ifsc", CLASS, _ifsc, r"(?#digits)\b[A-Z]{4}0[A-Z0-9]{6}\b", shows=("IFSC ⟦HDFC0001234⟧", "code HDFC0001234")),
)  # fmt: skip
