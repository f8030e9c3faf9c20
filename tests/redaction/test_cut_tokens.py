"""Keys and tokens that a line break cuts in two are replaced as on one line, and lines that only look like the rest of one stay."""

from __future__ import annotations

import base64
import hashlib
import json
import textwrap

import pytest

from freezeframe_redaction import Aliaser, Redactor, TenantKey, load_policy

POLICY = load_policy()
REDACTOR = Redactor(POLICY, TenantKey(id="test/1", secret=b"k" * 32))
NPM = "npm_uI4aXbT2qLw8ZcV6mE0rYkP3sHd9GfJ1nQo5"
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImExIn0.Zk3pQ8vLmT1xYcR5uHbN2sWd7GjA0eKf.q9XoB4iVtE6rPzJ1lMyC8hUaD3wSnF5gKk2LxR7ZpQ0"
VALUES = (
    ("export NPM_TOKEN=", NPM, 22, ""),
    ("api_key: ", "f3A9bC2dE8gH1jK4mN7pQ0sT5vW6xY", 15, ""),
    ("Authorization: Bearer ", JWT, 40, ""),
    ("use ", "sk_live_a1B2c3D4e5F6g7H8i9J0k1L2", 20, " for this"),
    ("client_secret: ", "5b03e60a91485960878a160d1cf407d30366a02402f6d2c6", 20, ""),
    ("AWS_ACCESS_KEY_ID=", "AKIAPIX6EA6QOM66ZJOJ", 10, ""),
    ("DATABASE_URL=", "postgres://app:Tr4gedyLampQ92@db.corp-net.io/app", 23, ""),
)
BREAKS = ("\n", "\r\n", "\n    ", "\n> ", "\\\n", "<br>\n")


def made_of(text: str) -> str:
    """Return what the redactor makes of a text."""
    return str(REDACTOR.redact(text).value)


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize(("before", "value", "at", "behind"), VALUES)
def test_a_token_over_a_line_break_gets_the_surrogate_that_it_has_on_one_line(
    before: str, value: str, at: int, behind: str, line_break: str
) -> None:
    whole = made_of(f"{before}{value}{behind}")
    broken = made_of(f"{before}{value[:at]}{line_break}{value[at:]}{behind}")
    assert value not in whole
    assert broken.count(line_break) == 1
    assert broken.replace(line_break, "") == whole


@pytest.mark.parametrize(("before", "value", "at", "behind"), VALUES)
def test_nor_does_an_escaped_line_break_keep_a_part_of_a_token(before: str, value: str, at: int, behind: str) -> None:
    made = made_of(f"{before}{value[:at]}\\n{value[at:]}{behind}")
    assert value[at:].partition("@")[0] not in made
    assert value[max(0, at - 6) : at] not in made


@pytest.mark.parametrize("quoted", ['key = "{}"\n      "{}"', "key = '{}' +\n  '{}';", "key = ('{}'\n       '{}')"])
def test_a_token_in_two_literals_is_one(quoted: str) -> None:
    made = made_of(quoted.format(NPM[:20], NPM[20:]))
    assert NPM[:20] not in made
    assert NPM[20:] not in made
    assert len(made) == len(quoted.format(NPM[:20], NPM[20:]))


def test_a_password_that_a_shell_reads_over_two_lines_is_one_and_yaml_may_begin_one_on_the_next_line() -> None:
    assert "amp#92xQ" not in made_of("mysql --password=Tr4gedy!L\\\namp#92xQ db")
    assert "Kx93vQpl" not in made_of("password: |\n  Kx93vQpl\nuser: ann")
    inside = json.dumps({"a": json.dumps({"log": f"token {NPM[:20]}\n{NPM[20:]}"})})
    assert NPM[20:] not in made_of(inside)


@pytest.mark.parametrize("line_break", ["\n", "\n> ", "\\\n"])
@pytest.mark.parametrize(("before", "value", "at", "behind"), VALUES)
def test_the_surrogate_over_a_line_break_is_known_as_one(
    before: str, value: str, at: int, behind: str, line_break: str
) -> None:
    text = f"{before}{value[:at]}{line_break}{value[at:]}{behind}"
    made = REDACTOR.redact(text)
    assert REDACTOR.with_known_surrogates(made.surrogates).redact(made.value).value == made.value
    alias = Aliaser(POLICY, made.surrogates).alias
    assert alias(str(made.value)) == alias(text)
    assert "#1>" in alias(text)


_BODY = base64.b64encode(b"".join(hashlib.sha512(bytes([at])).digest() for at in range(6))).decode()
_SUMS = [hashlib.sha256(bytes([at])).hexdigest() for at in range(5)]


@pytest.mark.parametrize(
    "text",
    [
        "Content-Transfer-Encoding: base64\n\n" + "\n".join(textwrap.wrap(_BODY, 76)),
        "data: |\n" + textwrap.indent("\n".join(textwrap.wrap(_BODY, 64)), "  "),
        "-----BEGIN CERTIFICATE-----\n" + "\n".join(textwrap.wrap(_BODY, 64)) + "\n-----END CERTIFICATE-----",
        "token sums\n" + "\n".join(_SUMS),
        "\n".join(f"requests==2.{at} --hash=sha256:{one} \\" for at, one in enumerate(_SUMS)),
        "SECRET_KEY=\nDEBUG=true\nAPI_TOKEN=\nDATABASE=main1-of-two",
        "api_key:\n  description: of the service2\n  type: string1",
        "Authorization: Bearer $TOKEN\nAccept2: application/json",
        "git log of the token\n9fceb02d Add a password\n1a2b3c4d Drop a secret",
        "The password must have 8Chars\nUpper1 and Lower2 letters",
        "see http://build:8080\nann@corp",
    ],
)
def test_lines_that_only_look_like_the_rest_of_a_token_stay(text: str) -> None:
    assert made_of(text) == text


def test_variables_above_a_token_are_no_lines_of_it() -> None:
    text = f"REGION=eu-west-1\nNPM_TOKEN={NPM[:22]}\n{NPM[22:]}\nDEBUG1=true"
    assert NPM[22:] not in made_of(text)
    assert made_of(text).startswith("REGION=eu-west-1\n")
    assert made_of(text).endswith("\nDEBUG1=true")


def test_what_is_below_a_whole_token_keeps_its_lines() -> None:
    for below in ("DEBUG1=true", "9fceb02d Add a test", "Image1234: a", "second"):
        assert made_of(f"NPM_TOKEN={NPM}\n{below}").endswith(f"\n{below}")
    made = made_of(f"keys:\n{NPM}\n{NPM[::-1].replace('_mpn', '')}")
    assert made.count("\n") == 2
