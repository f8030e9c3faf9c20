"""Alerts: a new group of failures is posted to a webhook, signed as Standard Webhooks are, or in Slack's form.

Texts are those of the store, so redacted. Source: https://www.standardwebhooks.com (version 1).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe_replay.report.render import ID_DIGITS
from freezeframe_replay.sources.failures import FailureGroup
from freezeframe_schemas.errors import ConfigError, RetryableStoreError

SECRET_VARIABLE: Final = "FREEZEFRAME_WEBHOOK_SECRET"  # noqa: S105 - the name of a variable
_SLACK: Final = "hooks.slack.com"
_PREFIX: Final = "whsec_"
_TIMEOUT_S: Final = 10.0
_MAX_MESSAGE_LENGTH: Final = 500


def alert_of(group: FailureGroup) -> dict[str, Any]:
    """Return the body of the alert of a group: its cause, its newest run, and what to type."""
    run = group.newest[:ID_DIGITS]
    return {
        "type": "failures.new_group",
        "timestamp": group.last.isoformat(),
        "data": {
            "group": group.signature,
            "service": group.service,
            "entry": group.subject,
            "error": group.type,
            "message": group.message[:_MAX_MESSAGE_LENGTH],
            "where": group.frame,
            "runs": group.runs,
            "run": group.newest,
            "replay": f"freezeframe replay {run}",
            "fixture": f"freezeframe fixture {run} -o tests/regressions/{group.newest[:8]} --pytest",
        },
    }


def slack_form(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alert as Slack's incoming webhooks take it."""
    data = {name: _plain(str(value)) for name, value in alert["data"].items()}
    where = f" in {data['where']}" if data["where"] else ""
    lines = [
        f"*{data['entry']} fails in a new way:* {data['error']}{where}",
        f">{data['message']}" if data["message"] else "",
        f"{data['service']}, run {data['run']}, {data['runs']} so far",
        f"`{data['replay']}`",
        f"`{data['fixture']}`",
    ]
    return {"text": "\n".join(filter(None, lines))}


def _plain(text: str) -> str:
    """Return a text in which Slack finds no link, mention or markup."""
    line = " ".join(text.replace("`", "'").split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def is_slack(url: str) -> bool:
    """Return whether a URL is that of a Slack webhook, which is a secret itself and takes no signature."""
    return urlsplit(url).hostname == _SLACK


def check_webhook(url: str, secret: str) -> None:
    """Check that alerts can be posted there.

    Raises:
        ConfigError: it is not the URL of a webhook, or no secret is set to sign with.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ConfigError("--post: expected the http or https URL of a webhook")
    if not is_slack(url) and not secret:
        raise ConfigError(
            "--post: alerts are signed, and no secret is set", do=f"set {SECRET_VARIABLE}, here and at the receiver"
        )
    _key(secret)


def signature_headers(body: bytes, *, secret: str, message_id: str, timestamp_s: int) -> dict[str, str]:
    """Return the headers by which a receiver verifies a body.

    Raises:
        ConfigError: the secret is not of a valid form.
    """
    signed = hmac.new(_key(secret), f"{message_id}.{timestamp_s}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigError(f"{SECRET_VARIABLE}: begins with {_PREFIX}, but base64 does not follow") from None


def post_alert(url: str, alert: Mapping[str, Any], *, secret: str, timestamp_s: int) -> None:
    """Post an alert; its id is that of the group, so a receiver can drop one that comes twice.

    Raises:
        RetryableStoreError: the receiver did not take it. The message has its host only: the path may be a secret.
    """
    slack = is_slack(url)
    body = json.dumps(slack_form(alert) if slack else alert, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "freezeframe"}
    if not slack:
        headers |= signature_headers(body, secret=secret, message_id=alert["data"]["group"], timestamp_s=timestamp_s)
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - checked by `check_webhook`
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        reason = f"status {error.code}"
    except (OSError, http.client.HTTPException) as error:
        reason = str(getattr(error, "reason", "") or type(error).__name__)
    raise RetryableStoreError(f"webhook at {urlsplit(url).hostname}: did not take the alert: {reason}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A signed body goes to the named receiver and to no other."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Follow none."""
