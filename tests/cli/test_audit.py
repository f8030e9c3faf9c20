"""An audit export is checked by its own script, which needs nothing of freezeframe; any change in it is reported."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.report.audit_check import check
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.run import build_run

AUDIT = ("export", "--unredacted", "--as", "audit")


@pytest.fixture
def exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    run = freeze(build_run(make_run(model_call("ä", "1"), tool_call("refund", True, "AC-1"), model_call("b", "2"))))
    write_fixture(run, tmp_path / "run")
    assert main([*AUDIT, str(tmp_path / "run"), "-o", str(tmp_path / "audit"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["seal"] == json.loads((tmp_path / "audit" / "seal.json").read_text())["last"]
    return tmp_path / "audit"


@pytest.mark.proof("command export")
def test_the_script_in_the_export_passes_it_alone(exported: Path, tmp_path: Path) -> None:
    """Isolated: no site-packages, so nothing of freezeframe can be imported."""
    elsewhere = shutil.copytree(exported, tmp_path / "elsewhere")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(elsewhere / "check.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(": 3 exchanges, as they were sealed and in order")


def reseal(folder: Path, lines: list[bytes]) -> None:
    """Write a record anew, with a seal that matches its last line."""
    (folder / "record.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    seal = json.loads((folder / "seal.json").read_text())
    seal |= {"lines": len(lines), "last": hashlib.sha256(lines[-1]).hexdigest()}
    (folder / "seal.json").write_text(json.dumps(seal))


def swap_bodies(lines: list[bytes]) -> list[bytes]:
    entry = json.loads(lines[-1])
    entry["response"]["body_base64"] = entry["request"]["body_base64"]
    return [*lines[:-1], json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()]


Change = Callable[[list[bytes]], list[bytes]]
CHANGES: dict[str, tuple[Change, str]] = {
    "shorter": (lambda lines: lines[:-1], "found 3 lines, seal.json says 4"),
    "reordered": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], "line 2: does not follow the line before it"),
    "a name": (lambda lines: [*lines[:2], lines[2].replace(b'"refund"', b'"credit"'), lines[3]], "line 4: does not follow"),
    "the last line": (lambda lines: [*lines[:3], lines[3].replace(b'"complete"', b'"broken"')], "ends with"),
    "white space": (lambda lines: [*lines[:3], lines[3] + b" "], "line 4: not canonical JSON"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_record_is_told(exported: Path, name: str) -> None:
    change, fault = CHANGES[name]
    lines = (exported / "record.jsonl").read_bytes().splitlines()
    (exported / "record.jsonl").write_bytes(b"".join(line + b"\n" for line in change(lines)))
    with pytest.raises(ValueError, match=fault):
        check(str(exported))


def test_a_body_that_is_not_the_hashed_one_is_told_even_under_a_new_seal(exported: Path) -> None:
    reseal(exported, swap_bodies((exported / "record.jsonl").read_bytes().splitlines()))
    with pytest.raises(ValueError, match="the response does not match its hash"):
        check(str(exported))


def test_a_signature_is_checked_with_the_public_key_beside_it(exported: Path, tmp_path: Path) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_public_key,
    )

    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(pem)
    signed = tmp_path / "signed"
    assert main([*AUDIT, str(tmp_path / "run"), "-o", str(signed), "--key", str(tmp_path / "key.pem")]) == 0
    public = load_pem_public_key((signed / "public_key.pem").read_bytes())
    assert isinstance(public, Ed25519PublicKey)
    public.verify((signed / "seal.sig").read_bytes(), (signed / "seal.json").read_bytes())
    with pytest.raises(InvalidSignature):
        public.verify((signed / "seal.sig").read_bytes(), (signed / "seal.json").read_bytes() + b" ")
    assert "signed, see README.txt" in check(str(signed))[1]
    assert b"PRIVATE" not in b"".join(path.read_bytes() for path in signed.iterdir())


def test_an_export_goes_into_an_empty_folder_and_takes_no_other_key(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*AUDIT, str(tmp_path / "run"), "-o", str(exported)]) == 1
    assert "not empty" in capsys.readouterr().err
    (tmp_path / "key.pem").write_text("no key")
    assert main([*AUDIT, str(tmp_path / "run"), "-o", str(tmp_path / "b"), "--key", str(tmp_path / "key.pem")]) == 1
    assert "openssl genpkey" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
