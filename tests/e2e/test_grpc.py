"""gRPC: a request to a servicer that makes a call is a run, and replays without a server; calls of a run are served.

Real servers and channels of grpcio on loopback, sync and asyncio.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2

import freezeframe
from freezeframe.hosts.grpc_server import around
from freezeframe.testing import capture
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.lifecycle import RunStatus
from freezeframe_schemas.run import EntryKind, Run, build_run
from freezeframe_schemas.span import SpanRecord
from freezeframe_schemas.verdict import Verdict, verdict

_TEXT: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_NUMBER: Final = descriptor_pb2.FieldDescriptorProto.TYPE_INT64
_PB2: Final = """
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile({file!r})
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, "{module}", globals())
"""
_GRPC: Final = """
import grpc
import {module} as pb2

_SHAPES = {{"Ask": "unary_unary", "Watch": "unary_stream", "Sum": "stream_unary", "Talk": "stream_stream"}}


class ShopStub:
    def __init__(self, channel):
        for name, shape in _SHAPES.items():
            made = getattr(channel, shape)(
                f"/{module}.Shop/{{name}}",
                request_serializer=pb2.Question.SerializeToString,
                response_deserializer=pb2.Answer.FromString,
            )
            setattr(self, name, made)


def add_ShopServicer_to_server(servicer, server):
    handlers = {{
        name: getattr(grpc, f"{{shape}}_rpc_method_handler")(
            getattr(servicer, name),
            request_deserializer=pb2.Question.FromString,
            response_serializer=pb2.Answer.SerializeToString,
        )
        for name, shape in _SHAPES.items()
        if hasattr(servicer, name)
    }}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("{module}.Shop", handlers),))
    server.add_registered_method_handlers("{module}.Shop", handlers)
