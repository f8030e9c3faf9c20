"""How long honest senders wait while hostile ones attack the same collector; the last line is one JSON object.

    python tests/benchmarks/bench_senders.py [--seconds 15] [--policy strict]

One sender over HTTP and one over gRPC send 20 spans of 2 KB at a time; first alone, then next to the hostile senders of
`tests/support/hostile_senders.py`. Everything runs on this machine, so the hostile senders also take processor time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from honest_senders import HonestSenders
from hostile_senders import HostileSenders
from running_collector import CollectorProcess

from freezeframe_collector.settings.config import CollectorConfig

GOAL_S = 2.0


def wait_s(waits: list[float], share: float) -> float:
    """Return the wait that `share` of the requests did not exceed."""
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * share))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each of the two measurements")
    parser.add_argument("--policy", default="strict", help="of redaction")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-senders-"))
    collector = CollectorProcess(directory / "data", policy=options.policy, readers=True)
    rows: list[dict[str, Any]] = []
    sent = 0
    try:
        print(f"{'senders':<15} {'over':<5} {'requests':>9} {'p50 ms':>9} {'p99 ms':>9} {'longest ms':>11}")
        for name in ("alone", "among hostile"):
            hostile = None if name == "alone" else HostileSenders(collector.ports, CollectorConfig().http.max_body_bytes - 1024)
            honest = HonestSenders(collector, "a prompt of an honest sender. " * 70, first=sent)
            with honest:
                time.sleep(options.seconds)
                if hostile is not None:
                    hostile.__exit__()
            sent += honest.spans
            for over, waits in honest.waits_s.items():
                shares = [1e3 * wait_s(waits, share) for share in (0.5, 0.99, 1.0)]
                print(f"{name:<15} {over:<5} {len(waits):>9}" + "".join(f" {one:>9.1f}" for one in shares))
                goal = None if hostile is None else f"<= {GOAL_S * 1e3:g}"
                met = None if hostile is None else shares[-1] <= GOAL_S * 1e3
                rows.append(
                    {
                        "name": f"{name}, {over}: longest wait",
                        "value": round(shares[-1], 1),
                        "unit": "ms",
                        "goal": goal,
                        "met": met,
                    }
                )
            print(f"{name:<15} refused: {len(honest.refused)} {honest.refused[:1] or ''}")
        collector.flush()
        stored = collector.rows("SELECT uniqExact(span_id) FROM spans")[0][0]
        print(f"acked {sent} spans, stored {stored}")
        rows.append({"name": "acked spans lost", "value": sent - stored, "unit": "spans", "goal": "0", "met": sent == stored})
    finally:
        collector.kill()
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"bench": "senders", "rows": rows}))


if __name__ == "__main__":
    main()
