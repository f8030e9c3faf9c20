"""What capture costs the application: client CPU and wall time per model call; bare, with freezeframe, and with OpenInference.

Each variant is a process of its own with the same SDK, the same provider on loopback and the same collector that accepts and
forgets; CPU is that of the whole process, exporter thread included, until everything is delivered. Rounds of the variants are
interleaved, and the median round counts, because the machine is shared. Goal: freezeframe adds less than OpenInference in
every row.

    python tests/benchmarks/bench_capture.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

VARIANTS: Final = ("bare", "freezeframe", "openinference")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row. `calls` is what a round measures."""

    name: str
    calls: int
    means: str


SCENARIOS: Final = (
    Scenario(name="chat_small", calls=60, means="one short message"),
    Scenario(name="chat_large", calls=30, means="100 messages and 10 tools, 63 KB"),
    Scenario(name="openai_stream", calls=40, means="OpenAI stream of 8 events"),
    Scenario(name="anthropic_stream", calls=40, means="Anthropic stream of 8 events"),
    Scenario(name="async_50", calls=100, means="50 concurrent asynchronous calls"),
)

# -- the provider and the collector, one process ------------------------------------------------------------------------

_CHAT: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello there."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    }
).encode()


def _sse(value: Any, event: str | None = None) -> bytes:
    lead = f"event: {event}\n" if event else ""
    return f"{lead}data: {json.dumps(value)}\n\n".encode()


def _openai_events() -> list[bytes]:
    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "choices": [choice]})

    return [*(chunk({"role": "assistant", "content": f"word{i} "}) for i in range(6)), chunk({}, "stop"), b"data: [DONE]\n\n"]


def _anthropic_events() -> list[bytes]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"w{i} "}} for i in range(3)),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    return [_sse(event, str(event["type"])) for event in events]


def _chunked(pieces: list[bytes]) -> bytes:
    body = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body


def _plain(body: bytes, content_type: str = "application/json") -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def serve() -> None:
    """Answer provider and collector requests; print the port."""
    answers = {"chat": _plain(_CHAT), "openai": _chunked(_openai_events()), "anthropic": _chunked(_anthropic_events())}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                body = await reader.readexactly(length)
                if b"/v1/traces" in head:
                    writer.write(_plain(b"", "application/x-protobuf"))
                elif b"/messages" in head:
                    writer.write(answers["anthropic"])
                else:
                    streamed = b'"stream":true' in body or b'"stream": true' in body
                    writer.write(answers["openai" if streamed else "chat"])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# -- a worker, one process a variant ------------------------------------------------------------------------------------


def _instrument(variant: str, url: str) -> Callable[[], object]:
    """Turn the variant on; return what delivers everything."""
    if variant == "freezeframe":
        import freezeframe

        handle = freezeframe.instrument(endpoint=url, root=False)
        return lambda: handle.flush(30)
    if variant == "openinference":
        os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
        from openinference.instrumentation.anthropic import AnthropicInstrumentor
        from openinference.instrumentation.openai import OpenAIInstrumentor
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=100_000))  # its 128 would lose the large chat
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces"), schedule_delay_millis=500))
        OpenAIInstrumentor().instrument(tracer_provider=provider)
        AnthropicInstrumentor().instrument(tracer_provider=provider)
        return lambda: provider.force_flush(30_000)
    os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
    return lambda: None


