"""What the first minutes cost: sizes of installations, time and CPU of the first commands, memory of what runs.

A wheel of this tree is built and installed into empty environments, each file copied, so that no memory is shared with other
programs. CPU of a command is its own and that of the services that answer it. Memory is PSS, of all processes of `up`.

    python tests/benchmarks/bench_start.py [--here] [--no-demo] [--runs 33]
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from figures import Figure, print_figures

ROOT: Final = Path(__file__).parents[2]
AGENT: Final = """
import json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from http.client import HTTPConnection

import freezeframe

freezeframe.instrument()
WORDS = "Dear Maria Keller, your order A-1057 leaves tomorrow. Call +1 415 555 2671. " * 8


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": WORDS}
        body = json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@freezeframe.run
def answer(question):
    for _ in range(3):
        client = HTTPConnection("127.0.0.1", model.server_port)
        asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
        client.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
        client.getresponse().read()
        client.close()


model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=model.serve_forever, daemon=True).start()
for number in range(int(sys.argv[1])):
    answer(f"Where is order {number}? I am Maria Keller, card 4539 1488 0343 6467")
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="measure this environment, and no installation")
    parser.add_argument("--no-demo", action="store_true", help="leave the demo out")
    parser.add_argument("--runs", type=int, default=33, help="runs in the store")
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-start-") as scratch:
        folder = Path(scratch)
        binaries = Path(sys.executable).parent
        if not options.here:
            wheel = _build(folder)
            for name, extras in (("base", ""), ("README's install", "[embedded,replay,ui]"), ("demo's install", "[demo]")):
                binaries, size = _install(folder / f"venv{extras}", f"{wheel}{extras}")
                figures += [Figure(f"{name}: packages", size[0], ""), Figure(f"{name}: on disk", size[1], "MB")]
        home = folder / "home"
        home.mkdir()
        shell = Shell(home, binaries)
        if not options.no_demo:
            figures += _times("demo", *shell.run("freezeframe", "demo"), goal_s=60)
        figures += _started(shell, options.runs)
    print_figures("start", figures)


@dataclass(frozen=True, slots=True)
class Shell:
    """A home of its own, where commands are typed."""

    home: Path
    binaries: Path

    def run(self, *words: str) -> tuple[float, float]:
        """Run a command; return its seconds and its CPU, that of its children included."""
        started, before = time.monotonic(), _children_cpu()
        self.said(*words)
        return time.monotonic() - started, _children_cpu() - before

    def said(self, *words: str) -> str:
        """Run a command and return what it printed.

        Raises:
            SystemExit: it failed.
        """
        environment = {"PATH": f"{self.binaries}:/usr/bin:/bin", "HOME": str(self.home)}
        done = subprocess.run(
            words, cwd=self.home, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def _started(shell: Shell, runs: int) -> Iterator[Figure]:
    (shell.home / "agent.py").write_text(AGENT)
    free = [word for name in ("grpc", "http", "clickhouse", "replay") for word in (f"--{name}-port", "0")]
    shell.run("freezeframe", "--version")  # compiles what it imports
    try:
        up_s, cpu_s = shell.run("freezeframe", "up", *free)
        shell.run("freezeframe", "down")  # the services have compiled their modules, too
        up_s, cpu_s = shell.run("freezeframe", "up", *free)
        services = Services(shell.home / ".freezeframe")
        yield from _times("up", up_s, cpu_s + services.cpu_s(), goal_s=3)
        yield Figure("up: memory, empty", services.pss_mb(), "MB")
        shell.run("python", "agent.py", str(runs))
        while str(runs) not in shell.said("freezeframe", "sql", "SELECT count() FROM runs").split():
            time.sleep(0.5)
        for command, goal_s in (("runs", 0.3), ("show last", 0.5)):
            figures: list[tuple[float, float]] = []
            for _ in range(3):
                before = services.cpu_s()
                took_s, cpu_s = shell.run("freezeframe", *command.split())
                figures.append((took_s, cpu_s + services.cpu_s() - before))
            took_s, cpu_s = (min(column) for column in zip(*figures, strict=True))
            yield Figure(f"{command}: time", took_s, "s")
            yield Figure(f"{command}: CPU", cpu_s, "s", f"<= {goal_s}", cpu_s <= goal_s)
        whole = services.pss_mb()
        yield Figure(f"up: memory, {runs} runs, after questions", whole, "MB", "<= 350", whole <= 350)
        yield from (Figure(f"  of it {name}", pss, "MB") for name, pss in services.parts_mb())
    finally:
        shell.run("freezeframe", "down")


@dataclass(frozen=True, slots=True)
class Services:
    """The processes of a data directory."""

    data: Path

    def _processes(self) -> Iterator[tuple[Path, str]]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it has ended
            named = re.search(
                r"freezeframe_collector\.readers\.host|freezeframe_collector|freezeframe_replay\.service", command
            )
            if named and str(self.data) in command:
                yield process, named[0]

    def cpu_s(self) -> float:
        """Return the CPU that they have used."""
        total = 0
        for process, _ in self._processes():
            fields: list[Any] = (process / "stat").read_text().rpartition(")")[2].split()
            total += sum(int(field) for field in fields[11:15])
        return total / _TICKS

    def parts_mb(self) -> list[tuple[str, float]]:
        """Return the memory of each program, its processes together."""
        parts: dict[str, float] = {}
        for process, name in self._processes():
            found = re.search(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), flags=re.MULTILINE)
            parts[name] = parts.get(name, 0) + (int(found[1]) / 1024 if found else 0)
        return sorted(parts.items())

    def pss_mb(self) -> float:
        """Return the memory of all of them."""
        return sum(pss for _, pss in self.parts_mb())


def _times(name: str, took_s: float, cpu_s: float, *, goal_s: float) -> list[Figure]:
    return [Figure(f"{name}: time", took_s, "s", f"<= {goal_s}", took_s <= goal_s), Figure(f"{name}: CPU", cpu_s, "s")]


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _uv(*words: str) -> str:
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    environment = os.environ | {"UV_LINK_MODE": "copy", "UV_SYSTEM_CERTS": "true"}
    return subprocess.run([uv, *words], env=environment, capture_output=True, text=True, check=True).stdout


def _build(folder: Path) -> Path:
    _uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def _install(venv: Path, wanted: str) -> tuple[Path, tuple[int, float]]:
    """Install into a new environment; return its programs' folder, and how many packages and MB it has."""
    _uv("venv", "--quiet", "--python", sys.executable, str(venv))
    _uv("pip", "install", "--quiet", "--python", str(venv), wanted)
    packages = len(_uv("pip", "list", "--quiet", "--python", str(venv), "--format", "freeze").splitlines())
    size = sum(path.lstat().st_blocks * 512 for path in venv.rglob("*") if path.is_file() and not path.is_symlink())
    return venv / "bin", (packages, size / 1_000_000)


if __name__ == "__main__":
    main()
