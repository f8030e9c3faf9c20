"""Short codes that open something: card security codes, PINs, one-time passwords. Three to eight digits beside a word for them."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.secrets import CLASS
from freezeframe_redaction.model import Candidate, Detector, Example

_WORDS = (
    r"(?:cvv2?|cvc2?|csc|card verification(?: (?:code|value|number))?|(?:karten)?pr\xfcf(?:ziffer|nummer)|cryptogramme(?: visuel)?|(?:my|your|his|her|card|atm|sim|bank|door) pin(?: code)?|pin[ -]?code|otp|mtan|(?:sms-)?tan"
    r"|(?:security|verification|one[ \-]time|2fa|mfa|login|authentication|sign[ \-]?in|access|door|gate|alarm) ?_?(?:pass)?code|one[ \-]time (?:password|pin)|c\xf3digo de (?:seguridad|verificaci\xf3n|seguran\xe7a|verifica\xe7\xe3o|acceso)"
    r"|code de (?:s\xe9curit\xe9|v\xe9rification|confirmation)|codice di (?:sicurezza|verifica)|sicherheitscode|best\xe4tigungscode|verifizierungscode|beveiligingscode|kod weryfikacyjny|kod bezpiecze\xe9stwa|do\xe9rulama kodu)"
)
_VALUE = re.compile(
    r"(?:\s?(?:number|code|is|was|ist|lautet|est|es|[eèé]|to|war|jest|är)\b){0,2}[\s\"'()*]{0,3}[:=#]?[\s\"'(*]{0,3}([0-9]{3,8}|[0-9]{3}[ -][0-9]{3})(?![\w]|[.,-][0-9]|[ ]?%)",
    re.IGNORECASE,
)
_SAID = re.compile(r"\s?:?\s?[\"']?([0-9]{4,8}|[0-9]{3}[ -][0-9]{3})(?![\w]|[.,-][0-9]| ?%| [a-z])")
_FOREIGN = re.compile(
    r"(?:验证码|驗證碼|校验码|安全码|認証コード|暗証番号|인증번호|код подтверждения|пин-?код|رمز التحقق|ओटीपी)(?:是|は|는|은)?[\s:：]{0,3}([0-9]{3,8})(?![0-9])"
)
_BEFORE = re.compile(r"(?<![\w.,-])([0-9]{4,8}) (?:is|ist|es|est|è|é) [^\W\d_ ]+(?: [^\W\d_ ]+)?\Z")
_CODE_BEHIND = re.compile(
    r"(?: [^\W\d_]+){0,2} ?-?(?:code|c[óo]digo|codice|otp|pin|passcode|password|kod)\b|(?: ?[^\W\d_-]*)code\b", re.IGNORECASE
)


def _candidate(match: re.Match[str]) -> tuple[Candidate, ...]:
    return (Candidate(match.start(1), match.end(1), CLASS, "code"),)


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _VALUE.match(text, at, min(high, at + 40))
    return _candidate(match) if match else ()


def _find_said(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on the verb of ``your code is 482913``."""
    match = _SAID.match(text, at, min(high, at + 16))
    return _candidate(match) if match else ()


def _find_before(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """The trigger ended on ``your`` in ``583920 is your verification code``."""
    said = _CODE_BEHIND.match(text, at, min(high, at + 40))
    match = _BEFORE.search(text, max(low, at - 24), at) if said else None
    return _candidate(match) if match else ()


def _find_foreign(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = next((one for one in _FOREIGN.finditer(text, max(low, at - 30), min(high, at + 10)) if one.end() >= at), None)
    return _candidate(match) if match else ()


DETECTORS = (
    Detector(
        name="secret: code",
        class_=CLASS,
        triggers=(rf"(?i)\b{_WORDS}\b",),
        find=_find,
        examples=(
            Example(text="card 4111 1111 1111 1111, cvv 123", value="123", near_miss="cvv and pin are required"),
            Example(text="your security code is 482913", value="482913", near_miss="the security code was changed in 3 steps"),
        ),
    ),
    Detector(
        name="secret: your code",
        class_=CLASS,
        triggers=(
            r"(?i)\b(?:your|ihr|dein|tu|su|votre|ton|il tuo|o seu|seu|uw|je|din|tw\xf3j) (?:[a-z]+ )?(?:code|c\xf3digo|codice|kod)(?: is| lautet| ist| es| est| \xe8| \xe9| to|:)",
        ),
        find=_find_said,
        examples=(Example(text="Ihr Code lautet 482913", value="482913", near_miss="your code is 2000 lines long"),),
    ),
    Detector(
        name="secret: code, word behind",
        class_=CLASS,
        triggers=(r"(?i)[0-9]{4} (?:is|ist|es|est|\xe8|\xe9) (?:your|dein|ihr|tu|su|votre|ton|il tuo|o seu)\b",),
        find=_find_before,
        examples=(Example(text="583920 is your verification code", value="583920", near_miss="2019 was your best year"),),
    ),
    Detector(
        name="secret: code, other scripts",
        class_=CLASS,
        triggers=(r"[\x80-\xff]{3}[ :\xb7]{0,3}[0-9]{3}",),
        find=_find_foreign,
        examples=(Example(text="您的验证码是482913", value="482913", near_miss="订单482913"),),
    ),
)
