"""Programs whose gaps are known: what a recording of each names, and what closes it. Each is one file, below `HEAD`."""

# ruff: noqa: E501  (programs as one reads them, a line each)

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

from freezeframe_schemas.gaps import GapKind

HEAD = """
import asyncio, collections, dataclasses, logging, os, random, socket, sqlite3, subprocess, sys, tempfile, threading, urllib.parse
from pathlib import Path
import freezeframe
freezeframe.instrument()

@freezeframe.tool
def look(*seen):
    return list(map(str, seen))

@freezeframe.tool
def marked_read():
    with sqlite3.connect("orders.db") as orders:
        return [Path("orders.csv").read_text(), orders.execute("SELECT 1").fetchall()]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program, and what must be said about its run."""

    source: str
    level: int = 6
    gap: GapKind | None = None
    text: str = ""
    """Part of the gap."""
    do: str = ""
    """Part of what closes it."""
    arguments: tuple[str, ...] = ("agent.py",)
    stdin: str = ""


def entry(body: str, *, before: str = "", call: str = "answer('where?')", decorators: str = "@freezeframe.run") -> str:
    function = f"def answer(question):\n{indent(body, '    ')}\n    return look(question)\n"
    return f"{before}\n{decorators}\n{function}\nif __name__ == '__main__':\n    {call}\n"


