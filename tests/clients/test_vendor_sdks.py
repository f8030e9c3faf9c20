"""Next to the SDK of another tracing vendor, whichever starts first: theirs gets its spans, and freezeframe's run replays.

`make test-clients` runs this in the environment `vendors`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from capture_provider import Provider

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.environ.get("FREEZEFRAME_CLIENTS") != "vendors", reason="`make test-clients` has an environment for it"
    ),
]

AGENT = '''"""Asks a model, watched by a vendor and by us."""

import os

import freezeframe


def langfuse():
    from langfuse import Langfuse
    from langfuse.openai import openai

    client = Langfuse(public_key="pk-lf-1", secret_key="sk-lf-1", base_url=os.environ["VENDOR_URL"])
    return openai, client.flush


def logfire():
    import logfire
    import openai

    there = logfire.AdvancedOptions(base_url=os.environ["VENDOR_URL"])
    logfire.configure(token="t", send_to_logfire=True, console=False, metrics=False, inspect_arguments=False, advanced=there)
    logfire.instrument_openai()
    return openai, logfire.force_flush


def traceloop():
    import openai
    from traceloop.sdk import Traceloop

    Traceloop.init(app_name="agent", api_endpoint=os.environ["VENDOR_URL"], api_key="k", disable_batch=True)
    return openai, lambda: None


def start():
    vendor = globals()[os.environ["VENDOR"]]
    if os.environ["FIRST"] == "vendor":
        made = vendor()
        freezeframe.instrument()
        return made
    freezeframe.instrument()
    return vendor()


openai, flush = start()


@freezeframe.run
def answer(question):
    client = openai.OpenAI(base_url=os.environ["PROVIDER_URL"] + "/v1", api_key="x", max_retries=0)
    messages = [{"role": "user", "content": question}]
    return client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content


if __name__ == "__main__":
    print(answer("Where is AC-1?"))
    flush()
'''
REPLAY = "import sys; from freezeframe_replay.cli import main; sys.exit(main(['replay', 'spans.jsonl']))"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.mark.parametrize("first", ["vendor", "freezeframe"])
@pytest.mark.parametrize(
    ("vendor", "theirs"), [("langfuse", "OpenAI-generation"), ("logfire", "Chat Completion"), ("traceloop", "openai.chat")]
)
def test_their_exporter_gets_its_spans_and_our_run_replays(
    vendor: str, theirs: str, first: str, provider: Provider, tmp_path: Path
) -> None:
    if importlib.util.find_spec(vendor) is None:
        pytest.skip(f"{vendor} is not installed")
    from otlp_receiver import Receiver

    (tmp_path / "agent.py").write_text(AGENT)
    with Receiver() as receiver:
        environment = {
            **os.environ,
            "FREEZEFRAME_FILE": "spans.jsonl",
            "PROVIDER_URL": provider.url,
            "VENDOR": vendor,
            "VENDOR_URL": receiver.url,
            "FIRST": first,
            "TRACELOOP_METRICS_ENABLED": "false",
            "TRACELOOP_TELEMETRY": "false",
        }

        def python(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, *arguments],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )

        asked = python("agent.py")
        assert asked.returncode == 0, asked.stderr
        assert any(name.startswith(theirs) for name in receiver.names), receiver.names
        sent = len(receiver.requests)
        provider.stop()
        replayed = python("-c", REPLAY)
        assert "1 of 1 step" in replayed.stdout, replayed.stdout + replayed.stderr
        # A replay tells the vendor nothing: it is not a new run.
        assert len(receiver.requests) == sent
