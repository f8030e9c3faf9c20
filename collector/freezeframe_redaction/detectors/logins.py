"""Credentials of command lines, calls and password files: the place of a word tells that it is a password, not its name."""

from __future__ import annotations

import re

from freezeframe_redaction.detectors.assigned import CLASS, judge
from freezeframe_redaction.detectors.secrets import is_marked_secret
from freezeframe_redaction.model import Candidate, Detector, Example

_LOGIN = re.compile(r"(?:-u|--user|--proxy-user)[ =]{1,2}[\"']?([A-Za-z0-9._@-]{1,64}):([^\s\"'@/]{4,128})")
_FLAG = re.compile(
    r"\b(?:sshpass[ ]+-p[ ]?|redis-cli\b[^\n|;]{0,80}? -a |(?:mysql|mariadb)\w*\b[^\n|;]{0,80}? -p|(?:docker|podman|helm registry) login\b[^\n|;]{0,80}? (?:-p|--password)[ =]|sqlcmd\b[^\n|;]{0,80}? -P |mongo(?:sh|dump|restore|export|import)?\b[^\n|;]{0,80}? -p |ldap(?:search|modify|add|passwd|whoami)\b[^\n|;]{0,80}? -w |smbclient\b[^\n|;]{0,80}? -U [\w.\\-]{1,40}%)[\"']?([^\s\"']{4,128})"
)


def _flag(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``mysql -u root -pS3cret``, ``sshpass -p S3cret``."""
    for match in _FLAG.finditer(text, max(low, at - 110), min(high, at + 130)):
        if match.end() >= at:
            value = match.group(1)
            if value.startswith(("$", "{", "<", "*")):
                return ()
            return (Candidate(match.start(1), match.end(1), "*" if is_marked_secret(value) else CLASS, "password"),)
    return ()


def _login(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    for match in _LOGIN.finditer(text, max(low, at - 90), min(high, at + 200)):
        if match.end() >= at:
            password = match.group(2)
            if is_marked_secret(password):
                return (Candidate(match.start(2), match.end(2), "*"),)
            return () if password.startswith(("$", "{", "<")) else (Candidate(match.start(2), match.end(2), CLASS, "password"),)
    return ()


_LOGIN_LINE = re.compile(r"\blogin\s{1,9}\S{1,80}\s{1,9}password\s{1,9}(\S{4,128})")


def _netrc(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``machine h login u password p``: the trigger ended in the password. Source: GNU inetutils, ".netrc"."""
    for match in _LOGIN_LINE.finditer(text, max(low, at - 120), min(high, at + 130)):
        if match.end() >= at:
            marked = is_marked_secret(match.group(1))
            return (Candidate(match.start(1), match.end(1), "*" if marked else CLASS, "password"),)
    return ()


_PGPASS = re.compile(r"(?<![\w.-])[\w.*-]{1,80}:(?:[0-9]{2,5}|\*):[\w.*-]{1,63}:[\w.*@-]{1,63}:([^\s:/]{4,128})(?=\s|$)")


def _pgpass(text: str, low: int, high: int, at: int) -> tuple[Candidate, ...]:
    """``host:port:database:user:password``. Source: PostgreSQL, "The Password File"."""
    for match in _PGPASS.finditer(text, max(low, at - 160), min(high, at + 270)):
        if match.start() < at <= match.end():
            return judge("password", match.group(1), match.start(1), scheme=None)
    return ()


DETECTORS = (
    Detector(
        name="secret: command line",
        class_=CLASS,
        triggers=(r"(?:-u|--user|--proxy-user)[ =]{1,2}[\"']?[A-Za-z0-9._@\-]+:[^\s\"'$/]",),
        find=_login,
        examples=(
            Example(
                text="curl -u admin:hunter2secret https://api.x.io",
                value="hunter2secret",
                near_miss="curl -u admin: https://x.io",
            ),
        ),
    ),
    Detector(
        name="secret: command line flag",
        class_=CLASS,
        triggers=(
            r"\b(?:sshpass +-p|redis-cli(?: [^\s|;]+)* -a|(?:mysql|mariadb)[a-z]*(?: [^\s|;]+)* -p|(?:docker|podman|helm registry) login(?: [^\s|;]+)* (?:-p|--password)[ =]|sqlcmd(?: [^\s|;]+)* -P|mongo[a-z]*(?: [^\s|;]+)* -p|ldap[a-z]+(?: [^\s|;]+)* -w|smbclient(?: [^\s|;]+)* -U [^\s%]+%)[ \"']{0,2}[^\s]",
        ),
        find=_flag,
        examples=(
            Example(text="mysql -u root -pS3cr3tPa55 shop", value="S3cr3tPa55", near_miss="mysql -u root -p$PASS shop"),
            Example(text="sshpass -p 'hunter2!x' ssh host", value="hunter2!x"),
        ),
    ),
    Detector(
        name="secret: .netrc",
        class_=CLASS,
        triggers=(r"\spassword\s{1,9}[^\s:=]{4}",),
        find=_netrc,
        examples=(
            Example(
                text="machine api.acme.io login ci password Tr0ub4dor-x",
                value="Tr0ub4dor-x",
                near_miss="the login page, and the password prompt",
            ),
        ),
    ),
    Detector(
        name="secret: .pgpass",
        class_=CLASS,
        triggers=(r":(?:5432|5433|6432|6543|\*):[^:\s]+:[^:\s]+:[^:\s]",),
        find=_pgpass,
        examples=(
            Example(text="db.acme.io:5432:prod:app:zX9dxe3Cu0no", value="zX9dxe3Cu0no", near_miss="a:5432:b:c:password"),
        ),
    ),
)
