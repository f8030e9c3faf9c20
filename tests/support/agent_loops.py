"""Agent runs in large numbers: loops that resend their history each turn, with tools, retrieval, retries and failures.

Deterministic: the same seed gives the same run. Text is English prose and Python source of the standard library, so that
compression meets the redundancy of real text.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pydoc_data import topics
from typing import Any, Final

from freezeframe_schemas import genai, values
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Request, Response, exchange_attributes
from freezeframe_schemas.run import EntryKind
from freezeframe_schemas.span import AttributeValue, Resource, Scope, SpanKind, SpanRecord, StatusCode

DAY_NS: Final = 86_400_000_000_000
START_NS: Final = 1_795_000_000_000_000_000
"""19 November 2026."""
SERVICES: Final = ("checkout-agent", "support-agent", "coding-agent", "research-agent", "ops-agent")
MODELS: Final = ("gpt-4o-2024-11-20", "gpt-5-mini-2025-08-07", "gpt-4.1-mini-2025-04-14")
TOOLS: Final = ("lookup_order", "price_of", "refund", "send_email", "search_web", "read_file", "run_query", "create_ticket")
COMMITS: Final = ("1f3a9c" * 6 + "1f3a", "8be204" * 6 + "8be2")


@cache
def corpus() -> str:
    """Return some ten megabytes of prose and source: more than a compressor's window, so that passages do not repeat in it."""
    prose = "\n".join(str(text) for text in topics.topics.values())
    sources = sorted(Path(os.__file__).parent.glob("*.py"))
    return prose + "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sources)


def text(rng: random.Random, mean: int) -> str:
    """Return a passage of about `mean` characters."""
    size = max(20, int(rng.lognormvariate(0, 0.8) * mean))
    start = rng.randrange(len(corpus()) - size)
    return corpus()[start : start + size]


@cache
def _system_prompt(service: str, version: int) -> str:
    rng = random.Random(f"{service}{version}")
    return f"You are {service}, version {version}.\n" + text(rng, 2500)


@cache
def _tool_schemas(service: str) -> tuple[Any, ...]:
    rng = random.Random(service)
    return tuple(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": text(rng, 250),
                "parameters": {
                    "type": "object",
                    "properties": {
                        key: {"type": "string", "description": text(rng, 60)} for key in ("query", "limit", "reason")
                    },
                    "required": ["query"],
                },
            },
        }
        for name in TOOLS
    )


def agent_run(
    number: int, *, turns: int | None = None, start_ns: int = START_NS, spread_ns: int = 14 * DAY_NS
) -> list[SpanRecord]:
    """Return the spans of run `number`, by start: an entry, and per turn a model call and its tools."""
    rng = random.Random(number)
    service = rng.choice(SERVICES)
    loop = _Loop(rng=rng, number=number, service=service, start_ns=start_ns + rng.randrange(spread_ns))
    return loop.run(turns or min(40, 1 + int(rng.lognormvariate(1.6, 0.7))))


def agent_runs(first: int, count: int, **options: Any) -> Iterator[SpanRecord]:
    """Yield the spans of runs `first` to ``first + count - 1``, interleaved as a collector would receive them: by end."""
    spans = [span for number in range(first, first + count) for span in agent_run(number, **options)]
    yield from sorted(spans, key=lambda span: span.end_time_unix_nano)


