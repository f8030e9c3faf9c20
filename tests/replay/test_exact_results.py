"""What a tool returned or raised comes back in a replay as it was, so that the program does the same with it."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import email.message
import fractions
import io
import ipaddress
import json
import pathlib
import re
import threading
import urllib.error
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from answered_here import record, replay

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas import values
from freezeframe_schemas.gaps import NOT_WHOLE, Gap, GapKind
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict


class Size(pydantic.BaseModel):
    width: int


class StockError(Exception):
    def __init__(self, *, left: int) -> None:
        self.left = left


class Sku(str):
    def shop(self) -> str:
        return self.partition("-")[0]


RESULTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "bytearray": (lambda: bytearray(b"RI"), lambda it: it.extend(b"FF") or bytes(it).decode()),
    "memoryview": (lambda: memoryview(b"abc"), lambda it: it[1:].tobytes().decode()),
    "range": (lambda: range(0, 9, 4), lambda it: [len(it), it.step]),
    "counter": (lambda: collections.Counter("seen"), lambda it: [it.most_common(1), it["z"]]),
    "ordered": (lambda: collections.OrderedDict[str, int](a=1, b=2), lambda it: it.move_to_end("a") or list(it)),
    "default": (lambda: collections.defaultdict[str, list[int]](list), lambda it: it["new"]),
    "queue": (lambda: collections.deque([1, 2], maxlen=2), lambda it: it.append(3) or list(it)),
    "path": (lambda: pathlib.Path("/srv/in.csv"), lambda it: [it.suffix, str(it.parent)]),
    "address": (lambda: ipaddress.ip_network("10.1.0.0/30"), lambda it: it.num_addresses),
    "fraction": (lambda: fractions.Fraction(1, 3), lambda it: str(it + 1)),
    "frozen set in a tuple": (lambda: (frozenset({1}),), lambda it: str(hash(it[0]) == hash(frozenset({1})))),
    "amount": (lambda: {"sum": decimal.Decimal("1.10")}, lambda it: str(it["sum"] * 2)),
    "class of its own": (lambda: Sku("AC-17"), lambda it: it.shop()),
    "several flags": (lambda: re.IGNORECASE | re.MULTILINE, lambda it: [it.name, re.M in it]),
    "url": (lambda: pydantic.HttpUrl("https://shop.example.com/a?b=1"), lambda it: [it.host, it.query]),
}
ERRORS: dict[str, tuple[Callable[[], Any], type[BaseException], Callable[[Any], Any]]] = {
    "validation": (lambda: Size(width="wide"), pydantic.ValidationError, lambda it: [it.args, it.errors(include_url=False)]),  # pyright: ignore[reportArgumentType]
    "its attribute": (lambda: fail(StockError(left=3)), StockError, lambda it: it.left),
    "file": (lambda: pathlib.Path("/no/such").read_text(), FileNotFoundError, lambda it: [it.errno, it.filename]),
    "place in JSON": (lambda: json.loads("[1,"), json.JSONDecodeError, lambda it: [it.pos, it.doc]),
    "exit": (lambda: fail(SystemExit(4)), SystemExit, lambda it: it.code),
    "module": (lambda: fail(ImportError("no", name="driver")), ImportError, lambda it: it.name),
}


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(("made", "used"), RESULTS.values(), ids=RESULTS.keys())
def test_what_a_tool_returned_comes_back_as_it_was(made: Callable[[], Any], used: Callable[[Any], Any]) -> None:
    tool = freezeframe.tool(name="fetch")(made)
    _compare(lambda: used(tool()))


@pytest.mark.parametrize(("call", "expected", "used"), ERRORS.values(), ids=ERRORS.keys())
def test_what_a_tool_raised_comes_back_as_it_was(
    call: Callable[[], Any], expected: type[BaseException], used: Callable[[Any], Any]
) -> None:
    tool = freezeframe.tool(name="act")(lambda: call())

    def agent() -> Any:
        try:
            return tool()
        except expected as error:
            return [str(error), used(error)]

    _compare(agent)


class Login(pydantic.BaseModel):
    site: pydantic.HttpUrl
    password: pydantic.SecretStr


@dataclasses.dataclass
class Job:
    """What a program is started with."""

    folder: pathlib.Path
    login: Login
    lock: object = None


@freezeframe.run
def work(job: Job) -> str:
    return f"{job.folder.name} {job.login.site.host} {len(job.login.password.get_secret_value())}"


def _gaps(job: Job) -> list[Gap]:
    with capture() as captured:
        work(job)
        return [gap for gap in build_run(captured.spans).gaps if gap.kind in (GapKind.INPUT_OPAQUE, GapKind.INPUT_CHANGED)]


def test_a_path_a_url_and_a_secret_in_the_input_come_back_and_what_does_not_is_named_by_its_field() -> None:
    login = Login(site=pydantic.HttpUrl("https://a.example.com"), password=pydantic.SecretStr("hush-hush"))
    job = Job(pathlib.Path("/srv/a"), login)
    (masked,) = _gaps(job)
    assert (masked.kind, masked.ceiling) == (GapKind.INPUT_CHANGED, 5)
    assert "the field login.password of the argument job, a pydantic.types:SecretStr, is recorded masked" in masked.text
    assert values.decode(values.encode(job)) == dataclasses.replace(
        job, login=login.model_copy(update={"password": pydantic.SecretStr("*" * 10)})
    )
    job.lock = threading.Lock()
    (lost,) = [gap for gap in _gaps(job) if gap.kind is GapKind.INPUT_OPAQUE]
    assert "the field lock of the argument job, a _thread:lock, cannot be rebuilt" in lost.text


def test_an_exception_whose_rebuilt_form_raises_at_each_attribute_is_named() -> None:
    """`HTTPError` asks the response, which is not recorded, for whatever it does not have."""

    @freezeframe.tool
    def get() -> None:
        raise urllib.error.HTTPError("http://x.example.com", 404, "gone", email.message.Message(), io.BytesIO(b"no"))

    def agent() -> int | None:
        try:
            get()
        except urllib.error.HTTPError as error:
            return error.code
        return None

    fixture, _ = record(agent)
    assert any("raises a urllib.error:HTTPError, which a replay does not give back whole" in gap for gap in fixture.gaps)


def test_equal_gaps_of_a_call_in_a_loop_are_one_line_with_its_class_and_their_number() -> None:
    @freezeframe.tool
    def lock(number: int) -> Any:
        return {"number": number, "held": threading.Lock()}

    def agent() -> int:
        return sum(lock(number)["number"] for number in range(14))

    fixture, _ = record(agent)
    (line,) = [gap for gap in fixture.gaps if "_thread:lock" in gap]
    assert "lock holds a _thread:lock, which a replay does not give back whole (14 calls): return plain data" in line


def _compare(agent: Callable[[], Any]) -> None:
    fixture, recorded = record(agent)
    report, live = replay(agent, ReplaySession(fixture))
    assert live == recorded
    assert verdict(report) is Verdict.IDENTICAL
    assert not [gap for gap in fixture.gaps if NOT_WHOLE in gap]
