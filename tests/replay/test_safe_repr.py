"""What a replay shows of the program's variables: as Python writes them, and without running the program's code."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.standstill import frames_of_program, safe_repr

LONG = 10_000
_keys = st.none() | st.booleans() | st.integers() | st.text() | st.binary()


@given(
    st.recursive(
        _keys | st.floats() | st.dates() | st.datetimes() | st.uuids() | st.decimals(),
        lambda inner: (
            st.lists(inner, max_size=4) | st.tuples(inner) | st.tuples(inner, inner) | st.dictionaries(_keys, inner, max_size=4)
        ),
        max_leaves=3,
    )
)
def test_values_of_builtin_types_are_written_as_python_writes_them(value: object) -> None:
    assert safe_repr(value, longest=LONG) == repr(value)
    assert len(safe_repr(value, longest=20)) <= 20


@dataclasses.dataclass(slots=True)
class Order:
    number: str
    lines: list[int]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Order("A-1", [1]), "Order(lines=[1], number='A-1')"),
        (ValueError("no", 1), "ValueError('no', 1)"),
        (collections.Counter(a=2), "{'a': 2}"),
        (enum.Enum("Colour", "RED"), "<class 'Colour'>"),
        (sys, "<module>"),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)"),
        (1 << 10**6, "<int of 1000001 bits>"),
    ],
    ids=["slots", "exception", "subclass", "class", "module", "time", "int"],
)
def test_other_values_are_written_by_their_fields(value: object, shown: str) -> None:
    assert safe_repr(value, longest=LONG) == shown


def hostile() -> list[Any]:
    """Return values of classes whose every special method says that it was called."""

    def called(*_: object, **__: object) -> Any:
        raise AssertionError("code of the program ran")

    names = (
        "__repr__ __str__ __format__ __eq__ __hash__ __len__ __iter__ __getattribute__ __getitem__ __bool__ __instancecheck__"
    )
    special: dict[str, Any] = dict.fromkeys(names.split(), called)
    meta: Any = type("Meta", (type,), dict(special))
    made: list[Any] = []
    bases: list[Any] = [object, str, int, list, tuple, dict, set, Exception]
    for base in bases:
        kind: Any = meta(f"Of{base.__name__}", (base,), dict(special))
        made += [kind, base.__new__(kind)]
    owner = meta("Owner", (), {**special, "__dict__": property(called), "field": property(called)})
    return [*made, object.__new__(owner)]


def test_no_code_of_the_program_runs() -> None:
    for value in hostile():
        assert safe_repr(value, longest=LONG)
        assert safe_repr([{1: value}], longest=LONG)


def test_the_size_of_a_value_does_not_count() -> None:
    endless: list[Any] = []
    endless += [endless, endless, endless]
    assert len(safe_repr(endless, longest=160)) <= 160
    assert len(safe_repr([[]] * 10**7, longest=160)) == 160
    assert len(safe_repr("x" * 10**8, longest=160)) == 160


def test_the_variables_of_a_frame_are_read_without_asking_a_mapping_of_the_program() -> None:
    class Told(dict[str, Any]):
        def items(self) -> Any:
            raise AssertionError("code of the program ran")

    class Meta(type):
        @classmethod
        def __prepare__(cls, *_: Any, **__: Any) -> Any:
            return Told()

    class Body(metaclass=Meta):
        found = frames_of_program()

    own, body = frames_of_program(), dict(vars(Body))["found"]
    assert "Told" in own[0].variables
    assert body[0].variables == {}
