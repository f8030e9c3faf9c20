"""Count what capture adds: to a call of an SDK, to a request that makes no call, to what a program does by itself.

python tests/costs/capture_costs.py      prints the counts as one JSON object
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "benchmarks")]

from bench_requests import _asgi, _wsgi  # noqa: E402  # found by the line above
from capture_worker import scenarios  # noqa: E402
from counting import Count, counted, least  # noqa: E402

OWN: Final = ("/instrumentation/freezeframe/", "/schemas/freezeframe_schemas/", "/opentelemetry/")
CALLS: Final = {"chat_small": 5, "chat_large": 2, "openai_stream": 5, "anthropic_stream": 5, "async_50": 50}
REQUESTS: Final = 10


def main() -> None:
    """Print the counts."""
    command = [sys.executable, ROOT / "tests" / "benchmarks" / "capture_world.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as world:
        try:
            assert world.stdout is not None
            print(json.dumps(count_all(f"http://127.0.0.1:{int(world.stdout.readline())}")))
        finally:
            world.terminate()


def count_all(url: str) -> dict[str, dict[str, int]]:
    """Count each path."""
    os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
    count = Count(OWN)
    count.watch_new_threads()  # the exporter's
    import freezeframe

    # A batch is sent when `flush` asks for it, so each has the same spans.
    handle = freezeframe.instrument(endpoint=url, root=False, batch_interval_s=3600, spool=False)

    def flush() -> None:
        assert handle.flush(100)

    def received() -> int:
        with urllib.request.urlopen(f"{url}/received") as answer:
            return int(answer.read())

    found: dict[str, dict[str, int]] = {}
    for name, run in scenarios(url).items():
        run(CALLS[name])
        flush()
        before = received()
        run(CALLS[name])
        flush()
        sent = received() - before
        per_call = _count(count, partial(run, CALLS[name]), flush, CALLS[name])
        found[f"capture.{name}"] = {**per_call, "bytes": round(sent / CALLS[name])}
    for name, make in (("starlette", _asgi), ("flask", _wsgi)):
        ask = make(REQUESTS)
        ask()
        found[f"request.{name}"] = counted(ask, own=OWN, per=REQUESTS)
    return found


def _count(count: Count, act: Callable[[], object], flush: Callable[[], None], calls: int) -> dict[str, int]:
    """Return the figures of a call: of the act in this thread, and of the exporter in its own."""
    best: dict[str, int] = {}
    gc.collect()
    gc.disable()
    for _ in range(2):
        for mode in ("calls", "instructions"):
            with count.on(mode):
                act()
            with count.on(mode, here=False):
                flush()
        figures = count.take()
        best = least(best, figures) if best else figures
    gc.enable()
    return {name: round(number / calls) for name, number in best.items()}


if __name__ == "__main__":
    main()
