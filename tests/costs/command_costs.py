"""Count what commands cost: processes that they start, modules that they import, functions that they call, their
bytecode instructions, requests they send.

python tests/costs/command_costs.py      prints the counts as one JSON object
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from agent_folder import COMMAND_LINE, EPHEMERAL  # noqa: E402 - found by the line above

COUNTED: Final = Path(__file__).parent / "counted_process"
AGENT: Final = """
import json, os, urllib.request
import freezeframe

@freezeframe.run
def answer(question):
    said = []
    for place in range(3):
        asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": f"{question} {place}"}]}
        headers = {"content-type": "application/json"}
        url = "http://127.0.0.1:" + os.environ["PROVIDER_PORT"] + "/v1/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(asked).encode(), headers)) as answered:
            said.append(json.load(answered)["choices"][0]["message"]["content"])
    return said
"""
RECORD: Final = "import freezeframe; freezeframe.instrument(); import agent; agent.answer('Where is the parcel of Jane Roe?')"
COMMANDS: Final = {"up": ("up", *EPHEMERAL), "runs": ("runs",), "show": ("show", "last"), "replay": ("replay", "last")}


def main() -> None:
    """Print the counts."""
    command = [sys.executable, ROOT / "tests" / "benchmarks" / "capture_world.py"]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as world:
        assert world.stdout is not None
        try:
            print(json.dumps(count_all(Path(folder), world.stdout.readline().strip())))
        finally:
            run(Path(folder), {}, "-c", COMMAND_LINE, "down")
            world.terminate()


def count_all(folder: Path, provider: str) -> dict[str, dict[str, int]]:
    """Count each command, the services being up."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "read.txt").write_text("")
    found: dict[str, dict[str, int]] = {}
    more = {"PROVIDER_PORT": provider}
    for name, arguments in COMMANDS.items():
        if name == "runs":
            run(folder, more, "-c", RECORD)
        if name != "up":
            run(folder, more, "-c", COMMAND_LINE, *arguments)  # compiles byte code, and fills the caches of the services
        found[f"command.{name}"] = counted_command(folder, name, more, arguments)
        if name == "up":
            run(folder, more, "-c", COMMAND_LINE, "down")
        found[f"command.{name}"] |= counted_instructions(folder, name, more, arguments)
    del found["command.up"]["calls"], found["command.up"]["sleeps"]  # it waits for the services as long as they take
    del found["command.replay"]["sleeps"]  # as long as the program takes
    return found


def counted_command(folder: Path, name: str, more: Mapping[str, str], arguments: tuple[str, ...]) -> dict[str, int]:
    """Run a command, and return the sums over its processes, which have ended."""
    counts = folder / f"counts-{name}"
    counts.mkdir()
    environ = {**more, "COUNT_PROCESSES_INTO": str(counts), "PYTHONPATH": str(COUNTED), "PYTHONHASHSEED": "0"}
    run(folder, environ, "-c", COMMAND_LINE, *arguments)
    processes: list[dict[str, Any]] = [json.loads(text) for file in counts.iterdir() if (text := file.read_text())]
    if os.environ.get("SHOW_PROCESSES"):
        for one in processes:
            print({key: value for key, value in one.items() if key != "names"}, file=sys.stderr)
    return {
        "processes": len(list(counts.iterdir())),
        **{figure: sum(one[figure] for one in processes) for figure in ("modules", "calls", "statements", "sleeps")},
    }


def counted_instructions(folder: Path, name: str, more: Mapping[str, str], arguments: tuple[str, ...]) -> dict[str, int]:
    """Run a command again, and return the bytecode instructions of its processes, without those of services that it starts."""
    counts = folder / f"instructions-{name}"
    counts.mkdir()
    mode = "here" if name == "up" else "everywhere"
    environ = {
        "COUNT_PROCESSES_INTO": str(counts),
        "COUNT_INSTRUCTIONS": mode,
        "PYTHONPATH": str(COUNTED),
        "PYTHONHASHSEED": "0",
    }
    run(folder, {**more, **environ}, "-c", COMMAND_LINE, *arguments)
    return {"instructions": sum(json.loads(file.read_text())["instructions"] for file in counts.iterdir())}


def run(folder: Path, more: Mapping[str, str], *arguments: str) -> None:
    """Run Python in the folder.

    Raises:
        RuntimeError: it fails.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={**ours, **more}, capture_output=True, text=True, timeout=400, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[2:]}: {done.stdout[-500:]} {done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
