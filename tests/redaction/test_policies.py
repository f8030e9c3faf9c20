"""Policies: what they add and let through, and how a wrong one is refused."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redacted_again import again

from freezeframe_redaction import Policy, Redactor, TenantKey, load_policy
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.policy import BUILT_IN, CustomClass, parse_policy
from freezeframe_schemas.errors import ConfigError

KEY = TenantKey(id="test/1", secret=b"k" * 32)
ACME = """
name = "acme"
version = 1
except = ["IP"]
allow = ["support@acme.io"]
allow_patterns = ["[^@]+@partner\\\\.io"]

[[class]]
name = "EMPLOYEE_ID"
pattern = "EMP-[0-9]{6}"
keys = ["badge"]
example = "EMP-123456"
"""


def _policy(tmp_path: Path, source: str = ACME) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(source)
    return load_policy(path)


def test_a_policy_of_ones_own_adds_classes_and_lets_values_through(tmp_path: Path) -> None:
    """Patterns, key names, allow lists and classes taken off."""
    redactor = Redactor(_policy(tmp_path), KEY)
    made = redactor.redact("EMP-004211 wrote support@acme.io and ann@partner.io and bob@gmail.com from 8.8.8.8")
    assert isinstance(made.value, str)
    assert [finding.class_ for finding in made.findings] == ["EMPLOYEE_ID", "EMAIL"]
    assert "support@acme.io and ann@partner.io" in made.value
    assert "8.8.8.8" in made.value
    assert made.value.startswith("EMP-") or made.value[3] == "-"
    assert again(redactor, made) == made.value
    keyed = redactor.redact('{"badge": "blue falcon"}')
    assert "falcon" not in str(keyed.value)
    assert again(redactor, keyed) == keyed.value


NUMBERED = """
name = "acme"
version = 1
[[class]]
name = "STAFF_NO"
pattern = "[0-9]{8}"
before = ["Staff no", "badge"]
check = [{ begins = ["7"] }, { sum = [7, 6, 5, 4, 3, 2, 1], gives = "0123456789" }]
example = "70000009"
"""


def test_a_class_of_ones_own_has_words_and_check_digits_as_the_rules_do(tmp_path: Path) -> None:
    """The pattern alone is not enough: a word must be in front, and the check digits right."""
    policy = _policy(tmp_path, NUMBERED)
    redactor = Redactor(policy, KEY)
    text = "staff no 70000009\norder 70000009\nbadge: 70000018 or staff no 70000019"
    assert [(one.start, one.class_) for one in redactor.redact(text).findings] == [(9, "STAFF_NO")]
    assert parse_policy(policy.text) == policy
    for changed in (NUMBERED.replace(', "badge"', ""), NUMBERED.replace('"7"', '"7", "8"')):
        assert _policy(tmp_path, changed).hash != policy.hash


LISTED = """name = "acme"
version = 1
classes = []
[[class]]
name = "PROJECT"
words = ["Project Nightjar", "Blauwal & Co.", "日本計画", "Nightjar"]
"""


def test_a_class_of_ones_own_is_a_list_of_words() -> None:
    """Whole ones, in any case, the longest first; two of them have two surrogates."""
    policy = parse_policy(LISTED)
    redactor = Redactor(policy, KEY)
    text = "project nightjar for Blauwal & Co. KG, 見日本計画, not Nightjars"
    found = [text[one.start : one.end] for one in redactor.redact(text).findings]
    assert found == ["project nightjar", "Blauwal & Co.", "日本計画"]
    assert len(redactor.redact(text).surrogates) == 3
    assert parse_policy(policy.text) == policy
    with pytest.raises(ConfigError, match="words and pattern: expected one of them"):
        parse_policy(LISTED + 'pattern = "N[0-9]"')


@pytest.mark.parametrize(
    "check", ['["no_such"]', '[{ sum = "x" }]', '[{ begins = ["8"] }]', "[7]", "7", '[{ sum = [1], gives = "" }]']
)
def test_a_check_that_is_none_or_not_for_the_example_is_refused(check: str) -> None:
    with pytest.raises(ConfigError, match="check: "):
        parse_policy(re.sub("(?m)^check = .*", f"check = {check}", NUMBERED))


def test_the_hash_follows_the_meaning_only(tmp_path: Path) -> None:
    """Comments and order do not matter; any change of what is redacted does."""
    one = _policy(tmp_path)
    assert one.hash == _policy(tmp_path, "# a comment\n" + ACME).hash
    assert one.hash != _policy(tmp_path, ACME.replace("{6}", "{7}").replace("123456", "1234567")).hash
    assert load_policy("strict").label.startswith("strict@")
    assert len(load_policy().hash) == 12


@pytest.mark.proof
@pytest.mark.long
@given(
    st.frozensets(st.sampled_from(sorted(CLASSES)), min_size=1),
    st.frozensets(st.text(st.characters(exclude_categories=["Cs"]))),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), max_size=3),
    st.booleans(),
)
def test_a_policy_is_written_as_a_file_that_gives_it_again(
    classes: frozenset[str], allow: frozenset[str], keys: list[str], model_tier: bool
) -> None:
    """With a policy's text from the store one can redact as it did: the same name, the same hash."""
    custom = CustomClass(name="BADGE", pattern=r'EMP-"\d{6}', keys=tuple(keys), example='EMP-"123456')
    policy = Policy(
        name="acme",
        classes=classes,
        custom=(custom,),
        allow=frozenset(value.lower() for value in allow),
        allow_patterns=("b+", "a"),
        model_tier=model_tier,
    )
    again = parse_policy(policy.text)
    assert again.label == policy.label
    assert again.text == policy.text
    assert again.custom[0].example == custom.example


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_comes_with_the_package_is_written_so_too(name: str) -> None:
    assert parse_policy(load_policy(name).text).label == load_policy(name).label


