"""Policies, keys, rotation, redacting stored runs again, the vault, and the command."""

from __future__ import annotations

import base64
import json
import re
import shutil
import stat
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redacted_again import again

from freezeframe_redaction import Policy, Redactor, TenantKey, load_or_create_keys, load_policy, redact_run
from freezeframe_redaction.keyring.keys import find_key, keys_apart
from freezeframe_redaction.keyring.vault import Vault
from freezeframe_redaction.keyring.vault_keys import VaultPlace
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.policies.policy import BUILT_IN, CustomClass, parse_policy
from freezeframe_replay.cli import main
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError
from freezeframe_schemas.span import SpanRecord

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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b"])
def test_a_pattern_with_more_ways_than_anybody_can_try_holds_nobody_up(pattern: str) -> None:
    """Each of them takes Python's own engine longer than the test may last, on one of these runs."""
    policy = parse_policy(_class(pattern, "aab"))
    made = Redactor(policy, KEY).redact(" ".join(["a" * 200 + "c ab"] * 50))
    assert Counter(finding.class_ for finding in made.findings) == {"EMPLOYEE_ID": 50}


@pytest.mark.timeout(60)
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


def test_keys_are_made_once_kept_apart_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    """Two loads give one key; each tenant has its own; an open file is refused."""
    ring = load_or_create_keys(tmp_path)
    assert ring.current() == load_or_create_keys(tmp_path).current()
    acme = ring.current("acme")
    assert acme != ring.current()
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    rotated = ring.rotate("acme")
    assert rotated.current("acme").id == "acme/2"
    assert rotated.by_id("acme/1") == acme
    (tmp_path / "acme.1.key.json").chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_or_create_keys(tmp_path)


def _span(text: str, number: int) -> SpanRecord:
    return SpanRecord(
        trace_id="1" * 32,
        span_id=f"{number:016x}",
        name="chat",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        attributes={genai.INPUT_MESSAGES: json.dumps([{"role": "user", "content": text}])},
    )


def test_a_stored_run_redacted_again_keeps_its_surrogates() -> None:
    """A stricter policy and a rotated key replace what was let through, and nothing else; twice is once."""
    minimal = Redactor(load_policy("minimal"), KEY)
    run = [minimal.redact_span(_span("card 4111 1111 1111 1111 of bob@gmail.com", at)) for at in (1, 2)]
    card = next(iter(json.loads(str(run[0].attributes[genai.REDACTION_SURROGATES]))))
    again = redact_run(run, load_policy(), TenantKey(id="test/2", secret=b"n" * 32))
    for span in again:
        text = str(span.attributes[genai.INPUT_MESSAGES])
        assert card in text
        assert "bob@gmail.com" not in text
        assert span.attributes[genai.REDACTION_KEY_ID] == "test/1,test/2"
        assert set(json.loads(str(span.attributes[genai.REDACTION_SURROGATES])).values()) == {"CARD", "EMAIL"}
    assert again[0].attributes[genai.INPUT_MESSAGES] == again[1].attributes[genai.INPUT_MESSAGES]
    assert redact_run(again, load_policy(), TenantKey(id="test/2", secret=b"n" * 32)) == again


