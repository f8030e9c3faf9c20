"""Requests of programs and of the service's own pages are answered, those of foreign pages are not."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from freezeframe_schemas.same_origin import LOOPBACK_NAMES, host_name, why_foreign

HOST = {"Host": "127.0.0.1:8123"}
CHROMIUM = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/156.0"}
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"User-Agent": "curl/8.5"},
        {"User-Agent": "clickhouse-connect/0.9"},
        {"Host": "localhost"},
        {"Host": "LOCALHOST:8123"},
        {"Host": "[::1]:8123"},
        {**CHROMIUM, "Sec-Fetch-Site": "none"},
        {**CHROMIUM, "Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8123"},
        {"User-Agent": "Mozilla/5.0", "Authorization": "Basic eDp5"},
    ],
)
def test_a_program_and_our_own_page_are_answered(headers: dict[str, str]) -> None:
    assert why_foreign(CIMultiDict({**HOST, **headers}), names=LOOPBACK_NAMES) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://127.0.0.1:8123.evil.example"},
        {**CHROMIUM, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {**CHROMIUM, "Sec-Fetch-Site": "same-site"},
        {**CHROMIUM, **LINK},
        CHROMIUM,
        {"Host": "evil.example:8123"},
        {"Host": "[::1].evil.com"},
        {"Host": "localhost:1@evil.com"},
        {"Host": "127.0.0.1:8123/evil"},
        {"Host": "localhost.evil.com"},
        {"Host": ""},
        {"Host": "127.0.0.1.nip.io:8123"},
    ],
)
def test_a_page_of_somebody_elses_is_refused(headers: dict[str, str]) -> None:
    assert why_foreign(CIMultiDict({**HOST, **headers}), names=LOOPBACK_NAMES) is not None


def test_a_link_leads_to_a_page_and_to_no_answer_in_sql() -> None:
    headers = CIMultiDict({**HOST, **CHROMIUM, **LINK})
    assert why_foreign(headers, names=LOOPBACK_NAMES, links=True) is None
    assert why_foreign(headers, names=LOOPBACK_NAMES) is not None
    framed = CIMultiDict({**headers, "Sec-Fetch-Dest": "iframe"})
    assert why_foreign(framed, names=LOOPBACK_NAMES, links=True) is not None


def test_a_named_origin_may_ask() -> None:
    headers = CIMultiDict({**HOST, "Origin": "https://app.example.com", "Sec-Fetch-Site": "cross-site"})
    assert why_foreign(headers, names=None, origins={"https://app.example.com"}) is None
    assert why_foreign(headers, names=None) is not None


@pytest.mark.parametrize("host", ["[::1].evil.com", "localhost:1@evil.com", "a b", "localhost:", "x:123456", ""])
def test_an_invalid_host_has_no_name(host: str) -> None:
    assert host_name(host) is None
