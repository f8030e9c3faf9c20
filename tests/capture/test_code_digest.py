"""The digest of a tool's code changes with what the tool would do, and with nothing else."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from freezeframe.seams.functions.calls import FunctionCall
from freezeframe.seams.functions.code_digest import code_of
from freezeframe_schemas.exchange import Kind

SHOP = """
import helpers.taxes
from helpers import prices
from helpers.taxes import tax as added
from helpers.taxes import *

LIMIT = 50
TABLE = {}
TABLE["x"] = 1
for name in ["a", "b"]:
    TABLE[name] = 2

def check(order):
    \"\"\"Check it.\"\"\"
    return order < LIMIT

class Base:
    scale = 2

    def shared(self):
        return self.scale

class Shop(Base):
    def __init__(self):
        self.rate = 3

    def refund(self, order):
        return self._half(order) * self.shared()

    def _half(self, order):
        return order / 2 * self.rate

    def unrelated(self):
        return 1

class Kiosk(Wide):
    size = 5

    def refund(self, order):
        return self.shared()

class Stall(helpers.taxes.Wide):
    def refund(self, order):
        return self.shared()

def refund(order, most=LIMIT):
    from helpers import late
    if not check(order):
        raise ValueError(order)
    return prices.price(order) + added(order) + late.fee() + starred() + TABLE["x"]

def make(rate):
    def inner(order):
        return order * rate
    return inner

HANDLERS = {}

def register(function):
    HANDLERS[function.__name__] = function
    return function

@register
def first(order):
    return order

@register
def second(order):
    return order + 4

def dispatch(order):
    return HANDLERS["second"](order)

made = make(2)
unrelated = refund(1)
"""
PRICES = "FACTOR = 3\n\ndef price(order):\n    return order * FACTOR\n\ndef other():\n    return 1\n"
TAXES = """
def tax(order):
    return order // 10

def starred():
    return 0

class Wide:
    size = 2

    def shared(self):
        return self.size + 1