def test_the_vault_reveals_logs_and_forgets(tmp_path: Path) -> None:
    """Originals are sealed, every reveal is logged, and a forgotten subject is gone for good."""
    old, new = Vault.generate_key(), Vault.generate_key()
    vault = Vault(tmp_path / "vault.db", {"acme/1": old}, "acme/1")
    vault.seal("acme", "customer-7", {"u1@d1.example.com": ("EMAIL", "bob@gmail.com")})
    vault.seal("acme", "customer-8", {"u2@d1.example.com": ("EMAIL", "eve@gmail.com")})
    assert vault.reveal("acme", "u1@d1.example.com", who="officer", reason="ticket 12") == "bob@gmail.com"
    assert vault.reveal("other", "u1@d1.example.com", who="officer", reason="ticket 12") is None
    assert b"gmail" not in (tmp_path / "vault.db").read_bytes()
    assert stat.S_IMODE((tmp_path / "vault.db").stat().st_mode) == 0o600
    both = Vault(tmp_path / "vault.db", {"acme/1": old, "acme/2": new}, "acme/2")
    assert both.rotate("acme") == 2
    only_new = Vault(tmp_path / "vault.db", {"acme/2": new}, "acme/2")
    assert only_new.reveal("acme", "u2@d1.example.com", who="officer", reason="audit") == "eve@gmail.com"
    assert only_new.forget("acme", "customer-7") == 1
    assert only_new.reveal("acme", "u1@d1.example.com", who="officer", reason="again") is None
    with pytest.raises(RunError, match="forgotten"):
        only_new.seal("acme", "customer-7", {"u9@d1.example.com": ("EMAIL", "x@y.io")})
    assert [(line.who, line.found) for line in only_new.log()] == [
        ("officer", True),
        ("officer", False),
        ("officer", True),
        ("officer", False),
    ]


def test_what_several_values_share_is_nobodys_original() -> None:
    """All days of a year become its first: whichever was sealed, it would be wrong for the others."""
    redactor = Redactor(load_policy(), KEY, keep_originals=True)
    made = redactor.redact("born 1990-03-04, mail Bob@gmail.com, then bob@gmail.com")
    originals = redactor.originals_of([*made.surrogates, "another"])
    assert sorted(filter(None, originals.values())) == [("EMAIL", "Bob@gmail.com")]
    assert list(originals.values()).count(None) == 1
    assert Redactor(load_policy(), KEY).originals_of(made.surrogates) == {}


def test_the_vault_refuses_a_wrong_key(tmp_path: Path) -> None:
    """Neither a missing nor another key opens it."""
    vault = Vault(tmp_path / "vault.db", {"a/1": Vault.generate_key()}, "a/1")
    vault.seal("a", "s", {"x": ("EMAIL", "bob@gmail.com")})
    with pytest.raises(PermanentStoreError, match="was not wrapped"):
        Vault(tmp_path / "vault.db", {"a/1": Vault.generate_key()}, "a/1").reveal("a", "x", who="w", reason="r")


