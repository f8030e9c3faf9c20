"""Addresses of stores: read, refused and shown without their secrets."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from freezeframe_schemas.address import shown_address, split_address
from freezeframe_schemas.errors import ConfigError


@given(user=st.text(), password=st.text())
@example(user="me", password="open/sesame?#@:[")
def test_neither_user_nor_password_is_shown(user: str, password: str) -> None:
    """Whatever is in them, even characters that end them too early."""
    written = f"clickhouse://{user}:{password}@host:8123/database?ca=/a/file#part"
    assert shown_address(written) == "clickhouse://***@host:8123/database"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("http://host:8123/x", "http://host:8123/x"),
        ("http://host:8123/x?password=sesame", "http://host:8123/x"),
        ("me:sesame@host", "***@host"),
        ("clickhouse:/me:sesame@host", "***@host"),
        ("clickhouse//me:sesame@host://x", "***@host://x"),
        ("", ""),
    ],
)
def test_an_address_that_is_none_is_shown_without_secrets(written: str, shown: str) -> None:
    assert shown_address(written) == shown


@pytest.mark.parametrize(
    "host", ["me:open/sesame@host", "me:open?sesame@host", "me:sesame@host:99999", "me:sesame@[::1", "h:0", "h:1a"]
)
def test_what_cannot_be_read_is_refused_without_what_is_secret(host: str) -> None:
    with pytest.raises(ConfigError, match="expected SCHEME://USER:PASSWORD@HOST:PORT/DATABASE") as refused:
        split_address(f"clickhouse://{host}/database")
    assert "sesame" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_at_sign_in_a_directory_is_no_end_of_a_password() -> None:
    assert split_address("chdb:///srv/a@b").path == "/srv/a@b"
