"""Rules of the grammar of `arbitrary_agents`: each writes one part of a program, with the places in it that can be changed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Rule = Callable[["Draw"], str]
"""Writes one part: lines of the agent's body, which append to ``seen`` what they find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One place of a program, and what it holds before and after."""

    label: str
    before: str
    after: str

    @property
    def private(self) -> bool:
        """Return whether only private values differ, which a replay without the key cannot always distinguish."""
        return self.label.startswith("private")


_PRIVATE: Final[Mapping[str, Sequence[str]]] = {
    "mail": ("john.miller@example.com", "anna.schmidt@example.org", "tom.baker@corp.example"),
    "phone": ("+49 30 901820", "+1 415-555-2671", "+44 20 7946 0958"),
    "name": ("Mr. John Miller", "Mrs. Anna Schmidt", "Mr. Tom Baker"),
    "street": ("12 Elm Street, Springfield, IL 62704", "350 Fifth Avenue, New York, NY 10118", "8 Oak Road, Boston, MA 02110"),
}
_WORDS: Final = "parcel refund invoice warranty pickup voucher depot carrier weight colour".split()
_STYLES: Final = ("chat", "chat", "chat-stream", "responses", "anthropic", "anthropic-stream")


class Draw:
    """Sources of a rule: its random numbers, the program's places, and whether it writes inside a coroutine."""

    def __init__(
        self, chance: random.Random, changes: list[Change], variables: dict[str, str], *, position: int, is_async: bool
    ):
        self.chance = chance
        self.is_async = is_async
        self._changes = changes
        self._variables = variables
        self._position = position
        self._names = 0

    def change(self, label: str, before: str, after: str) -> str:
        """Return a place in the text that can be changed."""
        self._changes.append(Change(label=label, before=before, after=after))
        return f"⟦{len(self._changes) - 1}⟧"

    def name(self, stem: str) -> str:
        """Return a name that no other part uses."""
        self._names += 1
        return f"{stem}_{self._position}_{self._names}"

    def word(self, label: str) -> str:
        """Return a word that can be changed to another one."""
        before, after = self.chance.sample(_WORDS, 2)
        return self.change(label, before, after)

    def said(self) -> str:
        """Return a word of a prompt that can be changed to another one."""
        return self.word("word in a prompt")

    def private(self) -> tuple[str, str, str]:
        """Return a kind of private value, and two of the kind."""
        kind = self.chance.choice(sorted(_PRIVATE))
        before, after = self.chance.sample(_PRIVATE[kind], 2)
        return kind, before, after

    def variable(self, value: str) -> str:
        """Put a value into the program's environment; return the expression that reads it."""
        name = self.name("CUSTOMER").upper()
        self._variables[name] = value
        return f'os.environ["{name}"]'

    def prompt(self) -> str:
        """Return what a model is asked, with a word that can be changed."""
        prompt = f"What of the {self.said()} {self.chance.randrange(10**4)}?"
        return f"{prompt} We know {{seen[-1]}}." if self.chance.random() < 0.4 else prompt

    def ask(self, prompt: str, *, model: str = "gpt-4o", retries: str = "0", styles: Sequence[str] = _STYLES) -> str:
        """Return an expression that asks a model, and waits for its answer. The prompt is the inside of an f-string."""
        arguments = f'"{self.chance.choice(styles)}", f"{prompt}", model="{model}", retries={retries}'
        return f"await ask_async({arguments})" if self.is_async else f"ask({arguments})"

    def task(self, prompt: str, **options: Any) -> str:
        """Return an expression that asks a model, as a coroutine to be awaited."""
        return self.ask(prompt, **options).removeprefix("await ")

    def see(self, expression: str) -> str:
        """Return the line that keeps what the expression gives; it can be dropped, or done a second time."""
        line = f"seen.append({expression})"
        if self.chance.random() < 0.5:
            return self.change("dropped call", line, "pass")
        return f"{line}\n{self.change('extra call', 'pass', line)}" if self.chance.random() < 0.4 else line

    def coroutine(self, body: str) -> str:
        """Return lines that run `body` inside of an event loop, whether the agent is in one or not. It returns its result."""
        name = self.name("together")
        run = f"await {name}()" if self.is_async else f"asyncio.run({name}())"
        return f"async def {name}():\n{indent(body)}\nseen.append({run})"

    def in_coroutine(self) -> Draw:
        """Return this draw, for the inside of a coroutine."""
        return Draw(self.chance, self._changes, self._variables, position=self._position, is_async=True)

    def in_thread(self) -> Draw:
        """Return this draw, for the inside of a function."""
        return Draw(self.chance, self._changes, self._variables, position=self._position, is_async=False)


