"""Credentials of command lines, calls and password files: the position of a word shows that it is a password, not its name."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.assigned import CLASS, judge, judge_password
from freezeframe_redaction.detectors.secrets import is_marked_secret
from freezeframe_redaction.model import Candidate
from freezeframe_redaction.rows import around, reaching, row, value

_LOGIN = re.compile(r"(?:-u|--user|--proxy-user)[ =]{1,2}[\"']?([A-Za-z0-9._@-]{1,64}):([^\s\"'@/]{4,128})")
_FLAG = re.compile(
    r"\b(?:sshpass[ ]+-p[ ]?|redis-cli\b[^\n|;]{0,80}? -a |(?:mysql|mariadb)\w*\b[^\n|;]{0,80}? -p|(?:docker|podman"
    r"|helm registry) login\b[^\n|;]{0,80}? (?:-p|--password)[ =]|sqlcmd\b[^\n|;]{0,80}? -P |mongo(?:sh|dump|restore|export|import)?\b[^\n|;]{0,80}? -p "
    r"|ldap(?:search|modify|add|passwd|whoami)\b[^\n|;]{0,80}? -w |smbclient\b[^\n|;]{0,80}? -U [\w.\\-]{1,40}%)[\"']?([^\s\"']{4,128})"
)


def _is_no_template(value: str) -> bool:
    return not value.startswith(("$", "{", "<"))


_flag = around(
    _FLAG,
    CLASS,
    110,
    130,
    "password",
    where=lambda value: not value.startswith(("$", "{", "<", "*")),
    is_marked=is_marked_secret,
)
"""``mysql -u root -pS3cret``, ``sshpass -p S3cret``."""


_login = around(_LOGIN, CLASS, 90, 200, "password", group=2, where=_is_no_template, is_marked=is_marked_secret)


_LOGIN_LINE = re.compile(r"\b(?:login|user|username)\s{1,9}\S{1,80}\s{1,9}password\s{1,9}(\S{4,128})")


def _netrc(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``machine h login u password p``: the trigger ended in the password. Source: GNU inetutils, ".netrc"."""
    match = reaching(_LOGIN_LINE, text, low, high, at, 120, 130)
    if match is None:
        match = _BESIDE.search(text, max(low, at - 20), min(high, at + 130))
        if match is None or not _is_made_up(match.group(1)):
            return ()
    return judge_password(match)


_BESIDE = re.compile(r"\spassword\s{1,2}[\"'`]?([^\s\"'`,;:()<>{}\[\]=/\\]{8,128})")


def _is_made_up(value: str) -> bool:
    """Whether the text right after ``password`` is not a word: digits among letters of both cases, or a sign and digits."""
    digits = sum(map(str.isdigit, value))
    cased = any(map(str.islower, value)) and any(map(str.isupper, value))
    return digits > 1 and any(map(str.isalpha, value)) and (cased or any(char in "!@#$%^&*+?~" for char in value[:-1]))


_PGPASS = re.compile(r"(?<![\w.-])[\w.*-]{1,80}:(?:[0-9]{2,5}|\*):[\w.*-]{1,63}:[\w.*@-]{1,63}:([^\s:/]{4,128})(?=\s|$)")