"""
LATE = "def fee():\n    return 7\n"


def digest(folder: Path, name: str, **changes: tuple[str, str]) -> str:
    """Write the files, each with a change (file -> old and new text), load the shop, and return a function's digest."""
    sources = {"shop": SHOP, "helpers/prices": PRICES, "helpers/taxes": TAXES, "helpers/late": LATE, "helpers/__init__": ""}
    for file, text in sources.items():
        old, new = changes.get(Path(file).name, ("", ""))
        assert old in text
        path = folder / f"{file}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace(old, new, 1) if old else text)
        os.utime(path, (1, 1 + len(path.read_text())))
    held: dict[str, Any] = {"__name__": "shop"}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for module in [name for name in sys.modules if name.partition(".")[0] == "helpers"]:
            patch.delitem(sys.modules, module)
        file = str(folder / "shop.py")
        exec(compile(Path(file).read_text(), file, "exec"), held)
    found = held[name.partition(".")[0]]
    function = getattr(found, name.partition(".")[2]) if "." in name else found
    assert isinstance(function, FunctionType)
    code = code_of([function])
    assert code is not None
    assert code.digest.startswith("source:")
    return code.digest


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("refund", "shop", "raise ValueError(order)", "raise KeyError(order)"),
        ("refund", "shop", "order < LIMIT", "order <= LIMIT"),
        ("refund", "shop", "LIMIT = 50", "LIMIT = 60"),
        ("refund", "shop", 'TABLE["x"] = 1', 'TABLE["x"] = 2'),
        ("refund", "shop", "TABLE[name] = 2", "TABLE[name] = 3"),
        ("refund", "shop", "most=LIMIT", "most=9"),
        ("refund", "prices", "FACTOR = 3", "FACTOR = 4"),
        ("refund", "prices", "order * FACTOR", "order + FACTOR"),
        ("refund", "taxes", "order // 10", "order // 5"),
        ("refund", "taxes", "return 0", "return 1"),
        ("refund", "late", "return 7", "return 8"),
        ("Shop.refund", "shop", "order / 2", "order / 3"),
        ("Shop.refund", "shop", "self.rate = 3", "self.rate = 4"),
        ("Shop.refund", "shop", "scale = 2", "scale = 3"),
        ("Kiosk.refund", "taxes", "self.size + 1", "self.size + 2"),
        ("Kiosk.refund", "shop", "size = 5", "size = 6"),
        ("Stall.refund", "taxes", "self.size + 1", "self.size + 2"),
        ("Stall.refund", "taxes", "size = 2", "size = 3"),
        ("Shop.refund", "shop", "return self.scale", "return -self.scale"),
        ("dispatch", "shop", "order + 4", "order + 5"),
        ("made", "shop", "order * rate", "order - rate"),
        ("made", "shop", "make(2)", "make(3)"),
    ],
)
def test_a_change_that_decides_changes_the_digest(name: str, file: str, old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert digest(tmp_path / "a", name) != digest(tmp_path / "b", name, **{file: (old, new)})


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("refund", "shop", "", ""),
        ("refund", "shop", "LIMIT = 50", "LIMIT = (\n    50  # most\n)"),
        ("refund", "shop", '"""Check it."""', '"""Check an order."""'),
        ("refund", "shop", "class Base", "def new():\n    return 1\n\nclass Base"),
        ("refund", "shop", "unrelated = refund(1)", "unrelated = refund(2)"),
        ("refund", "prices", "return 1", "return 2"),
        ("Shop.refund", "shop", "return 1", "return 2"),
        ("first", "shop", "order + 4", "order + 5"),
    ],
)
def test_a_change_that_decides_nothing_leaves_the_digest(name: str, file: str, old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert digest(tmp_path / "a", name) == digest(tmp_path / "b", name, **{file: (old, new)})


def test_what_a_function_counts_by_itself_is_no_part_of_its_code(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "def make():\n    count = 0\n    def inner():\n        nonlocal count\n        count += 1\n    return inner\n\n"
        "one = make()\ntwo = make()\ntwo()\n"
    )
    held: dict[str, Any] = {"__name__": "shop"}
    exec(compile(file.read_text(), str(file), "exec"), held)
    assert code_of([held["one"]]) == code_of([held["two"]])


def test_code_that_is_not_what_its_file_holds_by_now_has_no_digest(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    held: dict[str, Any] = {"__name__": "shop"}
    exec(compile("def refund(order):\n    return order\n", str(file), "exec"), held)
    file.write_text("def refund(order):\n    return order * 2\n")
    code = code_of([held["refund"]])
    assert code is not None
    assert (code.digest, Path(code.file).name, code.line) == ("", "shop.py", 1)


def test_code_has_a_digest_if_another_thread_parses_at_the_same_moment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As CPython 3.11 fails then: garbage collection in one `ast.parse` let another thread begin one."""
    failures = [SystemError("AST constructor recursion depth mismatch (before=57, after=225)")]
    genuine = ast.parse

    def parse(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return genuine(*given)

    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", parse)
        found = digest(tmp_path, "refund")
    assert found
    assert failures == []


def test_code_without_a_source_has_a_digest_of_its_byte_code() -> None:
    held: dict[str, Any] = {"__name__": "__main__"}
    digests: list[str] = []
    for text in ("return order in {'a', 'b'}", "return order in {'a', 'b'}", "return order in {'a', 'c'}"):
        exec(compile(f"def refund(order):\n    {text}\n", "<string>", "exec"), held)
        code = code_of([held["refund"]])
        assert code is not None
        digests.append(code.digest)
    assert digests[0] == digests[1] != digests[2]
    assert digests[0].startswith("cpython-")


def test_a_frameworks_tool_has_the_code_of_its_own_class_too(tmp_path: Path) -> None:
    """It inherits the method that the framework calls, which calls one of its own."""
    digests: list[str] = []
    for number in (1, 2):
        file = tmp_path / f"{number}.py"
        file.write_text(
            "class Base:\n    def _run(self):\n        return self.rate()\n\n"
            f"class Quote(Base):\n    def rate(self):\n        return {number}\n"
        )
        held: dict[str, Any] = {"__name__": "quotes"}
        exec(compile(file.read_text(), str(file), "exec"), held)
        call = FunctionCall.of(Kind.TOOL, "framework", "quote", kwargs={}).by(held["Quote"](), "_run")
        code = code_of(call.functions, call.holder)
        assert code is not None
        digests.append(code.digest)
    assert digests[0] != digests[1]