def indent(text: str) -> str:
    """Return the lines four columns further in."""
    return "\n".join(f"    {line}" if line else line for line in text.split("\n"))


# -- calls --------------------------------------------------------------------------------------------------------------


def question(draw: Draw) -> str:
    return draw.see(draw.ask(draw.prompt()))


def two_questions(draw: Draw) -> str:
    first, second = (f"seen.append({draw.ask(text)})" for text in ("First?", "Second?"))
    return draw.change("swapped order", f"{first}\n{second}", f"{second}\n{first}")


def equal_questions(draw: Draw) -> str:
    call = f"seen.append({draw.ask('The very same?')})"
    third = draw.change("extra equal call", "pass", call)
    return f"{call}\n{draw.change('dropped equal call', call, 'pass')}\n{third}"


def tool(draw: Draw) -> str:
    word = draw.word("argument of a tool")
    result = draw.chance.choice((f'"{word}"', f'{{"item": "{word}", "seen": seen[-1]}}', f'["{word}", len(seen), None, 1.5]'))
    return draw.see(f"look({result})")


def tool_and_question(draw: Draw) -> str:
    used, asked = f'seen.append(look("{draw.chance.choice(_WORDS)}"))', f"seen.append({draw.ask('And now?')})"
    return draw.change("swapped order", f"{used}\n{asked}", f"{asked}\n{used}")


def retrieval(draw: Draw) -> str:
    query = draw.word("query of a retriever")
    return f'seen.append([found["text"] for found in search("{query}")])\n{question(draw)}'


def async_tool(draw: Draw) -> str:
    return draw.coroutine(f'return await weigh("{draw.word("argument of a tool")}")')


def generator_tool(draw: Draw) -> str:
    pages = f'read_pages("{draw.word("argument of a tool")}")'
    return draw.see(draw.chance.choice((f"list({pages})", f"list(itertools.islice({pages}, 2))")))


def tool_loop(draw: Draw) -> str:
    turns = draw.chance.choice((1, 2, 3))
    return (
        f'messages = [{{"role": "user", "content": f"{draw.prompt()}"}}]\n'
        f"for _ in range({draw.change('limit of a loop', '9', str(turns))}):\n"
        f'    said = make_client(0).chat.completions.create(model="gpt-4o-tools{turns}", messages=messages, tools=TOOLS)\n'
        "    messages.append(said.choices[0].message.model_dump(exclude_none=True))\n"
        "    for call in said.choices[0].message.tool_calls or ():\n"
        "        found = look(json.loads(call.function.arguments))\n"
        '        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(found)})\n'
        '    if said.choices[0].finish_reason == "stop":\n'
        "        break\n"
        "seen.append(messages[-1]['content'])"
    )


def as_many_as_it_says(draw: Draw) -> str:
    return f"for word in str(seen[-1]).split()[:3]:\n    seen.append({draw.ask(f'{{word}} {draw.said()}?')})"


def plain_http(draw: Draw) -> str:
    return draw.see(f'fetch("{draw.word("argument of a tool")}")')


def flag(draw: Draw) -> str:
    return f'seen.append(freezeframe.flag("colour", secrets.token_hex(4)))\n{question(draw)}'


# -- faults -------------------------------------------------------------------------------------------------------------

_API_ERRORS: Final = "(openai.APIError, anthropic.APIError)"


def retried(draw: Draw) -> str:
    fault, times = draw.chance.choice(("busy", "down")), draw.chance.choice((1, 2))
    retries = draw.change("retry limit", "2", str(times - 1))
    call = draw.ask(draw.prompt(), model=f"gpt-4o-{fault}{times}", retries=retries)
    return f"try:\n    seen.append({call})\nexcept {_API_ERRORS} as error:\n    seen.append(type(error).__name__)"


