"""The check of bearer tokens, one for every listener.

A collector creates two tokens in its data directory, one to send and one to read (`freezeframe_schemas.local_tokens`). The one
to read is also the password of SQL's user ``default``. Tenants have their own tokens, in a file that replaces the token to
send. It holds only hashes, and is read again when it changes.

**Shape** of the tokens file::

    [tokens]
    acme = "sha256:5e88..."                 # printf %s "$TOKEN" | sha256sum
    globex = ["sha256:...", "sha256:..."]   # several, to change one without a gap
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from freezeframe_collector.settings.watched import Watched
from freezeframe_schemas.errors import ConfigError, FreezeframeError
from freezeframe_schemas.local_tokens import shown_token

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class UnauthenticatedError(FreezeframeError):
    """The request carries no known token."""


class Authenticator:
    """Decides the rights of a request by its ``Authorization`` header: send, for which tenant, and see the pages."""

    def __init__(
        self,
        tokens_file: Path | None = None,
        *,
        sender_token: str | None = None,
        reader_token: str | None = None,
        open_senders: bool = False,
    ) -> None:
        """Read the file.

        Args:
            tokens_file: tokens of tenants, who are then the only ones that may send.
            sender_token: sends, as no tenant.
            reader_token: sees the pages.
            open_senders: everyone may send, as no tenant.

        Raises:
            ConfigError: the file has faults; all are named.
        """
        self._tenants = Watched([tokens_file], lambda: read_tokens(tokens_file)) if tokens_file else None
        self._sender = {} if sender_token is None else {_hash(sender_token): ""}
        self._reader = None if reader_token is None else _hash(reader_token)
        self._open_senders = open_senders

    def tenant_of(self, authorization: str | None) -> str:
        """Return the tenant that the header's token belongs to.

        Raises:
            UnauthenticatedError: the token is missing or unknown, and senders need one.
        """
        if self._open_senders:
            return ""
        tenant = self._senders().get(_token_hash(authorization))
        if tenant is None:
            found = "an unknown token" if _token_hash(authorization) else "no bearer token"
            raise UnauthenticatedError(f"found {found}, expected `authorization: Bearer TOKEN`; {self._where_senders_look()}")
        return tenant

    def check_pages(self, authorization: str | None) -> None:
        """Admit anyone with a known token to the collector's own pages, which contain no payload.

        Raises:
            UnauthenticatedError: the token is missing or unknown.
        """
        token_hash = _token_hash(authorization)
        if token_hash != self._reader and token_hash not in self._senders():
            raise UnauthenticatedError(
                "expected `authorization: Bearer TOKEN`; it is in the file reader-token of the collector's data directory"
            )

    def _senders(self) -> Mapping[str, str]:
        return self._sender if self._tenants is None else self._tenants.get()

    def _where_senders_look(self) -> str:
        if self._tenants is not None:
            return "ask the operator of this collector for a token for your tenant"
        return (
            "it is in the file sender-token of the collector's data directory, where freezeframe.instrument() finds it if "
            "the same user runs both; pass it to another SDK in OTEL_EXPORTER_OTLP_HEADERS, or start the collector with "
            "--open-senders to accept spans without a token"
        )


def _token_hash(authorization: str | None) -> str:
    """Return the hash of a header's bearer token; empty if it holds none."""
    token = shown_token(authorization)
    return _hash(token) if token else ""


def _hash(token: str) -> str:
    """Look-ups are by hash, so the time that one takes reveals nothing about other tokens."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def read_tokens(file: Path) -> dict[str, str]:
    """Return token hash -> tenant.

    Raises:
        ConfigError: with one line for each fault.
    """
    try:
        document = tomllib.loads(file.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as TOML: {error}") from None
    faults = [f"{file}: {section}: no such section, expected [tokens]" for section in document if section != "tokens"]
    tenants: dict[str, str] = {}
    section = document.get("tokens", {})
    for tenant, value in cast("dict[str, object]", section).items() if isinstance(section, dict) else ():
        if not _TENANT.fullmatch(tenant):
            faults.append(f"{file}: tokens.{tenant}: expected a name of letters, digits, dot, dash and underscore")
        hashes = cast("list[object]", value) if isinstance(value, list) else [value]
        for text in hashes:
            match = _HASH.fullmatch(text) if isinstance(text, str) else None
            if match is None:
                # Not quoted: if someone wrote the token itself here, it must not end up in a log too.
                faults.append(f"{file}: tokens.{tenant}: expected sha256: and 64 hex digits")
            elif tenants.setdefault(match[1], tenant) != tenant:
                faults.append(f"{file}: tokens.{tenant}: the same token belongs to {tenants[match[1]]}")
    if not tenants and not faults:
        faults.append(f"{file}: no tokens, so no sender would be accepted")
    if faults:
        raise ConfigError("the tokens file has faults:\n  " + "\n  ".join(faults))
    return tenants
