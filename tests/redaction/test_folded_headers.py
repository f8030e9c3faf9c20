"""Names in the headers of a pasted mail: folded over lines, and spelled as encoded words; and values that CI masks."""

from __future__ import annotations

import pytest

from freezeframe_redaction import Aliaser, Redactor, TenantKey, load_policy

POLICY = load_policy()
REDACTOR = Redactor(POLICY, TenantKey(id="test/1", secret=b"k" * 32))


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("From: =?utf-8?Q?Anna_Kovalenko?= <anna@corp-mail.io>", ("Anna", "Kovalenko")),
        ("From: =?ISO-8859-1?q?J=F6rg_Kovalenko?= <j@corp-mail.io>", ("J=F6rg", "Kovalenko")),
        ("From: =?utf-8*de?Q?J=C3=B6rg_Kovalenko?= <j@corp-mail.io>", ("J=C3=B6rg", "Kovalenko")),
        ("To: Jan Smit <jan@corp-mail.io>,\n Anna\n Kovalenko <anna@corp-mail.io>", ("Smit", "Anna", "Kovalenko")),
        ("##vso[task.setvariable variable=apiKey;issecret=true]k7Wq2ZtP9x", ("k7Wq2ZtP9x",)),
        ('Run echo "::add-mask::k7Wq2ZtP9x"', ("k7Wq2ZtP9x",)),
    ],
)
def test_what_a_header_or_a_log_says_of_somebody_is_replaced(text: str, gone: tuple[str, ...]) -> None:
    made = REDACTOR.redact(text)
    assert not [one for one in gone if one in str(made.value)]
    assert str(made.value).count("?=") == text.count("?=")
    alias = Aliaser(POLICY, made.surrogates).alias
    assert alias(str(made.value)) == alias(text)


@pytest.mark.parametrize(
    "text",
    [
        "Subject: =?utf-8?Q?Caf=C3=A9_au_lait?=",
        "Subject: =?nope?Q?a=FF?= and =?utf-8?Q?=FF?= and =?utf-16?Q?=FF=FE=41=00?=",
        "a =?x?Q?b and =?utf-8?Q?",
        'echo "::add-mask::$TOKEN" and issecret=true',
    ],
)
def test_what_says_nothing_of_anybody_stays(text: str) -> None:
    assert REDACTOR.redact(text).value == text
