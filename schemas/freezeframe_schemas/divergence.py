"""Divergence and Report: the findings of a replay, as values that the replayed process sends to its parent as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas.errors import WireError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.records import from_json

REPORT_VERSION: Final = 1


class DivergenceKind(StrEnum):
    """Kinds of divergence from the recording. The value is the stable code that people can search for."""

    REQUEST_CHANGED = "REPLAY-101"
    """A step's request differs from the recorded one."""
    EXTRA_CALL = "REPLAY-102"
    """A call that the recording has no step left for."""
    MISSING_CALL = "REPLAY-103"
    """A recorded step that was never requested."""
    OUTCOME_CHANGED = "REPLAY-104"
    """Every step was served, and the entry point returned or raised something else."""
    INPUT_CHANGED = "REPLAY-105"
    """The entry point was called with different input than recorded."""
    NETWORK = "REPLAY-106"
    """A client that no seam covers tried to reach the network and was stopped."""
    ORDER_CHANGED = "REPLAY-107"
    """A task or thread requested its recorded steps in a different order."""
    FENCED = "REPLAY-108"
    """The program tried to start a process or touch a file, and a fence stopped it."""
    STILL_WAITED = "REPLAY-109"
    """The program waits for a call that the recorded program abandoned before its answer, and nothing else can happen."""
    RESULT_CHANGED = "REPLAY-110"
    """A tool whose code the replay ran, by request, returned or raised something other than the recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One difference between the recording and the replay."""

    kind: DivergenceKind
    step: int | None = None
    """Number of the recorded step, from 1, as reports print it; None if the divergence belongs to no step."""
    lane: str = ""
    call_kind: str = ""
    name: str = ""
    path: str = "$"
    """The JSON path of the first difference in the request (or outcome)."""
    recorded: str | None = None
    """Short text of the recorded value there."""
    live: str | None = None
    whole_recorded: str | None = None
    """The text around `recorded`, up to 10,000 characters on each side of the difference; None if `recorded` is all of it."""
    whole_live: str | None = None
    would_have_returned: str | None = None
    agreed: tuple[str, ...] = ()
    """Key components that agreed with the nearest recorded request."""
    differed: tuple[str, ...] = ()
    note: str = ""
    inside: str = ""
    """The function that ran by request when it happened: ``tool refund``."""


BY_REDACTION: Final = (
    "redaction replaced a private value in one of these two texts only, so unchanged code may differ here as well"
)
"""Start of the note on a divergence that the recording's redaction, not the program, may have caused."""


class Relaxed(StrEnum):
    """Tolerated differences, in addition to the components of a request key that the caller ignores."""

    PLACE = "place"
    """The same request, made by another task or thread, or in another order."""
    CLOCK = "clock"
    """A time that the program read from its clock."""
    NAMES = "names"
    """A name that redaction saw on one side only."""
    OBJECTS = "objects"
    """An object that cannot be serialised: only its class is compared."""
    FROM_HISTORY = "from_history"
    """A tool call that no seam saw: a request with the same call and the same result answered for it."""
    ENDED = "ended"
    """The call was ended by an exception that was thrown into it, which the replay raises again."""
    TIMEOUT = "timeout not known"
    """The call timed out, and the recorded or the present timeout is not known exactly."""
    CARRIED = "carried"
    """It contains the new result of a tool that ran by request, in place of the recorded one."""
    CODE = "code"
    """The application's code that answered the call could not be read, then or now, so a change may be missed."""


class Check(StrEnum):
    """Extent to which one end of a run, its input or its outcome, was compared."""

    SAME = "same"
    CHANGED = "changed"
    GIVEN = "given"
    """The replay itself passed the recorded input to the program: there is nothing to compare."""
    NOT_RECORDED = "not recorded"
    OPAQUE = "opaque"
    """An object that cannot be serialised, of the same class as the recorded one: nothing else can be compared."""
    NOT_SEEN = "not seen"
    """Recorded, but the replay did not see the program's, or stopped the program before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One recorded step that the replay requested and got."""

    step: int
    how: str
    """``exact`` (lane, key and ordinal), ``relaxed`` (requested at another place, or with another time or name)."""
    relaxed: tuple[str, ...] = ()
    """Tolerated differences: values of `Relaxed`, and ignored components of the request key."""
    changed_code: str = ""
    """Place of the code that would have answered, if it changed since the recording and was not run: ``shop.py:17``."""
    ran: bool = False
    """The function itself ran, by request, and its result was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One frame of the replayed program."""

    place: str
    """``agent.py:12 in answer``."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name -> ``repr``, shortened."""
    line: str = ""
    """The current line of code; empty if the file cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call that the program made in the replay, answered or not."""

    call_kind: str
    name: str
    how: str
    """``exact``, ``relaxed``, ``live``, ``fixed`` (by the policy, not in the recording), ``missed`` or ``stopped``."""
    step: int | None = None
    """The recorded step that answered."""
    arguments: str | None = None
    """Tagged JSON of a function's arguments; None for HTTP."""
    lane: str = ""
    frames: tuple[StackFrame, ...] = ()
    """The program's own frames as it made the call, innermost first, if the replay was asked to keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCall:
    """A call that the replay was allowed to make for real."""

    call_kind: str
    name: str
    step: int | None = None
    """The recorded step that it replaced: the same request, or the nearest one; None if none is near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The place where a replay was stopped on request: the next call, and the program's frames."""

    step: int
    call_kind: str
    name: str
    request: str
    """Body of the request that the program was about to make; empty if it has none, as a GET."""
    recorded: str
    """Body of the recorded step's request."""
    answer: str
    """The answer it would have received."""
    address: str = ""
    """For HTTP, the method and URL it was about to request: ``GET https://shop.example.com/orders?of=7``."""
    recorded_address: str = ""
    frames: tuple[StackFrame, ...] = ()
    """The program's own frames, innermost first."""