def test_a_wrong_policy_is_refused_with_all_its_faults(tmp_path: Path) -> None:
    """At once, so that the file is fixed once."""
    with pytest.raises(ConfigError) as caught:
        _policy(tmp_path, 'name = "x y"\nversion = 2\nclasses = ["NOPE"]\nfoo = 1\n[[class]]\nname = "low"\npattern = "("\n')
    message = str(caught.value)
    assert all(
        part in message for part in ("version: found 2", "NOPE", "unknown key 'foo'", "name: found 'x y'", "'low'", "pattern")
    )


@pytest.mark.parametrize("pattern", ["(?<=x)EMP-[0-9]{6}", "(E)MP-\\\\1", "E{1,100000}"])
def test_a_pattern_that_the_engine_cannot_look_for_is_refused_with_the_policy(pattern: str) -> None:
    source = (
        f'name = "acme"\nversion = 1\n[[class]]\nname = "EMPLOYEE_ID"\npattern = "{pattern}"\nexample = "xEMP-123456 EMP-E"'
    )
    with pytest.raises(ConfigError, match="the trigger engine refuses it"):
        parse_policy(source)


def _class(pattern: str, example: str) -> str:
    return f"name = 'acme'\nversion = 1\nclasses = []\n[[class]]\nname = 'EMPLOYEE_ID'\npattern = '{pattern}'\nexample = '{example}'\n"


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b"])
def test_a_pattern_with_more_ways_than_anybody_can_try_holds_nobody_up(pattern: str) -> None:
    """Each of them takes Python's own engine longer than the test may last, on one of these runs."""
    policy = parse_policy(_class(pattern, "aab"))
    made = Redactor(policy, KEY).redact(" ".join(["a" * 200 + "c ab"] * 50))
    assert Counter(finding.class_ for finding in made.findings) == {"EMPLOYEE_ID": 50}


