"""What every test runs under: loopback only, and no deadline in property tests (the machine may be busy)."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("full", deadline=None)
settings.register_profile("check", deadline=None, max_examples=15)
"""`make check` runs this one: enough to see that a law is broken outright."""
settings.load_profile("full")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse every connection that would leave this machine, from whatever library and thread it comes.

    An audit hook sees connections that no patch of `socket` would. It cannot be taken out again, so it is for the session.
    """
    sys.addaudithook(_loopback_only)


def _loopback_only(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = args[1]
        host = address[0] if isinstance(address, tuple) else None  # a path is a socket of this machine
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if isinstance(host, str) and not _is_local(host):
        pytest.fail(f"{event}: {host}: tests reach loopback only")


def _is_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        # names under .invalid exist nowhere (RFC 2606): the way to ask for a failed look-up
        return host in ("", "localhost") or host.endswith((".localhost", ".invalid"))
    return address.is_loopback or address.is_unspecified
