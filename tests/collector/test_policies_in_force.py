"""Policies in force: a reader of a span finds the text of the policy that it is stamped with."""

from __future__ import annotations

import hashlib
import signal
import time
from pathlib import Path

import httpx
import pytest
from running_collector import PROTOBUF, CollectorProcess, span

from freezeframe_redaction.policies.policy import parse_policy
from freezeframe_schemas.otlp.encode import encode_traces

MAIL = 'name = "mail"\nversion = 1\nclasses = ["EMAIL"]\n'


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_the_text_of_each_policy_is_in_the_store(tmp_path: Path) -> None:
    """One that is changed while the collector runs too: spans of before and after name one each."""
    file = tmp_path / "policy.toml"
    file.write_text(MAIL)
    collector = CollectorProcess(
        tmp_path / "data", policy=str(file), environment={"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": "1"}
    )
    assert collector.post([span(1)]).status_code == 200
    file.write_text(MAIL + 'allow = ["help@acme.io"]\n')
    collector.process.send_signal(signal.SIGHUP)
    while '"reloaded:' not in (tmp_path / "data" / "stderr.txt").read_text():  # the test's own time limit bounds it
        time.sleep(0.02)
    assert collector.post([span(2)]).status_code == 200
    collector.flush()
    rows = collector.rows(
        "SELECT s.name, p.label, p.text FROM freezeframe.spans AS s"
        " JOIN freezeframe.policies AS p ON p.tenant = s.tenant AND p.label = s.redaction_policy ORDER BY s.name"
    )
    assert collector.stop() == 0
    assert [name for name, _, _ in rows] == ["span-1", "span-2"]
    assert [label for _, label, _ in rows] == [parse_policy(text).label for _, _, text in rows]
    assert [sorted(parse_policy(text).allow) for _, _, text in rows] == [[], ["help@acme.io"]]


@pytest.mark.long
@pytest.mark.usefixtures("warm_python")
def test_a_tenant_with_a_policy_of_its_own_is_redacted_by_it(tmp_path: Path) -> None:
    """By the tenant that its token names, and stamped so; the others go through the collector's. SIGHUP changes it."""
    (tmp_path / "tokens.toml").write_text(
        "[tokens]\n" + "".join(f'{name} = "sha256:{hashlib.sha256(name.encode()).hexdigest()}"\n' for name in ("acme", "beta"))
    )
    own = tmp_path / "acme.toml"
    own.write_text('name = "acme"\nversion = 1\nclasses = ["IP"]\n')
    config = tmp_path / "collector.toml"
    config.write_text(
        f'[service]\nworkers = 2\n[auth]\ntokens_file = "{tmp_path / "tokens.toml"}"\n[redaction]\ntenants = "acme = {own}"\n'
    )
    (tmp_path / "mail.toml").write_text(MAIL)
    only_tenants = {"FREEZEFRAME_COLLECTOR__AUTH__OPEN_SENDERS": "false"}
    collector = CollectorProcess(
        tmp_path / "data", "--config", str(config), policy=str(tmp_path / "mail.toml"), environment=only_tenants
    )

    def send(tenant: str, number: int) -> None:
        sent = span(number, "bob@corp.io at 8.8.8.8")
        headers = {**PROTOBUF, "authorization": f"Bearer {tenant}"}
        assert httpx.post(f"{collector.url}/v1/traces", content=encode_traces([sent]), headers=headers).status_code == 200

    send("acme", 1)
    send("beta", 2)
    own.write_text('name = "acme"\nversion = 1\nclasses = ["EMAIL", "IP"]\n')
    collector.process.send_signal(signal.SIGHUP)
    while '"reloaded:' not in (tmp_path / "data" / "stderr.txt").read_text():  # the test's own time limit bounds it
        time.sleep(0.02)
    send("acme", 8)  # of another run: what is found in one is replaced in all of it
    collector.flush()
    rows = collector.rows(
        "SELECT s.name, s.tenant, p.text LIKE '%EMAIL%', position(s.attributes['text'], 'bob@corp.io') > 0,"
        " position(s.attributes['text'], '8.8.8.8') > 0 FROM freezeframe.spans AS s"
        " JOIN freezeframe.policies AS p ON p.tenant = s.tenant AND p.label = s.redaction_policy ORDER BY s.name"
    )
    assert collector.stop() == 0
    # span, tenant, whether its policy's text has e-mail in it, whether the e-mail and the address are still there
    assert rows == [
        ["span-1", "acme", 0, 1, 0],
        ["span-2", "beta", 1, 0, 1],
        ["span-8", "acme", 1, 0, 0],
    ]
