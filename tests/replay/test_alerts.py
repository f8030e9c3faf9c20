"""Alerts of new groups of failures: signed as the standard has it, in Slack's form, and to the named receiver only."""

from __future__ import annotations

import datetime as dt
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from loopback import LoopbackProvider

from freezeframe_replay.operations.alerts import alert_of, check_webhook, post_alert, signature_headers, slack_form
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_schemas.errors import ConfigError, RetryableStoreError

GROUP = FailureGroup(
    signature="5f0e",
    failures=3,
    runs=2,
    service="shop",
    kind="run",
    subject="answer",
    type="builtins.ValueError",
    message="order <!channel> `A-1` & more",
    frame="shop.py:31 in total",
    handled=False,
    last=dt.datetime(2026, 11, 29, tzinfo=dt.UTC),
    newest="4bf92f3577b34da6a3ce929d0e0e4736",
)


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it gets; the path says how it answers."""

    provider: Any

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        """Answer with the status that the path names."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.provider.received.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(int(self.path[1:4]))
        self.send_header("Location", "/200/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()


def receiving() -> Any:
    provider: Any = LoopbackProvider(Receiver)
    provider.received = []
    return provider


def test_the_signature_is_that_of_the_standard() -> None:
    """The example with which its libraries are tested."""
    headers = signature_headers(
        b'{"test": 2432232314}',
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp_s=1614265330,
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_an_alert_has_run_cause_and_commands() -> None:
    data = alert_of(GROUP)["data"]
    assert (data["run"], data["error"], data["where"]) == (GROUP.newest, GROUP.type, GROUP.frame)
    assert data["replay"] == "freezeframe replay 4bf92f3577b3"
    assert data["fixture"] == "freezeframe fixture 4bf92f3577b3 -o tests/regressions/4bf92f35 --pytest"


def test_slack_finds_no_mention_and_no_markup_in_a_message() -> None:
    text = slack_form(alert_of(GROUP))["text"]
    assert ">order &lt;!channel&gt; 'A-1' &amp; more" in text
    assert "`freezeframe replay 4bf92f3577b3`" in text


def test_a_receiver_verifies_what_it_gets() -> None:
    with receiving() as receiver:
        post_alert(f"{receiver.url}/200/hook", alert_of(GROUP), secret="s", timestamp_s=7)
    [(_, headers, body)] = receiver.received
    assert json.loads(body) == alert_of(GROUP)
    expected = signature_headers(body, secret="s", message_id="5f0e", timestamp_s=7)
    assert {name: headers[name] for name in expected} == expected


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_receiver_that_does_not_take_it_is_named_by_its_host_only(status: int) -> None:
    """A redirect is not followed."""
    with receiving() as receiver, pytest.raises(RetryableStoreError, match=f"127.0.0.1: .* status {status}$") as raised:
        post_alert(f"{receiver.url}/{status}/secret-path", alert_of(GROUP), secret="s", timestamp_s=7)
    assert "secret-path" not in str(raised.value)
    assert len(receiver.received) == 1


def test_what_cannot_be_posted_is_refused_before_the_first_look() -> None:
    check_webhook("https://hooks.slack.com/services/T/B/x", "")
    for url, secret in (("ftp://x", "s"), ("hook", "s"), ("https://ci.example.com/hook", ""), ("https://x", "whsec_%")):
        with pytest.raises(ConfigError):
            check_webhook(url, secret)