def given_up(draw: Draw) -> str:
    retries = draw.change("retry limit", "1", draw.chance.choice(("0", "2")))
    call = draw.ask(draw.prompt(), model="gpt-4o-down9", retries=retries)
    return f"try:\n    seen.append({call})\nexcept {_API_ERRORS} as error:\n    seen.append(str(error))"


def cut_stream(draw: Draw) -> str:
    call = draw.ask(draw.prompt(), model="gpt-4o-dies", styles=("chat-stream", "anthropic-stream"))
    return f"try:\n    seen.append({call})\nexcept Exception as error:\n    seen.append(type(error).__name__)"


def left_stream(draw: Draw) -> str:
    chunk_count = draw.change("chunks read of a stream", "1", "99")
    return (
        f'messages = [{{"role": "user", "content": f"{draw.prompt()}"}}]\n'
        'with make_client(0).chat.completions.create(model="gpt-4o", stream=True, messages=messages) as stream:\n'
        f"    seen.append([chunk.choices[0].delta.content for chunk in itertools.islice(stream, {chunk_count})])"
    )


def caught(draw: Draw) -> str:
    return f'try:\n    refuse("{draw.word("argument of a tool")}")\nexcept ValueError as error:\n    seen.append(str(error))'


def caught_broadly(draw: Draw) -> str:
    call = f"seen.append({draw.ask(draw.prompt())})"
    return f"try:\n    {call}\n    refuse('x')\nexcept Exception as error:\n    seen.append(repr(error))"


# -- private values -----------------------------------------------------------------------------------------------------


def private_constant(draw: Draw) -> str:
    kind, before, after = draw.private()
    value = draw.change(f"private {kind} in the code", before, after)
    return f"seen.append({draw.ask(f'My {kind} is {value}. {draw.said()}?')})"


def private_environment(draw: Draw) -> str:
    kind, before, after = draw.private()
    value = draw.variable(draw.change(f"private {kind} in the environment", before, after))
    return f"customer = {value}\nseen.append({draw.ask(f'My {kind} is {{customer}}.')})"


def private_argument(draw: Draw) -> str:
    kind, before, after = draw.private()
    return f'seen.append(look({{"{kind}": "{draw.change(f"private {kind} in an argument", before, after)}"}}))'


def private_input(draw: Draw) -> str:
    key = draw.chance.choice(("name", "mail"))
    call = draw.ask(f"Greet {{task['{key}']}}, {draw.said()}.")
    return f"seen.append({call})"


def private_result(draw: Draw) -> str:
    found = f'customer_of("{draw.word("argument of a tool")}")'
    return f"seen.append({found})\nseen.append({draw.ask('Write to {seen[-1]}.')})"


def private_pair(draw: Draw) -> str:
    _, *values = draw.private()
    one, two = (f"seen.append({draw.ask(f'Write to {value}.', styles=('chat',))})" for value in values)
    return draw.change("private values swapped", f"{one}\n{two}", f"{two}\n{one}")


def private_repeat(draw: Draw) -> str:
    _, first, second = draw.private()
    again = draw.change("private value merged into another", second, first)
    return f"seen.append({draw.ask(f'From {first} to {again}, please.')})"


# -- chance and time ----------------------------------------------------------------------------------------------------

_DICE: Final = (
    "random.random()",
    "random.randrange(10**6)",
    "random.choice(range(10**5))",
    "random.sample(range(1000), 4)",
    "random.gauss(0, 1)",
    "random.getrandbits(64)",
    "random.uniform(1, 2)",
)
_IDENTIFIERS: Final = ("uuid.uuid4()", "uuid.uuid1()", "uuid.uuid4().hex")
_MOMENTS: Final = ("time.time()", "datetime.datetime.now().isoformat()", "datetime.date.today()", "int(time.time())")
_SECRETS: Final = ("secrets.token_hex(8)", "secrets.randbelow(10**9)", "os.urandom(6).hex()", "random.SystemRandom().random()")


