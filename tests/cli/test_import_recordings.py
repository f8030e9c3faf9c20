"""`freezeframe import`: recordings of other tools through the door of a real collector, and replayed by real SDKs."""

from __future__ import annotations

import base64
import json
import re
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_traffic import load_conversations
from recording_files import ALL, CALLS, DATA, ENTRY, FILES, OTHERS, SESSIONS, archive, requests_of, run_of, written
from running_collector import CollectorProcess

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.target import RunsPlace, load_run
from freezeframe_schemas import genai
from freezeframe_schemas.exchange import Completion, Kind
from freezeframe_schemas.meaning import result_value
from freezeframe_schemas.run import Run, build_run

GOLDEN = DATA.parents[1] / "golden" / "recordings.json"
AGENT = """
import anthropic

names = iter(["Charles", "Sammy"])
messages = [{"role": "user", "content": [{"type": "text", "text": "Two names for a pet pelican"}]}]
client = anthropic.Anthropic(api_key="none", max_retries=0, default_headers={"anthropic-version": "2023-06-01"})
tool = {"name": "pelican_name_generator", "description": "", "input_schema": {"properties": {}, "type": "object"}}


def calls():
    events = client.messages.create(model="claude-haiku-4-5-20251001", max_tokens=8192, messages=messages, tools=[tool],
                                    stream=True, extra_body={"temperature": 1.0})
    blocks = [event.content_block for event in events if event.type == "content_block_start"]
    return [{"type": "tool_use", "id": b.id, "name": b.name, "input": {}} for b in blocks if b.type == "tool_use"]


asked = calls()
messages.append({"role": "assistant", "content": [{"type": "text", "text": " "}, *asked]})
results = [{"type": "tool_result", "tool_use_id": call["id"], "content": next(names)} for call in asked]
messages.append({"role": "user", "content": results})
assert not calls()
"""


