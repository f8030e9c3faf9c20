"""Content of an entry span: a run's beginning, its input, and the way to start it in another process."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from freezeframe._guard import guard
from freezeframe.context.accesses import UnrecordedAccesses
from freezeframe.context.answers import Answers, KnownTexts
from freezeframe.context.draws import Draws
from freezeframe.context.environment import hash_seed
from freezeframe.context.program import is_started_by_another
from freezeframe.runs.streams import application_texts
from freezeframe.seams.draws.shared_random import SHARED
from freezeframe_schemas import genai, values
from freezeframe_schemas.gaps import NOT_SET, Gap, GapKind, gaps_to_json
from freezeframe_schemas.run import EntryKind

if TYPE_CHECKING:
    from freezeframe_schemas.span import Attributes, AttributeValue
    from freezeframe_schemas.wire.messages import Message


_NUMPYS_NOW: Final = re.compile(rb"""datetime64\b.*["'](?:now|today)["']|["'](?:now|today)["'].*\bdatetime64""")
_NUMPYS_CLOCK: Final = Gap(
    kind=GapKind.CLOCK_UNRECORDED,
    text=f'the program\'s code reads the clock of numpy.datetime64("now"), {NOT_SET}',
    do="use datetime.datetime.now()",
)

_UNORDERED: Final = re.compile(
    rb"""(?<!sorted\()(?<!len\()(?<![\w.])(?:(?:frozen)?set|hash)\(|\{[^{}:"'\n]+\bfor\b|\bfor\b.+\bin\s*\{"""
    rb"""|\b(?:join|list|tuple|str|iter)\(\s*\{[^{}:]+,"""
)
_HASH_SEED: Final = Gap(
    kind=GapKind.HASH_SEED,
    text=f"the order of sets of texts, and hashes, come from a seed that Python drew, {NOT_SET}",
    do="start the program by `freezeframe run -- CMD` or with PYTHONHASHSEED, or sort",
)
_VARIABLE: Final = re.compile(
    rb"""\b(?:environ(?:\.get\(|\[)|getenv\()\s*["']([A-Za-z_]\w*)["'](\]\s*=(?!=))?|\benviron\.setdefault\(\s*["'](\w+)"""
)
"""Pattern of a variable of the environment that is read, or set, by its name."""
_SETTINGS: Final = ("FREEZEFRAME_", "OTEL_", "PYTHON", "XDG_")
"""Beginnings of variables that the system, Python, OpenTelemetry and freezeframe read themselves."""
_EVERYWHERE: Final = frozenset({"HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"})
"""Variables that a system sets for each process, with its own values."""
_MAX_NAMED: Final = 5
_STARTED_BY: Final = Gap(kind=GapKind.STARTED_BY, text="another recorded program started this one")
_UNKNOWN: Final = Gap(
    kind=GapKind.UNSEEN,
    text="an error in freezeframe kept it from finding what the run lacks",
    do="report the error in the program's log",
)


@cache
def _asks_numpy_for_time(modules: int) -> bool:
    """Return whether code of the application gets the time from numpy.

    `modules`: the number of imported ones; a larger number repeats the search.
    """
    with suppress(OSError):
        return "numpy" in sys.modules and any(map(_NUMPYS_NOW.search, application_texts()))
    return False


@cache
def _makes_sets(modules: int) -> bool:
    """Return whether the application seems to use the order of sets, with an unknown hash seed. `modules`: as above."""
    with suppress(OSError):
        return hash_seed() is None and any(map(_UNORDERED.search, application_texts()))
    return False


@cache
def _variables_read(modules: int) -> frozenset[str]:
    """Return the variables that the application reads by name and does not set itself. `modules`: as above."""
    with suppress(OSError):
        found = [match.groups() for text in application_texts() for match in _VARIABLE.finditer(text)]
        own = {name for name, is_set, _ in found if is_set} | {name for _, _, name in found}
        return frozenset(name.decode() for name, _, _ in found if name and name not in own)
    return frozenset()


