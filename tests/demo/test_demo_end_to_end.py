"""`freezeframe demo` from outside: it ends well, and what it leaves behind bears out what it said.

One demo is played for all tests of this file, in its own directory.
"""

import base64
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from order_shop import EXAMPLE, MESSAGE

from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import load_fixture

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# Runs the agent like `python agent.py`, and writes down every chunk of every response that an SDK gets to see.
_LISTENER = """
import base64, json, os, runpy, sys
import httpx2

sys.path.insert(0, os.getcwd())

heard = []
iter_raw = httpx2.Response.iter_raw

def listening(self, *args, **kwargs):
    chunks = []
    heard.append((self.request.url.path, self.status_code, chunks))
    for chunk in iter_raw(self, *args, **kwargs):
        chunks.append(base64.b64encode(chunk).decode())
        yield chunk

httpx2.Response.iter_raw = listening
out, sys.argv = sys.argv[1], ["agent.py", *sys.argv[2:]]
try:
    runpy.run_path("agent.py", run_name="__main__")
finally:
    with open(out, "w") as file:
        json.dump(heard, file)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A demo that was played."""

    directory: Path
    returncode: int
    output: str

    @property
    def bot(self) -> Path:
        """The agent's project, as the demo leaves it: with the fix."""
        return self.directory / "support-bot"

    @property
    def fixture(self) -> Path:
        """The fixture that the demo wrote."""
        (manifest,) = (self.bot / "tests" / "regressions").glob("*/manifest.json")
        return manifest.parent

    def calls(self) -> str:
        """What the shop has counted."""
        command = [sys.executable, EXAMPLE / "world.py", self.directory / "world", "calls"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def replay(self, *command: str, writes: Path | None = None) -> tuple[int, dict[str, Any]]:
        """Replay the fixture in the bot's directory; return exit code and report. `writes`: a file that is written for real."""
        allowed = ["--allow-path", str(writes)] if writes else []
        program = ["--", *command] if command else []
        done = subprocess.run(
            ["freezeframe", "replay", str(self.fixture), "--json", *allowed, *program],
            cwd=self.bot,
            env=_environment(),
            capture_output=True,
            text=True,
        )
        assert done.stdout, done.stderr
        return done.returncode, cast("dict[str, Any]", json.loads(done.stdout))


def _environment() -> dict[str, str]:
    """An environment as on a machine that knows neither provider nor shop."""
    path = os.pathsep.join([str(Path(sys.executable).parent), str(Path(sys.prefix, "bin")), os.environ["PATH"]])
    return {
        **os.environ,
        "PATH": path,
        "OPENAI_BASE_URL": "https://api.openai.com/v1",
        "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The demo, played once."""
    directory = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [Path(sys.executable).with_name("freezeframe"), "demo", "--directory", directory],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return Played(directory=directory, returncode=done.returncode, output=done.stdout + done.stderr)


@pytest.fixture
def old_code(played: Played, warm_python: None) -> Played:
    """The played demo with the agent's code as it was recorded, without the fix."""
    subprocess.run(["git", "checkout", "-q", "--", "tools.py"], cwd=played.bot, check=True)
    return played


def test_the_demo_ends_well_with_every_claim_checked(played: Played) -> None:
    """Exit code 0; the seven parts and the last lines are there; plain text if there is no terminal."""
    assert played.returncode == 0, played.output
    for number in range(1, 8):
        assert f"━━ {number}  " in played.output
    assert "Now your own agent" in played.output
    assert int(re.findall(r"(\d+) claims checked", played.output)[0]) == played.output.count("✓ ") == 12
    assert "\033[" not in played.output


def test_nothing_runs_after_the_demo(played: Played) -> None:
    """The processes that it noted are gone."""
    notes = [json.loads(path.read_text()) for path in (played.directory / "freezeframe" / "processes").glob("*.json")]
    pids = [note["pid"] for note in notes]
    ports = played.directory / "freezeframe" / "ports.json"
    pids += [json.loads(ports.read_text())["pid"]] if ports.exists() else []
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_no_customer_data_is_in_any_byte_of_the_data_directory(played: Played) -> None:
    """Neither the customer's own words nor anything shaped like an e-mail that is not a surrogate."""
    secrets = [*re.findall(rb"[\w.]+@[\w.-]+", MESSAGE.encode()), b"Keller", b"415 555 2671", b"4539 1488"]
    for root in (played.directory / "freezeframe", played.fixture):
        for path in (path for path in root.rglob("*") if path.is_file()):
            body = path.read_bytes()
            assert [secret for secret in secrets if secret in body] == [], path
            emails = set(re.findall(rb"[a-z][a-z.]{2,40}@[a-z-]{3,30}\.(?:com|net|org)\b", body))
            assert emails == set(), path


def test_the_fixture_is_reenacted_exactly_without_store_network_or_shop(old_code: Played) -> None:
    """Each step answered at its exact place, no socket tried, the same wrong answer, and the shop counts nothing."""
    before = old_code.calls()
    code, report = old_code.replay()
    assert code == 0, report
    assert {served["how"] for served in report["served"]} == {"exact"}
    assert len(report["served"]) == report["steps"] == 8
    assert report["sockets_tried"] == 0
    assert "A-1057" in report["outcome"]
    assert old_code.calls() == before


def test_every_served_response_is_the_recorded_one_chunk_by_chunk(old_code: Played, tmp_path: Path) -> None:
    """What the SDKs read in a replay is what the fixture holds, bytes and borders, for each model call in order."""
    fixture = load_fixture(old_code.fixture)
    (message,) = json.loads(fixture.entry.input or "")["kwargs"].values()
    (tmp_path / "listener.py").write_text(_LISTENER)
    heard_file = tmp_path / "heard.json"
    code, report = old_code.replay("python", str(tmp_path / "listener.py"), str(heard_file), message, writes=heard_file)
    assert code == 0, report
    heard = [
        (path, status, [base64.b64decode(chunk) for chunk in chunks])
        for path, status, chunks in json.loads(heard_file.read_text())
    ]
    recorded = [
        (re.sub(r"^https?://[^/]+", "", step.exchange.request.url), step.exchange.response.status, step.exchange.response)
        for step in fixture.steps
        if step.exchange.kind is Kind.MODEL and step.inside is None
    ]
    assert heard == [(path, status, [chunk.data for chunk in response.chunks]) for path, status, response in recorded]
    assert len(heard) == 4
    assert max(len(chunks) for _, _, chunks in heard) > 1, "one of them is a stream"


def test_the_exported_test_is_red_on_the_old_code_and_green_on_the_fixed(old_code: Played) -> None:
    """The fixture and its test are all that is needed."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/regressions"]
    red = subprocess.run(command, cwd=old_code.bot, env=_environment(), capture_output=True, text=True)
    assert red.returncode == 1, red.stdout
    assert "the recorded failure is re-enacted" in red.stdout
    subprocess.run(["git", "apply", "fix.patch"], cwd=old_code.bot, check=True)
    green = subprocess.run(command, cwd=old_code.bot, env=_environment(), capture_output=True, text=True)
    assert green.returncode == 0, green.stdout


def test_a_false_claim_ends_the_demo_with_an_error(tmp_path: Path) -> None:
    """If the commands are missing, the demo says which one failed, and its exit code is 1."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from stage import ClaimError, Stage; from pathlib import Path\n"
        "with Stage({}, Path.cwd()) as stage:\n    stage.claim('two is three', 2 == 3, '2')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, EXAMPLE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "two is three: not so, found: 2" in done.stderr
