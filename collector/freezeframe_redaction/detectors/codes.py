"""Short codes that open something: card security codes, PINs, one-time passwords. Three to eight digits next to their name."""

from __future__ import annotations

import re

from freezeframe_redaction.checksums import luhn
from freezeframe_redaction.detectors.secrets import CLASS
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import around, reaching, row, value
from freezeframe_redaction.shapes import digits_of

_WORDS = (
    r"(?:cvv2?|cvc2?|csc|cvn|cvd|card verification(?: (?:code|value|number))?|(?:karten)?prüf(?:ziffer|nummer)|cryptogramme(?: visuel)?|(?:my|your|his|her"
    r"|their|card|atm|sim|bank|door|der|die|meine?|deine?|ihre?|seine?|mi|tu|su|mon|ton|votre|mio|tuo|meu|seu|mijn) pin(?: code)?|pin[ _-]?code"
    r"|otp|mtan|(?:sms-)?tan|puk|geheimzahl|pincode|passcode|engangskode|engångskod|(?:kod|código|code|kode|codice|mã|koodi) (?:pin|otp|cvv)|clave dinámica"
    r"|(?:security|verification|one[ \-]time|2fa|mfa|login|authentication|sign[ \-]?in|access|door|gate|alarm|entry|unlock|lockbox) ?_?(?:pass)?code"
    r"|one[ \-]time (?:password|pin)|código de (?:seguridad|verificación|segurança|verificação|acceso)"
    r"|code de (?:sécurité|vérification|confirmation|validation)|codice di (?:sicurezza|verifica)|sicherheitscode|(?:zugangs|freischalt|aktivierungs|einmal"
    r"|toegangs)code|code d'accès|codice di accesso|kod dostępu|bestätigungscode|verifizierungscode|beveiligingscode|verificatiecode|kod weryfikacyjny"
    r"|kod bezpieczeństwa|kod sms|doğrulama kodu(?:nuz)?"
    r"|kode verifikasi|mã x\xe9c (?:nhận|thực)|ověřovací kód|cod de verificare|bekræftelseskode|verifieringskod|vahvistuskoodi|ellenőrző kód)"
)
_VERB = r"(?:is|was|ist|lautet|est|es|[eèé]|jest|är|er|on|is:|to|war|(?:has been |was )?(?:set|changed|reset) to|của bạn là|là)"
_VALUE = re.compile(
    rf"(?:\s?(?:number|code|{_VERB})\b){{0,2}}[\s\"'()*]{{0,3}}[:=#>]?[\s\"'(*]{{0,3}}([0-9]{{3,8}}|[0-9]{{3}}[ -][0-9]{{3}})(?![\w]|[.,-][0-9]|[ ]?%)",
    re.IGNORECASE,
)
_VALUE_FOR = re.compile(
    rf"(?: (?:number|code|no\.?))?(?: (?:of|for|on|to|do|da|de|del|della|di|du|von|vom|für|zur|zum|van|voor|till|för|na|til|der|dla|meiner|meines|deiner"
    rf"|ihrer|seiner|my|your|the)\b(?:(?!\b{_VERB}\b)[^\n:=.;]){{1,28}}?)?(?: \([^()\n]{{1,12}}\))?\s?(?:[:=]|[-–] |{_VERB}\b)[\s\"'(*]{{0,3}}([0-9]{{3,8}}"
    rf"|[0-9]{{3}}[ -][0-9]{{3}})(?![\w]|[.,-][0-9]|[ ]?%)",
    re.IGNORECASE,
)
"""``o pin do cartão é 4482``: the word alone says little, so a verb or a sign must follow, perhaps after its purpose."""
_PIN_BESIDE = re.compile(r" ([0-9]{4,6})(?![\w]|[.,-][0-9]|[ ]?%| (?:of|is|on)\b)")
"""``PIN 4821``: in capitals the word means the code, and no pin of a chip has a number of four digits."""
_ASSIGNED = re.compile(r"[\"']? ?[:=] ?[\"']?([0-9]{3})(?![\w]|[.,-][0-9]|[ ]?%)")
"""``pin: 482``: three digits only right behind a sign."""
_CARD_BESIDE = re.compile(r"amex|visa|card|[0-9]{4} [0-9]{4,6} [0-9]{4}|[0-9]{13}|\bexp", re.IGNORECASE)
_SAID = re.compile(r"\s?:?\s?[\"']?([0-9]{4,8}(?! [a-z])|[0-9]{3}[ -][0-9]{3})(?![\w]|[.,-][0-9]| ?%)")
_FOREIGN = re.compile(
    r"(?:认证码|認証番号|確認コード|ワンタイムパスワード|验证码|驗證碼|校验码|安全码|認証コード|暗証番号|인증번호|비밀번호|код подтверждения|(?:ваш|твой) код|код из смс|пин-?код|пин|код безопасности"
    r"|קוד אימות|רמז אימות|κωδικός pin|รหัส otp|短信码|動態密碼|رمز التحقق|ओटीपी)(?:是|は|는|은|为|為"
    r"| ?[^\x00-\x7f]{1,16}(?: [^\x00-\x7f]{1,16}){0,3})?[\s:：\[【(「]{0,3}([0-9]{3,8})(?![0-9])",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?:(?<![\w.,-])|(?<=\bG-))([0-9]{4,8}|[0-9]{3}[ -][0-9]{3}) (?:(?:is|ist|es|est|è|é) [^\W\d_ ]+(?: [^\W\d_ ]+)?|as|for|to)\Z"
)
_THE_CODE = re.compile(
    r" (?:otp|passcode|(?:verification|security|one-time|login|access|confirmation) (?:code|password|pin))\b", re.IGNORECASE
)
"""What only someone's code is called: ``4041 is the error code`` is not one."""
_CODE_BEHIND = re.compile(
    r"(?: [^\W\d_]+)? ?(?:verify|confirm|log ?in|sign ?in|authenticate)\b|(?: [^\W\d_]+){0,3} ?-?(?:code|c[óo]digo|codice|otp|pin|passcode|password|kod)\b"
    r"|(?: ?[^\W\d_-]*)code\b",
    re.IGNORECASE,
)


