"""Generated programs with a changed tool: no replay that skips the tool's code calls them identical."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answered_here import record, replay

from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.verdict import headline

pytestmark = pytest.mark.long

PROGRAMS = 10
"""In a batch. Each is recorded and replayed in this process, which takes a quarter of a second."""
SHAPES = (
    "{name} = {number} + {call}\n",
    "def {name}_(value):\n    return value * {number} + {call}\n\n{name} = {name}_(1)\n",
    "def {name}__():\n    return {number} + {call}\n\n\nclass {name}Kind:\n    scale = {number}\n\n    def get(self):\n"
    "        return self.scale + {name}__()\n\n{name} = {name}Kind().get()\n",
    "{name} = [{number}, {call}]\n{name}.append({number})\n{name} = sum({name})\n",
    "def {name}__(factor):\n    def inner(value):\n        return value * factor + {number}\n    return inner\n\n"
    "{name} = {name}__({number})({call})\n",
    "{name} = {{}}\nfor key in ('a', 'b'):\n    {name}[key] = {number} + {call}\n{name} = sum({name}.values())\n",
    "try:\n    {name} = {number} + {call}\nexcept ValueError:\n    {name} = {number}\n",
    "{name} = (lambda value: value + {number})({call})\n",
    "if {number} > 50:\n    {name} = {call} + 1\nelse:\n    {name} = {call} + 2\n",
    "{name} = 0\n\ndef {name}__():\n    global {name}\n    {name} = {number} + {call}\n\n{name}__()\n",
    "{name}__ = {{}}\n\ndef {name}_add(function):\n    {name}__['it'] = function\n    return function\n\n@{name}_add\n"
    "def {name}_it():\n    return {number} + {call}\n\n{name} = {name}__['it']()\n",
    "import functools\n\n@functools.singledispatch\ndef {name}__(value):\n    return 0\n\n@{name}__.register(int)\n"
    "def _(value):\n    return value + {number} + {call}\n\n{name} = {name}__(1)\n",
    "import functools\n\ndef {name}__(a, b):\n    return a * {number} + b\n\n"
    "{name} = functools.partial({name}__, {number})({call})\n",
    "class {name}A:\n    scale = {number}\n    twice = scale * {number}\n\n    def get(self):\n        return self.part()\n\n"
    "class {name}B({name}A):\n    def part(self):\n        return self.twice + {call}\n\n{name} = {name}B().get()\n",
    "{name}__ = [{name}_ := {number}]\n{name} = {name}_ + {call}\n",
    "match {number}:\n    case 1:\n        {name} = 0\n    case _:\n        {name} = {number} + {call}\n",
    "with open(os.devnull) as {name}__:\n    {name} = {number} + {call}\n",
    "def {name}__(factor):\n    def around(function):\n        return lambda: function() * factor\n    return around\n\n"
    "@{name}__({number})\ndef {name}_it():\n    return {call}\n\n{name} = {name}_it()\n",
    "{name}__ = {{'a': lambda: {number}, 'b': lambda: {call}}}\n{name} = {name}__['a']() + {name}__['b']()\n",
    "import enum\n\nclass {name}E(enum.IntEnum):\n    A = {number}\n\n{name} = {name}E.A + {call}\n",
    "def {name}__(value, more={number}):\n    return value + more\n\n{name} = {name}__({call})\n",
    "class {name}M:\n    def __init__(self):\n        self.rates = {{'x': {number}}}\n\n    def __getitem__(self, key):\n"
    "        return self.rates[key] + {number}\n\n{name} = {name}M()['x'] + {call}\n",
)
TOOLS = (
    "@freezeframe.tool\ndef look(order):\n    return order + {call}\n",
    "class Shop:\n    @freezeframe.tool\n    def look(self, order):\n        return order + self.rate() + self.base\n\n"
    "    def __init__(self):\n        self.base = {call}\n\n"
    "    def rate(self):\n        return {number}\n\nlook = Shop().look\n",
    "@freezeframe.retriever\ndef look(order):\n    return [kept(order), {call}]\n",
    "@freezeframe.tool\ndef look(order):\n    yield order\n    yield {call}\n",
    "def make(table):\n    @freezeframe.tool\n    def look(order):\n        return order + table['rate']\n    return look\n\n"
    "look = make({{'rate': {number} + {call}}})\n",
    "def make(price):\n    @freezeframe.tool\n    def look(order):\n        return price(order)\n    return look\n\n"
    "look = make(lambda order: order + {number} + {call})\n",
    "class Base:\n    @freezeframe.tool\n    def look(self, order):\n        return order + self.rate()\n\n"
    "class Shop(Base):\n    more = {number}\n\n    def rate(self):\n        return self.more + {call}\n\nlook = Shop().look\n",
    "class Shop:\n    base = {number} + {call}\n    scale = base * {number}\n\n"
    "    @freezeframe.tool\n    def look(self, order):\n"
    "        return order + self.scale + len(self)\n\n    def __len__(self):\n        return {number}\n\nlook = Shop().look\n",
    "LOOKS = {{'other': lambda order: order + {number}, 'look': freezeframe.tool(name='look')(lambda order: order + {call})}}\n"
    "look = LOOKS['look']\n",
    "import functools\n\ndef price(rate, order):\n    return order + rate * {number}\n\n"
    "look = freezeframe.tool(name='look')(functools.partial(price, {number} + {call}))\n",
    "def twice(function):\n    def inner(order):\n        return function(order) * {number}\n    return inner\n\n"
    "@freezeframe.tool(name='look')\n@twice\ndef look(order):\n    return order + {call}\n",
    "class Look:\n    def __call__(self, order):\n        return order + self.rate()\n\n    def rate(self):\n"
    "        return {number} + {call}\n\nlook = freezeframe.tool(name='look')(Look())\n",
)
HEAD = "import freezeframe\nimport os\nimport lib\nfrom lib import *\n\n"
TAIL = "\n\ndef agent():\n    found = look(3)\n    return list(found) if hasattr(found, '__next__') else found\n"


def program(draw: random.Random) -> dict[str, str]:
    """Return two files whose every number is reached by the tool."""
    library, own, last = "import os\n\ndef kept(value):\n    return value\n\n", "", "0"
    in_library = draw.randint(0, 3)
    for number in range(in_library + draw.randint(0 if in_library else 1, 3)):
        piece = draw.choice(SHAPES).format(name=f"n{number}", number=draw.randint(2, 90), call=last)
        if number < in_library:
            library, last = f"{library}{piece}\n", f"n{number}"
        else:
            own, last = f"{own}{piece}\n", f"n{number}"
        if number == in_library - 1:
            last = draw.choice(("lib.", "")) + last
    tool = draw.choice(TOOLS).format(call=last, number=draw.randint(2, 90))
    return {"lib.py": library, "shop.py": HEAD + own + "\n" + tool + TAIL}


def changed(files: dict[str, str], draw: random.Random) -> dict[str, str]:
    """Return the files with another number in one place."""
    places = [(name, found.span()) for name, text in files.items() for found in re.finditer(r"(?<![\w.])\d+(?![\w.])", text)]
    places = [(name, span) for name, span in places if f"look({files[name][span[0] : span[1]]})" not in files[name]]
    name, (begin, end) = draw.choice(places)
    return {**files, name: files[name][:begin] + str(int(files[name][begin:end]) + 1) + files[name][end:]}


def load(folder: Path, files: dict[str, str]) -> Callable[[], Any]:
    """Write the files, and return the program's agent."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    sys.modules.pop("lib", None)
    held: dict[str, Any] = {"__name__": "shop"}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        exec(compile(files["shop.py"], str(folder / "shop.py"), "exec"), held)
    sys.modules.pop("lib", None)
    return held["agent"]


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 34))])
def test_no_replay_that_skips_changed_code_is_identical(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    for number in range(PROGRAMS):
        files = program(draw)
        after = changed(files, draw)
        fixture, _ = record(load(tmp_path / f"{number}a", files))
        same, _ = replay(load(tmp_path / f"{number}b", files), ReplaySession(fixture))
        assert headline(same).startswith("identical: 1 of 1 step and the outcome, "), (seed, number, files)
        other, _ = replay(load(tmp_path / f"{number}c", after), ReplaySession(fixture))
        shown = "\n".join([*files.values(), "-- after", *after.values()])
        assert headline(other).startswith(("incomparable: tool look (shop.py", "incomparable: retrieval look (shop.py")), shown
        ran, _ = replay(load(tmp_path / f"{number}d", after), ReplaySession(fixture, policy=ReplayPolicy(run_changed=True)))
        assert {item.kind for item in ran.divergences} <= {DivergenceKind.RESULT_CHANGED, DivergenceKind.OUTCOME_CHANGED}
        assert ran.divergences or "ran)" in headline(ran)
