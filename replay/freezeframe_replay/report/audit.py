"""Audit: a run as files that a third party can check without freezeframe, line by line.

::

    record.jsonl     canonical JSON; line 1 the run, then one line per exchange; each holds the SHA-256 of the line before it
    seal.json        number of lines, and the SHA-256 of the last
    seal.sig         if a key was given: the Ed25519 signature of seal.json
    public_key.pem   and the key that checks it
    check.py         checks all but the signature; the standard library only
    README.txt       description, check, and limits of the proof
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe_schemas.errors import ConfigError, FixtureError
from freezeframe_schemas.fixture import Fixture, Step, step_to_json
from freezeframe_schemas.fixture_bodies import BODY_FORMS
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.keys import canonical_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT: Final = "freezeframe-audit"
VERSION: Final = 1

_README: Final = """\
Run {run} as it was recorded, {exchanges} exchanges.

record.jsonl holds one line for the run and one for each call that it made to a model, a tool or another service, in the order
in which they were issued: what was sent and what came back, byte for byte (base64), with the SHA-256 of each body. Every line
holds the SHA-256 of the line before it, and seal.json that of the last one. So the one value in seal.json stands for the whole
record: keep it elsewhere (a ticket, a mail, a ledger), and any later change of the record can be detected.

To check the record, with Python 3.8 or newer and nothing else:

    python check.py

{signature}

What this proves: that the record is the one which was sealed. What it does not prove: that the recording was true when it was
made, nor when it was sealed. {redaction}
"""
_SIGNED: Final = """\
seal.json is signed with Ed25519. To check the signature with OpenSSL, and that the key is whose you think it is:

    openssl pkeyutl -verify -pubin -inkey public_key.pem -rawin -in seal.json -sigfile seal.sig
    """
_UNSIGNED: Final = (
    "It is not signed: whoever holds the files can rewrite them, including the seal. Compare the seal with one kept elsewhere."
)
_REDACTED: Final = "Personal data was replaced before it was stored (policy {policy}); it does not contain the originals."


def write_audit(fixture: Fixture, directory: Path, *, key: Path | None = None) -> str:
    """Write the export and return its seal, the SHA-256 of the record's last line.

    Args:
        fixture: the run.
        directory: created if needed; must be empty, so that nothing else is taken for part of the record.
        key: an Ed25519 private key in PEM, ``openssl genpkey -algorithm ed25519 -out key.pem``.

    Raises:
        ConfigError: the key cannot be read, or is of a different kind.
        FixtureError: the directory cannot be written, or is not empty.
    """
    signer = None if key is None else _load_key(key)
    lines = list(_lines(fixture))
    seal = hashlib.sha256(lines[-1]).hexdigest()
    sealed = canonical_json({"format": FORMAT, "version": VERSION, "run": fixture.run_id, "lines": len(lines), "last": seal})
    readme = _README.format(
        run=fixture.run_id,
        exchanges=len(lines) - 1,
        signature=_UNSIGNED if signer is None else _SIGNED,
        redaction=_REDACTED.format(policy=fixture.redaction.policy) if fixture.redaction.policy else "It was not redacted.",
    )
    written = {
        "record.jsonl": b"".join(line + b"\n" for line in lines),
        "check.py": files("freezeframe_replay.report").joinpath("audit_check.py").read_bytes(),
        "README.txt": readme.encode(),
    }
    if signer is not None:
        written |= {"seal.sig": signer.sign(sealed.encode()), "public_key.pem": public_pem(signer)}
    written["seal.json"] = sealed.encode()  # last: a folder with a seal is complete
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise FixtureError(f"{directory}: not empty; an audit export requires an empty folder")
        for name, body in written.items():
            (directory / name).write_bytes(body)
    except OSError as error:
        raise FixtureError(f"{directory}: cannot be written: {error.strerror}", do="name another directory with -o") from error
    return seal


def _lines(fixture: Fixture) -> Iterator[bytes]:
    link = ""
    for entry in (_head(fixture), *map(_step, fixture.steps)):
        line = canonical_json({**entry, "previous": link}).encode()
        yield line
        link = hashlib.sha256(line).hexdigest()


def _head(fixture: Fixture) -> dict[str, Any]:
    head = {
        **dataclasses.asdict(fixture.entry),
        "format": FORMAT,
        "version": VERSION,
        "run": fixture.run_id,
        "environment": dict(fixture.environment),
        "redaction_policy": fixture.redaction.policy,
        "gaps": list(fixture.gaps),
        "forked_from": fixture.forked_from or None,
        "edits": list(fixture.edits) or None,
    }
    return {name: value for name, value in head.items() if value is not None}


def _step(step: Step) -> dict[str, Any]:
    """Return the step as a fixture holds it, but with its bodies in one form, each with its hash."""
    entry = step_to_json(step, {})
    response = step.exchange.response
    entry["response"] |= {"chunk_sizes": [len(chunk.data) for chunk in response.chunks]}
    for part, body in (("request", step.exchange.request.body), ("response", response.body)):
        kept = {name: value for name, value in entry[part].items() if name not in BODY_FORMS or name == "offsets_ns"}
        encoded = base64.b64encode(body).decode()
        entry[part] = {**kept, "body_base64": encoded, "sha256": hashlib.sha256(body).hexdigest()}
    return entry


# -- signing --------------------------------------------------------------------------------------------------------------


def _load_key(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise ConfigError("signing needs the package cryptography", do=install_command("redaction")) from error
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{path}: cannot be read as a private key: {error}", do="openssl genpkey -algorithm ed25519 -out key.pem"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"{path}: not an Ed25519 key", do="openssl genpkey -algorithm ed25519 -out key.pem")
    return key


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """Return the key that checks a signature."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