def work(variant: str, url: str) -> None:
    """Run rounds as they are asked for on stdin (a scenario's name a line); print ``cpu wall`` seconds of each."""
    deliver = _instrument(variant, url)
    import anthropic
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    claude = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    small: Any = [{"role": "user", "content": "Say hello."}]
    roles = ("user", "assistant")
    large: Any = [{"role": roles[i % 2], "content": f"message {i}: " + "some words of a talk " * 25} for i in range(100)]
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string", "description": "a parameter"} for i in range(8)}}
    tools: Any = [{"type": "function", "function": {"name": f"tool_{i}", "parameters": schema}} for i in range(10)]

    def chat_small(calls: int) -> None:
        for _ in range(calls):
            client.chat.completions.create(model="gpt-4o", messages=small)

    def chat_large(calls: int) -> None:
        for _ in range(calls):
            client.chat.completions.create(model="gpt-4o", messages=large, tools=tools, temperature=0.2)

    def openai_stream(calls: int) -> None:
        for _ in range(calls):
            for _ in client.chat.completions.create(model="gpt-4o", messages=small, stream=True):
                pass

    def anthropic_stream(calls: int) -> None:
        for _ in range(calls):
            for _ in claude.messages.create(model="claude-test", max_tokens=9, messages=small, stream=True):
                pass

    async def concurrent(calls: int) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as many:
            for _ in range(calls // 50):
                asked = (many.chat.completions.create(model="gpt-4o", messages=small) for _ in range(50))
                await asyncio.gather(*asked)

    def async_50(calls: int) -> None:
        asyncio.run(concurrent(calls))

    runs = {run.__name__: run for run in (chat_small, chat_large, openai_stream, anthropic_stream, async_50)}
    calls_of = {scenario.name: scenario.calls for scenario in SCENARIOS}
    for run in runs.values():  # imports, caches, connections
        run(50 if run is async_50 else 5)
    deliver()
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        cpu, wall = time.process_time(), time.perf_counter()
        runs[name](calls_of[name])
        wall = time.perf_counter() - wall
        deliver()
        cpu = time.process_time() - cpu
        print(cpu, wall, flush=True)


# -- the measurement ----------------------------------------------------------------------------------------------------

Figures = dict[str, dict[str, tuple[list[float], list[float]]]]
"""Scenario -> variant -> (CPU, wall) milliseconds per call, one figure a round."""


def measure(rounds: int) -> Figures:
    """Start the processes, ask for the rounds in turn, and end them."""
    here = os.path.abspath(__file__)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "FREEZEFRAME_"))}

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, here, *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)

    def ask(process: subprocess.Popen[str], line: str | None) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        if line is not None:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{process.args!r} ended with {process.wait()}")
        return answer

    server = start("--serve")
    workers: dict[str, subprocess.Popen[str]] = {}
    figures: Figures = {s.name: {variant: ([], []) for variant in VARIANTS} for s in SCENARIOS}
    try:
        url = f"http://127.0.0.1:{int(ask(server, None))}"
        for variant in VARIANTS:
            workers[variant] = start("--work", variant, "--url", url)
            ask(workers[variant], None)
        for number in range(rounds):
            for scenario in SCENARIOS:
                for variant in VARIANTS[number % 3 :] + VARIANTS[: number % 3]:
                    cpu, wall = map(float, ask(workers[variant], scenario.name).split())
                    figures[scenario.name][variant][0].append(cpu * 1000 / scenario.calls)
                    figures[scenario.name][variant][1].append(wall * 1000 / scenario.calls)
    finally:
        for process in (*workers.values(), server):
            process.terminate()
            process.wait()
    return figures


def report(figures: Figures) -> None:
    """Print the table, and as the last line one JSON object."""
    rows: list[dict[str, Any]] = []
    print(f"{'':18} {'client CPU, ms per call':^40}      {'wall, ms per call':^32}")
    heads = ("bare", "+freezeframe", "+openinference", "bare", "freezeframe", "openinference")
    print(f"{'scenario':18} {heads[0]:>8} {heads[1]:>14} {heads[2]:>16}      {heads[3]:>8} {heads[4]:>12} {heads[5]:>14}")
    for scenario in SCENARIOS:
        cpu = {variant: statistics.median(figures[scenario.name][variant][0]) for variant in VARIANTS}
        wall = {variant: statistics.median(figures[scenario.name][variant][1]) for variant in VARIANTS}
        ours, theirs = cpu["freezeframe"] - cpu["bare"], cpu["openinference"] - cpu["bare"]
        print(
            f"{scenario.name:18} {cpu['bare']:8.2f} {ours:14.2f} {theirs:16.2f} {'':4} "
            f"{wall['bare']:8.2f} {wall['freezeframe']:12.2f} {wall['openinference']:14.2f}   {scenario.means}"
        )
        rows += [
            _row(f"{scenario.name}.bare_cpu", cpu["bare"], "ms", None),
            _row(f"{scenario.name}.openinference_added_cpu", theirs, "ms", None),
            _row(f"{scenario.name}.freezeframe_added_cpu", ours, "ms", round(theirs, 3)),
        ]
    print(json.dumps({"bench": "capture", "rows": rows}))


def _row(name: str, value: float, unit: str, goal: float | None) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "goal": goal, "met": None if goal is None else value < goal}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each scenario and variant (default: 7)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve())
    elif given.work:
        work(given.work, given.url)
    else:
        report(measure(given.rounds))


if __name__ == "__main__":
    main()
