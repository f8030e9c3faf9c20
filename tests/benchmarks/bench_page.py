"""How heavy and how fast the pages of the replay service are, in headless Chromium, beside their budgets.

    python tests/benchmarks/bench_page.py [--rounds 5] [--steps 1000 10000] [--body 5000000] [--without-phoenix]

Starts `freezeframe up` on a data directory of its own, sends it runs of known size, and opens each page several times in one
tab. Per page: bytes and requests on the wire, and the median time from navigation to first content. A page reached by a click
is timed from the click. The same runs of up to 1,000 steps are sent to a Phoenix on this machine and opened in the same
browser: it is installed into an environment of its own, and left out if that fails. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import httpx
from browser import CHROMIUM, Chromium
from handmade_runs import make_run, model_call, moved, tool_call
from page_peers import Phoenix

from freezeframe_schemas.local_tokens import READER, SENDER, bearer, read_token
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

LISTED: Final = 120
_ROOT: Final = Path(__file__).parents[2]
_BATCH: Final = 500
_PATIENCE_MS: Final = 20_000
"""How long a page of Phoenix may take to show a run."""
_MEASURED: Final = """
(async () => {
  const painted = () => performance.getEntriesByName("first-contentful-paint")[0];
  while (!painted()) await new Promise(done => setTimeout(done, 5));
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return {ms: painted().startTime, requests: all.length, bytes: all.reduce((sum, item) => sum + item.transferSize, 0)};
})()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a page may take. Units are in the names."""

    ms: float
    kb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A page, measured."""

    page: str
    ms: float
    kb: float
    """Compressed, with headers."""
    requests: int
    budget: Budget

    @property
    def verdict(self) -> str:
        """Return whether the budget is met."""
        missed = [name for name in ("ms", "kb") if getattr(self, name) > getattr(self.budget, name)]
        return f"MISSED: {', '.join(missed)}" if missed else "met"


def text(chance: random.Random, words: int) -> str:
    """Return words that do not compress better than prose does."""
    return " ".join(f"{chance.choice(_WORDS)}{chance.randrange(100) if chance.random() < 0.1 else ''}" for _ in range(words))


_WORDS: Final = (
    "an agent looks up the order of a customer and says where it is, when it was sent, what it costs today and whether it can "
    "still be returned; the policy allows that within a month, if the goods are unused and the parcel was not opened before"
).split()


def agent_run(trace_id: str, steps: int, *, at_ns: int) -> list[SpanRecord]:
    """Return a run whose steps are model calls and tools in turn, each with some prose."""
    chance = random.Random(trace_id)
    made = [
        model_call(text(chance, 60), text(chance, 40))
        if number % 2 == 0
        else tool_call("look_up", {"found": text(chance, 40)}, order=f"AC-{number}")
        for number in range(steps)
    ]
    return moved(make_run(*made, question=text(chance, 12), answer=text(chance, 30)), trace_id, at_ns)