def _run(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> tuple[int, str, str]:
    monkeypatch.chdir(tmp_path)
    status = main(["redact", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command_redacts_lines_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Ids, values and findings; a bad line is named and the others are done."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id":1,"text":"mail bob@gmail.com"}\nnope\n{"id":"b","value":{"a":["x@y.io",1.5]}}\n')
    status, out, err = _run([str(source)], monkeypatch, capsys, tmp_path)
    rows = [json.loads(line) for line in out.splitlines()]
    assert status == 1
    assert [row["id"] for row in rows] == [1, "b"]
    assert rows[0]["findings"] == [{"class": "EMAIL", "start": 5, "end": 18}]
    assert rows[1]["value"]["a"][1] == 1.5
    assert "in.jsonl:2" in err
    assert "ephemeral" in err


def test_the_command_takes_its_own_lines_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each line lists its surrogates, so that they stay; a list that is none is a fault of its line."""
    first, second = tmp_path / "in.jsonl", tmp_path / "again.jsonl"
    first.write_text('{"id":1,"text":"Phone: 974 3493, MRN: 90155580"}\n')
    _, once, _ = _run([str(first)], monkeypatch, capsys, tmp_path)
    assert sorted(json.loads(once)["surrogates"].values()) == ["MEDID", "PHONE"]
    second.write_text(once + '{"id":2,"text":"x","surrogates":[]}\n{"id":3,"text":"x","surrogates":["y"]}\n')
    status, out, err = _run([str(second)], monkeypatch, capsys, tmp_path)
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {**json.loads(once), "findings": []}
    assert [row["id"] for row in rows] == [1, 2]
    assert "again.jsonl:3: surrogates: expected a JSON object" in err
    assert status == 1


def test_a_dry_run_shows_counts_and_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What an officer may look at before switching on."""
    source = tmp_path / "in.jsonl"
    source.write_text('{"id":1,"text":"mail bob@gmail.com"}\n')
    status, out, _ = _run(["--dry-run", str(source)], monkeypatch, capsys, tmp_path)
    assert status == 0
    assert "1 findings" in out
    assert "bob" not in out


def test_counts_and_keys_are_written_for_scripts_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text('{"text":"mail bob@gmail.com"}\n')
    load_or_create_keys(tmp_path / "keys").rotate()
    status, out, err = _run(["--dry-run", "--json", "in.jsonl"], monkeypatch, capsys, tmp_path)
    assert (status, json.loads(out)["findings"]) == (0, [{"class": "EMAIL", "detector": "email", "count": 1}])
    assert "bob" not in out + err
    status, out, _ = _run(["--list-keys", "--json", "--keys", "keys"], monkeypatch, capsys, tmp_path)
    assert json.loads(out) == [{"id": "default/1", "current": False}, {"id": "default/2", "current": True}]


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (False, False)])
def test_somebody_who_waits_at_a_terminal_is_told_how_far_it_is(
    terminal: bool, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And no one else: a log would fill with it. The last line needs no end."""
    (tmp_path / "in.jsonl").write_text("\n".join(['{"text":"' + "a " * 100_000 + '"}'] * 12))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    status, out, err = _run(["in.jsonl"], monkeypatch, capsys, tmp_path)
    assert (status, len(out.splitlines())) == (0, 12)
    assert ("lines, 2 million characters" in err) is shown


def test_explain_says_where_what_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """For a developer's own text."""
    source = tmp_path / "note.txt"
    source.write_text("first\nmail bob@gmail.com")
    status, out, _ = _run(["--text", "--explain", str(source)], monkeypatch, capsys, tmp_path)
    assert status == 0
    assert out.startswith("2:6  EMAIL  'bob@gmail.com'  by email")
    assert "\n  rules/email.toml: find = find" in out


@pytest.mark.parametrize(
    ("text", "detector", "row"),
    [
        ("PESEL 44051401359", "national id: PL PESEL", "rules/national.toml: digits = [11]; check = pl_pesel; words = pesel"),
        ("call (415) 555-2671", "phone", ""),
        ("CBU 2850590940090418135201", "bank: cbu", "rules/bank.toml: around = (?<![0-9])[0-9]{22}(?![0-9]); reach = [22, 1]"),
        ("use ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "secret: github", "rules/vendors.toml: head = gh[pousr]_; tail ="),
    ],
)
def test_explain_names_the_row_of_rules_that_decided(
    text: str, detector: str, row: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 1, "text": text}))
    _, out, _ = _run(["--explain", str(tmp_path / "in.jsonl")], monkeypatch, capsys, tmp_path)
    (finding,) = json.loads(out)["findings"]
    assert finding["detector"] == detector
    assert finding["row"].startswith(row)


