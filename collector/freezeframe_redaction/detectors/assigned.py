"""Credentials known by what they are assigned to: passwords, tokens, ``Authorization`` headers, command-line logins."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.lexicon import phrases
from freezeframe_redaction.detectors.secrets import is_marked_secret
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import after, reaching, row, value

CLASS = "SECRET"

_VALUE = re.compile(
    r"[\"'\])\\]{0,4}(?: {1,3}value)?\s{0,3}(?:=>|:=|->|;\s?s:[0-9]{1,5}:|[:=>])\s{0,3}\\?[\"'`]{0,3}((?:(?i:Bearer|Basic|Token|Api-?Key|Digest|OAuth|SSWS"
    r"|Splunk|GenieKey|PAT)\s{1,3}))?"
    r"([^\s\"'`<>,;{}()\[\]\x1f]{4,512})"
)
_SPOKEN = re.compile(
    r"(?:\s(?:is|was|ist|lautet|war|est|es|[eéè]|to|jest|är|er|este|on|adalah|là)|\s?(?:[=:]|->))\s{1,3}(?:set to |now "
    r"|still )?[\"'`“]?([^\s\"'`<>,;{}()\[\]\x1f]{6,128})",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"(?:\$|%|os\.|process\.|env(?:iron|[^a-z\d])|getenv|secrets?\.|config|settings|your|my[_-]|xxx|\*{3}|\.\.\.|none\b|null\b|true\b|false\b|undefined"
    r"|self\.|this\.|args|kwargs|str\b|int\b|optional|bool\b|example|changeme|placeholder|redacted|function|lambda|request|response"
    r"|input\b|token\b|key\b|value\b|string\b|password\b|secret\b|data\.|http|\./|file:|arn:|sha\d|md5|base64|utf-?8)",
    re.IGNORECASE,
)
_SYMBOLS = frozenset("!@#$%^&*-_+=?~")
_IN_OTHER_LANGUAGES = "passwort|kennwort|senha|wachtwoord|parola|lösenord|heslo|salasana|mật khẩu|kata sandi"
"""Words for a password that need no border in front, the same wherever a name may say it."""
_NAME_OF_PASSWORD = (
    r"passw(?:or)?[dt]?|passwd|pwd|passphrase|mot[ _]de[ _]passe|contrase(?:ñ|n)a|\bclave|has[łl]o|lozinka|[sş]ifre|kodeord"
    rf"|adgangskode|passord|parool|slaptažodis|geslo|\bpsk|\bp/w|sshpass|\bpw|{_IN_OTHER_LANGUAGES}"
)
_STRONG = re.compile(rf"(?:{_NAME_OF_PASSWORD}|jelsz[oó]|(?:\b|_)pass|пароль|密码|パスワード|비밀번호|pin[ _]?code)$")
_OPENS_NOTHING = re.compile(
    r"(?:(?:cache|partition|sort|foreign|idempotency|dedup(?:e|lication)?|row)[_ -]?key"
    r"|(?:(?:next|prev(?:ious)?|start|end)[_ -]?)?(?:page|continuation|sync|resume)[_ -]?token)$"
)
"""Keys that find something, and tokens that say where a list goes on."""
_KEYISH = re.compile(r"(?:token|key)$")


def _find(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    # The trigger ends on the sign between name and value; PHP writes ``"name";s:8:"value"``.
    start = text.rfind(";", low, at) if text[at - 1].isdigit() else at - 1
    while start > low and text[start - 1] in " =:\"'\\])>\t":
        start -= 1
    match = _VALUE.match(text, start, min(high, at + 560))
    if match is None:
        return ()
    name = text[max(low, start - 24) : start].lower()
    value, at_value = match.group(2), match.start(2)
    following = _NEXT_FIELD.search(value)
    if following is not None:
        value = value[: following.start()]
    if text[start:at_value].strip(" \t\r\n\"'") == ">" and not text.startswith("</", match.end(2)):
        return ()  # ``<YOUR_TOKEN>``, not ``<token>...</token>``
    if name.endswith("cookie"):
        return _cookies(text, at_value, high)
    return judge(name, value, at_value, scheme=match.group(1))


_NEXT_FIELD = re.compile(r"&[A-Za-z_][\w.\[\]-]{0,40}=")
"""What follows a password in the query of a URL."""
_COOKIE = re.compile(
    r"(?P<name>[\w.-]{1,64})=(?P<value>[^\s;,\"'\\]{1,4096})(?:;[ ]?|(?=[\s\"'\\]|$))|[\w-]{1,16}(?:;[ ]?|(?=[\s\"'\\]|$))"
)
_NO_COOKIE = frozenset(["path", "domain", "expires", "max-age", "samesite", "priority", "version"])
_MOST_COOKIES = 100


def _cookies(text: str, start: int, high: int) -> tuple[Candidate, ...]:
    """``Cookie: theme=dark; sessionid=9f2c...``: each value that looks random; names and attributes stay."""
    out: list[Candidate] = []
    for _ in range(_MOST_COOKIES):
        match = _COOKIE.match(text, start, min(high, start + 4300))
        if match is None:
            break
        start = match.end()
        if match["name"] and match["name"].lower() not in _NO_COOKIE and _is_random(match["value"]):
            marked = is_marked_secret(match["value"])
            out.append(Candidate(*match.span("value"), "*" if marked else CLASS, "generic"))
    return tuple(out)


def _is_random(value: str) -> bool:
    """Whether the value is long and mixed enough to be drawn at random."""
    return (
        len(value) >= _LEAST_RANDOM and any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and len(set(value)) >= 8
    )


_LEAST_RANDOM = 10


def judge(name: str, value: str, start: int, *, scheme: str | None) -> tuple[Candidate, ...]:
    end = start + len(value)
    value = value.rstrip(".,;:!?\\")
    end = start + len(value)
    if is_marked_secret(value):
        return (Candidate(start, end, "*"),)
    if scheme and scheme.strip().lower() != "token":
        return (
            (Candidate(start, end, CLASS, "authorization"),)
            if len(value) >= 8 and not value.startswith(("$", "{", "<"))
            else ()
        )
    if _REFERENCE.match(value) or _OPENS_NOTHING.search(name):
        return ()
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() for char in value)
    if _STRONG.search(name):
        if len(value) < 6 or len(set(value)) < 4 or value.startswith("/"):
            return ()
        mixed = has_digit or any(char in _SYMBOLS for char in value)
        return (Candidate(start, end, CLASS, "password"),) if (mixed and has_letter) or (has_digit and len(value) >= 6) else ()
    if value.startswith("/") and len(value) != 40:
        return ()
    needed = (
        16
        if _KEYISH.search(name) and not re.search(r"(?:secret|api|access|auth|private|wi-?fi)[_ -]?(?:key|token)$", name)
        else 10
    )
    if len(value) < needed or not (has_digit and has_letter) or len(set(value)) < min(8, len(value) // 2 + 1):
        return ()
    if re.fullmatch(r"[A-Za-z0-9+/]{40,}={0,2}", value):
        return (Candidate(start, end, CLASS, "generic"),)
    if (
        value.count(".") > 3
        or value.count("/") > 4
        or value.count("-") > 6
        or re.fullmatch(r"[a-z_.]+[0-9]{0,2}(?:[._-][a-z]+)*", value)
    ):
        return ()
    if re.fullmatch(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", value) and "secret" not in name and "api" not in name:
        return ()
    return (Candidate(start, end, CLASS, "generic"),)


def _spoken(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    match = _SPOKEN.match(text, at, min(high, at + 180))
    if match is None:
        return ()
    value = match.group(1).rstrip(".,;:!?")
    start = match.start(1)
    if is_marked_secret(value):
        return (Candidate(start, start + len(value), "*"),)
    has_digit = any(char.isdigit() for char in value)
    has_symbol = any(char in _SYMBOLS for char in value.strip("-_"))
    if (
        len(value) < 6
        or _REFERENCE.match(value)
        or not ((has_digit and any(map(str.isalpha, value))) or (has_symbol and has_digit))
    ):
        return ()
    return (Candidate(start, start + len(value), CLASS, "password"),)


_PHRASE = re.compile(
    r"(?: is|:|=|->)?[\s\"'`]{1,4}(?:(?:is|was)[:\s]{1,2})?[\"'`(]?((?:[0-9]{1,2}[.)] ?)?[a-z]{3,10}(?:[ \n,-]{1,2}(?!(?<=\n)[a-z]+ ?[:=])"
    r"(?:[0-9]{1,2}[.)] ?)?[a-z]{3,10}){3,24})(?![\w'])"
)
_NO_PHRASE = frozenset(phrases("assigned.no_phrase"))
_SEED_WORDS = 12
"""Words of the shortest recovery phrase. Source: BIP-39, "Generating the mnemonic"."""


def _phrase(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``passphrase: orchid lantern mosaic twelve``: separate words that do not make a sentence."""
    match = _PHRASE.match(text, at, min(high, at + 320))
    if match is None:
        return ()
    words = re.findall("[a-z]{3,}", match.group(1))
    signed = text[at : match.start(1)].rstrip("\"'`( \n")[-1:] in ("=", ":", ">")
    if not _NO_PHRASE.isdisjoint(words) or (len(words) < _SEED_WORDS and not (signed and len(words) <= 8)):
        return ()
    return value(match, CLASS, "password")