def test_nor_does_one_of_values_that_are_let_through() -> None:
    policy = parse_policy("name = 'acme'\nversion = 1\nclasses = ['EMAIL']\nallow_patterns = ['([a-z]+)+@acme[.]com', '(x*)*']")
    made = Redactor(policy, KEY).redact(f"mail {'a' * 60}@gmail.com and bob@acme.com")
    assert [finding.class_ for finding in made.findings] == ["EMAIL"]
    assert "bob@acme.com" in str(made.value)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("EMP-[0-9]+", "a EMP-123456, EMP-7", ["EMP-123456", "EMP-7"]),
        (r"\bEMP-[0-9]{3}\b", "été EMP-123 xEMP-123 EMP-1234", ["EMP-123"]),
        ("<s>.*?</s>", "<s>a</s> and <s>ü</s>", ["<s>a</s>", "<s>ü</s>"]),
        ("проект-[0-9]+", "日本 проект-12 und проект-3", ["проект-12", "проект-3"]),
        ("a|ab|abc", "xabc", ["abc"]),
        ("[A-Z]+-[0-9]+", "to ABCDE-12", ["ABCDE-12"]),
    ],
)
def test_a_pattern_finds_the_leftmost_and_longest(pattern: str, text: str, found: list[str]) -> None:
    """With a lazy repeat the shortest."""
    policy = parse_policy(_class(pattern, found[0]) + "\n")
    assert [text[one.start : one.end] for one in Redactor(policy, KEY).redact(text).findings] == found


