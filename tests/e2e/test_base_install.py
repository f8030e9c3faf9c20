"""An environment without an extra: each command says what to install, in two lines and without a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from freezeframe_schemas.installing import install_command

ROOT = Path(__file__).parents[2]
MODULES = {
    "embedded": {"chdb", "clickhouse_cityhash", "hyperscan", "phonenumbers", "grpc", "aiohttp", "xxhash", "lz4"},
    "replay": {"clickhouse_connect", "time_machine", "cryptography"},
    "ui": {"jinja2", "markupsafe"},
    "mcp": {"mcp", "mcp_types", "anyio", "pydantic", "starlette", "uvicorn"},
    "names": {"onnxruntime", "tokenizers", "numpy"},
    "spool": {"cryptography"},
    "zstd": {"zstandard"},
}
"""Extra -> modules that it installs, beyond those of the base."""
HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])

sys.meta_path.insert(0, Hidden())
"""
"""A start-up module: what is hidden cannot be imported in the process or in those that it starts."""


def run_without(hidden: set[str], folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a freezeframe command in an environment without these libraries."""
    (folder / "sitecustomize.py").write_text(HIDING.format(hidden=hidden))
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize(
    ("hidden", "command", "found"),
    [
        (
            "hyperscan",
            ("-m", "freezeframe._cli", "store", "redact-file", "--text", __file__),
            "freezeframe store redact-file: hyperscan is not installed",
        ),
        (
            "clickhouse_connect",
            ("-m", "freezeframe._cli", "sql", "SELECT 1", "--store", "clickhouse://127.0.0.1:1/x"),
            "freezeframe sql: clickhouse_connect is not installed",
        ),
        ("grpc", ("-m", "freezeframe_collector", "--check"), "freezeframe-collector: grpc is not installed"),
        ("aiohttp", ("-m", "freezeframe_collector"), "freezeframe-collector: aiohttp is not installed"),
    ],
)
def test_a_library_that_is_not_installed_is_named_with_what_brings_it(
    tmp_path: Path, hidden: str, command: tuple[str, ...], found: str
) -> None:
    """The base install has the command line, not all that its commands need."""
    done = run_without({hidden}, tmp_path, *command)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(f"{found}\n  do: pip install ")
    assert "Traceback" not in done.stderr


@pytest.mark.proof
@pytest.mark.long
def test_a_replay_without_what_moves_its_clock_says_so(tmp_path: Path) -> None:
    """The program is started in a separate process: its reason comes through."""
    (tmp_path / "agent.py").write_text("import freezeframe\n\n\n@freezeframe.run\ndef answer(x):\n    return x\n")
    record = "import freezeframe; freezeframe.instrument(file='run.jsonl'); import agent; agent.answer(1)"
    assert run_without(set(), tmp_path, "-c", record).returncode == 0
    done = run_without({"time_machine"}, tmp_path, "-m", "freezeframe._cli", "replay", "run.jsonl")
    assert done.returncode == 125
    assert "time-machine is not installed" in done.stdout + done.stderr
    assert install_command("replay") in " ".join((done.stdout + done.stderr).split())


@pytest.mark.long
def test_the_doctor_of_a_bare_install_says_what_is_missing(tmp_path: Path) -> None:
    """Nothing but the base's own dependencies can be imported. The commands that it prints name no package of an index."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    hidden = {module for extra in ("embedded", "replay", "ui", "mcp", "names", "spool", "zstd") for module in MODULES[extra]}
    done = run_without(hidden, tmp_path, "-m", "freezeframe._cli", "doctor", "--json")
    found = {item["check"]: item for item in json.loads(done.stdout)}
    assert {f"extra {extra}" for extra in ("collector", "embedded", "replay", "ui", "mcp")} <= found.keys()
    for extra in ("collector", "embedded", "replay", "ui", "mcp"):
        assert extra in extras
        assert (found[f"extra {extra}"]["grade"], found[f"extra {extra}"]["do"]) == ("warn", install_command(extra))
    assert (done.returncode, done.stderr) == (0, "")
