"""Capture beside other tools that patch the same libraries, started before it and after it, with the real tools.

Each row is one program in two orders: its results are those of the program without capture, it ends, and each of its model
calls is recorded. `make test-clients` has the environment, named neighbours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from capture_provider import Provider

from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas.exchange import Kind

NOWHERE: Final = "http://127.0.0.1:1"
NEIGHBOURS: Final = {
    "sentry_sdk": "import sentry_sdk; sentry_sdk.init('http://a@127.0.0.1:1/1', traces_sample_rate=1.0, shutdown_timeout=0.1)",
    "ddtrace": "import ddtrace.auto",
    "newrelic": "import newrelic.agent; newrelic.agent.initialize()",
    "traceloop": f"from traceloop.sdk import Traceloop; Traceloop.init(api_endpoint='{NOWHERE}', telemetry_enabled=False)",
    "logfire": "import logfire; logfire.configure(send_to_logfire=False, console=False); logfire.instrument_httpx()",
    "openinference": "from openinference.instrumentation.openai import OpenAIInstrumentor; OpenAIInstrumentor().instrument()",
    "wrapt": "import wrapt\nfor m in ('httpx', 'http.client', 'asyncio', 'openai'): wrapt.register_post_import_hook(print, m)",
    "freezegun": "import freezegun; freezegun.freeze_time('2026-01-01', tick=True).start()",
    "time_machine": "import time_machine; time_machine.travel('2026-01-01').start()",
    "moto": "import moto; moto.mock_aws().start()",
    "respx": "import respx; r = respx.mock(assert_all_called=False); r.start(); r.route(host='127.0.0.1').pass_through()",
    "vcr": "import vcr; vcr.use_cassette('cassette-%d.yaml' % __import__('os').getpid()).__enter__()",
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
    **{
        f"opentelemetry.instrumentation.{module}": (
            f"from opentelemetry.instrumentation.{module} import {name}Instrumentor; {name}Instrumentor().instrument()"
        )
        for module, name in {"httpx": "HTTPXClient", "urllib": "URLLib", "threading": "Threading", "asyncio": "Asyncio"}.items()
    },
}
"""What has to be installed, and the lines that start it."""

PROGRAM: Final = """
import concurrent.futures, threading, urllib.request
import openai

client = openai.OpenAI(api_key="x", max_retries=0)

def ask(number):
    messages = [{"role": "user", "content": f"question {number}"}]
    return client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content

def main():
    found = [ask(0)]
    thread = threading.Thread(target=lambda: found.append(ask(1)))
    thread.start(); thread.join()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found += list(pool.map(ask, (2, 3)))
    return found
"""
BARE: Final = f"{PROGRAM}\nprint('RESULT', len(main()), flush=True)\n"
CAPTURED: Final = f"{PROGRAM}\nprint('RESULT', len(freezeframe.run(main)()), flush=True)\n"
START: Final = "import freezeframe; freezeframe.instrument()"


def run(folder: Path, text: str, address: str) -> str:
    """Run a program to its end and return the line of its result."""
    (folder / "program.py").write_text(text)
    surroundings = {
        **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "NEW_RELIC_LICENSE_KEY"), "x"),
        **{"DD_TRACE_AGENT_URL": NOWHERE, "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false"},
        **{"DD_REMOTE_CONFIGURATION_ENABLED": "false", "NEW_RELIC_DEVELOPER_MODE": "true"},
        **{"OPENAI_BASE_URL": f"{address}/v1", "FREEZEFRAME_FILE": str(folder / "run.jsonl"), "HOME": str(folder)},
    }
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **surroundings}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("RESULT"))


@pytest.mark.long
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_a_program_beside_another_tool_does_the_same_and_is_recorded(neighbour: str, order: str, tmp_path: Path) -> None:
    if os.environ.get("FREEZEFRAME_CLIENTS") != "neighbours":
        pytest.skip("`make test-clients` has an environment for it")
    start = NEIGHBOURS[neighbour]
    lines = [start, START] if order == "before" else [START, start]
    with Provider() as provider:
        bare = run(tmp_path, f"{start}\n{BARE}", provider.url)
        assert run(tmp_path, "\n".join([*lines, CAPTURED]), provider.url) == bare
    calls = [
        [exchange.kind for exchange in run.exchanges].count(Kind.MODEL) for run in load_runs_of_file(tmp_path / "run.jsonl")
    ]
    assert [count for count in calls if count] == [4], "a neighbour's own requests may be a run without a model call"
