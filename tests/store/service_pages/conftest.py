"""A project with three recorded runs, and the replay service over the store that has them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from service_pages import AGENT, Client, git

from freezeframe_collector.store import Store
from freezeframe_replay.local.home import Home
from freezeframe_replay.service.app import make_app
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_schemas.local_tokens import READER, bearer, read_token
from freezeframe_schemas.run import Run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "agent.py").write_text(AGENT)
    (folder / ".freezeframe").mkdir()
    for arguments in (["init", "--quiet"], ["add", "agent.py"], ["commit", "--quiet", "-m", "as recorded"]):
        git(folder, *arguments)
    return folder


@pytest.fixture(scope="session")
def runs(folder: Path, store: Store, warm_server: str) -> dict[str, Run]:
    """A run that went well, one that failed, and one that caught what failed: recorded for real and stored."""
    recorded: dict[str, Run] = {}
    questions = {"good": "where is zanzibar?", "failed": "where is the lost one?", "partly": "a soft failure"}
    for name, question in questions.items():
        spans = folder / f"{name}.jsonl"
        environment = {**os.environ, "FREEZEFRAME_FILE": str(spans), "OTEL_SERVICE_NAME": "page-agent"}
        subprocess.run([warm_server, "agent.py", question], cwd=folder, env=environment, capture_output=True, check=False)
        recorded[name] = load_run_of_file(spans)
        store.insert(list(recorded[name].spans), token=f"pages-{name}")
    return recorded


@pytest_asyncio.fixture
async def client(folder: Path, facade_url: str, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setenv("FREEZEFRAME_STORE", facade_url)
    home = Home(directory=folder / ".freezeframe")
    async with TestClient(TestServer(make_app(home)), headers=bearer(read_token(home.directory, READER))) as made:
        yield made
