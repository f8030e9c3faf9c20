"""What `freezeframe status` prints of a collector's own figures."""

from __future__ import annotations

import pytest

from freezeframe_replay.cli.status import collector_figures
from freezeframe_replay.web.pages import Health, health_page

FIGURES = {
    "version": "0.1.0",
    "uptime_s": 90.0,
    "ready": False,
    "not_ready_because": "the store has not taken a segment for 40 s",
    "audit": {"received": 1800, "stored": 1700, "in_log": 90, "rejected": 10, "duplicate": 3, "missing": 0},
    "log": {"bytes": 1_048_576, "segments": 2, "failures": 0},
    "writer": {"busy_s": 40.25, "last_error": "code 241\nmemory"},
    "since_start": {"spans": 1800},
    "rejected_by_reason": {"trace_id": 10},
}


def test_rates_lag_log_and_rejects_in_words() -> None:
    """Each figure with its unit; what needs attention has a separate line."""
    assert [line for line in collector_figures(FIGURES) if line[1]] == [
        ("version", "0.1.0, up 90.00 s"),
        ("not ready", "the store has not taken a segment for 40 s"),
        ("spans", "1,800 received, 1,700 stored, 90 in the log, 10 rejected, 3 sent twice, 20.0 a second since it started"),
        ("lag", "40.25 s"),
        ("log", "1,048,576 bytes in 2 segments, 0 failed writes"),
        ("rejected for", "trace_id: 10"),
        ("last error", "code 241\nmemory"),
    ]


def test_recent_rates_true_lag_and_workers_are_told_where_the_collector_tells_them() -> None:
    """The last minute says more than the time since the start, and the oldest waiting span more than the writer."""
    newer = {
        **FIGURES,
        "rates": {"over_s": 60.0, "received": 250.04, "stored": 249.0},
        "lag_s": 1.5,
        "workers": [{"pid": 11, "restarts": 1}, {"pid": 12, "restarts": 0}],
    }
    lines = dict(collector_figures(newer))
    assert lines["spans"].endswith("; 250.0 a second in the last 60.00 s")
    assert lines["lag"] == "1.50 s"
    assert lines["workers"] == "2, restarted 1 times"


def test_who_is_turned_away_and_the_room_of_the_log_are_told() -> None:
    """A sender with a wrong token shows in one line, and a disk that fills before it is full."""
    told = {
        **FIGURES,
        "log": {"bytes": 1, "segments": 1, "failures": 0, "disk_free_bytes": 52_428_800},
        "since_start": {"spans": 1800, "unauthenticated": 12, "malformed": 0},
    }
    lines = dict(collector_figures(told))
    assert lines["log"] == "1 bytes in 1 segments, 0 failed writes, 52,428,800 bytes free"
    assert lines["refused"] == "12 requests without a known token"


def test_readers_without_a_sandbox_are_told_with_what_that_leaves_open() -> None:
    """Nothing is said if a ClickHouse server answers SQL."""
    assert dict(collector_figures(FIGURES))["readers"] == dict(collector_figures(FIGURES | {"readers": None}))["readers"] == ""
    state: dict[str, object] = {"sandboxed": True, "why_not": None, "not_protected": None}
    assert dict(collector_figures(FIGURES | {"readers": state}))["readers"] == "sandboxed by the kernel"
    state = {"sandboxed": False, "why_not": "no Landlock", "not_protected": "every file"}
    told = dict(collector_figures(FIGURES | {"readers": state}))["readers"]
    assert told == "not sandboxed: no Landlock; not protected: every file"


def test_a_collector_that_does_not_answer_is_said_to() -> None:
    """And no figure is invented."""
    assert collector_figures({"error": "does not answer: TimeoutError"}) == [("fault", "does not answer: TimeoutError")]
    assert dict(collector_figures({}))["spans"].startswith("0 received")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"balanced": True}, "balanced: each received span was stored, is in the log, was rejected or was sent twice"),
        ({"balanced": False, "lost": 5, "damaged": 1}, "not balanced: `freezeframe status` shows what is missing or lost"),
    ],
)
def test_the_page_calls_damage_by_the_disk_no_bug_of_ours(found: dict[str, object], said: str) -> None:
    figures = {**FIGURES, "audit": found}
    page = health_page(Health(status=figures, wrong="", redactions=(), rejects=(), tables=(), sizes=(), versions={}))
    assert said in page
    assert "report this as a bug" not in page
