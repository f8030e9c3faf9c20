"""Spans of real dialogues, trajectories and provider exchanges, as freezeframe's own instrumentation records them.

A loopback provider says the recorded turns to the real openai SDK, tools give the recorded results; the recorded provider
exchanges are asked by `recorded_traffic`. Each agent run comes once a day, each time with other people (names, ids, dates,
amounts, call ids), so no copy of such a text lies in the same day. A third of the agent runs streams, token by token, with the
field ``obfuscation`` of OpenAI's streams. Invented: header values, usage, and times, which are stretched. The tools' schemas
are made from their recorded calls. No run draws from `random`; each of the processes has a state of its own.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import re
import string
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import airline
import openai
import recorded_traffic

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai
from freezeframe_schemas.span import AttributeValue, SpanRecord

DAY_NS: Final = 86_400_000_000_000
START_NS: Final = 1_795_000_000_000_000_000 // DAY_NS * DAY_NS + 9 * 3_600_000_000_000
"""19 November 2026, 9:00."""
_SPREAD_NS: Final = 240 * 10**9
"""Runs of a day start within four minutes."""
_AT_ONCE: Final = 25
"""Runs recorded by one instrumentation of the process, which holds all their spans."""
_HOSTS: Final = 20
_PROCESSES: Final = 20
"""On each host. So most runs of a day have its own process, and a random state with it."""
AGENTS: Final = ("airline-agent", "swe-agent", "research-team")
_ALPHANUMERIC: Final = string.ascii_letters + string.digits
Message = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A recorded agent run: its messages, and the tools that its requests offer."""

    agent: str
    messages: list[Message]
    tools: list[Any] = field(default_factory=list[Any])
    prompts: dict[str, str] | None = None
    """Of several agents that speak in turns: the system prompt of each."""


def record_days(days: int, agent_runs: Path | None = None, *, most: int | None = None) -> Iterator[list[SpanRecord]]:
    """Yield the spans of each day, by end, the pending ones among them.

    Args:
        days: how many; each provider exchange comes on one of them, each agent run on each.
        agent_runs: the folder of recorded agent runs; without it, only those of `airline`.
        most: how many agent runs and how many conversations a day at most.
    """
    agents = list(trajectories(agent_runs))[:most]
    conversations = list(recorded_traffic.load_conversations().items())
    for day in range(days):
        spans: list[SpanRecord] = []
        for first in range(0, len(agents), _AT_ONCE):
            spans += _recorded_agents(day, first, agents[first : first + _AT_ONCE])
        due = conversations[day::days][:most]
        for first in range(0, len(due), _AT_ONCE):
            spans += _recorded_exchanges(day, first, due[first : first + _AT_ONCE])
        yield sorted(spans, key=lambda span: span.end_time_unix_nano)


