"""No sender locks out another: a real collector with slow, silent, flooding, bombing and honest senders."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from honest_senders import HonestSenders
from hostile_senders import BOMBS, HostileSenders
from running_collector import CollectorProcess, span

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

MIB = 1 << 20
SMALL_LIMITS = {
    "FREEZEFRAME_COLLECTOR__ADMISSION__IN_FLIGHT_BYTES": str(32 * MIB),
    "FREEZEFRAME_COLLECTOR__LIMITS__SPAN_BYTES": str(8 * MIB),
    "FREEZEFRAME_COLLECTOR__HTTP__MAX_BODY_BYTES": str(8 * MIB),
    "FREEZEFRAME_COLLECTOR__GRPC__MAX_MESSAGE_BYTES": str(8 * MIB),
}
MAX_GROWTH_MB = 576
"""What is sent at once: unfinished messages of 320 MB, and 32 bombs of 256 MB. 147 to 403 MB were measured, more on busy cores.

The collector counts what has arrived in its own time. That calls over the limit end is shown by
`test_unfinished_grpc_messages_take_room_by_their_bytes`.
"""


def _peak_mb(collector: CollectorProcess) -> int:
    lines = Path(f"/proc/{collector.ports['pid']}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def test_slow_silent_flooding_and_bombing_senders_lock_nobody_out(tmp_path: Path) -> None:
    """Every honest request is taken at its first try and stored while the others go on, and the memory stays bounded."""
    collector = CollectorProcess(tmp_path / "data", environment=SMALL_LIMITS)
    try:
        assert collector.post([span(0)]).status_code == 200
        before_mb = _peak_mb(collector)
        with HostileSenders(collector.ports, 8 * MIB - 1024) as hostile, HonestSenders(collector, first=7) as honest:
            while not hostile.waves:
                time.sleep(0.05)
                assert hostile.is_running
        assert honest.refused == []
        assert all(honest.waits_s.values())
        assert hostile.waves[0].total() == 2 * BOMBS
        refused = {"400", "429", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
        assert set(sum(hostile.waves, Counter[str]())) <= refused | {"CANCELLED"}  # of a call over its limit of unread bytes
        assert _peak_mb(collector) - before_mb < MAX_GROWTH_MB
        collector.flush()
        assert collector.rows("SELECT uniqExact(span_id) FROM spans") == [[1 + honest.spans]]
        audit = collector.status()["audit"]
        assert (audit["stored"], audit["missing"], audit["rejected"]) == (1 + honest.spans, 0, 0)
    finally:
        collector.kill()
