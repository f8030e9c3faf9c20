"""The law of tagged JSON: what is encoded comes back equal and of the same type, and nothing that it holds is run."""

from __future__ import annotations

import array
import collections
import contextlib
import dataclasses
import datetime as dt
import decimal
import fractions
import ipaddress
import json
import math
import pathlib
import types
import zoneinfo
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy
import pydantic
import pydantic_core
import pytest
from arbitrary import python_value
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import values
from freezeframe_schemas.rebuilding import lost_in_rebuilding, lost_of_exception


@dataclasses.dataclass(frozen=True)
class Order:
    """An order as a tool may return one."""

    number: str
    lines: tuple[int, ...]
    note: str | None = None


class Point(NamedTuple):
    """A point."""

    x: int
    y: int


class ToolError(Exception):
    """An error with a required argument and its own state."""

    def __init__(self, code: int, *, retry_after_s: float) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.retry_after_s = retry_after_s


def typed(value: Any) -> Any:
    """Return the value with the type of each part next to it: `1 == True == 1.0` must not pass as equal."""
    if isinstance(value, dict):
        return ("dict", [(typed(key), typed(item)) for key, item in value.items()])
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(repr(typed(item)) for item in value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, [typed(item) for item in value])
    return (type(value).__name__, repr(value) if isinstance(value, float | complex) else value)


@given(value=python_value)
def test_what_is_encoded_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    """The law that lets a replayed tool return what the recorded one did."""
    assert typed(values.decode(values.encode(value))) == typed(value)


@given(value=python_value)
def test_the_text_is_utf8_json(value: Any) -> None:
    """A lone surrogate would make the exporter drop the whole attribute."""
    text = values.encode(value)
    text.encode()
    json.loads(text)


@given(value=python_value)
def test_encoding_again_gives_the_same_text(value: Any) -> None:
    """Request keys of function calls are made from this text."""
    assert values.encode(values.decode(values.encode(value))) == values.encode(value)


@given(text=st.text())
def test_no_text_passes_for_an_object_that_cannot_be_rebuilt(text: str) -> None:
    """A tool may well return text that contains ``{"$type": "opaque"}``."""
    quoted = [text, '{"$type": "opaque"}', {'"$type": "opaque"': 1}]
    assert not values.is_opaque(values.encode(quoted))
    assert values.decode(values.encode({"$type": "opaque"})) == {"$type": "opaque"}


@pytest.mark.parametrize(
    "value",
    [
        Order(number="AC-1", lines=(1, 2)),
        Point(1, 2),
        {"orders": [Order(number="AC-1", lines=())]},
        {Point(0, 1): "corner", (1, 2): "tuple"},
    ],
    ids=["dataclass", "namedtuple", "nested", "keys"],
)
def test_an_instance_of_a_known_class_comes_back_as_one(value: Any) -> None:
    assert values.decode(values.encode(value)) == value
    assert not values.is_opaque(values.encode(value))


def test_infinities_and_nan_survive() -> None:
    back = values.decode(values.encode([math.inf, -math.inf, math.nan]))
    assert back[:2] == [math.inf, -math.inf]
    assert math.isnan(back[2])


class Title(str):
    """A text that keeps more."""

    source: str


class Rows(list[int]):
    """A list of its own."""

    def __init__(self) -> None:
        raise AssertionError("a class of the application is not called")


def rows(*numbers: int) -> Rows:
    made = list.__new__(Rows)
    made.extend(numbers)
    return made


class Celsius(float): ...


class Prices(dict[str, int]): ...