def trajectories(agent_runs: Path | None) -> Iterator[Trajectory]:
    """Yield the recorded agent runs."""
    dialogues = [run["traj"] for run in airline.load_runs()]
    tools = _schemas_of([call for messages in dialogues for call in _calls(messages)])
    for messages in dialogues:
        yield Trajectory(agent=AGENTS[0], tools=tools, messages=messages)
    if agent_runs is None:
        return
    for path in sorted(agent_runs.glob("swe-agent/**/*.traj.gz")):
        messages = [_plain(message) for message in json.loads(gzip.decompress(path.read_bytes()))["history"]]
        yield Trajectory(agent=AGENTS[1], tools=_schemas_of(list(_calls(messages))), messages=messages)
    for path in sorted(agent_runs.glob("who-and-when/*/*/*.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        prompts = held["system_prompt"] if isinstance(held["system_prompt"], dict) else {}
        yield Trajectory(agent=AGENTS[2], messages=held["history"], prompts=prompts)


def _plain(message: Message) -> Message:
    content = message["content"]
    kept = {key: message[key] for key in ("role", "tool_calls") if message.get(key)}
    ids = {"tool_call_id": message["tool_call_ids"][0]} if message["role"] == "tool" else {}
    return {**kept, **ids, "content": content if isinstance(content, str) else json.dumps(content)}


def _calls(messages: Sequence[Message]) -> Iterator[Any]:
    for message in messages:
        yield from message.get("tool_calls") or ()


def _schemas_of(calls: Sequence[Any]) -> list[Any]:
    """Return the tools that the calls are of, with the parameters that they name."""
    parameters: dict[str, dict[str, Any]] = defaultdict(dict)
    for call in calls:
        named = parameters[call["function"]["name"]]
        for name, value in _arguments(call).items():
            named[name] = {"type": "string", "description": f"For example {json.dumps(value)}"}
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
        for name, properties in sorted(parameters.items())
    ]


def _arguments(call: Any) -> dict[str, Any]:
    try:
        held = json.loads(call["function"]["arguments"])
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


class OtherPeople:
    """Puts other names, ids, dates and amounts in the place of recorded ones, the same for the same throughout a run."""

    _PLACES: Final = re.compile(
        r"\b[a-z]+_[a-z]+_\d{4}\b|\b(?:credit_card|gift_card|certificate)_\d{7}\b|\bcall_[A-Za-z0-9]{24}\b"
        r"|\b(?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6}\b|(?<=\$)\d+\b|\b2024-05-\d\d\b|\b(?:19|200)\d\d-\d\d-\d\d\b"
    )
    _NAMES: Final = (
        "Olivia Noah Emma Liam Sofia Mateo Yusuf Fatima Chen Mei Raj Priya Ivan Anna Lucas Harper Omar Juan Isabella Ethan"
        " Smith Garcia Kim Patel Rossi Ahmed Khan Nguyen Lopez Johnson Davis Brown Kovacs Silva Santos Moore Lee Hernandez"
    ).split()

    def __init__(self, seed: str, text: str) -> None:
        self._random = random.Random(seed)
        named = sorted({name.capitalize() for pair in re.findall(r"\b([a-z]+)_([a-z]+)_\d{4}\b", text) for name in pair})
        self._known = {name: self._random.choice(self._NAMES) for name in named}
        self._named = re.compile(rf"\b({'|'.join(map(re.escape, named))})\b") if named else None

    def put(self, value: Any) -> Any:
        """Return a JSON value with other people in it."""
        if isinstance(value, str):
            value = self._PLACES.sub(lambda match: self._other(match[0]), value)
            return self._named.sub(lambda match: self._known[match[1]], value) if self._named else value
        if isinstance(value, list):
            return [self.put(item) for item in value]
        return {key: self.put(item) for key, item in value.items()} if isinstance(value, dict) else value

    def _other(self, found: str) -> str:
        if found not in self._known:
            # the words of an id stay, and names in it become other ones; the rest is replaced by characters of its kind
            words, _, tail = found.rpartition("_")
            words = "_".join(self._known.get(word.capitalize(), word).lower() for word in words.split("_"))
            made = f"2024-05-{self._random.randrange(1, 31):02}" if found.startswith("2024-05") else self._alike(tail)
            self._known[found] = f"{words}_{made}" if words else made
        return self._known[found]

    def _alike(self, text: str) -> str:
        kinds = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
        return "".join(next((self._random.choice(kind) for kind in kinds if one in kind), one) for one in text)


class _Provider(ThreadingHTTPServer):
    """Says the turns that are due, in the format and with the headers of OpenAI's chat API."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.due: deque[Message] = deque()
        self.random = random.Random(7)
        self.now_s = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: a client that closes its connection is not an error here."""

    def id(self, size: int, characters: str = _ALPHANUMERIC) -> str:
        return "".join(self.random.choices(characters, k=size))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def provider(self) -> _Provider:
        assert isinstance(self.server, _Provider)
        return self.server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""

    def do_POST(self) -> None:
        request = self.rfile.read(int(self.headers["content-length"]))
        message = self.provider.due.popleft()
        prompt, said = len(request) // 4, max(5, len(json.dumps(message)) // 4)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
            "prompt_tokens_details": {"cached_tokens": prompt // 128 * 128 if prompt > 1024 else 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0},
        }
        made = {
            "id": f"chatcmpl-{self.provider.id(29)}",
            "created": self.provider.now_s,
            "model": "gpt-4o-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": self.provider.random.choice(("fp_07871e2ad8", "fp_5f6b1c9e2a")),
        }
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        self.send_response_only(200)
        for name, text in self._headers(prompt).items():
            self.send_header(name, text)
        if json.loads(request).get("stream"):
            self._stream(made, message, reason, usage)
            return
        choice = {"index": 0, "message": {**message, "refusal": None, "annotations": []}, "logprobs": None}
        body = {**made, "object": "chat.completion", "choices": [{**choice, "finish_reason": reason}], "usage": usage}
        raw = json.dumps(body, indent=2, ensure_ascii=False).encode()
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _headers(self, prompt: int) -> dict[str, str]:
        server = self.provider
        return {
            "openai-organization": "acme-x1y2z3",
            "openai-processing-ms": str(server.random.randrange(200, 6000)),
            "openai-version": "2020-10-01",
            "x-envoy-upstream-service-time": str(server.random.randrange(200, 6000)),
            "x-ratelimit-limit-requests": "10000",
            "x-ratelimit-limit-tokens": "30000000",
            "x-ratelimit-remaining-requests": str(server.random.randrange(9900, 9999)),
            "x-ratelimit-remaining-tokens": str(30_000_000 - prompt - server.random.randrange(9000)),
            "x-ratelimit-reset-requests": "6ms",
            "x-ratelimit-reset-tokens": f"{server.random.randrange(1, 60)}ms",
            "x-request-id": f"req_{server.id(32, '0123456789abcdef')}",
            "cf-cache-status": "DYNAMIC",
            "cf-ray": f"{server.id(16, '0123456789abcdef')}-FRA",
            "server": "cloudflare",
            "alt-svc": 'h3=":443"; ma=86400',
        }

    def _stream(self, made: dict[str, Any], message: Message, reason: str, usage: dict[str, Any]) -> None:
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for choices, counted in [*((one, None) for one in _choices(message, reason)), ([], usage)]:
            noise = self.provider.id(self.provider.random.randrange(1, 16))
            event = {**made, "object": "chat.completion.chunk", "choices": choices, "usage": counted, "obfuscation": noise}
            self._send(b"data: %b\n\n" % json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode())
        self._send(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, event: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))


