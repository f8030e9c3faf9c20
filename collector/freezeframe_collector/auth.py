"""Who may send: bearer tokens by tenant. The file holds only hashes, and is read again when it changes.

**Shape** of the tokens file::

    [tokens]
    acme = "sha256:5e88..."                 # printf %s "$TOKEN" | sha256sum
    globex = ["sha256:...", "sha256:..."]   # several, to change one without a gap
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Final, cast

from freezeframe_collector.watched import Watched
from freezeframe_schemas.errors import ConfigError, FreezeframeError

_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class UnauthenticatedError(FreezeframeError):
    """The request carries no token that is known."""


class Authenticator:
    """Tells the tenant of a request by its ``Authorization`` header. Without a file everybody may send, as no tenant."""

    def __init__(self, tokens_file: Path | None) -> None:
        """Read the file.

        Raises:
            ConfigError: the file has faults; all are named.
        """
        self._tenants = Watched([tokens_file], lambda: read_tokens(tokens_file)) if tokens_file else None

    def tenant_of(self, authorization: str | None) -> str:
        """Return the tenant that the header's token belongs to.

        Raises:
            UnauthenticatedError: a file is set, and the token is missing or unknown.
        """
        if self._tenants is None:
            return ""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise UnauthenticatedError("a bearer token is needed: send the header `authorization: Bearer <token>`")
        # The look-up is by the token's hash: how long it takes says nothing about another token.
        tenant = self._tenants.get().get(hashlib.sha256(token.strip().encode()).hexdigest())
        if tenant is None:
            raise UnauthenticatedError("the bearer token is not known here")
        return tenant


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
                # Not quoted: whoever wrote the token itself here should not find it in a log too.
                faults.append(f"{file}: tokens.{tenant}: expected sha256: and 64 hex digits")
            elif tenants.setdefault(match[1], tenant) != tenant:
                faults.append(f"{file}: tokens.{tenant}: the same token belongs to {tenants[match[1]]}")
    if not tenants and not faults:
        faults.append(f"{file}: no tokens: nobody could send")
    if faults:
        raise ConfigError("the tokens file has faults:\n  " + "\n  ".join(faults))
    return tenants