def test_explain_says_which_evidence_decided_about_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each feature with its weight, for a name that goes and one that stays: they add up to the score."""
    text = "We sat in the Casa Milà with Barbara Tuchman."
    (tmp_path / "note.txt").write_text(text)
    status, out, _ = _run(["--text", "--explain", str(tmp_path / "note.txt")], monkeypatch, capsys, tmp_path)
    assert status == 0
    river, tuchman = re.split(r"^(?='Casa Milà'|'Barbara Tuchman')", out, flags=re.MULTILINE)[1:]
    assert "not a name, kept as it is: evidence -" in river
    assert "  a name: evidence +" in tuchman
    assert re.search(r"^  [+-][0-9.]+  word before=the$", river, re.MULTILINE)
    for said in (river, tuchman):
        score, *weights = (float(one) for one in re.findall(r"(?:evidence |^  )([+-][0-9.]+)", said, re.MULTILINE))
        assert abs(score - sum(weights)) < 0.2
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 1, "text": text}))
    _, out, _ = _run(["--explain", str(tmp_path / "in.jsonl")], monkeypatch, capsys, tmp_path)
    assert [(one["text"], one["is_name"]) for one in json.loads(out)["names"]] == [
        ("Casa Milà", False),
        ("Barbara Tuchman", True),
    ]


def test_the_command_uses_the_local_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two runs with the data directory's key give the same surrogates; help shows examples."""
    load_or_create_keys(tmp_path / ".freezeframe" / "keys")
    source = tmp_path / "in.jsonl"
    source.write_text('{"id":1,"text":"mail bob@gmail.com"}\n')
    outs = {_run([str(source)], monkeypatch, capsys, tmp_path)[1] for _ in range(2)}
    assert len(outs) == 1
    status, out, _ = _run(["--help"], monkeypatch, capsys, tmp_path)
    assert status == 0
    assert "examples:" in out


def test_equal_policies_are_equal_values() -> None:
    """Policies are frozen values; a changed one is another."""
    assert load_policy() == load_policy()
    assert replace(load_policy(), classes=frozenset({"EMAIL"})).hash != load_policy().hash


def test_the_command_lists_and_rotates_keys_and_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = load_or_create_keys(tmp_path).current("acme").secret
    assert main(["redact", "--rotate-key", "--tenant", "acme", "--keys", str(tmp_path)]) == 0
    assert main(["redact", "--list-keys", "--keys", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-3:] == ["acme/1  kept for existing surrogates", "acme/2  current", "default/1  current"]
    assert "acme/2 takes over from acme/1" in shown.err
    assert base64.b64encode(secret).decode() not in shown.out + shown.err
    assert main(["redact", "--list-keys", "--keys", str(tmp_path / "none")]) == 2


_ROOT = base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize("source", ["env", "file", "command"])
def test_keys_of_a_root_key_are_derived_per_tenant_and_no_file_holds_one(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, kept = tmp_path / "keys", tmp_path / "kept"
    kept.write_text(_ROOT + "\n")
    kept.chmod(0o600)
    monkeypatch.setenv("ROOT", _ROOT)
    said = {"env": '"ROOT"', "file": f'"{kept}"', "command": json.dumps(["cat", str(kept)])}[source]
    keys.mkdir()
    (keys / "root.toml").write_text(f"{source} = {said}")
    ring = load_or_create_keys(keys)
    made = [ring.current(tenant).secret for tenant in ("default", "acme", "other")] + [
        ring.rotate("acme").current("acme").secret
    ]
    assert len(set(made)) == 4
    assert load_or_create_keys(keys).current("acme").secret == made[3], "the same in the next process"
    assert find_key(keys, "acme/1", TenantKey(id="acme/1", secret=made[1]).check) is not None
    texts = [path.read_bytes() for path in keys.iterdir()]
    assert [1 for text in texts for secret in (*made, bytes(range(32))) if base64.b64encode(secret) in text] == []
    if source == "env":  # the same root gives the same keys in another folder
        shutil.copytree(keys, tmp_path / "again", ignore=shutil.ignore_patterns("*.key.json"))
        assert load_or_create_keys(tmp_path / "again").current("acme").secret == made[1]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('env = "NOWHERE"', "NOWHERE is not set"),
        ('file = "/nowhere/at/all"', "cannot be read"),
        ('command = ["false"]', "ended with status 1"),
        ('command = ["echo", "c2hvcnQ="]', "32 bytes or more in base64"),
        ('command = "echo"', "expected one of"),
        ("env = ", "is not valid TOML"),
    ],
)
def test_a_root_key_that_cannot_be_had_stops_everything(said: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "root.toml").write_text(said)
    with pytest.raises(ConfigError, match=told):
        load_or_create_keys(tmp_path)
    assert list(tmp_path.glob("*.key.json")) == []


