"""Keys, rotation, redacting stored runs again, and the vault."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from bare_spans import bare_span

from freezeframe_collector.front import load_keys
from freezeframe_collector.settings.config import CollectorConfig, RedactionConfig, ServiceConfig
from freezeframe_redaction import Redactor, TenantKey, load_or_create_keys, load_policy, redact_run
from freezeframe_redaction.keyring.keys import find_key, keys_apart
from freezeframe_redaction.keyring.vault import Vault
from freezeframe_redaction.keyring.vault_keys import VaultPlace
from freezeframe_replay.cli import main
from freezeframe_schemas import genai
from freezeframe_schemas.data_directory import remember_data_directory
from freezeframe_schemas.errors import ConfigError, PermanentStoreError, RunError
from freezeframe_schemas.span import SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)


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
    messages = json.dumps([{"role": "user", "content": text}])
    return bare_span({genai.INPUT_MESSAGES: messages}, span_id=f"{number:016x}")


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


def test_the_command_lists_and_rotates_keys_and_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = load_or_create_keys(tmp_path).current("acme").secret
    assert main(["store", "redact-file", "--rotate-key", "--tenant", "acme", "--keys", str(tmp_path)]) == 0
    assert main(["store", "redact-file", "--list-keys", "--keys", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-3:] == ["acme/1  kept for existing surrogates", "acme/2  current", "default/1  current"]
    assert "acme/2 takes over from acme/1" in shown.err
    assert base64.b64encode(secret).decode() not in shown.out + shown.err
    assert main(["store", "redact-file", "--list-keys", "--keys", str(tmp_path / "none")]) == 2


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
    assert main(["store", "redact-file", "--text", str(tmp_path / "a.txt")]) == 0
    assert capsys.readouterr().out == Redactor(load_policy(), key).redact("mail bob.smith@gmail.com").value


def _config(data: Path, keys: str = "") -> CollectorConfig:
    return CollectorConfig(service=ServiceConfig(data=str(data)), redaction=RedactionConfig(keys=keys))


@pytest.mark.parametrize("holds", ["store", "wal"])
@pytest.mark.parametrize("place", ["state directory", "chosen", "new host"])
@pytest.mark.parametrize("lost", ["file", "folder", "all but another tenant's"])
def test_a_lost_key_is_named_and_a_new_one_is_made_only_on_demand(
    holds: str, place: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new key would give everybody another surrogate, silently."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    data = tmp_path / "data"
    config = _config(data, "" if place == "state directory" else str(tmp_path / "chosen"))
    first = load_keys(config)
    assert load_keys(config) == first
    (data / holds).mkdir()
    assert load_keys(config) == first
    folder = (data / "keys").resolve()
    if lost == "all but another tenant's":
        first.current("acme")
    if place == "new host":
        (data / "keys").unlink()
    if lost == "folder":
        shutil.rmtree(folder)
    else:
        (folder / "default.1.key.json").unlink()
    with pytest.raises(ConfigError, match="restore the keys") as refused:
        load_keys(config)
    assert str(folder) in str(refused.value)
    assert not list(folder.glob("default*"))
    command = str(refused.value).partition("make new ones: freezeframe ")[2].partition(" (")[0]
    assert main(command.split()) == 0
    assert load_keys(config).current().secret != first.current().secret
    capsys.readouterr()


def test_a_vault_whose_keys_are_lost_gets_no_new_ones(tmp_path: Path) -> None:
    place = VaultPlace(file=tmp_path / "vault.db", keys=tmp_path / "vault-keys")
    place.open()
    for path in place.keys.iterdir():
        path.unlink()
    with pytest.raises(ConfigError, match="restore the keys"):
        place.open()


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_only_the_user_may_enter_the_folders_of_keys_and_state(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to a parent of the keys can swap them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / ".local" / "state"))
    before = os.umask(umask)
    try:
        load_keys(_config(tmp_path / "home" / "deep" / "data"))
        remember_data_directory(tmp_path / "home" / "deep" / "data")
    finally:
        os.umask(before)
    made = [path for path in (tmp_path / "home", *(tmp_path / "home").rglob("*")) if path.is_dir() and not path.is_symlink()]
    assert len(made) > 8
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}