def _choices(message: Message, reason: str) -> Iterator[list[Any]]:
    """Yield the choices of each event of a streamed turn."""
    content = message.get("content")
    deltas: list[Any] = [{"role": "assistant", "content": "" if content else None, "refusal": None}]
    deltas += [{"content": token} for token in _tokens(content or "")]
    for index, call in enumerate(message.get("tool_calls") or ()):
        head = {"index": index, "id": call["id"], "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": call["function"]["name"], "arguments": ""}}]})
        tokens = _tokens(call["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": token}}]} for token in tokens]
    for delta in deltas:
        yield [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]
    yield [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}]


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s?\w{1,7}|[^\w]", text)


@contextmanager
def _provider() -> Generator[_Provider]:
    server = _Provider()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _recorded_agents(day: int, first: int, agents: Sequence[Trajectory]) -> Iterator[SpanRecord]:
    with _provider() as provider, capture(record_hosts=("127.0.0.1",)) as captured:
        provider.random = random.Random(f"{day}/{first}")
        provider.now_s = (START_NS + day * DAY_NS) // 10**9
        with airline.make_client(f"http://127.0.0.1:{provider.server_address[1]}") as client:
            for number, trajectory in enumerate(agents, first):
                people = OtherPeople(f"{day}/{number}", json.dumps(trajectory.messages))
                ask = _asker(client, trajectory.tools, provider.due, streams=(number * 7 + day) % 3 == 0)
                _play(trajectory, people.put(trajectory.messages), ask)
                captured.handle.flush(30)
        sent = captured.sent
    yield from _moved(sent, day, first, [trajectory.agent for trajectory in agents])


def _recorded_exchanges(
    day: int, first: int, conversations: Sequence[tuple[str, list[recorded_traffic.Row]]]
) -> Iterator[SpanRecord]:
    playback = recorded_traffic.Playback()
    clients = recorded_traffic.Clients(playback.url)
    try:
        with capture(record_hosts=("127.0.0.1",)) as captured:
            for file, rows in conversations:
                recorded_traffic.converse(file, rows, clients, playback)
                captured.handle.flush(30)
            sent = captured.sent
    finally:
        clients.close()
        playback.stop()
    yield from _moved(sent, day, first, [f"{rows[0]['provider']}-service" for _, rows in conversations])


_Ask = Callable[[list[Message], Message], None]


def _asker(client: openai.OpenAI, tools: list[Any], due: deque[Message], *, streams: bool) -> _Ask:
    create: Any = client.chat.completions.create
    options: dict[str, Any] = {"model": "gpt-4o", "temperature": 0, **({"tools": tools} if tools else {})}

    def ask(messages: list[Message], answer: Message) -> None:
        due.append(answer)
        if streams:
            deque(create(messages=messages, stream=True, stream_options={"include_usage": True}, **options), maxlen=0)
        else:
            create(messages=messages, **options)

    return ask


def _play(trajectory: Trajectory, said: list[Message], ask: _Ask) -> None:
    """Let an agent go through a trajectory, inside a run."""
    prompts = trajectory.prompts

    def play(opening: str) -> str:
        del opening
        return _dialogue(said, ask) if prompts is None else _team(said, prompts, ask)

    opening = next((str(message["content"]) for message in said if message["role"] == "user"), "")
    freezeframe.run(name=trajectory.agent)(play)(opening)