def _drawn(draw: Draw, drawn: Sequence[str]) -> str:
    return f"seen.append({draw.ask(f'Number {{{draw.chance.choice(drawn)}}}: {draw.said()}?')})"


def dice(draw: Draw) -> str:
    # Many words of the generator: two may be ones that `choice` rejects, and then the next number is the same.
    return f"{draw.change('extra draw', 'pass', 'random.randbytes(64)')}\n{_drawn(draw, _DICE)}"


def dice_in_a_tool(draw: Draw) -> str:
    return f"seen.append(throw(6))\n{dice(draw)}"


def identifiers(draw: Draw) -> str:
    return _drawn(draw, _IDENTIFIERS)


def clock(draw: Draw) -> str:
    return _drawn(draw, _MOMENTS)


def secret(draw: Draw) -> str:
    return _drawn(draw, _SECRETS)


_STOPWATCHES: Final = (
    ("time.perf_counter()", "{} - {}"),
    ("time.monotonic()", "{} - {}"),
    ("time.time()", "{} - {}"),
    ("time.perf_counter_ns()", "({} - {}) / 1e9"),
    ("datetime.datetime.now()", "({} - {}).total_seconds()"),
)
"""Code that reads a clock, and the seconds between two readings, the later one first."""
BUDGET_MS: Final = 280
"""In which a program pauses three times, unless the machine is slow."""
_MEASURED: Final = (
    "{took}",
    "{took:.6f}",
    "{took:.3f}",
    "{took:.1f}",
    "{took * 1000:.1f}",
    "{round(took, 4)}",
    "{int(took * 1e6)}",
)
_COMPUTED: Final = ("{30 - took:.2f}", "{5_000 - int(took * 1000)}", "{7 / took:.3f}", "{took / 3:.5f}", "{round(took * 1000)}")
"""A duration in a prompt: as it was measured, and computed from it, which a replay gets nearly."""


def duration(draw: Draw) -> str:
    """Measure a call, and let the agent say how long it took, decide by it, or spend a budget of time."""
    read, difference = draw.chance.choice(_STOPWATCHES)
    begun, took = draw.name("begun"), draw.name("took")
    call = draw.change("dropped call", f'look("{draw.chance.choice(_WORDS)}")', "None")
    wait = f'pause("{draw.word("argument of a tool")}")'
    measured = (
        f"{begun} = {read}\nseen.append({draw.chance.choice((wait, wait, call))})\n{took} = {difference.format(read, begun)}"
    )
    kind = draw.chance.choice(("said", "said", "given", "branch", "budget", "constant", "computed"))
    forms = _COMPUTED if kind == "computed" else _MEASURED
    sentence = draw.chance.choice(forms).replace("took", took)
    if kind == "given":
        return f'{measured}\nseen.append(look({{"took": {took}, "item": "{draw.word("argument of a tool")}"}}))'
    if kind == "branch":
        limit = draw.change("limit of a duration", "60", "0")
        return f'{measured}\nseen.append(look("late" if {took} > {limit} else "in time"))\n{question(draw)}'
    if kind == "budget":
        spent, limit = f"{difference.format(read, begun)} < ", draw.change("budget of time", f"{BUDGET_MS / 1000}", "0.7")
        return f"{begun} = {read}\nwhile {spent}{limit}:\n    seen.append({wait})"
    if kind == "constant":
        sentence += f", limit {{{draw.change('computed number', '7', '9')} / 20}}"
    return f"{measured}\nseen.append({draw.ask(f'It took {sentence}: {draw.said()}?')})"


# -- threads ------------------------------------------------------------------------------------------------------------


def _work(draw: Draw, number: int) -> str:
    """Return the body of one worker: a function that returns what it found out."""
    kinds = {
        "equal": lambda: draw.ask("The same for all?", styles=("chat",)),
        "own": lambda: draw.ask(f"Worker {number}: {draw.said()}?"),
        "tool": lambda: f'look("{draw.word("argument of a tool")}")',
        "dice": lambda: draw.ask(f"Worker throws {{{draw.chance.choice(_DICE)}}}"),
        "uuid": lambda: draw.ask("Worker is {uuid.uuid4()}"),
    }
    found = [kinds[draw.chance.choice(sorted(kinds))]() for _ in range(draw.chance.choice((1, 1, 2)))]
    return f"def work_{number}():\n    return [{', '.join(found)}]"


