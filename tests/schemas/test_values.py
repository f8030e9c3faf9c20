"""The law of tagged JSON: what is encoded comes back equal and of the same type, and nothing that it holds is run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
from arbitrary import python_value
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_schemas import values


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


def test_a_subclass_of_a_json_type_comes_back_as_that_type() -> None:
    """The class is not kept if only its content decides."""
    assert values.decode(values.encode(OrderedDict(a=1))) == {"a": 1}


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