"""


def write_shop(folder: Path, module: str) -> None:
    """Write MODULE.py with the messages and MODULE_grpc.py with stub and servicer, in a package of protobuf named MODULE."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{module}.proto", package=module, syntax="proto3")
    for name in ("Question", "Answer"):
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate((("text", _TEXT), ("count", _NUMBER)), 1):
            message.field.add(name=field, number=number, type=kind, label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
    (folder / f"{module}.py").write_text(_PB2.format(file=file.SerializeToString(), module=module))
    (folder / f"{module}_grpc.py").write_text(_GRPC.format(module=module))


pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python"), pytest.mark.timeout(300)]

_SYNC = """
import grpc
import MODULE as pb2
import freezeframe


@freezeframe.tool
def stock(text):
    return len(text)


class Shop:
    def Ask(self, request, context):
        if request.text == "nothing":
            return pb2.Answer(text="nothing was asked")
        count = stock(request.text)
        if request.text == "refuse":
            context.abort(grpc.StatusCode.NOT_FOUND, f"{count} letters are unknown")
        if request.text == "fail":
            raise ValueError(f"{count} letters")
        context.set_trailing_metadata((("kind", "tail"),))
        return pb2.Answer(text=f"{request.text} of {dict(context.invocation_metadata())['x-request-id']}", count=count)

    def Watch(self, request, context):
        for number in range(request.count):
            yield pb2.Answer(text=request.text, count=stock("x" * number))
        if request.text == "break":
            context.abort(grpc.StatusCode.DATA_LOSS, "the rest is lost")

    def Sum(self, requests, context):
        return pb2.Answer(count=sum(stock(request.text) for request in requests))

    def Talk(self, requests, context):
        for request in requests:
            yield pb2.Answer(text=f"heard {request.text}")
            yield pb2.Answer(count=stock(request.text))
"""
_ASYNC = (
    _SYNC.replace("    def ", "    async def ")
    .replace("for request in requests", "async for request in requests")
    .replace("context.abort", "await context.abort")
    .replace("sum(stock(request.text) async for request in requests)", "sum([stock(r.text) async for r in requests])")
)


_CLIENT = """
import queue
import grpc
import grpc.aio
import MODULE as pb2
import MODULE_grpc as rpc
import freezeframe


def told(error):
    return [type(error).__name__, error.code().name, error.details()]


@freezeframe.run
def ask_all(port):
    came = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = rpc.ShopStub(channel)
        metadata = (("x-request-id", "r7"),)
        came.append(stub.Ask(pb2.Question(text="kettle"), metadata=metadata).text)
        try:
            stub.Ask(pb2.Question(text="refuse"))
        except grpc.RpcError as error:
            came.append(told(error))
        answer, call = stub.Ask.with_call(request=pb2.Question(text="pan"), metadata=metadata)
        came.append([answer.count, call.code().name, [list(pair) for pair in call.trailing_metadata()]])
        future = stub.Ask.future(pb2.Question(text="pot"), metadata=metadata)
        came.append([future.result().count, future.code().name])
        answers = stub.Watch(pb2.Question(text="w", count=3))
        came.append([[answer.count for answer in answers], answers.code().name])
        answers = stub.Watch(pb2.Question(text="first", count=9))
        came.append(next(answers).text)
        answers.cancel()
        try:
            came.append([answer.count for answer in stub.Watch(pb2.Question(text="break", count=2))])
        except grpc.RpcError as error:
            came.append([error.code().name, error.details()])
    return came


@freezeframe.tool
def told_letters(text):
    return len(text)


def questions(*texts):
    for text in texts:
        told_letters(text)
        yield pb2.Question(text=text)


@freezeframe.run
def send_all(port):
    came = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = rpc.ShopStub(channel)
        came.append(stub.Sum(request_iterator=questions("ab", "c")).count)
        answer, call = stub.Sum.with_call(iter([pb2.Question(text="pan")]))
        came.append([answer.count, call.code().name])
        came.append([answer.text or answer.count for answer in stub.Talk(questions("ab", "c", "def"))])
        texts = queue.Queue()
        texts.put("first")
        talk = stub.Talk(pb2.Question(text=text) for text in iter(texts.get, None))
        came.append(next(talk).text)
        texts.put(str(next(talk).count))
        texts.put(None)
        came.append([answer.text or answer.count for answer in talk])
    return came


async def questions_later(*texts):
    for text in texts:
        told_letters(text)
        yield pb2.Question(text=text)


@freezeframe.run
async def send_all_async(port):
    came = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = rpc.ShopStub(channel)
        came.append((await stub.Sum(questions_later("ab", "c"))).count)
        call = stub.Sum()
        await call.write(pb2.Question(text="pan"))
        await call.done_writing()
        came.append([(await call).count, (await call.code()).name])
        asked = stub.Talk(request_iterator=questions_later("ab", "c", "def"))
        came.append([answer.text or answer.count async for answer in asked])
        talk = stub.Talk()
        await talk.write(pb2.Question(text="first"))
        came.append((await talk.read()).text)
        await talk.write(pb2.Question(text=str((await talk.read()).count)))
        await talk.done_writing()
        came.append([(await talk.read()).text, (await talk.read()).count, await talk.read() is grpc.aio.EOF])
    return came


@freezeframe.run
async def ask_all_async(port):
    came = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = rpc.ShopStub(channel)
        metadata = (("x-request-id", "r7"),)
        call = stub.Ask(pb2.Question(text="kettle"), metadata=metadata)
        came.append([(await call).text, (await call.code()).name])
        try:
            await stub.Ask(pb2.Question(text="refuse"))
        except grpc.RpcError as error:
            came.append(told(error))
        answers = stub.Watch(pb2.Question(text="w", count=3))
        came.append([[answer.count async for answer in answers], (await answers.code()).name])
        answers = stub.Watch(request=pb2.Question(text="read", count=1))
        came.append([(await answers.read()).text, await answers.read() is grpc.aio.EOF])
        try:
            came.append([answer.count async for answer in stub.Watch(pb2.Question(text="break", count=2))])
        except grpc.RpcError as error:
            came.append(told(error))
    return came

"""


@contextmanager
def importable(folder: Path, name: str, source: str) -> Generator[Any]:
    write_shop(folder, f"{name}_pb2")
    (folder / f"{name}.py").write_text(source.replace("MODULE", f"{name}_pb2"))
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def until(gone: threading.Event, *messages: Any) -> Iterator[Any]:
    yield from messages
    gone.wait(100)


def ask_all(stub: Any, pb2: Any) -> list[Any]:
    """Ask each method of the service; return what came."""
    metadata = (("x-request-id", "r7"), ("authorization", "Bearer secret"))
    came: list[Any] = [stub.Ask(pb2.Question(text="kettle"), metadata=metadata), stub.Ask(pb2.Question(text="nothing"))]
    for text in ("refuse", "fail"):
        try:
            stub.Ask(pb2.Question(text=text))
        except grpc.RpcError as error:
            came.append((error.code(), error.details()))  # pyright: ignore[reportAttributeAccessIssue]
    came.append([answer.count for answer in stub.Watch(pb2.Question(text="w", count=3))])
    came.append(stub.Sum(iter([pb2.Question(text="ab"), pb2.Question(text="c")])).count)
    gone = threading.Event()
    talk = stub.Talk(until(gone, pb2.Question(text="left")))
    came.append([next(talk).text, next(talk).count])
    talk.cancel()
    gone.set()
    came.append([answer.text or answer.count for answer in stub.Talk(iter([pb2.Question(text="ab"), pb2.Question(text="c")]))])
    return came


def served_sync(name: str, module: Any) -> list[Any]:
    rpc, pb2 = importlib.import_module(f"{name}_pb2_grpc"), importlib.import_module(f"{name}_pb2")
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        rpc.add_ShopServicer_to_server(module.Shop(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                return ask_all(rpc.ShopStub(channel), pb2)
        finally:
            server.stop(None).wait()


def served_async(name: str, module: Any) -> list[Any]:
    rpc, pb2 = importlib.import_module(f"{name}_pb2_grpc"), importlib.import_module(f"{name}_pb2")

    def ask(port: int) -> list[Any]:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            return ask_all(rpc.ShopStub(channel), pb2)

    async def serve() -> list[Any]:
        server = grpc.aio.server()
        rpc.add_ShopServicer_to_server(module.Shop(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await server.stop(None)

    return asyncio.run(serve())


_RUNS = {"Ask kettle", "Ask refuse", "Ask fail", "Watch w", "Sum ab", "Talk ab", "Talk left"}


def runs_of(spans: list[SpanRecord], kind: EntryKind) -> list[Run]:
    runs = [build_run([span for span in spans if span.trace_id == trace]) for trace in {span.trace_id for span in spans}]
    return [run for run in runs if run.entry.kind is kind]


def named(run: Run) -> str:
    given = values.decode(run.entry.input or "")
    return f"{given['path'].rpartition('/')[2]} {given['messages'][0][1]['json']['text']}"


@pytest.mark.parametrize(("name", "source", "serve"), [("shops", _SYNC, served_sync), ("shopa", _ASYNC, served_async)])
def test_requests_to_a_servicer_are_runs_and_replay_without_a_server(
    name: str, source: str, serve: Any, tmp_path: Path
) -> None:
    with importable(tmp_path, name, source) as module:
        with capture() as captured:
            came = serve(name, module)
            spans = captured.spans
        as_without_us = serve(name, module)
    assert [*map(str, came)] == [*map(str, as_without_us)]
    runs = {named(run): run for run in runs_of(spans, EntryKind.REQUEST)}
    assert set(runs) == _RUNS  # and not the request that calls nothing
    assert not [run for run in runs.values() if "secret" in (run.entry.input or "")]
    assert {what for what, run in runs.items() if run.status is RunStatus.FAILED} == {"Ask refuse", "Ask fail"}
    assert values.decode(runs["Ask refuse"].entry.output or "")["status"] == "NOT_FOUND"
    for what, run in runs.items() if serve is served_sync else ((what, runs[what]) for what in ("Ask refuse", "Talk left")):
        report = reenact(freeze(run), cwd=tmp_path)
        assert verdict(report) is Verdict.IDENTICAL, (what, report.first)
    (tmp_path / f"{name}.py").write_text((tmp_path / f"{name}.py").read_text().replace("heard", "said"))
    assert verdict(reenact(freeze(runs["Talk ab"]), cwd=tmp_path)) is not Verdict.IDENTICAL


class Context:
    """What a server gives to a method, as far as it is read."""

    def invocation_metadata(self) -> Any:
        return ()

    def peer(self) -> str:
        return "ipv4:127.0.0.1:4000"

    def code(self) -> None:
        """Return nothing: it was not set."""

    details = code


@freezeframe.tool
def note(what: str) -> str:
    return what


def test_what_a_servicer_does_when_its_client_leaves_a_stream_is_part_of_the_run() -> None:
    def watch(request: Any, context: Any) -> Iterator[Any]:
        try:
            yield from iter([request, b"two"])
        finally:
            note("gone")

    async def watch_later(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            yield request
            yield b"two"
        finally:
            note("gone")

    async def take_one() -> Any:
        answers = around(watch_later, "/s/Watch", "unary_stream")(b"one", Context())
        taken = await anext(answers)
        await answers.aclose()
        return taken

    with capture() as captured:
        answers = around(watch, "/s/Watch", "unary_stream")(b"one", Context())
        taken = [next(answers), asyncio.run(take_one())]
        answers.close()
        runs = runs_of(captured.spans, EntryKind.REQUEST)
    assert taken == [b"one", b"one"]
    assert [[exchange.name for exchange in run.exchanges] for run in runs] == [["note"], ["note"]]
    assert [values.decode(run.entry.output or "")["client_left_after"] for run in runs] == [1, 1]


def with_and_without_us(
    folder: Path, module: str, sync: str, asynchronous: str, client: str = _CLIENT
) -> tuple[list[Any], list[SpanRecord]]:
    """Return what two programs of a module say without us, and their spans with us: they must say the same."""
    with importable(folder, module, _SYNC + client.replace("MODULE_grpc", f"{module}_pb2_grpc")) as shop:
        rpc: Any = importlib.import_module(f"{module}_pb2_grpc")
        with ThreadPoolExecutor(4) as pool:
            server = grpc.server(pool)
            rpc.add_ShopServicer_to_server(shop.Shop(), server)
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()

            def both() -> list[Any]:
                return [getattr(shop, sync)(port), asyncio.run(getattr(shop, asynchronous)(port))]

            try:
                as_without_us = both()
                with capture() as captured:
                    assert both() == as_without_us
                    return as_without_us, captured.spans
            finally:
                server.stop(None).wait()


def test_calls_that_stream_requests_are_recorded_and_compared_once_they_have_ended(tmp_path: Path) -> None:
    as_without_us, spans = with_and_without_us(tmp_path, "shopr", "send_all", "send_all_async")
    assert as_without_us[0] == [3, [3, "OK"], ["heard ab", 2, "heard c", 1, "heard def", 3], "heard first", ["heard 5", 1]]
    assert as_without_us[1] == [
        3,
        [3, "OK"],
        ["heard ab", 2, "heard c", 1, "heard def", 3],
        "heard first",
        ["heard 5", 1, True],
    ]
    runs = runs_of(spans, EntryKind.FUNCTION)
    assert sorted(run.entry.name for run in runs) == ["send_all", "send_all_async"]
    for run in runs:
        assert run.gaps == ()
        report = reenact(freeze(run), cwd=tmp_path)
        assert (report.divergences, verdict(report)) == ((), Verdict.IDENTICAL)
        assert len(report.served) == len(run.exchanges) == 4 * 2 + 5
    program = tmp_path / "shopr.py"
    program.write_text(program.read_text().replace('text="pan"', 'text="pot"'))
    for run in runs:
        report = reenact(freeze(run), cwd=tmp_path)
        assert report.divergences, report
        first = report.divergences[0]
        assert (first.kind, first.name, first.step) == (DivergenceKind.REQUEST_CHANGED, "/shopr_pb2.Shop/Sum sent", 6)


@pytest.mark.proof("seam rpc.grpc_client", "seam rpc.grpc_aio_client")
def test_calls_of_a_run_are_recorded_and_served_when_the_server_is_gone(tmp_path: Path) -> None:
    as_without_us, spans = with_and_without_us(tmp_path, "shopc", "ask_all", "ask_all_async")
    assert as_without_us[0][1:3] == [["_InactiveRpcError", "NOT_FOUND", "6 letters are unknown"], [3, "OK", [["kind", "tail"]]]]
    for run in runs_of(spans, EntryKind.FUNCTION):
        assert run.gaps == ()
        report = reenact(freeze(run), cwd=tmp_path)
        assert verdict(report) is Verdict.IDENTICAL, report.first
        assert len(report.served) == len(run.exchanges) == (7 if run.entry.name == "ask_all" else 5)


def test_calls_inside_a_tool_are_answered_if_the_tool_is_run(tmp_path: Path) -> None:
    in_tools = re.sub(
        r"@freezeframe.run\n((?:async )?)def (ask_all\w*)\(port\):\n",
        lambda of: (
            f"{of[0]}    return {of[1].replace('async', 'await')}{of[2]}_by_tool(port)\n\n\n"
            f"@freezeframe.tool\n{of[1]}def {of[2]}_by_tool(port):\n"
        ),
        _CLIENT,
    )
    _, spans = with_and_without_us(tmp_path, "shopt", "ask_all", "ask_all_async", in_tools)
    policy = ReplayPolicy(run_tools=frozenset({"ask_all_by_tool", "ask_all_async_by_tool"}))
    runs = runs_of(spans, EntryKind.FUNCTION)
    assert len(runs) == 2
    for run in runs:
        report = reenact(freeze(run), cwd=tmp_path, policy=policy)
        assert (verdict(report), len(report.ran)) == (Verdict.IDENTICAL, 1), report.first
    (tmp_path / "shopt.py").write_text((tmp_path / "shopt.py").read_text().replace('text="kettle"', 'text="cup"'))
    first = reenact(freeze(runs[0]), cwd=tmp_path, policy=policy).first
    assert first is not None
    assert (first.kind, first.inside) == (DivergenceKind.REQUEST_CHANGED, f"tool {runs[0].entry.name}_by_tool")


def test_a_call_without_a_request_is_refused_by_grpc_as_without_us(tmp_path: Path) -> None:
    @freezeframe.run
    def ask_nothing(rpc: Any, channel: Any, names: Sequence[str]) -> list[str]:
        refused: list[str] = []
        for name in names:
            with pytest.raises(TypeError) as found:
                getattr(rpc.ShopStub(channel), name)()
            refused.append(str(found.value))
        return refused

    @freezeframe.run
    async def ask_nothing_async(rpc: Any) -> list[str]:
        async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
            return ask_nothing(rpc, channel, ("Ask", "Watch"))

    with importable(tmp_path, "shopn", _SYNC), grpc.insecure_channel("127.0.0.1:1") as channel:
        rpc: Any = importlib.import_module("shopn_pb2_grpc")
        names = ("Ask", "Watch", "Sum", "Talk")
        as_without_us = [ask_nothing(rpc, channel, names), asyncio.run(ask_nothing_async(rpc))]
        with capture():
            assert [ask_nothing(rpc, channel, names), asyncio.run(ask_nothing_async(rpc))] == as_without_us
