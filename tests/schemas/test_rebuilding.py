"""What does not come back from tagged JSON unchanged is named by its place and class."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import socket
import uuid
from typing import Any, NamedTuple

import pydantic
import pytest

from freezeframe_schemas import rebuilding
from freezeframe_schemas.rebuilding import Lost, lost_in_rebuilding


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Order:
    id: str
    tags: tuple[str, ...] = ()


class Item(pydantic.BaseModel):
    sku: str
    _seen: int = pydantic.PrivateAttr(default=0)


class Bare(pydantic.BaseModel):
    sku: str


class Pair(NamedTuple):
    left: int
    right: list[int]


class Name(str):
    """A subclass of a JSON type."""


def with_more() -> Order:
    order = Order("AC-1")
    order.__dict__["cache"] = {}
    return order


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, 1 << 20_000, 1.5, float("nan"), "text", "\ud800", b"bytes", [1, [2]], (1, (2,)), {1, 2}, frozenset("ab"),
        {"a": 1}, {1: "a", ("b", 2): 3}, {"$type": "mine"}, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.date(2026, 1, 1),
        dt.timedelta(1), decimal.Decimal("1.10"), uuid.UUID(int=1), 1j, Colour.RED, Order("AC-1", ("new",)), Bare(sku="x"),
        Pair(1, [2]), [Order("a"), {"b": Colour.RED}], ValueError("x", 1),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_comes_back_is_not_named(value: Any) -> None:
    assert list(lost_in_rebuilding(value)) == []


@pytest.mark.parametrize(
    ("value", "path", "name", "opaque"),
    [
        (object(), "", "builtins:object", True),
        ([1, {"s": object()}], "[1]['s']", "builtins:object", True),
        ({object(): 1}, " key", "builtins:object", True),
        (Order(id=object()), ".id", "builtins:object", True),  # pyright: ignore[reportArgumentType]  (as a careless caller would)
        (collections.defaultdict(lambda: 1), "", "collections:defaultdict", False),
        ([Pair(1, [object()])], "[0].right[0]", "builtins:object", True),  # pyright: ignore[reportArgumentType]
        (with_more(), "", f"{__name__}:Order", False),
        (type("Local", (), {})(), "", f"{__name__}:Local", True),
    ],
)
def test_what_does_not_come_back_is_named_by_place_and_class(value: Any, path: str, name: str, opaque: bool) -> None:
    assert list(lost_in_rebuilding(value)) == [Lost(path=path, class_name=name, opaque=opaque)]


def test_a_socket_cannot_be_rebuilt() -> None:
    with socket.socket() as open_socket:
        assert [lost.opaque for lost in lost_in_rebuilding({"connection": open_socket})] == [True]


def test_private_state_of_a_model_is_lost() -> None:
    item = Item(sku="x")
    item._seen = 3  # pyright: ignore[reportPrivateUsage]  (its own state)
    assert [lost.opaque for lost in lost_in_rebuilding(item)] == [False]


def test_a_class_of_a_function_cannot_be_found_again() -> None:
    @dataclasses.dataclass
    class Local:
        id: int

    assert [lost.opaque for lost in lost_in_rebuilding(Local(1))] == [True]


def test_a_value_that_refuses_to_be_looked_at_is_lost_and_raises_nothing() -> None:
    class Angry(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError

        def keys(self) -> Any:
            raise RuntimeError

    assert [lost.path for lost in lost_in_rebuilding([Angry(a=1)])] == ["[0]"]


def test_what_is_too_large_is_said_to_be_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "LIMIT", 10)
    assert [lost.opaque for lost in lost_in_rebuilding(Order("a long id of an order"))] == [False]


def test_a_cycle_ends() -> None:
    value: list[Any] = []
    value.append(value)
    assert [lost.opaque for lost in lost_in_rebuilding(value)] == [True]