def threads(draw: Draw) -> str:
    count = draw.chance.choice((2, 3, 5))
    works = "\n".join(_work(draw.in_thread(), number) for number in range(count))
    return (
        f"{works}\n"
        f"def keep(number, work):\n    found[number] = work()\n"
        f"found, works = {{}}, [{', '.join(f'work_{number}' for number in range(count))}]\n"
        "workers = [threading.Thread(target=keep, args=item) for item in enumerate(works)]\n"
        "for worker in workers:\n    worker.start()\n"
        "for worker in workers:\n    worker.join()\n"
        f"seen.append([found.get(number) for number in range({count})])"
    )


def pool(draw: Draw) -> str:
    count = draw.chance.choice((2, 4, 6))
    works = "\n".join(_work(draw.in_thread(), number) for number in range(count))
    return (
        f"{works}\nworks = [{', '.join(f'work_{number}' for number in range(count))}]\n"
        f"with ThreadPoolExecutor({draw.chance.choice((1, 2, count))}) as workers:\n"
        "    seen.append([future.result() for future in [workers.submit(work) for work in works]])"
    )


def pool_in_order_of_ends(draw: Draw) -> str:
    count = draw.chance.choice((2, 4))
    call = draw.in_thread().ask("Number {number}?", styles=("chat",))
    return (
        f"def work(number):\n    return {call}\n"
        f"with ThreadPoolExecutor({count}) as workers:\n"
        f"    futures = [workers.submit(work, number) for number in range({count})]\n"
        f"    seen.append([future.result() for future in as_completed(futures)])\n{question(draw)}"
    )


def work_queue(draw: Draw) -> str:
    call = draw.in_thread().ask(f"Item {{item}} {draw.said()}", styles=("chat",))
    return (
        "items, answers = queue.Queue(), {}\n"
        "def serve():\n"
        "    while (item := items.get()) is not None:\n"
        f"        answers[item] = {call}\n"
        "servers = [threading.Thread(target=serve) for _ in range(2)]\n"
        "for server in servers:\n    server.start()\n"
        "for item in [*range(5), None, None]:\n    items.put(item)\n"
        "for server in servers:\n    server.join()\n"
        "seen.append([answers[item] for item in range(5)])"
    )


# -- tasks --------------------------------------------------------------------------------------------------------------


def gathered(draw: Draw) -> str:
    inner = draw.in_coroutine()
    kinds = {
        "own": lambda: inner.task(inner.prompt()),
        "equal": lambda: inner.task("The same for all?", styles=("chat",)),
        "tool": lambda: f'weigh("{inner.word("argument of a tool")}")',
        "dice": lambda: inner.task(f"Task throws {{{inner.chance.choice(_DICE)}}}"),
    }
    first, *others = [kinds[inner.chance.choice(sorted(kinds))]() for _ in range(draw.chance.choice((2, 3, 6)))]
    last = draw.change("dropped call", f", {others[-1]}", "")
    return draw.coroutine(f"return await asyncio.gather({', '.join([first, *others[:-1]])}{last})")


def first_wins(draw: Draw) -> str:
    inner = draw.in_coroutine()
    race = [inner.task(f"Racer {number} {inner.said()}?") for number in range(3)]
    cancelled = "for task in tasks:\n    task.cancel()\nlost = await asyncio.gather(*tasks, return_exceptions=True)"
    losers = draw.chance.choice((cancelled, "lost = [await task for task in tasks]"))
    return draw.coroutine(
        f"tasks = [asyncio.create_task(racer) for racer in ({', '.join(race)})]\n"
        "done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)\n"
        "first = [number for number, task in enumerate(tasks) if task in done]\n"
        f"{losers}\nreturn [first, {inner.ask('Winner {first}')}]"
    )