def _unrecorded_variables(recorded: Mapping[str, str]) -> Iterable[Gap]:
    set_here = sorted(_variables_read(len(sys.modules)) & os.environ.keys() - recorded.keys() - _EVERYWHERE)
    if names := [name for name in set_here if not name.startswith(_SETTINGS)]:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        yield Gap(
            kind=GapKind.VARIABLE,
            text=f"the program's code reads {', '.join(names[:_MAX_NAMED])}{more} from the environment, {NOT_SET}",
            do="set it where you replay, or add it to record_env (FREEZEFRAME_RECORD_ENV)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """The function to run and its input: enough to run it again."""

    kind: EntryKind
    name: str
    target: str
    file: str | None
    input: str
    """Tagged JSON."""
    operation: str = genai.OP_INVOKE_WORKFLOW
    argv: tuple[str, ...] = ()
    """The arguments of the script that the function is defined in."""
    gaps: tuple[Gap, ...] = ()
    """The parts of the input that do not come back unchanged."""
    reach: Callable[[], tuple[Gap, ...]] | None = None
    """Returns the obstacles to starting it in another process; called on the exporter's thread."""


class EntryPayload:
    """Data kept with an entry span until its export."""

    __slots__ = (
        "_answers",
        "_draws",
        "_environment",
        "_import_gaps",
        "_known_texts",
        "_point",
        "_random_state",
        "accesses",
        "error",
        "exchanges",
        "flags",
        "is_drawn",
        "output",
        "readings",
        "unrecorded",
    )

    def __init__(
        self,
        point: EntryPoint,
        flags: Mapping[str, object],
        environment: Mapping[str, str],
        readings: Mapping[str, list[str]] | None = None,
        unrecorded: Mapping[str, int] | None = None,
        random_state: object = None,
        accesses: UnrecordedAccesses | None = None,
        draws: Draws | None = None,
        answers: Answers | None = None,
        known_texts: KnownTexts | None = None,
        import_gaps: Callable[[], Iterable[Gap]] = tuple,
    ) -> None:
        self._import_gaps = import_gaps
        self._answers = Answers() if answers is None else answers
        self._known_texts = {} if known_texts is None else known_texts
        self.accesses = UnrecordedAccesses() if accesses is None else accesses
        self._draws = Draws() if draws is None else draws
        self.unrecorded = {} if unrecorded is None else unrecorded
        self.flags = flags
        self.readings = {} if readings is None else readings
        self._environment = environment
        self.output: str | None = None
        self.error: str | None = None
        self.exchanges: int | None = None
        """Number of exchanges at the end of the run; None until then."""
        self._point = point
        self._random_state = random_state or random.getstate()
        self.is_drawn = False
        """The state of `random` has changed since the run began; see `note_draws`."""

    @property
    def size(self) -> int:
        """Bytes held, roughly: a random state is 6 KiB of digits."""
        return len(self._point.input) + len(self.output or "") + 8000

    def beginning(self) -> EntryPayload:
        """Return a copy of the content known when the run begins: the rest changes while the exporter reads it."""
        copy = EntryPayload(self._point, dict(self.flags), self._environment, random_state=self._random_state)
        copy.is_drawn = self.note_draws()
        return copy

    def note_draws(self) -> bool:
        """Note and return whether anything drew during the run: only then is the random state, 6 kB, stored."""
        self.is_drawn = self._draws.is_drawn or SHARED.is_changed(self._random_state)
        return self.is_drawn

    def rename(self, name: str) -> None:
        """Change the run's name."""
        self._point = replace(self._point, name=name)

    def add_gap(self, gap: Gap) -> None:
        """Add the parts of later input that cannot be rebuilt unchanged."""
        self._point = replace(self._point, gaps=(*self._point.gaps, gap))

    def add_input(self, name: str, value: object) -> None:
        """Add input that the entry point got after its start."""
        inputs = {**values.decode(self._point.input), name: value}
        self._point = replace(self._point, input=values.encode(inputs))

    def describe(self, own: Attributes) -> tuple[str | None, Attributes]:
        """Return the attributes of the span as an entry's."""
        point = self._point
        optional: dict[str, AttributeValue] = {
            genai.ENTRY_FILE: point.file,
            genai.ENTRY_ARGV: json.dumps(point.argv) if point.argv else None,
            genai.ENTRY_OUTPUT: self.output,
            genai.ENTRY_EXCHANGES: self.exchanges or None,
            genai.ERROR_CHAIN: self.error,
            genai.CLOCK_READINGS: json.dumps(self.readings) if self.readings else None,
            genai.UNRECORDED_HTTP: json.dumps(self.unrecorded) if self.unrecorded else None,
        }
        gaps: tuple[Gap, ...] = (_UNKNOWN,)  # if looking fails, the run must not look whole
        with guard("entry.gaps"):
            seen = (*self.accesses.gaps(point.target.rpartition(":")[2]), *self._draws.gaps())
            if _asks_numpy_for_time(len(sys.modules)):
                seen = (*seen, _NUMPYS_CLOCK)
            if _makes_sets(len(sys.modules)):
                seen = (*seen, _HASH_SEED)
            seen = (*seen, *_unrecorded_variables(self._environment))
            if is_started_by_another():
                seen = (*seen, _STARTED_BY)
            before = (*self._import_gaps(), *self._answers.gaps(point.input, self.output, self._known_texts))
            gaps = (*(point.reach() if point.reach else ()), *point.gaps, *before, *seen)
        optional[genai.ENTRY_GAPS] = gaps_to_json(gaps) if gaps else None
        attributes: dict[str, AttributeValue] = {
            genai.OPERATION_NAME: point.operation,
            (genai.AGENT_NAME if point.operation == genai.OP_INVOKE_AGENT else genai.WORKFLOW_NAME): point.name,
            genai.ENTRY_KIND: point.kind.value,
            genai.ENTRY_TARGET: point.target,
            genai.ENTRY_INPUT: point.input,
            genai.ENTRY_RANDOM_STATE: json.dumps(self._random_state) if self.is_drawn else genai.RANDOM_UNUSED,
            genai.ENTRY_ENVIRONMENT: json.dumps(self._environment),
            genai.FLAGS: values.encode(dict(self.flags)),
        }
        present = {name: value for name, value in optional.items() if value is not None}
        return None, {**own, **self.messages(), **attributes, **present}

    def messages(self) -> dict[str, str]:
        """Return the attributes for the input and the outcome as messages, if they are."""
        with guard("entry.messages"):
            return messages_of_entry(self._point.input, self.output)
        return {}


# -- messages ------------------------------------------------------------------------------------------------------------
# A run's input and outcome as messages of the conventions, so that any backend shows what was asked and answered.
# Only where they are a text or messages: nothing else is a conversation. Replays never read them. Called where spans are
# exported, off the application's path.


_MAX_CHARS: Final = 65_536
"""A longer input or outcome is not copied."""
_QUESTIONS: Final = ("question", "query", "prompt", "message", "input", "text", "task")
"""Arguments that hold the question, if several are texts."""


def messages_of_entry(given: str, output: str | None) -> dict[str, str]:
    """Return the attributes for an entry point's input and outcome, both tagged JSON."""
    from freezeframe_schemas.wire.messages import to_json

    found = {
        genai.INPUT_MESSAGES: _input_messages(_loaded(given)),
        genai.OUTPUT_MESSAGES: _output_messages(_loaded(output)),
    }
    return {name: to_json(messages) for name, messages in found.items() if messages}


def _loaded(text: str | None) -> Any:
    return None if text is None or len(text) > _MAX_CHARS else json.loads(text)


def _input_messages(given: Any) -> list[Message]:
    if not isinstance(given, Mapping):
        return []
    named = {**(given.get("kwargs") or {}), **({"input": given["input"]} if "input" in given else {})}
    values = [*(given.get("args") or ()), *named.values()]
    for value in values:
        if messages := _conversation(value):
            return messages
    texts = [value for value in values if isinstance(value, str) and value]
    if len(texts) > 1:
        texts = [named[name] for name in _QUESTIONS if named.get(name) in texts][:1]
    return [_message("user", text) for text in texts]


def _output_messages(output: Any) -> list[Message]:
    if isinstance(output, Mapping) and isinstance(parts := output.get("yields"), list):
        output = "".join(parts) if all(isinstance(part, str) for part in parts) else None
    if isinstance(output, str) and output:
        return [_message("assistant", output, "stop")]
    last = _conversation([output] if isinstance(output, Mapping) and "role" in output else output, "stop")[-1:]
    return [message for message in last if message.role == "assistant"]


def _message(role: str, text: str, reason: str | None = None) -> Message:
    from freezeframe_schemas.wire.messages import Message, TextPart

    return Message(role=role, parts=(TextPart(content=text),), finish_reason=reason)


def _conversation(value: Any, reason: str | None = None) -> list[Message]:
    """Return a list of messages, or the one in ``{"messages": [...]}``, as values; nothing for any other value."""
    from freezeframe_schemas.wire.openai_content import read_message

    items = value.get("messages") if isinstance(value, Mapping) else value
    if not isinstance(items, list):
        return []
    spoken = [dict(item) for item in items if isinstance(item, Mapping) and isinstance(item.get("role"), str)]
    return [read_message(item, reason) for item in spoken] if len(spoken) == len(items) else []