@pytest.fixture(scope="module")
def collector(warm_python: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    running = CollectorProcess(tmp_path_factory.mktemp("recordings") / "data", policy="minimal")
    yield running
    running.stop()


@pytest.mark.long
def test_an_imported_cassette_is_stored_once_and_replayed_as_identical_by_the_program_that_it_was_recorded_from(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = written(tmp_path, AGENT, "agent.py")
    run_id = run_of("vcr", FILES["vcr"]).trace_id
    for _ in range(2):
        assert main(["import", "vcr", str(FILES["vcr"]), "--data", str(collector.data)]) == 0
        told = f"sent 1 request of 1 file\n1 run:\n  {run_id}\nnext: freezeframe show {run_id[:12]}\n"
        assert capsys.readouterr().out == told
    stored = load_run(RunsPlace(data=collector.data), run_id)
    assert len(stored.spans) == 3
    assert [span.attributes["gen_ai.usage.output_tokens"] for span in stored.spans if span.parent_span_id] == [62, 82]
    assert main(["replay", run_id, "--data", str(collector.data), "--", sys.executable, str(agent)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("identical, except the input and the outcome (not recorded): 2 of 2 steps")


@pytest.mark.proof
@pytest.mark.long
@pytest.mark.parametrize("kind", FILES)
def test_a_real_sdk_gets_each_recorded_body_byte_for_byte(kind: str) -> None:
    from recorded_traffic import Clients, served

    from freezeframe.seams import uninstall
    from freezeframe_schemas.wire import decode_body

    fixture = freeze(run_of(kind, FILES[kind]))
    provider = {"vcr": "anthropic", "har": "openai"}[kind]
    clients = Clients("http://127.0.0.1:9")
    with served(fixture) as session:
        for step in fixture.steps:
            asked = step.exchange.request
            request = {"method": asked.method, "url": asked.url, "headers": dict(asked.headers), "text": asked.body.decode()}
            result, chunks = clients.ask({"provider": provider, "request": request})
            answer = step.exchange.response
            assert isinstance(result, list) or "ChatCompletion(" in result, "an SDK that cannot read the answer gives its error"
            assert result
            # The SDK's transport undoes the content-encoding before or after we see a chunk.
            assert b"".join(chunks) in (answer.body, decode_body(answer.body, answer.headers))
    clients.close()
    uninstall()
    assert not session.report().divergences
    assert [served_step.how for served_step in session.report().served] == ["exact", "exact"]


def test_a_recorded_secret_never_gets_past_the_reader() -> None:
    run = run_of("har", FILES["har"])
    assert "Bearer x" in FILES["har"].read_text()
    assert "Bearer x" not in str(run)


@pytest.mark.parametrize("kind", FILES)
def test_a_dry_run_names_what_a_recording_lacks_and_needs_no_collector(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", kind, str(FILES[kind]), "--dry-run", "--data", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{run_of(kind, FILES[kind]).trace_id}  {FILES[kind].stem}\n")
    assert "it holds HTTP calls only, each answer in one piece" in told


def as_har(rows: list[dict[str, Any]]) -> str:
    """Write recorded exchanges as an archive, with the bytes that are no text in base64."""
    entries = [
        {
            "startedDateTime": "2026-01-01T00:00:00Z",
            "time": 5,
            "request": {
                "method": row["request"]["method"],
                "url": row["request"]["url"],
                "headers": [],
                "postData": _har_body(row["request"]),
            },
            "response": {
                "status": row["response"]["status"],
                "headers": [{"name": name, "value": str(value)} for name, value in row["response"]["headers"].items()],
                "content": _har_body(row["response"]),
            },
        }
        for row in rows
    ]
    return json.dumps({"log": {"version": "1.2", "entries": entries}})


def _har_body(message: dict[str, Any]) -> dict[str, Any]:
    return {"text": message["b64"], "encoding": "base64"} if "b64" in message else {"text": str(message.get("text") or "")}


def as_cassette(rows: list[dict[str, Any]]) -> str:
    """Write recorded exchanges as vcrpy does."""
    import yaml

    interactions = [
        {
            "request": {
                "method": row["request"]["method"],
                "uri": row["request"]["url"],
                "headers": {},
                "body": _body(row["request"]),
            },
            "response": {
                "status": {"code": row["response"]["status"], "message": "OK"},
                "headers": {name: [str(value)] for name, value in row["response"]["headers"].items()},
                "body": {"string": _body(row["response"])},
            },
        }
        for row in rows
    ]
    return yaml.safe_dump({"interactions": interactions, "version": 1})


def _body(message: dict[str, Any]) -> str | bytes:
    return base64.b64decode(message["b64"]) if "b64" in message else str(message.get("text") or "")


@pytest.mark.long
@pytest.mark.parametrize(("kind", "write"), [("har", as_har), ("vcr", as_cassette)])
def test_recorded_provider_traffic_comes_out_of_each_kind_with_its_bytes(kind: str, write: Any, tmp_path: Path) -> None:
    from recorded_traffic import body_of

    rows = [row for conversation in list(load_conversations().values())[::18] for row in conversation]
    assert len(rows) > 50
    run = run_of(kind, written(tmp_path, write(rows)))
    assert len(run.exchanges) == len(rows)
    for exchange, row in zip(run.exchanges, rows, strict=True):
        assert exchange.request.body == body_of(row["request"])
        assert exchange.response.body == body_of(row["response"])
        assert exchange.response.completion in (Completion.COMPLETE, Completion.BROKEN)


def conversation() -> list[dict[str, Any]]:
    """Return the messages of a trajectory of tau-bench as the provider got them."""
    return json.loads(ALL["tau-bench"].read_bytes())[0]["traj"]


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content or ())


def test_each_tool_call_of_a_trajectory_keeps_its_own_result_although_ids_repeat() -> None:
    fixture = freeze(run_of("tau-bench", ALL["tau-bench"]))
    tools = [step.exchange for step in fixture.steps if step.exchange.kind is Kind.TOOL]
    told = [message for message in conversation() if message["role"] == "tool"]
    results = [result_value(json.loads(tool.response.body)["result"]) for tool in tools]
    assert results == [result_value(text_of(message["content"])) for message in told]
    assert len(fixture.steps) == len(tools) + sum(message["role"] == "assistant" for message in conversation())
    assert ("requested model", "absent") in {(loss.field, loss.source) for loss in fixture.ledger}


@pytest.mark.long
def test_a_program_that_asks_as_a_trajectory_did_gets_each_answer_and_another_gets_none() -> None:
    import openai

    from freezeframe_replay.process.served_run import ServedRun
    from freezeframe_replay.process.wire_server import serve_wire

    talk: list[Any] = conversation()
    with serve_wire([ServedRun(freeze(run_of("tau-bench", ALL["tau-bench"])))]) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        for place, message in enumerate(talk):
            if message["role"] != "assistant":
                continue
            answer = client.chat.completions.create(model="any", messages=talk[:place]).choices[0].message
            assert (answer.content or "") == text_of(message.get("content"))
            names = [call.function.name for call in answer.tool_calls or () if call.type == "function"]
            assert names == [call["function"]["name"] for call in message.get("tool_calls") or ()]
        with pytest.raises(openai.APIStatusError, match="REPLAY"):
            client.chat.completions.create(model="any", messages=[*talk[:1], {"role": "user", "content": "something else"}])


@pytest.mark.proof
@pytest.mark.long
def test_what_each_kind_holds_and_lacks_is_what_the_golden_file_says() -> None:
    told = {}
    for kind, path in sorted(ALL.items()):
        run = run_of(kind, path)
        fixture = freeze(run)
        told[kind] = {
            "steps": Counter(step.exchange.kind.value for step in fixture.steps),
            "ledger": sorted({f"{loss.field}: {loss.source}" for loss in fixture.ledger}),
            "gaps": [str(gap) for gap in run.gaps],
        }
    assert told == json.loads(GOLDEN.read_text(encoding="utf-8")), json.dumps(told, indent=1)


def whole_run(kind: str) -> Run:
    """Return the run of a recording; that of a session with its helpers, as the store puts it together."""
    helpers = DATA.glob(f"orders-helper.{kind}.jsonl")
    return build_run([span for path in (ALL[kind], *helpers) for span in run_of(kind, path).spans])


@pytest.mark.long
@pytest.mark.parametrize("kind", [*SESSIONS, *CALLS, *OTHERS])
def test_what_was_sent_to_the_provider_is_answered_from_the_recording_and_a_changed_word_is_not(kind: str) -> None:
    from freezeframe_replay.process.served_run import ServedRun
    from freezeframe_replay.process.wire_server import serve_wire
    from freezeframe_schemas.verdict import Verdict, verdict

    asked = requests_of(kind)
    fixture = freeze(whole_run(kind))
    served = ServedRun(fixture)
    with serve_wire([served]) as url:
        for row in asked:
            posted(url, row)
    assert verdict(served.session.report()) is Verdict.SAME_IN_MEANING
    assert len(asked) == sum(step.exchange.kind is Kind.MODEL for step in fixture.steps)
    served = ServedRun(fixture)
    changed = re.sub(
        r"How many|I want to return|Add and|What's|Does it|General Task|Say hello", "Tell me,", json.dumps(asked[0])
    )
    assert changed != json.dumps(asked[0])
    with serve_wire([served]) as url, pytest.raises(urllib.error.HTTPError, match="424"):
        posted(url, json.loads(changed))
    assert not served.session.report().served


def posted(url: str, row: dict[str, Any]) -> str:
    body, headers = json.dumps(row["body"]).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + row["path"], data=body, headers=headers)) as answer:
        return answer.read().decode("utf-8", "replace")


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_that_grew_is_the_same_run_with_more_in_it(kind: str, tmp_path: Path) -> None:
    lines = SESSIONS[kind].read_text().splitlines(keepends=True)
    before, after = run_of(kind, written(tmp_path, "".join(lines[:-9]))), run_of(kind, SESSIONS[kind])
    assert before.trace_id == after.trace_id
    stored = {span.span_id: span for span in after.spans}
    assert all(stored[span.span_id] == span for span in before.spans if span.parent_span_id)
    assert len(before.spans) < len(after.spans)


def test_a_helper_is_a_part_of_the_run_of_its_session() -> None:
    run = whole_run("claude-code")
    (helper,) = [span for span in run.spans if span.attributes.get("gen_ai.operation.name") == "invoke_agent"]
    assert run.entry.name == "How many orders are in orders.csv?"
    assert helper.parent_span_id == run.entry.span_id
    assert sum(span.parent_span_id == helper.span_id for span in run.spans) == 3


def asked_in(run: Run) -> list[Any]:
    """Return the messages that each model call of a run was sent."""
    steps = [step.exchange for step in freeze(run).steps if step.exchange.kind is Kind.MODEL]
    return [json.loads(exchange.request.body)["messages"] for exchange in steps]


def claude_code(*records: tuple[str, str, dict[str, Any]]) -> str:
    """Return a session of records that name themselves and the one before."""
    about = {"sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"}
    lines = [{**about, "uuid": own, "parentUuid": above, "type": said["role"], "message": said} for own, above, said in records]
    return "\n".join(map(json.dumps, lines))


def test_a_prompt_that_was_taken_back_is_no_part_of_what_the_model_was_told(tmp_path: Path) -> None:
    def answer(number: int) -> dict[str, Any]:
        return {"role": "assistant", "id": f"m{number}", "content": [{"type": "text", "text": f"answer {number}"}]}

    def prompt(text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    records = [("a", "", prompt("one")), ("b", "a", answer(1)), ("c", "b", prompt("two")), ("d", "c", answer(2))]
    records += [("e", "b", prompt("three")), ("f", "e", answer(3))]
    steps = freeze(run_of("claude-code", written(tmp_path, claude_code(*records)))).steps
    asked = [[item["text"] for item in json.loads(step.exchange.request.body)["messages"]] for step in steps]
    assert sorted(asked, key=len)[0] == ["one"]
    assert ["one", "answer 1", "three"] in asked
    assert ["one", "answer 1", "two"] in asked


def test_a_session_whose_records_name_none_before_them_is_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    whole = SESSIONS["claude-code"].read_text(encoding="utf-8")
    records = [json.loads(line) for line in whole.splitlines()]
    unlinked = "\n".join(json.dumps({**record, "parentUuid": None}) for record in records)
    linked = asked_in(run_of("claude-code", SESSIONS["claude-code"]))
    assert asked_in(run_of("claude-code", written(tmp_path, unlinked))) == linked
    assert len(linked[-1]) > 3


def test_a_trace_of_langsmith_is_read_as_its_sdk_sends_it_and_as_its_client_returns_it(tmp_path: Path) -> None:
    (call,) = run_of("langsmith", DATA / "howdy.langsmith.json").spans
    assert call.text(genai.REQUEST_MODEL) == "gpt-4o-mini"
    assert "Howdy! How can I assist" in str(call.text(genai.OUTPUT_MESSAGES))
    assert (call.integer(genai.USAGE_INPUT_TOKENS), call.integer(genai.USAGE_OUTPUT_TOKENS)) == (9, 9)
    assert call.start_time_unix_nano // 10**6 == 1728803137170
    root, *runs = [json.loads(line) for line in ALL["langsmith"].read_text(encoding="utf-8").splitlines()]
    own = {"trace_id": None, "parent_run_id": None}
    tree = written(tmp_path, json.dumps({**root, "child_runs": [{**run, **own} for run in runs]}, indent=2))
    assert asked_in(run_of("langsmith", tree)) == asked_in(run_of("langsmith", ALL["langsmith"]))


def test_a_header_of_inspect_without_samples_is_no_run_and_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log: dict[str, Any] = json.loads(OTHERS["inspect"].read_bytes())
    header = written(tmp_path, json.dumps({name: log[name] for name in log if name != "samples"}), "a.json")
    assert main(["import", "inspect", str(header), "--dry-run"]) == 1
    assert capsys.readouterr().err == f"freezeframe import: {header}: the log holds no sample, only its header\n"
    written(tmp_path, json.dumps(log), "b.json")
    assert main(["import", "inspect", str(tmp_path), "--dry-run"]) == 0
    assert "only its header" in capsys.readouterr().err


def test_of_a_simulation_of_tau2_bench_the_agents_side_is_read(tmp_path: Path) -> None:
    path = ALL["tau2-bench"]
    run = run_of("tau2-bench", path)
    first, second, third, last = asked_in(run)
    assert [message["role"] for message in first] == ["assistant", "user"]
    assert first[0]["text"] == "Hi! How can I help you today?"
    calls = [span for span in run.spans if span.text(genai.OPERATION_NAME) == "chat"]
    assert {span.text(genai.REQUEST_MODEL) for span in calls} == {"claude-sonnet-4-5"}
    assert [span.integer(genai.USAGE_INPUT_TOKENS) for span in calls] == [5552, 5619, 5759, 6070]
    assert [span.attributes[genai.USAGE_COST_USD] for span in calls] == [0.018966, 0.018582, 0.018792, 0.02076]
    assert calls[0].attributes[genai.RESPONSE_FINISH_REASONS] == ("end_turn",)
    held: dict[str, Any] = json.loads(path.read_bytes())
    (simulation,) = held["simulations"]
    users = {"id": "u1", "name": "check_status_bar", "arguments": {}, "requestor": "user"}
    at = {"timestamp": simulation["messages"][3]["timestamp"]}
    simulation["messages"][3:3] = [
        {"role": "user", "content": None, "tool_calls": [users], **at},
        {"role": "tool", "id": "u1", "content": "No Signal", "requestor": "user", **at},
    ]
    assert asked_in(run_of("tau2-bench", written(tmp_path, json.dumps(held)))) == [first, second, third, last]


def test_after_a_compaction_a_model_of_codex_was_told_what_replaced_the_history(tmp_path: Path) -> None:
    def item(role: str, text: str) -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

    records = [
        ("session_meta", {"id": "s"}),
        ("response_item", item("user", "one")),
        ("response_item", item("assistant", "answer")),
        ("compacted", {"message": "", "replacement_history": [item("user", "the summary")]}),
        ("response_item", item("user", "two")),
        ("response_item", item("assistant", "answer again")),
    ]
    lines = [{"timestamp": f"2026-01-01T00:00:0{n}Z", "type": kind, "payload": held} for n, (kind, held) in enumerate(records)]
    steps = freeze(run_of("codex", written(tmp_path, "\n".join(map(json.dumps, lines))))).steps
    asked = [json.loads(step.exchange.request.body)["messages"] for step in steps]
    assert asked == [[{"role": "user", "text": "one"}], [{"role": "user", "text": "the summary\ntwo"}]]


def test_a_call_that_failed_is_a_failed_call_with_what_claude_code_said_of_it(tmp_path: Path) -> None:
    said = {"role": "assistant", "id": "m", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529"}]}
    path = written(tmp_path, claude_code(("a", "", {"role": "user", "content": "hi"}), ("b", "a", said)))
    (step,) = freeze(run_of("claude-code", path)).steps
    assert json.loads(step.exchange.response.body) == {"error": "API Error: 529", "status": 529}


def test_a_session_of_gemini_cli_in_one_document_is_read_with_the_results_of_its_tools(tmp_path: Path) -> None:
    """As older versions wrote it: no message repeats the results of tools."""
    result = [{"functionResponse": {"id": "c", "name": "ls", "response": {"output": "a.txt"}}}]
    call = {"id": "c", "name": "ls", "args": {"path": "."}, "result": result, "timestamp": "2025-10-18T14:57:33Z"}
    messages = [
        {"id": "1", "timestamp": "2025-10-18T14:57:28.974Z", "type": "user", "content": "List the files"},
        {
            "id": "2",
            "timestamp": "2025-10-18T14:57:31Z",
            "type": "gemini",
            "content": "",
            "model": "gemini-2.5-pro",
            "toolCalls": [call],
        },
        {"id": "3", "timestamp": "2025-10-18T14:57:40Z", "type": "gemini", "content": "One: a.txt.", "model": "gemini-2.5-pro"},
    ]
    path = written(tmp_path, json.dumps({"sessionId": "s", "messages": messages}, indent=2))
    steps = freeze(run_of("gemini-cli", path)).steps
    asked = [json.loads(step.exchange.request.body) for step in steps]
    assert [step.exchange.kind for step in steps] == [Kind.MODEL, Kind.TOOL, Kind.MODEL]
    assert asked[1] == {"arguments": {"path": "."}}
    assert asked[2]["messages"][-1] == {"result": {"output": "a.txt"}}


@pytest.mark.parametrize("kind", ["otlp", "claude-code"])
@pytest.mark.parametrize("way", [["--dry-run"], ["--dry-run", "--json"]])
def test_an_import_of_nothing_says_so_and_fails(
    kind: str, way: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, b"")
    assert main(["import", kind, str(path), *way, "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"freezeframe import: no runs in {path}\n"


@pytest.mark.long
def test_an_inspect_log_says_the_same_as_a_zip_and_as_json() -> None:
    """They are of two evaluations by one script, so ids and times differ."""
    told = [run_of("inspect", DATA / f"rain.inspect.{form}") for form in ("eval", "json")]
    asked = [[step.exchange.request.body for step in freeze(run).steps] for run in told]
    assert asked[0] == asked[1]
    assert len(asked[0]) == 3


def test_a_log_of_an_older_inspect_repeats_the_messages_and_says_the_same(tmp_path: Path) -> None:
    log = json.loads(ALL["inspect"].read_bytes())
    (sample,) = log["samples"]
    pool = sample.pop("events_data")["messages"]
    for event in sample["events"]:
        if event["event"] == "model":
            event["input"] = [message for first, end in event.pop("input_refs") for message in pool[first:end]]
    told = [run_of("inspect", path) for path in (written(tmp_path, json.dumps(log)), ALL["inspect"])]
    assert [span.attributes for span in told[0].spans] == [span.attributes for span in told[1].spans]


@pytest.mark.parametrize("kind", [*SESSIONS, "inspect", "braintrust"])
def test_recorded_times_are_kept(kind: str) -> None:
    run = run_of(kind, ALL[kind])
    assert {span.start_time_unix_nano // 10**18 for span in run.spans} == {1}
    assert all(span.start_time_unix_nano > 1_760_000_000 * 10**9 for span in run.spans)
    assert all(span.end_time_unix_nano - span.start_time_unix_nano < 60 * 10**9 for span in run.spans)


@pytest.mark.long
def test_of_several_files_those_that_cannot_be_read_are_named_and_the_others_are_imported(
    collector: CollectorProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, SESSIONS["codex"].read_bytes(), "rollout-1.jsonl")
    written(tmp_path, SESSIONS["codex"].read_bytes()[:-9], "rollout-2.jsonl")
    written(tmp_path, b"", "rollout-3.jsonl")
    assert main(["import", "codex", str(tmp_path), "--data", str(collector.data)]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("sent 1 request of 3 files; could not be read: 1 file\n1 run:\n")
    assert "rollout-2.jsonl, line 47: not JSON, or cut" in told.err
    assert f"no runs in {tmp_path / 'rollout-3.jsonl'}" in told.err
    stored = load_run(RunsPlace(data=collector.data), run_of("codex", SESSIONS["codex"]).trace_id)
    assert stored.entry.session == "01a20f27-da1a-7bc0-ad5e-ff47d09b784e"
    assert main(["import", "codex", str(tmp_path / "rollout-3.jsonl"), "--data", str(collector.data)]) == 1
    assert capsys.readouterr().err.endswith(f"no runs in {tmp_path / 'rollout-3.jsonl'}\n")


@pytest.mark.parametrize("kind", ALL)
def test_a_copy_of_a_file_has_the_same_spans(kind: str, tmp_path: Path) -> None:
    copy = written(tmp_path, ALL[kind].read_bytes(), ALL[kind].name)
    assert (spans := run_of(kind, copy).spans) == run_of(kind, ALL[kind]).spans
    assert {(len(span.trace_id), len(span.span_id)) for span in spans} == {(32, 16)}


RUBY = """---
http_interactions:
- request:
    method: post
    uri: https://api.openai.com/v1/embeddings
    body:
      encoding: UTF-8
      string: '{"input":"hi"}'
    headers:
      Authorization:
      - Bearer secret-of-ruby
  response:
    status:
      code: 200
      message: OK
    headers:
      Content-Type:
      - application/json
    body:
      encoding: ASCII-8BIT
      string: !binary |-
        eyJkYXRhIjpbXX0=
    http_version:
  recorded_at: Tue, 01 Nov 2011 04:58:44 GMT
recorded_with: VCR 6.0.0
"""
R = """http_interactions:
- request:
    method: get
    uri: https://example.com/status
    body:
      encoding: ''
      string: ''
    headers:
      Accept: application/json
  response:
    status:
      status_code: '502'
    headers:
      content-type: text/plain
    body:
      encoding: UTF-8
      file: no
      string: down
  recorded_at: 2021-05-27 13:44:41 GMT
  recorded_with: vcr/0.6.5.93, webmockr/0.8.0
"""


@pytest.mark.parametrize(
    ("text", "name", "status", "body", "second"),
    [
        (RUBY, "POST /v1/embeddings", 200, b'{"data":[]}', 1_320_123_524),
        (R, "GET /status", 502, b"down", 1_622_123_081),
    ],
)
def test_cassettes_of_ruby_and_r_are_read_in_the_form_that_their_documents_show(
    text: str, name: str, status: int, body: bytes, second: int, tmp_path: Path
) -> None:
    run = run_of("vcr", written(tmp_path, text))
    (exchange,) = run.exchanges
    assert (exchange.name, exchange.response.status, exchange.response.body) == (name, status, body)
    assert exchange.start_time_unix_nano == second * 1_000_000_000
    assert "secret-of-ruby" not in str(run)


@pytest.mark.parametrize("url", ["https://sts.amazonaws.com/", "https://example.com/v1/traces"])
def test_requests_for_credentials_and_of_telemetry_are_left_out(url: str, tmp_path: Path) -> None:
    left_out = {**ENTRY, "request": {"method": "POST", "url": url}}
    run = run_of("har", written(tmp_path, archive(left_out, ENTRY)))
    assert [exchange.request.url for exchange in run.exchanges] == ["https://example.com/"]


@pytest.mark.parametrize("url", ["data:text/plain,hi", "blob:https://example.com/1f2e", "chrome-extension://abc/x.js"])
def test_what_a_browser_reads_without_http_is_left_out(url: str, tmp_path: Path) -> None:
    read = {**ENTRY, "request": {"method": "GET", "url": url}}
    run = run_of("har", written(tmp_path, archive(read, ENTRY)))
    assert [exchange.request.url for exchange in run.exchanges] == ["https://example.com/"]


def test_keys_in_a_recorded_url_are_removed(tmp_path: Path) -> None:
    entry = {**ENTRY, "request": {"method": "GET", "url": "https://me:word@example.com/?key=abc&q=1"}}
    (exchange,) = run_of("har", written(tmp_path, archive(entry))).exchanges
    assert exchange.request.url == "https://example.com/?key=freezeframe-removed&q=1"


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n ", b"\n"])
def test_an_archive_with_a_byte_order_mark_is_read(before: bytes, tmp_path: Path) -> None:
    """As PowerShell and .NET write it."""
    path = tmp_path / FILES["har"].name
    path.write_bytes(before + FILES["har"].read_bytes())
    assert len(run_of("har", path).exchanges) == len(run_of("har", FILES["har"]).exchanges) > 0
