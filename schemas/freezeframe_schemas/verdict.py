"""Judge a replay's report: its verdict, the exit code, the parts that were not compared, and one line that sums it up.

Pure. Every command, page, test and document that judges a replay uses this module, so that a word means the
same everywhere.

The rule: a verdict never claims more than was compared. *Compared* is a step that answered a request equal to
the recorded one, and an outcome equal to the recorded one. If neither was compared, the replay is incomparable.
Anything in the run that was not compared, or whose difference was to be ignored, is named on the same line as
the verdict.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from freezeframe_schemas import values
from freezeframe_schemas.divergence import (
    Check,
    Divergence,
    DivergenceKind,
    Relaxed,
    Report,
    Why,
    report_to_json,
)
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.lane_names import ROOT_LANE


class Verdict(StrEnum):
    """Verdicts of a replay."""

    IDENTICAL = "identical"
    """Everything compared is equal, something was compared, and the headline names the rest."""
    SAME_IN_MEANING = "same in meaning, reconstructed"
    """The same for a run that another instrumentation recorded: meaning was compared, since its bytes are not known."""
    DIVERGED = "diverged"
    """The program behaved differently than recorded."""
    INCOMPARABLE = "incomparable"
    """The replay shows nothing about the program's behaviour; `why_incomparable` gives the reason."""

    @property
    def agrees(self) -> bool:
        """Return whether nothing that was compared differs: identical, or the same in meaning."""
        return self in (Verdict.IDENTICAL, Verdict.SAME_IN_MEANING)


EXIT_CODES: Final[Mapping[Verdict, int]] = {
    Verdict.IDENTICAL: 0,
    Verdict.SAME_IN_MEANING: 0,
    Verdict.DIVERGED: 3,
    Verdict.INCOMPARABLE: 125,
}
"""125 is what ``git bisect run`` skips."""

TITLES: Final[Mapping[DivergenceKind, str]] = {
    DivergenceKind.REQUEST_CHANGED: "diverged",
    DivergenceKind.EXTRA_CALL: "a call that is not in the recording",
    DivergenceKind.MISSING_CALL: "a recorded step was never requested",
    DivergenceKind.OUTCOME_CHANGED: "a different outcome",
    DivergenceKind.INPUT_CHANGED: "called with different input",
    DivergenceKind.NETWORK: "tried to reach the network",
    DivergenceKind.ORDER_CHANGED: "recorded steps requested in a different order",
    DivergenceKind.FENCED: "blocked by a fence",
    DivergenceKind.STILL_WAITED: "waits for a call that the run had abandoned",
    DivergenceKind.RESULT_CHANGED: "a tool that ran returned something else",
}

_SAY_NOTHING: Final[Mapping[DivergenceKind, str]] = {
    DivergenceKind.INPUT_CHANGED: "the entry point was called with input that differs from the recording",
    DivergenceKind.NETWORK: "a client that no seam covers tried to reach the network",
    DivergenceKind.FENCED: "the program was blocked by a fence",
}
"""Divergences after which no verdict is possible: the input differed, or the program was stopped early.

The recorded program may have done the same unrecorded, so it need not be a change of behaviour.
"""

_BROKEN_CODE: Final = frozenset(
    {"ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError"}
)
"""Exceptions that mean that the code could not be run, not that it decided differently."""

