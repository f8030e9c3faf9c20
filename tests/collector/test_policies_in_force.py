"""What was in force: whoever reads a span finds the text of the policy that it is stamped with."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from running_collector import CollectorProcess, span

from freezeframe_redaction.policy import parse_policy

MAIL = 'name = "mail"\nversion = 1\nclasses = ["EMAIL"]\n'


@pytest.mark.long
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_text_of_each_policy_is_in_the_store(tmp_path: Path, workers: str) -> None:
    """One that is changed while the collector runs too: spans of before and after name one each."""
    file = tmp_path / "policy.toml"
    file.write_text(MAIL)
    collector = CollectorProcess(
        tmp_path / "data", policy=str(file), environment={"FREEZEFRAME_COLLECTOR__SERVICE__WORKERS": workers}
    )
    assert collector.post([span(1)]).status_code == 200
    file.write_text(MAIL + 'allow = ["help@acme.io"]\n')
    collector.process.send_signal(signal.SIGHUP)
    while "reloaded:" not in (tmp_path / "data" / "stderr.txt").read_text():  # the test's own time limit bounds it
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