class _Loop:
    def __init__(self, *, rng: random.Random, number: int, service: str, start_ns: int) -> None:
        self.rng = rng
        self.trace_id = f"{rng.getrandbits(128) | 1:032x}"
        self.number = number
        self.service = service
        self.start_ns = self.now_ns = start_ns
        self.model = rng.choice(MODELS)
        self.commit = rng.choice(COMMITS)
        self.sequence = 0
        self.spans: list[SpanRecord] = []
        self.entry_id = self._span_id()
        self.resource = Resource(
            attributes={
                genai.SERVICE_NAME: service,
                genai.VCS_REVISION: self.commit,
                genai.VCS_DIRTY: False,
                genai.RUNTIME_NAME: "cpython",
                genai.RUNTIME_VERSION: "3.11.7",
                genai.TIMEZONE: "Europe/Berlin",
                genai.LIBRARY_VERSION: "0.1.0",
                genai.PACKAGES: json.dumps({f"package-{index}": f"{index}.{index * 7 % 10}.1" for index in range(40)}),
                "telemetry.sdk.language": "python",
                "telemetry.sdk.name": "opentelemetry",
                "telemetry.sdk.version": "1.45.0",
                "host.name": f"host-{number % 20}",
                "process.pid": 1000 + number % 50,
            },
            schema_url=genai.SCHEMA_URL,
        )

    def run(self, turns: int) -> list[SpanRecord]:
        rng = self.rng
        question = text(rng, 300)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": _system_prompt(self.service, rng.randrange(3))},
            {"role": "user", "content": question},
        ]
        failed = False
        answer = ""
        for turn in range(turns):
            last = turn == turns - 1
            if rng.random() < 0.03:
                self._model(messages, None, status=429)
            if rng.random() < 0.1:
                self._retrieval(text(rng, 60))
            calls: list[dict[str, Any]] = []
            if not last:
                calls = [
                    {
                        "id": f"call_{rng.getrandbits(64):016x}",
                        "type": "function",
                        "function": {
                            "name": rng.choice(TOOLS),
                            "arguments": json.dumps({"query": text(rng, 80), "limit": str(rng.randrange(50))}),
                        },
                    }
                    for _ in range(rng.choice((1, 1, 1, 2, 3)))
                ]
            answer = text(rng, 500 if last else 120)
            reply: dict[str, Any] = {"role": "assistant", "content": answer}
            if calls:
                reply["tool_calls"] = calls
            self._model(messages, reply)
            messages.append(reply)
            for call in calls:
                result, failed = self._tool(call)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        failed = failed or rng.random() < 0.05
        self._entry(question, answer, failed=failed)
        return sorted(self.spans, key=lambda span: (span.start_time_unix_nano, span.span_id))

    def _model(self, messages: list[dict[str, Any]], reply: dict[str, Any] | None, *, status: int = 200) -> None:
        rng = self.rng
        body = json.dumps(
            {
                "model": self.model[:-11],
                "messages": messages,
                "tools": _tool_schemas(self.service),
                "temperature": 0.2,
                "seed": 7,
            },
            separators=(",", ":"),
        ).encode()
        response_id = f"chatcmpl-{rng.getrandbits(96):024x}"
        usage = {"prompt_tokens": len(body) // 4, "completion_tokens": rng.randrange(20, 400)}
        if reply is None:
            answer = json.dumps(
                {"error": {"message": "Rate limit reached, try again in 2s", "type": "rate_limit_error"}}
            ).encode()
        else:
            choice = {"index": 0, "message": reply, "finish_reason": "tool_calls" if "tool_calls" in reply else "stop"}
            whole = {
                "id": response_id,
                "model": self.model,
                "choices": [choice],
                "usage": usage,
                "system_fingerprint": "fp_7c3a",
            }
            answer = json.dumps(whole, separators=(",", ":")).encode()
        duration = rng.randrange(400_000_000, 6_000_000_000)
        exchange = Exchange(
            kind=Kind.MODEL,
            name="POST /v1/chat/completions",
            seam="httpx2",
            dialect="openai.chat",
            sequence=self._next(),
            request=Request(
                method="POST",
                url="https://api.openai.com/v1/chat/completions",
                headers=(
                    ("content-type", "application/json"),
                    ("authorization", "Bearer redacted"),
                    ("user-agent", "OpenAI/3.54"),
                ),
                body=body,
            ),
            response=Response(
                status=status,
                headers=(("content-type", "application/json"), ("x-request-id", f"req_{rng.getrandbits(64):016x}")),
                chunks=(Chunk(data=answer, offset_ns=duration - 1000),),
            ),
        )
        attributes: dict[str, AttributeValue] = {
            **exchange_attributes(exchange),
            genai.OPERATION_NAME: genai.OP_CHAT,
            genai.PROVIDER_NAME: "openai",
            genai.REQUEST_MODEL: self.model[:-11],
            genai.REQUEST_TEMPERATURE: 0.2,
            genai.REQUEST_SEED: 7,
            genai.SERVER_ADDRESS: "api.openai.com",
            genai.INPUT_MESSAGES: json.dumps([_parts(message) for message in messages[1:]], separators=(",", ":")),
            genai.SYSTEM_INSTRUCTIONS: json.dumps([{"type": "text", "content": messages[0]["content"]}], separators=(",", ":")),
            genai.TOOL_DEFINITIONS: json.dumps(_tool_schemas(self.service), separators=(",", ":")),
        }
        if reply is not None:
            attributes |= {
                genai.RESPONSE_MODEL: self.model,
                genai.RESPONSE_ID: response_id,
                genai.RESPONSE_FINISH_REASONS: ("tool_calls" if "tool_calls" in reply else "stop",),
                genai.OPENAI_SYSTEM_FINGERPRINT: "fp_7c3a",
                genai.USAGE_INPUT_TOKENS: usage["prompt_tokens"],
                genai.USAGE_OUTPUT_TOKENS: usage["completion_tokens"],
                genai.RESPONSE_TIME_TO_FIRST_CHUNK: duration / 2e9,
                genai.OUTPUT_MESSAGES: json.dumps([_parts(reply)], separators=(",", ":")),
            }
        else:
            attributes |= {genai.ERROR_TYPE: "429"}
        self._add(f"chat {self.model[:-11]}", attributes, duration, failed=reply is None, kind=SpanKind.CLIENT)

    def _tool(self, call: dict[str, Any]) -> tuple[str, bool]:
        rng = self.rng
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        failed = rng.random() < 0.04
        result = "" if failed else text(rng, 900)
        exchange = Exchange(
            kind=Kind.TOOL,
            name=name,
            seam="decorator",
            sequence=self._next(),
            call_id=call["id"],
            request=Request(body=values.encode({"args": [], "kwargs": json.loads(arguments)}).encode()),
            response=Response(
                chunks=() if failed else (Chunk(data=values.encode(result).encode()),),
                completion=Completion.NONE if failed else Completion.COMPLETE,
            ),
            error=values.encode_exception(TimeoutError(f"no answer after {rng.randrange(9)} s")) if failed else None,
        )
        attributes: dict[str, AttributeValue] = {
            **exchange_attributes(exchange),
            genai.OPERATION_NAME: genai.OP_EXECUTE_TOOL,
            genai.TOOL_CALL_ARGUMENTS: arguments,
        }
        if failed:
            attributes[genai.ERROR_TYPE] = "TimeoutError"
        else:
            attributes[genai.TOOL_CALL_RESULT] = json.dumps(result)
        message = f"no answer from {name} within 5 s" if failed else ""
        self._add(f"execute_tool {name}", attributes, rng.randrange(1_000_000, 900_000_000), failed=failed, message=message)
        return result or "error: timeout", failed

    def _retrieval(self, query: str) -> None:
        rng = self.rng
        documents = [
            {"id": f"chunk-{rng.randrange(5000)}", "score": round(rng.random(), 4), "content": text(rng, 400)} for _ in range(4)
        ]
        exchange = Exchange(
            kind=Kind.RETRIEVAL,
            name="policies",
            seam="decorator",
            sequence=self._next(),
            request=Request(body=values.encode({"args": [query], "kwargs": {}}).encode()),
            response=Response(chunks=(Chunk(data=values.encode(documents).encode()),)),
        )
        attributes: dict[str, AttributeValue] = {
            **exchange_attributes(exchange),
            genai.OPERATION_NAME: genai.OP_RETRIEVAL,
            genai.RETRIEVAL_QUERY: query,
            genai.RETRIEVAL_DOCUMENTS: json.dumps(documents),
            genai.EMBEDDING_VERSION: "2",
        }
        self._add("retrieval policies", attributes, rng.randrange(5_000_000, 90_000_000))

    def _entry(self, question: str, answer: str, *, failed: bool) -> None:
        attributes: dict[str, AttributeValue] = {
            genai.ENTRY_KIND: EntryKind.FUNCTION.value,
            genai.ENTRY_TARGET: "agent.main:answer",
            genai.ENTRY_INPUT: values.encode({"args": [question], "kwargs": {}}),
            genai.ENTRY_OUTPUT: values.encode(answer),
            genai.ENTRY_RANDOM_STATE: "[3,[1,2,3],null]",
            genai.ENTRY_ENVIRONMENT: json.dumps({"OPENAI_BASE_URL": "https://api.openai.com/v1", "REGION": "eu"}),
            genai.FLAGS: json.dumps({"new_ranker": self.number % 3 == 0, "tone": "formal"}),
            genai.OPERATION_NAME: genai.OP_INVOKE_AGENT,
            genai.AGENT_NAME: self.service,
        }
        self.spans.append(
            SpanRecord(
                trace_id=self.trace_id,
                span_id=self.entry_id,
                name="answer",
                start_time_unix_nano=self.start_ns,
                end_time_unix_nano=self.now_ns,
                attributes={**attributes, **self._context()},
                status_code=StatusCode.ERROR if failed else StatusCode.OK,
                status_message="the answer was refused" if failed else "",
                resource=self.resource,
                scope=Scope(name=genai.SCOPE, version="0.1.0"),
            )
        )

    def _add(
        self,
        name: str,
        attributes: dict[str, AttributeValue],
        duration_ns: int,
        *,
        failed: bool = False,
        message: str = "",
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> None:
        start = self.now_ns + 100_000
        self.now_ns = start + duration_ns
        self.spans.append(
            SpanRecord(
                trace_id=self.trace_id,
                span_id=self._span_id(),
                parent_span_id=self.entry_id,
                name=name,
                kind=kind,
                start_time_unix_nano=start,
                end_time_unix_nano=self.now_ns,
                attributes={**attributes, **self._context()},
                status_code=StatusCode.ERROR if failed else StatusCode.UNSET,
                status_message=message,
                resource=self.resource,
                scope=Scope(name=genai.SCOPE, version="0.1.0"),
            )
        )

    def _context(self) -> dict[str, AttributeValue]:
        return {
            genai.RUN_ID: f"ticket-{self.number}",
            genai.TENANT: f"tenant-{self.number % 3}",
            genai.USER_ID: f"user-{self.number % 97}",
            genai.SESSION_ID: f"session-{self.number % 211}",
        }

    def _span_id(self) -> str:
        return f"{self.rng.getrandbits(64) | 1:016x}"

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence


def _parts(message: dict[str, Any]) -> dict[str, Any]:
    """Return a chat message in the form of the GenAI conventions."""
    parts: list[dict[str, Any]] = []
    if message["role"] == "tool":
        parts.append({"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]})
    else:
        parts.append({"type": "text", "content": message["content"]})
    for call in message.get("tool_calls", ()):
        function = call["function"]
        parts.append(
            {"type": "tool_call", "id": call["id"], "name": function["name"], "arguments": json.loads(function["arguments"])}
        )
    return {"role": message["role"], "parts": parts}
