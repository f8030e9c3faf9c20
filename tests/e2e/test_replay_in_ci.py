"""The GitHub Action, the GitLab template and the pre-commit hook, by the shell lines of their files.

The forge is a `gh` that notes what it is asked, and a server on loopback.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from freezeframe_replay.cli import main

ROOT = Path(__file__).parents[2]
AGENT = """
import freezeframe

freezeframe.instrument(file="run.jsonl", spool=False)


@freezeframe.tool
def track(order: str) -> str:
    return f"{order} is in Lyon"


@freezeframe.run
def answer(order: str) -> str:
    return track(order)


if __name__ == "__main__":
    answer("AC-1")
"""
FAKE_GH = """#!/bin/sh
echo "$@" >>"$GH_CALLS"
case "$*" in *--paginate*) cat "$GH_EXISTING" ;; esac
"""

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]


@pytest.fixture(scope="module")
def recorded(warm_python: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of an agent with a fixture of its run, and one that was never redacted outside of the folder of fixtures."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / "agent.py").write_text(AGENT)
    (folder / ".gitignore").write_text("*.jsonl\n__pycache__\n")
    as_somebody = "-c user.name=a -c user.email=a@example.com -c commit.gpgsign=false"
    in_shell(folder, f"git init -q && git add . && git {as_somebody} commit -qm agent")
    in_shell(folder, "python agent.py && freezeframe store redact-file run.jsonl >redacted.jsonl")
    in_shell(folder, "freezeframe fixture redacted.jsonl -o 'tests/regressions/track one'")
    in_shell(folder, "freezeframe fixture run.jsonl -o bare")
    return folder


def in_shell(folder: Path, script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{Path(sys.prefix, 'bin')}:{folder / 'bin'}:/usr/bin:/bin"
    compiled = Path.home() / ".cache" / "freezeframe"  # compiling the patterns of a policy anew takes six seconds
    environment = {"PATH": path, "HOME": str(folder), "FREEZEFRAME_CACHE": str(compiled)} | variables
    return subprocess.run(
        ["bash", "-c", script, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def loaded(name: str) -> Any:
    return pytest.importorskip("yaml").safe_load((ROOT / name).read_text())


def run_action(folder: Path, existing: str = "") -> tuple[int, list[str], Path]:
    """Run the steps of the action as a pull request does; return its exit code, what `gh` was asked, and the output."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/gh").write_text(FAKE_GH)
    (folder / "bin/gh").chmod(0o755)
    calls, out = folder / "gh-calls", folder / "temp/freezeframe"
    calls.write_text("")
    (folder / "existing").write_text(existing)
    action = loaded("deploy/action/action.yml")
    values = {f"inputs.{name}": str(given["default"]) for name, given in action["inputs"].items()}
    values |= {"github.action_path": str(ROOT / "deploy/action"), "runner.temp": str(folder / "temp")}
    values |= {"github.repository": "me/bot", "github.event.pull_request.number": "7"}
    code = 0
    for step in action["runs"]["steps"]:
        if "run" not in step:
            continue
        given = {name: re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text) for name, text in step["env"].items()}
        files = {"GITHUB_OUTPUT": str(folder / "outputs"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
        asked = {"GH_CALLS": str(calls), "GH_EXISTING": str(folder / "existing")}
        done = in_shell(folder, f"set -eo pipefail\n{step['run']}", **given, **files, **asked)
        for line in (folder / "outputs").read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.replay.outputs.{name}"] = value
        code = done.returncode
    return code, calls.read_text().splitlines(), out


def with_agent(recorded: Path, text: str) -> Path:
    (recorded / "agent.py").write_text(text)
    return recorded


def test_the_action_comments_the_first_divergence_and_packs_the_run(recorded: Path) -> None:
    """The packed run holds the code that diverged: it diverges for whoever downloads it."""
    folder = with_agent(recorded, AGENT.replace("track(order)\n\n\nif", 'track(order + "0")\n\n\nif'))
    code, asked, out = run_action(folder)
    assert code == 3
    assert [words.split()[-3:] for words in asked[1:]] == [["repos/me/bot/issues/7/comments", "-F", f"body=@{out}/report.md"]]
    report = (out / "report.md").read_text()
    assert "0 of 1 identical" in report
    assert '    + "AC-10"' in report
    assert report in (folder / "summary").read_text()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    replayed = in_shell(elsewhere, f"freezeframe replay '{out}/track one.ffz' --packed-code --quiet")
    assert (replayed.returncode, "diverged at step 1" in replayed.stdout) == (3, True)


def test_the_action_is_silent_about_runs_that_are_identical(recorded: Path) -> None:
    """A comment of an earlier push is changed, and none is made anew."""
    folder = with_agent(recorded, AGENT)
    assert run_action(folder)[:2] == (0, ["api --paginate repos/me/bot/issues/7/comments --jq " + JQ])
    code, asked, out = run_action(folder, existing="12\n")
    assert (code, asked[1:]) == (
        0,
        [f"api --silent -X PATCH repos/me/bot/issues/comments/12 -F body=@{out}/report.md"],
    )
    assert "1 of 1 identical" in (out / "report.md").read_text()


JQ = '.[] | select(.body | startswith("<!-- freezeframe -->")) | .id'


def test_a_folder_without_fixtures_fails(recorded: Path) -> None:
    """A wrong name must not look like success."""
    script = ROOT / "replay/freezeframe_replay/replay_fixtures.sh"
    done = in_shell(recorded, f"sh {script} elsewhere-not out-not")
    assert done.returncode == 1
    assert "no fixture below elsewhere-not" in (recorded / "out-not/report.md").read_text()


def test_gitlabs_job_writes_a_note_on_the_merge_request(recorded: Path) -> None:
    noted: list[tuple[str, str | None, Any]] = []

    class Forge(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            noted.append((self.path, self.headers["PRIVATE-TOKEN"], body["body"]))
            self.send_response(201)
            self.end_headers()

    folder = with_agent(recorded, AGENT.replace("track(order)\n\n\nif", 'track(order + "0")\n\n\nif'))
    job = loaded("deploy/gitlab-ci.yml")["freezeframe-replay"]
    with HTTPServer(("127.0.0.1", 0), Forge) as forge:
        threading.Thread(target=forge.serve_forever, daemon=True).start()
        project = {"CI_API_V4_URL": f"http://127.0.0.1:{forge.server_port}", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "9"}
        done = in_shell(folder, "\n".join(job["script"]), FREEZEFRAME_NOTE_TOKEN="t0", **job["variables"], **project)
        forge.shutdown()
    assert done.returncode == 3, done.stderr
    assert (folder / "freezeframe-replay/track one.ffz").exists()
    assert [(path, token, '    + "AC-10"' in text) for path, token, text in noted] == [
        ("/projects/5/merge_requests/9/notes", "t0", True)
    ]


def test_the_hook_refuses_a_fixture_that_was_never_redacted(recorded: Path) -> None:
    """A manifest of something else is none of its business."""
    hook = loaded(".pre-commit-hooks.yaml")[0]
    (recorded / "manifest.json").write_text('{"name": "an app"}')
    good, bare = "'tests/regressions/track one/manifest.json'", "bare/manifest.json"
    assert in_shell(recorded, f"{hook['entry']} {good} manifest.json").returncode == 0
    assert in_shell(recorded, f"{hook['entry']} manifest.json").returncode == 0
    refused = in_shell(recorded, f"{hook['entry']} {good} {bare}")
    assert (refused.returncode, "it was never redacted" in refused.stderr) == (1, True)
    named = re.compile(hook["files"])
    assert named.search("tests/a/manifest.json")
    assert named.search("bug.ffz")
    assert not named.search("src/x.py")


def test_a_redacted_run_is_verified_as_such(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of spans is read span by span."""
    assert main(["fixture", "verify", "--redacted", str(recorded / "redacted.jsonl")]) == 0
    assert main(["fixture", "verify", "--redacted", str(recorded / "run.jsonl")]) == 1
    assert "it was never redacted" in capsys.readouterr().err
    assert main(["fixture", "verify", str(recorded / "run.jsonl")]) == 0