def freezeframe(data: Path, *arguments: str) -> None:
    """Run a command of the command line on the data directory."""
    command = [sys.executable, "-m", "freezeframe._cli", *arguments]
    done = subprocess.run(
        command, env={**os.environ, "FREEZEFRAME_DATA": str(data)}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")


def send(data: Path, spans: Sequence[SpanRecord]) -> None:
    """Send spans to the collector, and fail if it refuses any."""
    port = json.loads((data / "ports.json").read_text())["http"]
    headers = {**bearer(read_token(data, SENDER)), "Content-Type": "application/x-protobuf"}
    for begin in range(0, len(spans), _BATCH):
        body = encode_traces(spans[begin : begin + _BATCH])
        httpx.post(f"http://127.0.0.1:{port}/v1/traces", content=body, headers=headers, timeout=400).raise_for_status()


def measure(page: str, show: Callable[[], str], browser: Chromium, budget: Budget, rounds: int, *, says: str) -> Row:
    """Show a page some times and return its row; the first time, which fills the service's caches, does not count.

    Ends the program if the page lacks the text `says`: a page of less than was sent would be quick.
    """
    found: list[dict[str, Any]] = []
    for _ in range(rounds + 1):
        if says not in (shown := show()):
            sys.exit(f"{page}: expected {says!r} on the page, found {shown[:400]!r}")
        found.append(browser.run(_MEASURED))
    counted = found[1:]
    return Row(
        page=page,
        ms=round(statistics.median(item["ms"] for item in counted), 1),
        kb=round(max(item["bytes"] for item in counted) / 1000, 1),
        requests=max(item["requests"] for item in counted),
        budget=budget,
    )


def measured(data: Path, browser: Chromium, steps: Sequence[int], body: int, rounds: int) -> list[Row]:
    """Send the runs, open the pages, and return a row for each."""
    now = time.time_ns()
    runs = {count: f"{count:032x}" for count in steps}
    heavy = "5b" * 16
    for number in range(LISTED):
        send(data, agent_run(f"{number:030x}fe", 6, at_ns=now + number * 10**9))
    for count, trace_id in runs.items():
        send(data, agent_run(trace_id, count, at_ns=now))
    large = make_run(model_call("Where is it?", text(random.Random(0), body // 2)[:body]))
    send(data, [replace(span, trace_id=heavy) for span in large])
    freezeframe(data, "runs")  # waits until all that was acked can be read
    origin = f"http://127.0.0.1:{json.loads((data / 'processes' / 'replay-ports.json').read_text())['http']}"
    link = httpx.post(f"{origin}/links", headers=bearer(read_token(data, READER)), timeout=400).json()["link"]
    browser.show_as(width=1280)
    browser.visit(f"{origin}{link}")
    total = LISTED + len(runs) + 1
    rows = [
        measure("list of 100", lambda: browser.visit(f"{origin}/"), browser, Budget(ms=300, kb=60), rounds, says=f"of {total}")
    ]
    step = Budget(ms=100, kb=100)
    for count, trace_id in runs.items():
        path = f"{origin}/runs/{trace_id}"

        def to_run(path: str = path) -> str:
            return browser.visit(path)

        def to_step(path: str = path) -> str:
            browser.visit(path)
            return browser.click('a[href*="/steps/"]')

        budget = Budget(ms=500, kb=100 if count <= 1000 else 150)
        rows.append(measure(f"run of {count:,} steps", to_run, browser, budget, rounds, says=f"{count:,}"))
        rows.append(measure("  a click on a step", to_step, browser, step, rounds, says="/steps/1"))
    path = f"{origin}/runs/{heavy}/steps/1"
    name = f"body of {body / 10**6:g} MB"
    rows.append(measure(name, lambda: browser.visit(path), browser, Budget(ms=300, kb=64), rounds, says=f"{body // 1000:,},"))
    find = f"{path}?find={_WORDS[0]}+{_WORDS[1]}"
    rows.append(
        measure("  two words found in it", lambda: browser.visit(find), browser, Budget(ms=300, kb=64), rounds, says="found")
    )
    return rows


def of_phoenix(
    python: str, folder: Path, browser: Chromium, steps: int, rounds: int
) -> list[tuple[str, float, float, float, int]]:
    """Return for the list and a run in Phoenix: name, ms to first content, ms until it is all shown, kB and requests."""
    now = time.time_ns()
    trace_id = f"{steps:032x}"
    with Phoenix(python, folder / "phoenix") as phoenix:
        for number in range(LISTED):
            phoenix.send(agent_run(f"{number:030x}fe", 6, at_ns=now + number * 10**9))
        phoenix.send(agent_run(trace_id, steps, at_ns=now))
        project = phoenix.project()
        pages = {
            "Phoenix: list of traces": (f"{phoenix.origin}/projects/{project}/traces", "answer"),
            f"Phoenix: run of {steps:,} steps": (f"{phoenix.origin}/projects/{project}/traces/{trace_id}", "look_up"),
        }
        found: list[tuple[str, float, float, float, int]] = []
        for name, (url, says) in pages.items():
            times = [_shown(browser, url, says) for _ in range(min(rounds, 2) + 1)]
            first = times[0]  # with nothing in the browser's cache, as whoever opens it the first time
            later = times[1:]
            ms = statistics.median(item["ms"] for item in later)
            shown = statistics.median(item["shown"] for item in later)
            found.append((name, round(ms, 1), round(shown, 1), round(first["bytes"] / 1000, 1), first["requests"]))
    return found


def phoenix_python() -> str | None:
    """Return the Python of an environment with Phoenix, which is made if it is not there; None if that fails."""
    python = _ROOT / ".venv-backends" / "phoenix" / "bin" / "python"
    subprocess.run([_ROOT / ".ci" / "backends", "--install", "phoenix"], stdout=sys.stderr, check=False)
    return str(python) if python.with_name("phoenix").exists() else None


def _shown(browser: Chromium, url: str, says: str) -> dict[str, Any]:
    browser.visit(url)
    wait = f"""(async () => {{
        const until = performance.now() + {_PATIENCE_MS};
        while (!document.body.innerText.includes({says!r}) && performance.now() < until) {{
            await new Promise(done => setTimeout(done, 10)); }}
        return performance.now(); }})()"""
    shown = float(browser.run(wait))
    return {**browser.run(_MEASURED), "shown": shown}


def main() -> None:
    """Print the table, then the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="times that each page is opened, after the first")
    parser.add_argument("--steps", type=int, nargs="+", default=[1000, 10_000], help="sizes of the long runs")
    parser.add_argument("--without-phoenix", action="store_true", help="do not open the same runs in Phoenix")
    parser.add_argument("--body", type=int, default=5_000_000, help="bytes of the large body, about")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("chromium: not found; install it, for example `apt-get install chromium`")
    phoenix = None if arguments.without_phoenix else phoenix_python()
    with tempfile.TemporaryDirectory() as folder:
        data, profile = Path(folder, "data"), Path(folder, "profile")
        freezeframe(data, "up", *(f"--{name}-port=0" for name in ("grpc", "http", "clickhouse", "replay")))
        browser = Chromium(profile)
        try:
            rows = measured(data, browser, arguments.steps, arguments.body, arguments.rounds)
            beside = []
            if phoenix is not None:
                beside = of_phoenix(phoenix, Path(folder), browser, min(arguments.steps), arguments.rounds)
        finally:
            browser.close()
            freezeframe(data, "down")
    print(f"{'page':22s} {'first content':>14s} {'budget':>8s} {'on the wire':>12s} {'budget':>8s} {'requests':>9s}")
    for row in rows:
        print(
            f"{row.page:22s} {row.ms:11.0f} ms {row.budget.ms:5.0f} ms {row.kb:9.1f} kB {row.budget.kb:5.0f} kB "
            f"{row.requests:9d}  {row.verdict}"
        )
    for name, ms, shown, kb, requests in beside:
        whole = f"all of it {shown:.0f} ms" if shown < _PATIENCE_MS else f"not all of it within {_PATIENCE_MS / 1000:.0f} s"
        print(f"{name:28s} {ms:6.0f} ms, {whole}, {kb:,.1f} kB in {requests:d} requests the first time")
    if not beside:
        print("Phoenix: left out" if arguments.without_phoenix else "Phoenix: left out, it could not be installed")
    print(json.dumps({"bench": "page", "phoenix": beside, "rows": [{**asdict(row), "verdict": row.verdict} for row in rows]}))


if __name__ == "__main__":
    main()