class Why(StrEnum):
    """Why a private value was not compared."""

    KEY = "key"
    """The program had its own value in place of a surrogate: only the key shows whether they belong together."""
    DERIVED = "derived"
    """The program made it from a surrogate, so not even the key can tell."""
    SHARED = "shared"
    """Its surrogate covers many values: a short code, or the year of a date of birth."""
    COMPUTED = "computed"
    """The program may have computed it from a surrogate: a length, a sum of digits, a cut-off part, an order."""
    INPUT = "input"
    """The caller gave it to the entry point, in place of a surrogate in the recorded input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncompared:
    """A private value: only its class and place are known to match the recording."""

    class_name: str
    surrogate: str
    """The recorded surrogate in its place."""
    why: Why
    step: int | None = None
    """The step where it appeared first; None for input and outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """Two steps whose answers only their order distinguishes, because redaction changed which requests are equal."""

    steps: tuple[int, int]
    """In the order in which they answered."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one replay."""

    run_id: str
    steps: int
    """Recorded steps that a replay can request (steps inside another step are answered by it)."""
    served: tuple[Served, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    outcome: str | None = None
    """Tagged JSON of the entry point's result or exception in the replay."""
    entered: bool = False
    """False if the replayed program never reached the recorded entry point, which gives no verdict."""
    sockets_tried: int = 0
    warnings: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Step number (as text) -> a short name for printing."""
    lanes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lane of the recording -> its name for people."""
    made: tuple[Made, ...] = ()
    """Every call of the program, in order."""
    live: tuple[LiveCall, ...] = ()
    """Calls that were made for real, in order; all others were answered from the recording."""
    stopped: Stopped | None = None
    """Set if the replay was asked to stop before a step, and did."""
    inside: int = 0
    """Recorded steps inside other steps: the outer steps answer for them, so a replay does not request them."""
    begun_inside: bool = False
    """The replay began in the middle of the run, at a border of a framework: everything before it was left out."""
    input_check: Check = Check.NOT_SEEN
    outcome_check: Check = Check.NOT_SEEN
    input_relaxed: tuple[str, ...] = ()
    """Tolerated differences in the input: values of `Relaxed`."""
    outcome_relaxed: tuple[str, ...] = ()
    """Tolerated differences in the outcome: values of `Relaxed`."""
    exit_status: int = 0
    """The program's exit status, if the outcome does not show it."""
    unheard: tuple[str, ...] = ()
    """Parts of a program's outcome that the recording or the replay does not know:

    ``stdout``, ``stdout_bytes``, ``exit``; and, in words, effects of an entry point that are not compared.
    """
    unfinished: bool = False
    """The recorded run has no end, see `lifecycle`: it can be compared as far as the recording goes."""
    beyond: tuple[str, ...] = ()
    """Calls that the program made after the end of such a recording, ``model chat``. Nothing is known about them."""
    uncompared: tuple[Uncompared, ...] = ()
    """Private values that were paired with a surrogate and not compared, each once."""
    requires_values: bool = False
    """The caller asked for a replay in which every private value is compared."""
    ambiguous: tuple[Ambiguous, ...] = ()
    """Steps that may have received each other's answers."""

    changed_inside: Mapping[str, str] = field(default_factory=dict[str, str])
    """Like `changed_code`, of functions called inside a tool that ran."""

    unserved: tuple[str, ...] = ()
    """Inputs of tools that the recording does not contain: ``tool refund reads stock.json as it is now``."""

    queried_inside: bool = False
    """True if a tool that ran queried a database, and got the recorded answers."""

    reconstructed: bool = False
    """The recording is another instrumentation's: meaning was compared, not bytes."""

    @property
    def relaxations(self) -> Mapping[str, int]:
        """Return each tolerated difference -> the number of steps with it."""
        return Counter(name for item in self.served for name in item.relaxed)

    @property
    def changed_code(self) -> Mapping[str, str]:
        """Return each function whose code changed and was not run -> its place: ``tool refund`` -> ``shop.py:17``."""
        own = {self.names.get(str(item.step), ""): item.changed_code for item in self.served if item.changed_code}
        return {**own, **self.changed_inside}

    @property
    def did_not_run(self) -> tuple[str, ...]:
        """Return the tools and retrievers that the recording answered for: ``retrieval search``."""
        names = (self.names.get(str(item.step), "") for item in self.served if not item.ran)
        return tuple(dict.fromkeys(name for name in names if name.partition(" ")[0] in (Kind.TOOL, Kind.RETRIEVAL)))

    @property
    def ran(self) -> tuple[str, ...]:
        """Return the functions that ran by request: ``tool refund``."""
        return tuple(dict.fromkeys(self.names.get(str(item.step), "") for item in self.served if item.ran))

    @property
    def first(self) -> Divergence | None:
        return self.divergences[0] if self.divergences else None


def report_to_json(report: Report) -> str:
    """Return the report as JSON text, with its version."""
    return json.dumps({"version": REPORT_VERSION, **dataclasses.asdict(report)}, ensure_ascii=True, indent=1)


def report_from_json(text: str) -> Report:
    """Return the report of JSON `text`.

    Raises:
        WireError: not a report, or of another version.
    """
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise WireError(f"replay report: not readable: {error}") from error
    version = data.pop("version", None) if isinstance(data, dict) else None
    if version != REPORT_VERSION:
        raise WireError(f"replay report: found version {version}, expected {REPORT_VERSION}")
    return from_json(Report, data, "replay report")