def _pgpass(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``host:port:database:user:password``. Source: PostgreSQL, "The Password File"."""
    return judge_password(reaching(_PGPASS, text, low, high, at, 160, 270, begun=True))


_CALLED = re.compile(
    r"(?:\bauth ?= ?|BasicAuth|\blogin|\bconnect)\([\"'][^\"'\n]{1,80}[\"'], ?[\"']([^\"'\s]{4,128})[\"']"
    r"|\bnet use\b[^\n]{0,160}? /user:\S{1,80} ([^\s*/]\S{3,127})"
    r"|\becho (?:-n )?[\"']?([^\s\"']{4,128})[\"']? ?\| ?sudo -S\b"
    r"|\becho [\"']?[\w.-]{1,32}:([^\s\"']{4,128})[\"']? ?\| ?(?:sudo )?chpasswd\b"
    r"|(?:--(?:password|token)-stdin|--stdin|\b(?:mysql|sudo|kinit|passwd|login|su|cryptsetup|gpg)\b)[^\n<|;]{0,80}<<< ?[\"']?([^\s\"']{4,128})"
    r"|\bhtpasswd -[a-zA-Z]{0,6}b[a-zA-Z]{0,6} \S{1,80} \S{1,64} [\"']?([^\s\"']{4,128})"
    r"|/u:\S{1,64} /p:([^\s]{4,128})"
    r"|ConvertTo-SecureString (?:-String )?[\"']([^\"'\n]{4,128})[\"']"
    r"|\baws_(?:secret_access_key|session_token)\s([A-Za-z0-9/+]{40,})"
    r"|\bWIFI:(?:[A-Z]:[^;\n]{0,64};){0,3}?P:([^;\n]{4,128});"
)


def _called(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``auth=("bot", "...")``, ``net use ... /user:bo ...``, ``echo ... | sudo -S``, and the code that a guest scans for the wifi."""
    for match in _CALLED.finditer(text, max(low, at - 260), min(high, at + 140)):
        if match.end() >= at and match.lastindex:
            password = match[match.lastindex]
            port = password.isdigit() and len(password) < _LONGEST_PORT
            if not is_marked_secret(password) and (port or password.startswith(("$", "{", "<", "%"))):
                return ()
            return value(match, CLASS, "password", match.lastindex, is_marked_secret)
    return ()


_LONGEST_PORT = 6
"""Digits of a password that is not a port: ``connect("localhost", "5432")``."""
_NAMED_FLAG = re.compile(
    r"(?<![\w-])--?([a-z-]{0,12}(?:passphrase|storepass|keypass|password|passwd|token|api-?key|secret|auth-?key))[ ]{1,3}[\"']?([^\s\"'<>|;()]{6,256})",
    re.IGNORECASE,
)


def _named_flag(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``gpg --passphrase Onyx96981``: a flag whose name says it; with a sign it is an assignment."""
    match = reaching(_NAMED_FLAG, text, low, high, at, 44, 260)
    if match is None:
        return ()
    name = match[1].lower()
    return judge("password" if "pass" in name else name.replace("-", "_"), match[2], match.start(2), scheme=None)


_CODE_LIST = re.compile(r"[^\n\dA-Za-z]{0,3}(?:are |for [\w .-]{1,30})?[:\s]{1,6}(?:[-*•]|[0-9]{1,2}[.)])?\s{0,3}")
_ONE_CODE = re.compile(
    r"((?=[A-Za-z-]{0,16}[0-9])[A-Za-z0-9]{4,6}(?:[ -][A-Za-z0-9]{4,6}){1,3}|[0-9]{6,10}|(?=[a-z]{0,9}[0-9])[a-z0-9]{8,12})(?![\w-])[\s,;]{0,4}(?:(?:[-*•]"
    r"|[0-9]{1,2}[.)])\s{0,3})?"
)
_MOST_CODES = 20


def _backup(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``Backup codes: 98281-33263, 11872-20931``."""
    opening = _CODE_LIST.match(text, at, min(high, at + 60))
    out: list[Candidate] = []
    position = opening.end() if opening else high
    while len(out) < _MOST_CODES and (match := _ONE_CODE.match(text, position, min(high, position + 60))):
        out.append(Candidate(*match.span(1), "*" if is_marked_secret(match.group(1)) else CLASS, "password"))
        position = match.end()
    return tuple(out)


DETECTORS = (
    row("secret: in a call or a command", CLASS, _called,
        r"(?:\bauth ?= ?|BasicAuth|\blogin|\bconnect)\([\"'][^\"'\n]+[\"'], ?[\"'][^\"']",
        r"\bnet use [^\n]*/user:[^ \n]+ [^ \n]", r"\| ?(?:sudo -S|chpasswd|sudo chpasswd)\b",
        r"<<< ?[\"']?[^\s\"'$]{4}",
        r"\bhtpasswd -[a-zA-Z]*b[a-zA-Z]* [^\s]+ [^\s]+ [^\s]", r"/u:[^\s]+ /p:[^\s]",
        r"ConvertTo-SecureString (?:-String )?[\"'][^\"']", r"\baws_(?:secret_access_key|session_token) [A-Za-z0-9/+]{8}",
        r"\bWIFI:[STHP]:[^\n]*P:[^;\n]",
        shows=("requests.get(u, auth=('bot', '⟦pQ7-Iup01MyIs⟧'))", "auth=('bot', '')",
               "sudo -S apt update <<<⟦hunter2secret⟧", "tr a b <<< banana",
               "WIFI:T:WPA;S:HomeNet;P:⟦Tr33house126⟧;;")),
    row("secret: flag that names it", CLASS, _named_flag,
        r"(?i)-(?:passphrase|storepass|keypass|password|passwd|token|api-?key|secret|auth-?key) {1,3}[^\s\-]",
        shows=("gpg --passphrase ⟦Onyx96981⟧ -c f", "use --password to set the password")),
    row("secret: backup codes", CLASS, _backup, r"(?i)\b(?:backup|recovery|scratch|emergency) codes?\b",
        shows=("Backup codes: ⟦98281-33263⟧, 11872-20931", "backup codes are kept offline")),
    row("secret: command line", CLASS, _login, r"(?:-u|--user|--proxy-user)[ =]{1,2}[\"']?[A-Za-z0-9._@\-]+:[^\s\"'$/]",
        shows=("curl -u admin:⟦hunter2secret⟧ https://api.x.io", "curl -u admin: https://x.io")),
    row("secret: command line flag", CLASS, _flag,
        r"\b(?:sshpass +-p|redis-cli(?: [^\s|;]+)* -a|(?:mysql|mariadb)[a-z]*(?: [^\s|;]+)* -p|(?:docker|podman|helm registry) login(?: [^\s|;]+)* (?:-p"
        r"|--password)[ =]|sqlcmd(?: [^\s|;]+)* -P|mongo[a-z]*(?: [^\s|;]+)* -p|ldap[a-z]+(?: [^\s|;]+)* -w"
        r"|smbclient(?: [^\s|;]+)* -U [^\s%]+%)[ \"']{0,2}[^\s]",
        shows=("mysql -u root -p⟦S3cr3tPa55⟧ shop", "mysql -u root -p$PASS shop", "sshpass -p '⟦hunter2!x⟧' ssh host")),
    row("secret: .netrc", CLASS, _netrc, r"\spassword\s{1,9}[^\s:=]{4}",
        shows=("machine api.acme.io login ci password ⟦Tr0ub4dor-x⟧", "the login page, and the password prompt")),
    row("secret: .pgpass", CLASS, _pgpass, r":(?:5432|5433|6432|6543|\*):[^:\s]+:[^:\s]+:[^:\s]",
        shows=("db.acme.io:5432:prod:app:⟦zX9dxe3Cu0no⟧", "a:5432:b:c:password")),
)  # fmt: skip