_DEFAULT = re.compile(r"variable\s{1,4}\"([\w-]{1,64})\"\s{0,4}\{[^{}]{0,300}\bdefault\s{0,20}=\s{0,4}\"([^\"\s]{6,256})\"")
_BELOW = re.compile(
    r"[\"']?([\w.-]{1,64})[\"']?,?[\s{]{1,60}[\"']?value[\"']?\s?[:=]\s{0,4}[\"']?([^\s\"'`,{}]{4,256})", re.IGNORECASE
)


def _declared(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``variable "db_password" { default = "..." }`` of Terraform: the trigger ended in the value."""
    return _judge_named(reaching(_DEFAULT, text, low, high, at, 420, 260))


def _below(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``name: DB_PASSWORD``, and below it ``value: ...``, as manifests have it: the trigger ended after ``value:``."""
    return _judge_named(reaching(_BELOW, text, low, high, at, 140, 270))


def _judge_named(match: re.Match[str] | None) -> tuple[Candidate, ...]:
    if match is None or not _SECRET_NAME.search(match[1]):
        return ()
    return judge(match[1].lower().removesuffix("_value"), match[2], match.start(2), scheme=None)


_SECRET_NAME = re.compile(
    r"passw|passphrase|secret|token|api_?key|access_?key|private_?key|credential|_pass$|_key$", re.IGNORECASE
)


def _cookie_flag(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``curl -b "session=..."``: the trigger ended after the first name."""
    return _cookies(text, max(text.rfind('"', low, at), text.rfind("'", low, at)) + 1, high)


_LICENCE_KEY = re.compile(
    r"(?: (?:is|no\.?))?[\s\"':=#]{1,4}((?=[A-Z-]{0,30}[0-9])[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){2,8})(?![\w-])"
)


_licence = after(_LICENCE_KEY, CLASS, 100, "generic", is_marked=is_marked_secret)


_CREDENTIALS = re.compile(r"(?i)\b(?:creds?|credentials|logins?)(?:[: ]+| (?:is|are) )[^\s/]{2,40} ?/ ?([^\s\"'`]{6,64})")


def _credentials(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``creds svc_deploy / kJ8#mW2$qL``."""
    return judge_password(reaching(_CREDENTIALS, text, low, high, at, 80, 70))


def judge_password(match: re.Match[str] | None) -> tuple[Candidate, ...]:
    """Judge the first group as a password."""
    return judge("password", match[1], match.start(1), scheme=None) if match else ()


_QUOTED = re.compile(r"['\"]([^'\"\s]{6,128})['\"]")


def _in_sql(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``PASSWORD 'Fern#grove71'``: the trigger ended on the quote."""
    return judge_password(_QUOTED.match(text, at - 1, min(high, at + 130)))


_VERB = re.compile(r"(?: is| was| ist| lautet| est| es| é| è| jest| ?:| ->) ?$")


def _spoken_for(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``password for staging is ...``: the trigger ended after the verb."""
    verb = _VERB.search(text, max(low, at - 8), at)
    return _spoken(text, low, high, verb.start()) if verb else ()


_FOREIGN = re.compile(
    r"(?:парол[ьяеи]|密码|密碼|口令|パスワード|비밀번호|비번|암호|كلمة (?:المرور|السر)|סיסמה|סיסמא|पासवर्ड|κωδικός|รหัสผ่าน)"
    r"(?:是|は|:|:|为|為|는|은|=|\s[-–—]\s|\s|[^\x00-\x7f])*[\"'`]?([!-~]{6,64})"
)


def _foreign(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``пароль: Zvezda2024``: the trigger ended in the value."""
    match = reaching(_FOREIGN, text, low, high, at, 40, 70)
    return judge("password", match.group(1).rstrip("\"'`"), match.start(1), scheme=None) if match else ()


_NAMES = (
    rf"(?:{_NAME_OF_PASSWORD}|jelszó|\bpass|_pass|api[_\- ]?key|apikey|access[_\- ]?key|secret|token|credentials?|accountkey"
    r"|sharedaccesskey|authorization|[_\-]key|wi-?fi[ _\-]?(?:key|pass)|private[_ ]?key|client[_ ]?id[_ ]?secret|auth|cookie|\bkey[12]"
    r"|(?:pre)?shared[_ \-]?key|sess(?:ion)?id|connect\.sid|_session)"
)

_SUFFIX = r"(?:_(?:base|value|prod|dev|staging|live|test|old|new|v?[0-9]))?"
"""What may follow such a name."""

DETECTORS = (
    row("secret: assigned", CLASS, _find,
        rf"(?i){_NAMES}{_SUFFIX}[\"'\]\\]{{0,4}}(?: {{1,3}}value)? {{0,3}}(?:[:=>]|->|; ?s:[0-9])",
        shows=('password: "⟦Tr0ub4dor&3⟧"', 'api_key = os.environ["OPENAI_API_KEY"]',
               "Authorization: Basic ⟦YWRtaW46UzNjcmV0UGFzczk5⟧", "token = get_token(user)",
               "account_key: ⟦f3A9bC2dE8gH1jK4mN7pQ0sT⟧", "prompt_cache_key: f3A9bC2dE8gH1jK4mN7pQ0sT")),
    row("secret: spoken", CLASS, lambda text, low, high, at: _spoken(text, low, high, at - 1),
        rf"(?i)\b(?:{_IN_OTHER_LANGUAGES}|password|pass|pwd?|passphrase|contraseña|clave|lösenordet|passordet|hasło|jelszó|mot de passe|api key|secret key"
        rf"|access token|pin) ",
        shows=("my password is ⟦hunter2secret⟧!", "the password is wrong")),
    row("secret: spoken, with what it is for", CLASS, _spoken_for,
        rf"(?i)\b(?:{_IN_OTHER_LANGUAGES}|password|passwd|pwd?|passphrase|passcode|mot de passe|contraseña|clave|hasło|api key|secret key|access token"
        rf"|access key)(?: [a-z0-9'_\-\x80-\xff]+)+(?: is | was | ist | lautet | est | es | é | è | jest |: | : | -> )",
        shows=("the password for staging is ⟦Winter2023⟧!", "the password for staging is weak")),
    row("secret: in SQL", CLASS, _in_sql, r"(?i)\b(?:password|identified by|psk) ['\"]",
        shows=("ALTER USER bob WITH PASSWORD '⟦Fern#grove71⟧';", "a password 'policy' is set")),
    row("secret: assigned, other scripts", CLASS, _foreign, r"(?#rare)[\x80-\xff]{2}[ :=\"'\-]{0,3}[!-~]{6}",
        shows=("пароль: ⟦Zvezda2024⟧!", "пароль: password", "密码是⟦Abc12345⟧")),
    row("secret: login and password", CLASS, _credentials,
        r"(?i)\b(?:creds?|credentials|logins?)(?:[: ]+| is | are )[^\s/]{2,40} ?/ ?[^\s]{6}",
        shows=("use creds svc_deploy / ⟦kJ8#mW2$qL⟧", "login page / dashboard")),
    row("secret: phrase of words", CLASS, _phrase,
        r"(?i)\b(?:passphrase|(?:seed|recovery|secret|backup|mnemonic|wallet) (?:phrase|words)|mnemonic)\b",
        shows=("passphrase: ⟦orchid lantern mosaic twelve⟧", "passphrase: must be long, and nobody may know the words")),
    row("secret: declared with a default", CLASS, _declared, r"\bdefault\s{0,20}=\s{0,4}\"[^\"\s]{6}",
        shows=('variable "db_password" {\n  default = "⟦Zx7bfE1UVAk5Bk⟧"\n}',
               'variable "region" {\n  default = "eu-central-1"\n}')),
    row("secret: named above", CLASS, _below,
        r"(?i)(?:password|secret|token|_pass|_key)[\"']?,?[\s{]{1,60}[\"']?value[\"']?\s?[:=]",
        shows=("- name: DB_PASSWORD\n  value: ⟦Zx7bfE1UVAk5⟧\n", "- name: DB_PASSWORD\n  valueFrom:\n")),
    row("secret: cookie of a command", CLASS, _cookie_flag, r"(?: -b|--cookie)[ =][\"'][A-Za-z0-9_.\-]+=",
        shows=('curl -b "session=⟦6AjmaE814NGBJ87T⟧" u', 'cut -b "a=1"')),
    row("secret: key of a licence", CLASS, _licence,
        r"(?i)\b(?:licen[cs]e|product|serial|activation|registration|cd)[ _-]key\b",
        shows=("license key: ⟦9JV09-TL34T-LEGL9-8ZWGR-RYDIC⟧", "the license key is read from disk")),
)  # fmt: skip