def _dialogue(said: list[Message], ask: _Ask) -> str:
    messages: list[Message] = []
    calls: dict[str, Any] = {}
    for place, message in enumerate(said):
        match message["role"]:
            case "assistant" if place > 1:
                ask(messages, {key: value for key, value in message.items() if key in ("role", "content", "tool_calls")})
                calls |= {call["id"]: call for call in message.get("tool_calls") or ()}
            case "tool":
                call = calls.get(message["tool_call_id"])
                name = "tool" if call is None else str(call["function"]["name"])
                _tool(name, message["content"])(**({} if call is None else _arguments(call)))
            case "user" if place > 2:
                _tool("customer", message["content"])(answer=messages[-1].get("content") or "")
            case _:
                pass
        messages.append({key: value for key, value in message.items() if key != "name" and value is not None})
    return str(messages[-1].get("content"))


def _team(said: list[Message], prompts: dict[str, str], ask: _Ask) -> str:
    messages: list[Message] = [{"role": "user", "content": said[0]["content"]}]
    for message in said[1:]:
        name = str(message.get("name") or message["role"])
        if name == "Computer_terminal":
            _tool("computer_terminal", message["content"])(code=messages[-1]["content"])
        else:
            own = [{**one, "role": "assistant" if one.get("name") == name else one["role"]} for one in messages]
            ask(
                [{"role": "system", "content": prompts.get(name, "")}, *own],
                {"role": "assistant", "content": message["content"]},
            )
        messages.append({"role": "user", "name": re.sub(r"\W", "_", name), "content": message["content"]})
    return str(messages[-1]["content"])


def _tool(name: str, result: str) -> Callable[..., str]:
    @freezeframe.tool(name=name)
    def use(**arguments: Any) -> str:
        del arguments
        return result

    return use


def _moved(spans: Sequence[SpanRecord], day: int, first: int, services: Sequence[str]) -> Iterator[SpanRecord]:
    """Yield the spans of runs, numbered from `first`, at their time of the day, under ids and resources of their own."""
    runs: dict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans:
        runs[span.trace_id].append(span)
    for number, (service, of_run) in enumerate(zip(services, runs.values(), strict=True), first):
        yield from _moved_run(of_run, day, service, random.Random(f"{day}/{service}/{number}"))


def _moved_run(spans: Sequence[SpanRecord], day: int, service: str, rng: random.Random) -> Iterator[SpanRecord]:
    ids: dict[str, str] = {"": "", "0" * 16: "0" * 16}
    trace_id = f"{rng.getrandbits(128) | 1:032x}"
    began, slower = min(span.start_time_unix_nano for span in spans), 400 + rng.random() * 500
    start = START_NS + day * DAY_NS + rng.randrange(_SPREAD_NS)
    host, process = f"{service}-6c9f7d-{rng.randrange(_HOSTS):02}", 1000 + rng.randrange(_PROCESSES)
    identity = {"service.name": service, "host.name": host, "process.pid": process}
    resource = dataclasses.replace(spans[0].resource, attributes={**spans[0].resource.attributes, **identity})
    version, words, gauss = random.Random(f"{day}/{host}/{process}").getstate()
    own: dict[str, AttributeValue] = {"user.id": f"usr_{rng.getrandbits(40):010x}", "session.id": f"{rng.getrandbits(64):016x}"}
    for span in spans:
        for span_id in (span.span_id, span.parent_span_id):
            ids.setdefault(span_id, f"{rng.getrandbits(64) | 1:016x}")
        attributes = {**span.attributes, **own}
        if attributes.get(genai.ENTRY_RANDOM_STATE, genai.RANDOM_UNUSED) != genai.RANDOM_UNUSED:
            attributes[genai.ENTRY_RANDOM_STATE] = json.dumps([version, list(words), gauss])
        if begun := span.text(genai.ENTRY_BEGUN):
            attributes[genai.ENTRY_BEGUN] = ids.setdefault(begun, begun)
        first, last = (start + int((time - began) * slower) for time in (span.start_time_unix_nano, span.end_time_unix_nano))
        yield dataclasses.replace(
            span,
            trace_id=trace_id,
            span_id=ids[span.span_id],
            parent_span_id=ids[span.parent_span_id],
            resource=resource,
            start_time_unix_nano=first,
            end_time_unix_nano=last,
            attributes=attributes,
        )