LOAD = """
def load_orders():
    return open("orders.csv").read()
"""
REQUEST = """
class Request(collections.UserDict):
    def __init__(self): super().__init__(path="/ask", app=object()); self.scope = self.data
"""
MAIN = "if __name__ == '__main__':\n    answer('where?')\n"
PROGRAMS = {
    # nothing outside the process except what is marked
    "plain": Program(source=entry("random.random()")),
    "marked tools": Program(source=entry("marked_read()")),
    "the program's own file of the commit": Program(source=entry("look(Path('prompt.txt').read_text())")),
    "temporary files": Program(
        source=entry(
            "with tempfile.TemporaryDirectory() as folder:\n"
            "    path = Path(folder, 'x'); path.write_text('1'); look(path.read_text(), os.listdir(folder))"
        )
    ),
    "logging to a file": Program(
        source=entry("logging.getLogger('agent').warning('asked')", before=(
            "logging.getLogger('agent').addHandler(logging.FileHandler('agent.log', delay=True))"))
    ),
    "late imports": Program(source=entry("import wave, xml.dom.minidom, late\nlook(late.VALUE)")),
    "a database in memory": Program(source=entry("look(sqlite3.connect(':memory:').execute('SELECT 1').fetchone())")),
    "a class in the input": Program(
        source=entry(
            "look(question.id)",
            before="@dataclasses.dataclass\nclass Order:\n    id: str\n    tags: tuple = ()",
            call="answer(Order('AC-1', ('new',)))",
        )
    ),
    "below another decorator": Program(
        source=entry(
            "pass",
            before="import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(*a, **k): return f(*a, **k)\n    return inner",
            decorators="@twice\n@freezeframe.run",
        )
    ),
    "a class method": Program(
        source="class Agent:\n    @classmethod\n    @freezeframe.run\n    def answer(cls, question):\n        return look(question)\n"
        "if __name__ == '__main__':\n    Agent.answer('where?')\n"
    ),
    "a block in a command": Program(
        source="with freezeframe.run('nightly', input={'day': 1}) as run:\n    run.output = look('where?')\n"
    ),
    # the entry point
    "nested": Program(
        source="def main():\n    @freezeframe.run\n    def answer(question):\n        return look(question)\n    answer('where?')\n"
        "if __name__ == '__main__':\n    main()\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="nested in the function main", do="define answer at the top level",
    ),
    "on the command line": Program(
        source="", arguments=("-c", HEAD + entry("pass")),
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="interactive session or in code that is not in a file", do="separate file",
    ),
    "from standard input": Program(
        source="", arguments=("-",), stdin=HEAD + entry("pass"),
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="interactive session", do="separate file",
    ),
    "at a prompt": Program(
        source="", arguments=("-i",), stdin=HEAD.replace("\n\n@", "\n\n\n@") + "\n\n@freezeframe.run\ndef answer(question):\n    return look(question)\n\n\nanswer('where?')\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="interactive session", do="separate file",
    ),
    "in a console of the program's own": Program(
        source="import code\ncode.InteractiveConsole({'freezeframe': freezeframe, 'look': look, '__name__': '__main__'}).runcode("
        "compile('@freezeframe.run\\ndef answer(question): return look(question)\\nanswer(1)', '<console>', 'exec'))\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="interactive session", do="separate file",
    ),
    "a block at a prompt": Program(
        source="", arguments=("-i",), stdin=HEAD.replace("\n\n@", "\n\n\n@") + "\n\nwith freezeframe.run('nightly') as run:\n    run.output = look('where?')\n\n\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="interactive session", do="separate file",
    ),
    "under the main guard": Program(
        source="if __name__ == '__main__':\n    @freezeframe.run\n    def answer(question):\n        return look(question)\n    answer('where?')\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="under the main guard", do="define answer above it",
    ),
    "under another name": Program(
        source="def answer(question):\n    return look(question)\nmarked = freezeframe.run(answer)\nif __name__ == '__main__':\n    marked('where?')\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="found another function", do="under its own name",
    ),
    "a method": Program(
        source="class Agent:\n    @freezeframe.run\n    def answer(self, question):\n        return look(question)\n"
        "if __name__ == '__main__':\n    Agent().answer('where?')\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="is a method", do="mark a function that creates the object",
    ),
    "a command object": Program(
        source=entry("pass", before="class Command:\n    def __init__(self, f): self.f = f\n    def main(self): self.f('where?')",
                     decorators="@Command\n@freezeframe.run", call="answer.main()"),
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="found a Command", do="freezeframe.run outermost",
    ),
    "a lambda": Program(
        source="marked = freezeframe.run(lambda question: look(question))\nif __name__ == '__main__':\n    marked('where?')\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="found nothing", do="under its own name",
    ),
    "a partial": Program(
        source=f"import functools\ndef f(a, question):\n    return look(question)\nanswer = freezeframe.run(functools.partial(f, 1))\n{MAIN}",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="is a partial, which has no name", do="mark a function",
    ),
    "an object that can be called": Program(
        source=f"class Agent:\n    def __call__(self, question):\n        return look(question)\nanswer = freezeframe.run(Agent())\n{MAIN}",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="is a Agent, which has no name", do="mark a function",
    ),
    "a name that was bound again": Program(
        source="@freezeframe.run\ndef answer(question):\n    return look(question)\nfirst = answer\ndef answer(question):\n    return look(2)\n"
        "if __name__ == '__main__':\n    first('where?')\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="found another function", do="under its own name",
    ),
    "a static method below the mark": Program(
        source="class Agent:\n    @freezeframe.run\n    @staticmethod\n    def answer(question):\n        return look(question)\n"
        "if __name__ == '__main__':\n    Agent.answer('where?')\n"
    ),
    "cancelled by the caller": Program(
        source="@freezeframe.run\nasync def answer(question):\n    look(question)\n    await asyncio.sleep(60)\n"
        "async def main():\n    task = asyncio.ensure_future(answer('where?'))\n    await asyncio.sleep(0.01)\n    task.cancel()\n"
        "    await asyncio.wait([task])\nif __name__ == '__main__':\n    asyncio.run(main())\n",
        level=5, gap=GapKind.CALLER_LEFT, text="ended from outside (CancelledError)", do="mark the function that sets the deadline",
    ),
    "a tool that changes its argument": Program(
        source="@freezeframe.tool\ndef fill(found, more=None):\n    found.append('x')\n"
        + entry("found = []; fill(found); look(*found)"),
        level=5, gap=GapKind.TOOL_CHANGES, text="tool fill (agent.py:", do="return the change from fill",
    ),
    "a tool that changes its object": Program(
        source="class Box:\n    n = 0\n    @freezeframe.tool\n    def bump(self): self.n += 1\n"
        + entry("box = Box(); box.bump(); look(box.n)"),
        level=5, gap=GapKind.TOOL_CHANGES, text="changes its object (n)", do="make it where bump is called",
    ),
    "a tool of a framework that changes what others read": Program(
        source="import langchain_core.tools\nSEEN = []\n@langchain_core.tools.tool\ndef note(text: str) -> str:\n    'Note it.'\n    SEEN.append(text)\n"
        + entry("note.invoke({'text': 'x'}); look(*SEEN)"),
        level=5, gap=GapKind.TOOL_CHANGES, text="changes the global SEEN", do="make it where note is called",
    ),
    "a cache that only tools read": Program(
        source="KNOWN = {}\n@freezeframe.tool\ndef ask(text):\n    return KNOWN.setdefault(text, len(KNOWN))\n" + entry("look(ask('x'), ask('x'))"),
        level=5, gap=GapKind.TOOL_CHANGES, text="changes the global KNOWN", do="make it where ask is called",
    ),
    "the clock of numpy": Program(
        # on two lines: this module is one of the application for the programs of other tests in the same process
        source="import numpy\n" + entry("look(numpy.datetime64({!r}))".format(
            "now"
        )),
        level=5, gap=GapKind.CLOCK_UNRECORDED, text="reads the clock of numpy", do="datetime.datetime.now()",
    ),
    "times of numpy": Program(source="import numpy\n" + entry("look(numpy.datetime64('2026-11-21'))")),
    "a tool that changes nothing": Program(
        source="class Box:\n    def __init__(self): self.seen = [1]\n    @freezeframe.tool\n    def count(self, more): return len(more)\n"
        + entry("look(Box().count([1, {'a': 2}]))"),
    ),
    "in another event loop than asyncio's": Program(
        source="class Pause:\n    def __await__(self): yield 'a trap of its own'\n"
        "@freezeframe.run\nasync def answer(question):\n    await Pause()\n    return look(question)\n"
        "if __name__ == '__main__':\n    task = answer('where?')\n    try:\n        while True: task.send(None)\n"
        "    except StopIteration: pass\n",
        level=2, gap=GapKind.ENTRY_UNREACHABLE, text="another event loop than asyncio's", do="mark the function that starts the loop",
    ),
    "a tool that changes what others read": Program(
        source="SEEN = []\n@freezeframe.tool\ndef note(text):\n    SEEN.append(text)\n" + entry("note('x'); look(*SEEN)"),
        level=5, gap=GapKind.TOOL_CHANGES, text="changes the global SEEN", do="make it where note is called",
    ),
    "a tool whose result comes back as plain data": Program(
        source="@freezeframe.tool\ndef count(text):\n    return collections.defaultdict(lambda: 7)\n" + entry("look(count('aab')['z'])"),
        level=5, gap=GapKind.RESULT_CHANGED, text="returns a collections:defaultdict", do="return plain data from count",
    ),
    "a generator that is left": Program(
        source="@freezeframe.run\ndef answer(question):\n    yield from look(question, 2, 3)\n"
        "if __name__ == '__main__':\n    items = answer('where?')\n    next(items)\n    items.close()\n",
    ),
    "globals under the main guard": Program(
        source=entry("look(client)").replace("    answer('where?')", "    client = 'a client'\n    answer('where?')"),
        level=5, gap=GapKind.MAIN_GUARD, text="sets client under its main guard", do="set client above it",
    ),
    "a name under the main guard that functions have for their own": Program(
        source="def ask(question):\n    return [seen for seen in look(question)]\n" + entry("ask(question)", call="for question in ('where?',): seen = answer(question)\n    def show(): print(seen)"),
    ),
    # the input
    "a request of a web framework": Program(
        source=entry("look(question.scope['app'] is not None)", before=REQUEST, call="answer(Request())"),
        level=2, gap=GapKind.INPUT_OPAQUE, text="question, a __main__:Request", do="takes plain data",
    ),
    "a socket in a list": Program(
        source=entry("pass", call="answer([1, {'s': socket.socket()}])"),
        level=2, gap=GapKind.INPUT_OPAQUE, text="a part of the argument question, a socket:socket", do="takes plain data",
    ),
    "a class of a function's": Program(
        source=entry("pass", before="def make():\n    @dataclasses.dataclass\n    class Order:\n        id: int\n    return Order(1)",
                     call="answer(make())"),
        level=2, gap=GapKind.INPUT_OPAQUE, text="question, a __main__:make.<locals>.Order", do="takes plain data",
    ),
    "a counter": Program(
        source=entry("look(type(question))", call="answer(collections.defaultdict(lambda: 7))"),
        level=5, gap=GapKind.INPUT_CHANGED, text="question, a collections:defaultdict", do="pass plain data",
    ),
    # what its module reads when it is imported
    "a file on import": Program(
        source=entry("look(ORDERS)", before="ORDERS = open('orders.csv').read()"),
        level=5, gap=GapKind.FILE_READ, text="the import of agent.py reads orders.csv (agent.py:", do="commit the file",
    ),
    "a file on import, in a function": Program(
        source=LOAD + entry("look(ORDERS)", before="ORDERS = load_orders()"),
        level=5, gap=GapKind.FILE_READ, text="the import of agent.py reads orders.csv (agent.py:", do="commit the file",
    ),
    "a file on the import of a module": Program(
        source="import early\n" + entry("look(early.ORDERS)"),
        level=5, gap=GapKind.FILE_READ, text="the import of early.py reads orders.csv (early.py:1)", do="commit the file",
    ),
    "a file of the commit on import": Program(source=entry("look(PROMPT)", before="PROMPT = open('prompt.txt').read()")),
    "a file under the main guard": Program(source=entry("pass", call="answer(open('orders.csv').read())")),
    "a call on import": Program(
        source="import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:' + os.environ['PORT'], timeout=0.1)\n"
        "except OSError:\n    pass\n" + entry("pass"),
        level=5, gap=GapKind.CONNECTION, text="the import of agent.py calls 127.0.0.1 (agent.py:", do="do that in a function",
    ),
    "a random number on import": Program(
        source=entry("look(CHANCE)", before="CHANCE = random.random()"),
        level=5, gap=GapKind.RANDOM_UNRECORDED, text="the import of agent.py draws from random (agent.py:", do="call random.seed",
    ),
    "a random number on import, after a seed": Program(
        source=entry("look(CHANCE)", before="random.seed(7)\nCHANCE = random.choice('abc')"),
    ),
    "a random number under the main guard": Program(source=entry("look(question)", call="answer(random.random())")),
    "an id on import": Program(
        source="import uuid\n" + entry("look(ID, uuid.uuid4())", before="ID = str(uuid.uuid4())", call="uuid.uuid4(); answer(str(uuid.uuid4()))"),
    ),
    "a file of a whole script": Program(
        source="look(open('orders.csv').read())",
        level=5, gap=GapKind.FILE_READ, text="<module> (agent.py:", do="move it from agent.py:",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaches:
    """A function that reaches outside the process, and what must be said about its run."""

    body: str
    gap: GapKind
    text: str
    do: str = "move it from agent.py:"


REACHES = {
    "a_file_of_a_function": Reaches(
        body="look(load_orders())", gap=GapKind.FILE_READ, text="load_orders (agent.py:", do="mark load_orders (agent.py:"
    ),
    "a_file": Reaches(body="look(open('orders.csv').read())", gap=GapKind.FILE_READ, text="reads orders.csv, outside"),
    "a_file_in_a_thread": Reaches(
        body="thread = threading.Thread(target=lambda: load_orders())\nthread.start()\nthread.join()\nlook(1)",
        gap=GapKind.FILE_READ, text="reads orders.csv", do="mark load_orders (agent.py:",
    ),
    "a_librarys_function_in_a_thread": Reaches(
        body="async def work(): return await asyncio.to_thread(Path('orders.csv').read_text)\nlook(asyncio.run(work()))",
        gap=GapKind.FILE_READ, text="reads orders.csv", do="do it in a function marked",
    ),
    "a_file_in_a_lambda": Reaches(
        body="look(*map(lambda name: open(name).read(), ['orders.csv']))", gap=GapKind.FILE_READ, text="reads orders.csv"
    ),
    "a_file_elsewhere": Reaches(
        body="look(open(os.environ['ELSEWHERE']).read())", gap=GapKind.FILE_READ, text="reads elsewhere.txt, outside"
    ),
    "a_folder": Reaches(body="look(sorted(os.listdir()))", gap=GapKind.FILE_READ, text="lists the folder ., outside"),
    "a_written_file": Reaches(body="look(open('out.txt', 'w').write('x'))", gap=GapKind.FILE_WRITTEN, text="writes out.txt"),
    "a_removed_file": Reaches(
        body="look(Path('out.txt').unlink(missing_ok=True))", gap=GapKind.FILE_WRITTEN, text="removes out.txt"
    ),
    "a_database": Reaches(
        body="look(sqlite3.connect('orders.db').execute('SELECT 1').fetchone())",
        gap=GapKind.DATABASE, text="opens the database orders.db",
    ),
    "a_connection": Reaches(
        body="with socket.create_connection(('127.0.0.1', int(os.environ['PORT']))): look(1)",
        gap=GapKind.CONNECTION, text="connects to 127.0.0.1:",
    ),
    "an_asynchronous_connection": Reaches(
        body="async def work(): await asyncio.open_connection('127.0.0.1', int(os.environ['PORT']))\nasyncio.run(work())\nlook(1)",
        gap=GapKind.CONNECTION, text="connects to 127.0.0.1:", do="mark an_asynchronous_connection.<locals>.work (agent.py:",
    ),
    "a_connection_made_in_c": Reaches(
        body="import psycopg\ntry: psycopg.connect('host=127.0.0.1 port=1')\nexcept psycopg.Error: look(1)",
        gap=GapKind.DATABASE, text="connects to the database postgresql",
    ),
    "a_program": Reaches(
        body="look(subprocess.run(['git', 'status', '--secret=abc'], capture_output=True).returncode)",
        gap=GapKind.PROCESS, text="starts git, outside",
    ),
    "a_shell": Reaches(body="look(os.system('true secret'))", gap=GapKind.PROCESS, text="starts true, outside"),
}  # fmt: skip

EARLY = "ORDERS = open('orders.csv').read()\n"
LATE = "VALUE = open(__file__).read()\n"
"""Modules next to the program."""


def reaching_program() -> str:
    """Return one program with all functions of `REACHES`."""
    functions = [f"@freezeframe.run\ndef {name}():\n{indent(item.body, '    ')}\n" for name, item in REACHES.items()]
    calls = "".join(f"    {name}()\n" for name in REACHES)
    return LOAD + "\n".join(functions) + "\nif __name__ == '__main__':\n" + calls