def test_a_pattern_that_only_matches_a_whole_text_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no \^ and \$"):
        parse_policy(_class("^EMP-[0-9]{6}$", "EMP-123456"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("class = 3", "class: found int, expected [[class]] tables"),
        ("except = ['EMIAL']", "unknown class 'EMIAL', did you mean 'EMAIL'?"),
        ("model_tier = 'yes'", "model_tier: found 'yes', expected true or false"),
        ("[[class]]\nname = 'BADGE'\nkeys = ['']", "class 1: keys: found an empty one"),
        ("allow_patterns = ['(?=a)b']", "allow_patterns: '(?=a)b': the trigger engine refuses it"),
    ],
)
def test_a_fault_of_a_policy_says_where_it_is_and_what_is_expected(line: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_policy(f"name = 'acme'\nversion = 1\n{line}\n", "acme.toml")
    assert str(caught.value).startswith("acme.toml: ")
    assert told in str(caught.value)


def test_a_key_misspelt_in_a_policy_is_told_with_what_it_may_mean() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_policy("name = 'acme'\nversion = 1\nalow = ['x']\nzzz = 1\n[[class]]\nname = 'BADGE'\nkey = ['badge']\n")
    assert "unknown key 'alow', did you mean 'allow'?" in str(caught.value)
    assert "unknown key 'zzz', expected one of allow, allow_patterns, class, classes" in str(caught.value)
    assert "class 1: unknown key 'key', did you mean 'keys'?" in str(caught.value)


def test_a_pattern_may_have_letters_of_any_script() -> None:
    source = 'name = "acme"\nversion = 1\n[[class]]\nname = "PASS_NO"\npattern = "ПАС-[0-9]{6}"\nexample = "ПАС-123456"\nkeys = ["пропуск"]'
    made = str(Redactor(parse_policy(source), KEY).redact("пропуск: 42-77\nПАС-123456, ТАМ-123456").value)
    assert "ПАС-123456" not in made
    assert "42-77" not in made
    assert "ТАМ-123456" in made


def test_nothing_but_off_may_redact_nothing(tmp_path: Path) -> None:
    """A typing error must not switch redaction off."""
    with pytest.raises(ConfigError, match="must be named 'off'"):
        _policy(tmp_path, 'name = "x"\nversion = 1\nclasses = []\n')
    with pytest.raises(ConfigError, match="neither built in"):
        load_policy("of")


@pytest.mark.parametrize(
    ("key", "text", "left"),
    [
        ("姓名", '{"город":"Полтава","сумма":"820"}', "Полтава"),
        ("姓名", "状态: 运行 正常", "运行 正常"),
        ("姓名", "姓名：王小明, 状态: ok", ", 状态: ok"),
        ("имя", "ИМЯ=Ольга город=Львів", " город=Львів"),
        ("badge", "ts=1718 badge=A17 door=4 result=ok", " door=4 result=ok"),
        ("badge", 'badge="A 17" door=4', " door=4"),
        ("badge", "badge: A17, door: 4", ", door: 4"),
        ("badge", "badge: A17; door 4", "; door 4"),
        ("badge", "| badge: A17 | door: 4 |", " | door: 4 |"),
        ("badge", "badge: A17. Then he left", ". Then he left"),
        ("badge", "my_badge=A17", "my_badge=A17"),
        ("badge", "ts=1718 badge= door=4", "ts=1718 badge= door=4"),
        ("badge", '{"badge": "A1", "door": "A2"}', '", "door": "A2"}'),
        ("badge", '{"badge": 4011, "door": 4012}', ', "door": 4012}'),
        ("badge", "<row><badge>A17</badge><door>4</door></row>", "</badge><door>4</door></row>"),
        ("badge", "| badge | door |\n|---|---|\n| A17 | 4 |", " | 4 |"),
        ("badge", "door,badge\n4,A17\n5,A18", "\n5,"),
        ("badge", "door\t4\nbadge\tA17", "door\t4\nbadge\tA17"),
    ],
)
def test_a_class_by_key_takes_the_value_of_its_key_and_no_more(key: str, text: str, left: str) -> None:
    source = f'name = "acme"\nversion = 1\nclasses = []\n[[class]]\nname = "BADGE"\nkeys = ["{key}"]'
    made = str(Redactor(parse_policy(source), KEY).redact(text).value)
    assert left in made
    assert (made != text) == (f"{key}{text}".lower().count(key) > 1 and left != text)


def test_letters_that_the_engine_reads_alike_are_no_word_for_a_password() -> None:
    text = "τμήμα=λογιστήριο μητρώο=MT12 όροφος=2"
    assert Redactor(load_policy(), KEY).redact(text).value == text


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ("nome nom naam cognome voornaam achternaam nazwisko efternamn 姓名 氏名 이름 customer.cognome", "Kowalczyk"),
        ("street_address streetAddress line1 shipping_address billingAddress direccion indirizzo 住所", "5310 E Camino Bosque"),
        ("steuer_id fodselsnummer tckn cnp rodne_cislo national_id customerNationalId", "86095742719"),
        ("passportNo passport_number", "C01X00T47"),
        ("passcode verification_code passphrase senha wachtwoord mot_de_passe", "x7k9tt2"),
        ("bank_account kontonummer rekening 银行卡号 payoutAccountNumber", "12345678901"),
        ("dob birthDateOfPatient geburtsdatum data_nascita 生年月日 dateOfBirthIso", "1984-03-07"),
        ("phone homePhone emergency_contact_phone puhelin 手机号 telefone_celular", "312 882 4410"),
        ("ssn patientSSN socialSecurityNumber", "536-22-8713"),
    ],
)
def test_a_certain_key_decides(keys: str, value: str) -> None:
    redactor = Redactor(load_policy(), KEY)
    for key in keys.split():
        assert value not in str(redactor.redact(json.dumps({key: value})).value), key


@pytest.mark.parametrize(
    "text",
    [
        '{"nome": "produto"}',
        '{"nom": "Livraison rapide"}',
        '{"cognome": "unknown"}',
        '{"line1": "n/a"}',
        '{"first_name": "First name of the guest"}',
        '{"date_of_birth": "string"}',
        '{"passport": "required"}',
    ],
)
def test_the_value_of_a_certain_key_has_the_form_of_one(text: str) -> None:
    """A key that names things as well needs a second sign."""
    assert Redactor(load_policy(), KEY).redact(text).value == text