def test_the_keys_of_a_vault_may_be_derived_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOT", _ROOT)
    place = VaultPlace(file=tmp_path / "vault.db", keys=tmp_path)
    (tmp_path / "root.toml").write_text('env = "ROOT"')
    place.open().seal("acme", "run-1", {"s": ("EMAIL", "bob@acme.com")})
    place.rotate()
    assert place.open().reveal("acme", "s", who="a", reason="b") == "bob@acme.com"
    assert [path.name for path in tmp_path.glob("*.key.json") if b"secret" in path.read_bytes()] == []


def test_another_root_key_than_before_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root.toml").write_text('env = "ONE_ROOT"')
    monkeypatch.setenv("ONE_ROOT", _ROOT)
    monkeypatch.setenv("OTHER_ROOT", base64.b64encode(b"x" * 32).decode())
    load_or_create_keys(tmp_path)
    (tmp_path / "root.toml").write_text('env = "OTHER_ROOT"')
    with pytest.raises(ConfigError, match="another root key"):
        load_or_create_keys(tmp_path)


def test_a_copy_of_the_data_directory_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    data = tmp_path / "shop" / ".freezeframe"
    secret = load_or_create_keys(keys_apart(data, "keys")).current().secret
    assert load_or_create_keys(data / "keys").current().secret == secret
    assert load_or_create_keys(keys_apart(data, "keys")).current().secret == secret
    shutil.copytree(data, tmp_path / "copy", symlinks=True)
    shutil.rmtree(tmp_path / "state")
    assert [path for path in (tmp_path / "copy").rglob("*") if path.is_file()] == []


def test_missing_keys_are_not_replaced_by_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = keys_apart(tmp_path / "data", "keys").resolve()
    place.rmdir()
    with pytest.raises(ConfigError, match="the keys are missing"):
        keys_apart(tmp_path / "data", "keys")
    place.mkdir()
    assert keys_apart(tmp_path / "data", "keys").resolve() == place


def test_keys_in_a_chosen_place_are_found_from_the_data_directory(tmp_path: Path) -> None:
    for chosen in (tmp_path / "one", tmp_path / "two"):
        keys_apart(tmp_path / "data", "keys", chosen)
        for named in (chosen, None):
            assert keys_apart(tmp_path / "data", "keys", named).resolve() == chosen
    assert keys_apart(tmp_path / "here", "keys", tmp_path / "here" / "keys").resolve() == tmp_path / "here" / "keys"


def test_keys_in_the_data_directory_stay_until_they_are_moved(tmp_path: Path) -> None:
    """They are used, and never left behind without a word."""
    load_or_create_keys(tmp_path / "keys")
    assert not keys_apart(tmp_path, "keys").is_symlink()
    with pytest.raises(ConfigError, match="move the files there"):
        keys_apart(tmp_path, "keys", tmp_path / "elsewhere")


@pytest.mark.parametrize("home", ["none", "read-only", "the data directory"])
def test_without_a_place_for_state_the_keys_are_in_the_data_directory(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    place = {"none": "relative", "read-only": str(tmp_path / "file"), "the data directory": str(tmp_path / "data" / "state")}[
        home
    ]
    monkeypatch.setenv("XDG_STATE_HOME", place)
    assert not keys_apart(tmp_path / "data", "keys").is_symlink()
    assert load_or_create_keys(tmp_path / "data" / "keys").current().secret


def test_the_command_takes_the_keys_of_the_data_directory_that_the_collector_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = load_or_create_keys(tmp_path / "keys").current()
    (tmp_path / "a.txt").write_text("mail bob.smith@gmail.com")
    monkeypatch.setenv("FREEZEFRAME_DATA", str(tmp_path))
    assert main(["redact", "--text", str(tmp_path / "a.txt")]) == 0
    assert capsys.readouterr().out == Redactor(load_policy(), key).redact("mail bob.smith@gmail.com").value