_RAISED: Final = re.compile(r'(?:\{"class": )?"builtins:(\w+)"')
_RELAXED: Final[Mapping[str, str]] = {
    Relaxed.CLOCK: "times read from the clock",
    Relaxed.OBJECTS: "objects compared by class only",
    Relaxed.FROM_HISTORY: "tools seen only in what the model received",
    Relaxed.CODE: "changes of the code behind a call (it could not be read)",
}
_ENDS: Final[Mapping[str, str]] = {
    Relaxed.ENDED: "what ended {} (an exception from outside of it)",
    Relaxed.TIMEOUT: "the timeout of {} (not known exactly)",
}
_UNHEARD: Final[Mapping[str, str]] = {
    "stdout": "standard output",
    "stdout_bytes": "bytes written to standard output",
    "exit": "the program's exit status",
}
_LEFT_OPEN: Final[Mapping[Check, str]] = {
    Check.NOT_RECORDED: "not recorded",
    Check.OPAQUE: "an object that can be compared by class only",
    Check.NOT_SEEN: "not seen by the replay",
}
"""Extent of an incomplete comparison of input or outcome -> in words."""
_UNCOMPARED: Final[Mapping[Why, tuple[str, str]]] = {
    Why.KEY: ("that needs the key to compare", "that need the key to compare"),
    Why.DERIVED: ("made from a surrogate", "made from surrogates"),
    Why.SHARED: ("whose surrogate also stands for others", "whose surrogates also stand for others"),
    Why.COMPUTED: (
        "from which a length, a sum of digits, a part or an order may be derived",
        "from which lengths, sums of digits, parts or an order may be derived",
    ),
    Why.INPUT: ("of the caller's own input", "of the caller's own input"),
}
"""The text for one private value that was not compared, and for several."""


def verdict(report: Report) -> Verdict:
    """Return whether the replay re-enacted the recording, diverged from it, or shows nothing."""
    if why_incomparable(report) is not None:
        return Verdict.INCOMPARABLE
    if report.divergences:
        return Verdict.DIVERGED
    return Verdict.SAME_IN_MEANING if report.reconstructed else Verdict.IDENTICAL


def exit_code(report: Report) -> int:
    """Return the exit code of a command that judges the report."""
    return EXIT_CODES[verdict(report)]


def shows_nothing(divergence: Divergence) -> bool:
    """Return whether a divergence stopped the program early, so that it shows nothing about its behaviour."""
    return divergence.kind in _SAY_NOTHING


def why_incomparable(report: Report) -> str | None:
    """Return why the report shows nothing about the program's behaviour, or None if it does."""
    if not report.entered:
        return "the program never reached the recorded entry point"
    first = report.first
    if first is None:
        return _why_open(report)
    if _has_no_requests(report):
        return "the program requested none of the recorded steps"
    if first.kind in _SAY_NOTHING:
        return f"{_SAY_NOTHING[first.kind]}{_about(first)}"
    broken = _broken_code(report.outcome) if first.kind is DivergenceKind.OUTCOME_CHANGED else _broken_tool(first)
    return None if broken is None else f"the code did not run: {broken}"


def not_compared(report: Report) -> tuple[str, ...]:
    """Return the points that an identical replay leaves open, a few words each: not compared, or different and ignored.

    To add another (a field of `Report`, a phrase here), change only this function: everything prints its
    result.
    """
    return tuple(_not_compared(report))


def headline(report: Report) -> str:
    """Return the verdict as one line: the extent of the comparison, or the place where the replay left the recording.

    Holds texts of the recording unescaped: the caller that prints it escapes them.
    """
    found = verdict(report)
    if found is Verdict.INCOMPARABLE:
        code = "" if report.first is None or report.first.kind not in _SAY_NOTHING else f"{report.first.kind.value} "
        return f"incomparable: {code}{why_incomparable(report)}, run {report.run_id}"
    if report.first is not None:
        replayed = f"{len(report.served)} of {_count(report.steps, 'step')} replayed"
        but_for = "".join(f"; {part}" for part in _unserved(report))
        return f"{report.first.kind.value} {title(report.first, report.lanes)}: {replayed}{but_for}, run {report.run_id}"
    open_points = not_compared(report)
    but_for = f", except {_enumerated(open_points)}" if open_points else ""
    how_far = " up to where the recording ends" if report.unfinished else ""
    no_end = "; the run never finished" if report.unfinished else ""
    return f"{found.value}{how_far}{but_for}: {_compared(report)}{no_end}, run {report.run_id}"


def why_nothing_to_check(fixture: Fixture) -> str | None:
    """Return why a recording cannot be checked at all, or None if it holds a call, an input or an outcome."""
    entry = fixture.entry
    if fixture.steps or any(text is not None for text in (entry.input, entry.output, entry.error)):
        return None
    return (
        f"nothing to check: run {fixture.run_id} recorded no calls, no input and no outcome "
        "(spans of another instrumentation, or a program without freezeframe.instrument())"
    )