def task_group(draw: Draw) -> str:
    inner = draw.in_coroutine()
    calls = [inner.task(inner.prompt()) for _ in range(draw.chance.choice((2, 4)))]
    started = "\n".join(f"    tasks.append(group.create_task({item}))" for item in calls)
    return draw.coroutine(
        f"tasks = []\nasync with asyncio.TaskGroup() as group:\n{started}\nreturn [task.result() for task in tasks]"
    )


def failing_group(draw: Draw) -> str:
    inner = draw.in_coroutine()
    return draw.coroutine(
        "try:\n"
        "    async with asyncio.TaskGroup() as group:\n"
        f"        group.create_task({inner.task(inner.prompt(), model='gpt-4o-never', styles=('chat',))})\n"
        f'        group.create_task(refuse_async("{inner.word("argument of a tool")}"))\n'
        "except* ValueError as errors:\n"
        "    failed = str(errors.exceptions[0])\n"
        "return failed"
    )


def deadline(draw: Draw) -> str:
    inner = draw.in_coroutine()
    slow = inner.task(inner.prompt(), model="gpt-4o-never", styles=("chat", "responses", "anthropic"))
    fallback = inner.ask(f"Quickly: {inner.said()}")
    return draw.coroutine(f"try:\n    return await asyncio.wait_for({slow}, 0.15)\nexcept TimeoutError:\n    return {fallback}")


def in_order_of_ends(draw: Draw) -> str:
    inner = draw.in_coroutine()
    is_tool = draw.chance.random() < 0.5
    first = f'weigh("{inner.word("argument of a tool")}")' if is_tool else inner.task(inner.prompt())
    others = ", ".join(f'weigh("{word}")' for word in draw.chance.sample(_WORDS, 3))
    return draw.coroutine(
        f"tasks = [asyncio.create_task(item) for item in ({first}, {others})]\n"
        "return [await finished for finished in asyncio.as_completed(tasks)]"
    )


def to_threads(draw: Draw) -> str:
    inner = draw.in_thread()
    calls = [f"asyncio.to_thread(lambda: {inner.ask(inner.prompt())})" for _ in range(draw.chance.choice((2, 3)))]
    return draw.coroutine(f"return await asyncio.gather({', '.join(calls)})")


# -- programs -----------------------------------------------------------------------------------------------------------


def nested_run(draw: Draw) -> str:
    name, asked = draw.name("nested"), draw.in_thread().ask(f"{{text}} {draw.said()}")
    return f"@freezeframe.run\ndef {name}(text):\n    return {asked}\nseen.append({name}(str(seen[-1])))"


def started_in_a_tool(draw: Draw) -> str:
    return draw.see(f'run_program("{draw.word("argument of a tool")}")')


def started_process(draw: Draw) -> str:
    started = f'subprocess.run(["echo", "{draw.word("argument of a program")}"], capture_output=True, text=True)'
    return f"seen.append({started}.stdout)\nseen.append({draw.ask('Read {seen[-1]!r}')})"


def read_file(draw: Draw) -> str:
    return f'seen.append(open("notes.txt").read())\nseen.append({draw.ask("Read {seen[-1]}")})'


def mutated_input(draw: Draw) -> str:
    return f'task["items"].append("{draw.word("word in the input, later")}")\nseen.append({draw.ask("Items {task}")})'


RULES: Final[Mapping[str, tuple[Rule, int]]] = {
    rule.__name__: (rule, weight)
    for weight, rules in {
        4: (question, tool, tool_loop, gathered, threads),
        2: (
            two_questions, equal_questions, tool_and_question, retrieval, async_tool, generator_tool, as_many_as_it_says,
            retried, given_up, cut_stream, caught, private_constant, private_environment, private_argument, private_input,
            private_result, private_pair, private_repeat, dice, dice_in_a_tool, identifiers, clock, pool, first_wins,
            task_group, deadline, in_order_of_ends, to_threads,
        ),
        1: (
            plain_http, flag, left_stream, caught_broadly, secret, pool_in_order_of_ends, work_queue, failing_group, nested_run,
            started_in_a_tool, started_process, read_file, mutated_input,
        ),
    }.items()
    for rule in rules
}  # fmt: skip
"""Rule -> how to write it, and how often it is drawn."""