def _candidate(match: re.Match[str] | None) -> tuple[Candidate, ...]:
    return value(match, CLASS, "code")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    return _candidate(_VALUE.match(text, at, min(high, at + 40)) or _VALUE_FOR.match(text, at, min(high, at + 60)))


def _find_pin(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    assigned = _ASSIGNED.match(text, at, min(high, at + 16))
    if assigned is not None:
        return _candidate(assigned)
    match = _VALUE_FOR.match(text, at, min(high, at + 60))
    if match is None and text[max(low, at - 3) : at] == "PIN":
        match = _PIN_BESIDE.match(text, at, min(high, at + 16))
    return _candidate(match) if match and len(match.group(1)) > 3 else ()


_LAST_FOUR = re.compile(
    r"(?: digits)?(?: (?:of|on|for))?(?: (?:my|his|her|your|the|their|customer'?s?))?(?: (?:of|on|for))?[ _]?(?:ssn|social(?: security)?(?: (?:number|no))?"
    r"|tax id|sin)[\s\"']{0,2}(?:is|are|ends in)?[\s\"':=]{1,4}([0-9]{4})(?![\w-])",
    re.IGNORECASE,
)
_LAST_FOUR_BEHIND = re.compile(
    r"(?:ssn|social)[\s_](?:last[\s_]?(?:4|four)|l4)[\s\"':=]{1,4}(?:is )?[\"']?([0-9]{4})(?![\w-])", re.IGNORECASE
)


def _find_last_four(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``last 4 of my SSN 8713``, ``ssn_last4=8713``: what call centres ask for."""
    match = _LAST_FOUR.match(text, at, min(high, at + 80))
    return _candidate(match or _LAST_FOUR_BEHIND.search(text, max(low, at - 16), min(high, at + 12)))


_DUMP = re.compile(
    r"([0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4,6}){2,3})[|,;:][ ]?(?:0?[1-9]|1[0-2])[/|-]?(?:20)?[23][0-9][|,;:][ ]?([0-9]{3,4})(?![\w])"
)


def _find_in_dump(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``4000056655665556|12/27|911``: card, expiry, code."""
    match = reaching(_DUMP, text, low, high, at, 40, 4)
    return value(match, CLASS, "code", 2) if match and luhn(digits_of(match[1])) else ()


def _find_beside_card(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``exp 11/28 cid 4412``: a short word for the code, which means that only next to a card."""
    return _candidate(_VALUE.match(text, at, min(high, at + 16))) if _CARD_BESIDE.search(text, max(low, at - 64), at) else ()


def _find_said(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the verb of ``your code is 482913``."""
    if _YOURS.search(text, max(low, at - 48), at) is None and " you " not in text[max(low, at - 24) : at]:
        return ()
    return _candidate(_SAID.match(text, at, min(high, at + 16)))


_YOURS = re.compile(
    r"\b(?:your|ihr|dein|tu|su|votre|ton|il tuo|o seu|seu|uw|je|din|twój) (?:[a-z]+ )?(?:code|código|codice|kod)(?: \w+|:)\Z",
    re.IGNORECASE,
)


def _find_before(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on ``your`` in ``583920 is your verification code``."""
    strict = text[max(low, at - 4) : at].lower() == " the"
    said = (_THE_CODE if strict else _CODE_BEHIND).match(text, at, min(high, at + 40))
    return _candidate(_BEFORE.search(text, max(low, at - 24), at)) if said else ()


_find_foreign = around(_FOREIGN, CLASS, 44, 10, "code")


DETECTORS = (
    row("secret: code", CLASS, _find, rf"(?i)[^A-Za-z0-9]{_WORDS}\b",
        shows=("card 4111 1111 1111 1111, cvv ⟦123⟧", "cvv and pin are required", "your security code is ⟦482913⟧",
               "the security code was changed in 3 steps")),
    row("secret: pin", CLASS, _find_pin, r"(?i)\bpin\b",
        shows=("o pin do cartão é ⟦4482⟧", "pin 1234 of the header, pin: 13", "pin: ⟦482⟧", "pin 482, gpio_pin: 12", "wo ist A-7? PIN ⟦4821⟧",
               "GPIO PIN 13, PIN 1024 of the BGA, PIN 3.3 V")),
    row("secret: code beside a card", CLASS, _find_beside_card,
        r"(?i)\b(?:cid|cvs|cav|sec(?:urity)? (?:no|number|#)|sec code|code au dos|3 digits)\b",
        shows=("Amex 3782 822463 10005 exp 11/28 cid ⟦4412⟧", "cid 4412")),
    row("secret: last four digits of an SSN", CLASS, _find_last_four, r"(?i)\blast (?:4|four)\b",
        r"(?i)(?:ssn|social)[ _](?:last[ _]?(?:4|four)|l4)\b",
        shows=("last 4 of my SSN are ⟦8713⟧", "the last 4 of 8713 commits, card ending 4242")),
    row("secret: code of a dumped card", CLASS, _find_in_dump,
        r"(?#digits)[0-9]{4}[|,;:] ?[01]?[0-9][/|\-]?(?:20)?[23][0-9][|,;:] ?[0-9]{3}",
        shows=("4000056655665556|12/27|⟦911⟧", "1234:12/27:911")),
    # The check asks whose it is: the engine would follow every "your" and "je" for a nanosecond per byte.
    row("secret: your code", CLASS, _find_said,
        r"(?i)\b(?:code|código|codice|kod)(?: is| lautet| ist| es| est| è| é| to|:)",
        r"(?i)\bcode (?:that )?you (?:just )?(?:texted|sent|emailed|mailed|gave|messaged) me (?:is|was)\b",
        shows=("Ihr Code lautet ⟦482913⟧", "your code is 2000 lines long", "the code you texted me is ⟦829 114⟧",
               "the code you sent me is 200 lines")),
    row("secret: code, word behind", CLASS, _find_before,
        r"(?i)[0-9]{3} (?:is|ist|es|est|è|é) (?:your|the|dein|ihr|tu|su|votre|ton|il tuo|o seu)\b",
        r"(?i)\b(?:use|enter|type) [0-9]{4,8} (?:as|for|to)\b",
        shows=("⟦583920⟧ is your verification code", "2019 was your best year")),
    row("secret: code, other scripts", CLASS, _find_foreign, r"(?#rare)[\x80-\xff]{2}[ :\xb7\[]*[0-9]{3}",
        shows=("您的验证码是⟦482913⟧", "订单482913")),
)  # fmt: skip