def title(divergence: Divergence, lanes: Mapping[str, str]) -> str:
    """Return kind and place of a divergence, without its code: ``diverged at step 3 (tool track, task 2, tools)``.

    `lanes` are those of its report, with their names.
    """
    place = "" if divergence.step is None else f" at step {divergence.step}"
    about = " ".join(part for part in (divergence.call_kind, divergence.name) if part)
    name = lanes.get(divergence.lane, f"lane {divergence.lane or ROOT_LANE}")
    name = f"lane {name}" if name == ROOT_LANE else name
    lane = name if divergence.step is not None or divergence.call_kind else ""
    around = f"inside {divergence.inside}" if divergence.inside else ""
    known = ", ".join(part for part in (about, around or lane) if part)
    return TITLES[divergence.kind] + place + (f" ({known})" if known else "")


def judged_to_json(report: Report) -> str:
    """Return the report as JSON for other programs, with its judgement: verdict, headline, uncompared parts."""
    judgement = {
        "verdict": verdict(report).value,
        "headline": headline(report),
        "why_incomparable": why_incomparable(report),
        "not_compared": not_compared(report),
        "changed_code": dict(report.changed_code),
        "ran": report.ran,
    }
    return json.dumps({**judgement, **json.loads(report_to_json(report))}, ensure_ascii=True, indent=1)


# -- identical, and except what ------------------------------------------------------------------------------------------


def _why_open(report: Report) -> str | None:
    """Return why a report without a divergence still does not make an identical replay, or None if it does."""
    if report.stopped is not None:
        return f"it was stopped before step {report.stopped.step}, as asked"
    answered = {item.step for item in (*report.served, *report.live) if item.step is not None}
    if len(answered) < report.steps and not report.beyond:
        return f"{report.steps - len(answered)} of {_count(report.steps, 'recorded step')} are not accounted for"
    derived = tuple(item for item in report.uncompared if item.why is Why.COMPUTED)
    if derived:
        return (
            f"what differs may be derived from {_count(len(derived), 'private value')} (a length, a sum of digits, a part or "
            "an order), and is not comparable without the original"
        )
    if report.requires_values and report.uncompared:
        return f"every private value had to be compared; not compared: {_enumerated(tuple(_values(report)))}"
    if report.served or report.outcome_check is Check.SAME:
        return _changed_code(report) or None
    if report.unfinished and not report.steps:
        return "nothing was compared: the recording ends before its first call, since the run never finished"
    if report.live:
        calls = "every call was made for real"
    else:
        calls = "the run recorded no calls" if not report.inside else "the run recorded no call that a replay asks for"
    outcome = {
        Check.NOT_RECORDED: "no outcome",
        Check.OPAQUE: "its outcome is an object that can be compared by class only",
    }.get(report.outcome_check, "the replay did not see its outcome")
    return f"nothing was compared: {calls}, and {outcome}"


def _changed_code(report: Report) -> str:
    """Name the changed code that a replay skips, and the extent of the identical rest; empty without changes."""
    if not report.changed_code:
        return ""
    named = tuple(f"{name} ({place})" for name, place in report.changed_code.items())
    its = "its new code was" if len(named) == 1 else "their new code was"
    open_points = _enumerated(tuple(_not_compared(report)))
    but_for = f", except {open_points}" if open_points else ""
    return (
        f"{_enumerated(named)} changed since the recording; {its} not run; the rest is identical{but_for}: {_compared(report)}"
    )


def _compared(report: Report) -> str:
    parts: list[str] = []
    if report.steps:
        parts.append(f"{len(report.served)} of {_count(report.steps, 'step')}")
    if report.outcome_check is Check.SAME:
        parts.append("the outcome")
    inside = f" ({report.inside} more inside other steps, which answer for them)" if report.inside else ""
    ran = f" ({_enumerated(report.ran)} ran)" if report.ran else ""
    no_calls = "" if report.steps or report.inside else " (the run recorded no calls)"
    return " and ".join(parts) + ran + inside + no_calls