class Route(tuple[str, ...]):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"RIFF"), range(2, 20, 3), slice(1, None), OrderedDict(b=1, a=2), collections.Counter("hello"),
        collections.deque([1, 2], maxlen=5), collections.defaultdict(list, {"a": [1]}),
        collections.ChainMap({"a": 1}, {"b": 2}),
        types.SimpleNamespace(a=1, b=[2]), types.MappingProxyType({"a": 1}), array.array("d", [1.5]), fractions.Fraction(1, 3),
        pathlib.Path("/srv/data"), pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("c:/x"),
        ipaddress.ip_address("10.0.0.1"), ipaddress.ip_network("2001:db8::/32"), zoneinfo.ZoneInfo("Europe/Berlin"),
        dt.timezone(dt.timedelta(hours=2)), dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        Celsius(3.5), Prices(a=1), Route(("a", "b")), rows(3, 4), Title("x"), frozenset({1}), [bytearray(b""), {"a": range(3)}],
        numpy.float64(1.5), numpy.int32(7), numpy.bool_(True), numpy.str_("x"),
        pydantic.HttpUrl("https://example.com/a?b=1"), pydantic.AnyUrl("ftp://x.org/y"), (Title("in a tuple"), Celsius(1)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_of_a_near_type_comes_back_as_it_was(value: Any) -> None:
    text = values.encode(value)
    back = values.decode(text)
    assert (type(back), back) == (type(value), value)
    assert values.encode(back) == text
    assert list(lost_in_rebuilding(value)) == []


def test_what_else_a_near_type_holds_comes_back_too() -> None:
    queue = values.decode(values.encode(collections.deque([1], maxlen=2)))
    assert queue.maxlen == 2
    title = Title("x")
    title.source = "wire"
    assert values.decode(values.encode(title)).source == "wire"
    title.source = ["not", "plain"]  # pyright: ignore[reportAttributeAccessIssue]  (as an application may)
    assert [lost.class_name for lost in lost_in_rebuilding(title)] == [values.class_path(Title)]
    autumn = dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    assert values.decode(values.encode(autumn)).utcoffset() == dt.timedelta(hours=1)
    grid = values.decode(values.encode(numpy.arange(6, dtype="<i2").reshape(2, 3)))
    assert (grid.dtype.str, grid.tolist()) == ("<i2", [[0, 1, 2], [3, 4, 5]])
    assert bytes(values.decode(values.encode(memoryview(b"ab")))) == b"ab"
    assert values.decode(values.encode(collections.defaultdict(list)))["new"] == []


def test_a_subclass_that_is_not_there_comes_back_as_its_json_type() -> None:
    text = values.encode(Title("x")).replace("Title", "Gone")
    assert (type(values.decode(text)), values.decode(text)) == (str, "x")


def test_a_secret_that_its_class_hides_is_not_written() -> None:
    secret = pydantic.SecretStr("correct horse battery")
    text = values.encode({"key": secret, "none": pydantic.SecretStr("")})
    assert "horse" not in text
    back = values.decode(text)
    assert (type(back["key"]), back["key"].get_secret_value(), back["none"].get_secret_value()) == (type(secret), "*" * 10, "")
    assert [(lost.path, lost.opaque) for lost in lost_in_rebuilding({"key": secret})] == [("['key']", False)]


@pytest.mark.parametrize(
    "node",
    [
        {"$type": "array:array", "value": ["q", "text"]},
        {"$type": "zoneinfo:ZoneInfo", "value": "../../etc/passwd"},
        {"$type": "collections:defaultdict", "value": ["eval", []]},
        {"$type": "pathlib:PosixPath", "value": {"a": 1}},
        {"$type": "collections:deque", "value": 3},
        {"$type": "numpy:generic", "value": ["O", 1]},
    ],
)
def test_what_a_recording_says_wrongly_of_a_near_type_is_opaque(node: Any) -> None:
    assert isinstance(values.decode(json.dumps(node)), values.Opaque)


def test_an_object_without_a_form_is_opaque_and_found_as_a_gap() -> None:
    text = values.encode({"handle": object()})
    assert values.is_opaque(text)
    assert isinstance(values.decode(text)["handle"], values.Opaque)


def test_a_cycle_ends() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert values.is_opaque(values.encode(circle))


def test_what_lies_deep_ends_at_a_limit() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert values.is_opaque(values.encode(deep))


def test_a_hostile_repr_costs_no_more_than_its_own_value() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert values.decode(values.encode([1, Hostile(), 2]))[::2] == [1, 2]


def test_an_integer_too_long_for_decimal_digits_survives() -> None:
    """Python refuses to print integers over 4300 digits; the tool that returned one must not fail for that."""
    assert values.decode(values.encode({"n": -(10**5000)})) == {"n": -(10**5000)}


def test_an_exception_comes_back_with_class_arguments_and_state() -> None:
    error = values.decode_exception(values.encode_exception(ToolError(429, retry_after_s=2.0)))
    assert type(error) is ToolError
    assert (str(error), error.code, error.retry_after_s) == ("code 429", 429, 2.0)


class NewNeedsMoreError(Exception):
    def __new__(cls, text: str, *, code: int) -> NewNeedsMoreError:
        return super().__new__(cls, text)

    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(f"{text}!")
        self.code = code


class SlotError(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


class WithoutArgumentsError(RuntimeError):
    def __init__(self, path: pathlib.Path, tries: collections.Counter[str]) -> None:
        self.path, self.tries = path, tries

    def __str__(self) -> str:
        return f"{self.path}: {self.tries.total()}"


class Shop(pydantic.BaseModel):
    mail: str
    places: list[int]

    @pydantic.field_validator("mail")
    @classmethod
    def has_at(cls, mail: str) -> str:
        if "@" not in mail:
            raise ValueError(f"no @ in {mail}")
        return mail

    @pydantic.field_validator("places", mode="before")
    @classmethod
    def is_far(cls, places: object) -> object:
        if places == "far":
            raise pydantic_core.PydanticCustomError("too_far", "{n} km is too far", {"n": 7})
        return places


def raised(call: Any, *args: Any) -> BaseException:
    with pytest.raises(BaseException) as caught:
        call(*args)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        NewNeedsMoreError("a", code=3), SlotError(4), WithoutArgumentsError(pathlib.Path("/x"), collections.Counter("aa")),
        raised(Shop.model_validate, {"mail": "x", "places": [1, "two", None]}),
        raised(Shop.model_validate, {"mail": "a@b", "places": "far"}),
        raised(Shop.model_validate_json, '{"mail": 3'), raised(open, "/no/such/file"), OSError(17, "exists", "a", None, "b"),
        SystemExit(3), StopIteration([5]), ImportError("no", name="n", path="p"), raised(compile, "a b", "f", "exec"),
        raised(json.loads, "{"), raised("é".encode, "ascii"), raised(b"\xff".decode), KeyError("x"), TimeoutError(),
        ExceptionGroup("several", [SlotError(1), ValueError("x")]),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_exception_comes_back_with_what_it_holds(error: BaseException) -> None:
    back = values.decode_exception(values.encode_exception(error))
    assert (type(back), str(back)) == (type(error), str(error))
    assert lost_of_exception(error) == ""
    for name, item in values.state_of(error):
        assert values.encode(getattr(back, name)) == values.encode(item)


def test_what_an_exception_loses_is_named() -> None:
    assert lost_of_exception(ToolError(1, retry_after_s=object())) == "its retry_after_s"  # pyright: ignore[reportArgumentType]
    assert lost_of_exception(raised(decimal.Decimal, "x")) == "its arguments"


def test_an_exception_of_an_unknown_class_is_told_by_name() -> None:
    text = values.encode_exception(ToolError(429, retry_after_s=2.0)).replace("ToolError", "GoneError")
    error = values.decode_exception(text)
    assert type(error) is values.RecordedError
    assert "GoneError" in str(error)
    assert "code 429" in str(error)


def test_decoding_calls_no_constructor() -> None:
    """Untrusted text may name any class that is loaded; naming one must run none of its code."""
    called: list[str] = []

    @dataclasses.dataclass
    class Trap:
        x: int = 0

        def __init__(self) -> None:
            called.append("__init__")

        def __post_init__(self) -> None:
            called.append("__post_init__")

    Trap.__qualname__ = "Trap"
    globals()["Trap"] = Trap
    try:
        for tag in ("dataclass", "namedtuple", "enum", "model"):
            with contextlib.suppress(Exception):  # refusing is fine, running is not
                values.decode(json.dumps({"$type": tag, "class": f"{__name__}:Trap", "value": {"x": 1}}))
    finally:
        del globals()["Trap"]
    assert called == []


@pytest.mark.parametrize("path", ["os:system", "builtins:eval", "subprocess:Popen", "builtins:type"])
@pytest.mark.parametrize("tag", ["dataclass", "namedtuple", "enum", "model", "exception"])
def test_no_callable_is_run_by_naming_it(tag: str, path: str) -> None:
    """A fixture is data: whatever it names, decoding gives a value and starts nothing."""
    text = json.dumps({"$type": tag, "class": path, "value": ["true"] if tag == "exception" else {"args": "true"}, "text": ""})
    try:
        back = values.decode(text)
    except Exception:
        return
    assert not hasattr(back, "returncode")


def failed(*, hidden: bool) -> BaseException:
    """Return an exception with a cause that came while another one was handled."""
    try:
        try:
            raise OSError(2, "gone")
        except OSError as gone:
            try:
                raise KeyError("AC-1")
            except KeyError as missing:
                raise ValueError("no order") from (None if hidden else missing.with_traceback(gone.__traceback__))
    except ValueError as error:
        return error


def test_an_exception_comes_back_with_its_causes() -> None:
    """Programs look at what is behind an exception: `raise ... from`, and what was handled when it came."""
    error = values.decode_exception(values.encode_exception(failed(hidden=False)))
    assert repr(error.__cause__) == "KeyError('AC-1')"
    assert error.__cause__ is not None
    assert repr(error.__cause__.__context__) == "FileNotFoundError(2, 'gone')"
    hidden = values.decode_exception(values.encode_exception(failed(hidden=True)))
    assert (hidden.__cause__, hidden.__context__, hidden.__suppress_context__) == (None, None, True)


def test_the_causes_of_an_exception_are_kept_to_the_tenth() -> None:
    first = error = ValueError(0)
    for number in range(1, 300):
        error.__cause__ = ValueError(number)
        error = error.__cause__
    error.__cause__ = first
    chain: list[object] = []
    back: BaseException | None = values.decode_exception(values.encode_exception(first))
    while back is not None:
        chain.append(back.args[0])
        back = back.__cause__
    assert chain == list(range(len(chain)))
    assert 9 <= len(chain) <= 12