def _not_compared(report: Report) -> Iterable[str]:
    ends = (("the input", report.input_check), ("the outcome", report.outcome_check))
    for check, why in _LEFT_OPEN.items():
        if found := [end for end, its in ends if its is check]:
            yield f"{' and '.join(found)} ({why})"
    if report.begun_inside:
        yield "the steps before the border at which the replay began"
    if report.beyond:
        yield f"{_count(len(report.beyond), 'call')} beyond it ({', '.join(dict.fromkeys(report.beyond))})"
        answered = {item.step for item in (*report.served, *report.live) if item.step is not None}
        if len(answered) < report.steps:
            yield f"{_count(report.steps - len(answered), 'step')} that the replay did not reach"
    if report.live:
        yield f"{_count(len(report.live), 'call')} made for real"
    yield from _values(report)
    if report.ambiguous:
        yield f"which answer belongs to which of {_count(len(report.ambiguous), 'pair')} of steps"
    for name, steps in report.relaxations.items():
        if name == Relaxed.PLACE:
            yield f"{_count(steps, 'step')} asked at a different place"
        elif name == Relaxed.NAMES:
            continue  # each is among the private values, unless the key shows that it is the same
        elif name in _ENDS:
            yield _ENDS[name].format(_count(steps, "call"))
        elif name in _RELAXED:
            yield f"{_RELAXED[name]} in {_count(steps, 'step')}"
        else:
            yield f"{name} in {_count(steps, 'step')} (ignored)"
    for end, names in (("input", report.input_relaxed), ("outcome", report.outcome_relaxed)):
        yield from (f"{_RELAXED.get(name, name)} in the {end}" for name in names if name != Relaxed.NAMES)
    if report.queried_inside or any(item.call_kind == Kind.DATABASE for item in report.made):
        yield "commits and rollbacks (not recorded)"
    if report.exit_status != 0:
        yield f"the program's exit status ({report.exit_status})"
    yield from (f"{_UNHEARD[part]} (not recorded)" if part in _UNHEARD else part for part in report.unheard)
    yield from _unserved(report)


def _unserved(report: Report) -> Iterable[str]:
    """Yield what tools that ran got from elsewhere."""
    yield from (f"{part} (not recorded)" for part in report.unserved)


def _values(report: Report) -> Iterable[str]:
    """Yield how many private values were not compared, by the reason."""
    counts = Counter(item.why for item in report.uncompared)
    for why, (of_one, of_several) in _UNCOMPARED.items():
        if counts[why]:
            yield f"{_count(counts[why], 'private value')} {of_one if counts[why] == 1 else of_several}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _enumerated(parts: tuple[str, ...]) -> str:
    if not parts:
        return ""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


# -- incomparable -----------------------------------------------------------------------------------------------------------


def _has_no_requests(report: Report) -> bool:
    """Return whether the program ended without any call and without an outcome: it did not start, or is another program.

    A function that returns early has an outcome, and that is a change of behaviour.
    """
    missing = all(item.kind is DivergenceKind.MISSING_CALL for item in report.divergences)
    return missing and not report.served and report.outcome is None


def _about(divergence: Divergence) -> str:
    if divergence.kind is DivergenceKind.FENCED:
        return f" ({divergence.call_kind}: {divergence.name})"
    target = divergence.live or divergence.name if divergence.kind is DivergenceKind.NETWORK else ""
    return f" ({target})" if target else ""


def _broken_tool(divergence: Divergence) -> str | None:
    """Return the exception of a tool that ran, if it means broken code, else None."""
    if divergence.kind is not DivergenceKind.RESULT_CHANGED or not divergence.live:
        return None
    raised = _RAISED.match(divergence.live) if divergence.path in ("$.raised", "$.raised.class") else None
    if raised is None or raised[1] not in _BROKEN_CODE:
        return None
    return f"{divergence.call_kind} {divergence.name} raised {raised[1]}"


def _broken_code(outcome: str | None) -> str | None:
    """Return class and text of an exception in `outcome` (tagged JSON) that means broken code, else None."""
    if outcome is None:
        return None
    try:
        node: Any = json.loads(outcome)
    except ValueError:
        return None
    if not isinstance(node, dict) or node.get(values.TAG) != "exception":
        return None
    name = str(node.get("class", "")).rpartition(":")[2]
    return f"{name}: {node.get('text', '')}" if name in _BROKEN_CODE else None
