"""The report of a replay as text for a terminal. Pure."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping
from typing import Final

from freezeframe_replay.engine.compare import json_or_text
from freezeframe_replay.report.render import ID_DIGITS, WIDTH, printable, short
from freezeframe_replay.report.tagged import outcome_text
from freezeframe_schemas.divergence import BY_REDACTION, Divergence, DivergenceKind, Relaxed, Report
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.verdict import Verdict, headline, title, verdict

_STEPS_SHOWN: Final = 40
_LATER_SHOWN: Final = 5

_BY_CODE: Final = (DivergenceKind.OUTCOME_CHANGED, DivergenceKind.RESULT_CHANGED)
_LOCK_IN: Final = "lock it in with `freezeframe fixture RUN -o DIR --pytest`"
_NEXT: Final[Mapping[DivergenceKind, str]] = {
    DivergenceKind.REQUEST_CHANGED: f"if this is the fix, {_LOCK_IN}",
    DivergenceKind.EXTRA_CALL: f"if this is the fix, {_LOCK_IN}",
    DivergenceKind.MISSING_CALL: f"if the call is gone on purpose, {_LOCK_IN}",
    DivergenceKind.OUTCOME_CHANGED: f"if this is the fix, {_LOCK_IN}",
    DivergenceKind.INPUT_CHANGED: "give the program the recorded input; without a program after `--`, a replay does so itself",
    DivergenceKind.ORDER_CHANGED: "if the order does not matter, run the calls as tasks side by side and record again",
    DivergenceKind.FENCED: "wrap the function that does it with @freezeframe.tool and record the run again, or let it through "
    "with --allow-program or --allow-path",
    DivergenceKind.NETWORK: "wrap the function that makes the call with @freezeframe.tool and record the run again",
    DivergenceKind.RESULT_CHANGED: f"if this is the fix, {_LOCK_IN}",
    DivergenceKind.STILL_WAITED: "the answer to this call was never received: record the run again",
}


_NEXT_BY_REDACTION: Final = (
    "compare the two lines: if only the private value differs, the program did not change; replay with the key of the "
    "recording (--data), or leave the field out with --ignore"
)

_RELAXED: Final[Mapping[str, str]] = {
    Relaxed.PLACE: "asked at a different place",
    Relaxed.CLOCK: "at another time",
    Relaxed.NAMES: "except for names",
    Relaxed.OBJECTS: "objects compared by class only",
    Relaxed.CODE: "its code could not be compared",
    Relaxed.CARRIED: "asked with the new result of a tool",
}


def report_text(
    report: Report, *, quiet: bool = False, width: int = WIDTH, again: str = "", whole: bool = False, test: str = ""
) -> str:
    """Return the findings of a replay: its headline, and unless `quiet` every served step or the divergences.

    `again` names the run in suggested commands; by default it is the start of its id.
    `whole`: the texts of the first divergence line by line, instead of a line of each.
    `test`: the regression test that the recording already has.
    """
    if quiet:
        return printable(headline(report))
    locked_in = f"its test passes with it: pytest {test}" if test else _LOCK_IN
    return "\n".join(_report(report, width, again or report.run_id[:ID_DIGITS], whole, locked_in))


def _report(report: Report, width: int, again: str, whole: bool, locked_in: str) -> Iterable[str]:
    yield printable(headline(report))  # whole, however narrow the terminal: it is the answer
    if not report.divergences:
        yield from _steps(report, width)
    else:
        first, *later = report.divergences
        yield from _divergence(first, width, whole)
        yield from (short(f"  then {item.kind.value} {title(item, report.lanes)}", width) for item in later[:_LATER_SHOWN])
        if len(later) > _LATER_SHOWN:
            yield f"  and {len(later) - _LATER_SHOWN} more (--json shows all)"
    yield from _live(report, width)
    yield from _outcome(report, width)
    if report.exit_status and report.divergences:
        yield f"  the program exited with status {report.exit_status}"
    for pair in report.ambiguous:
        yield from _wrapped("  ambiguous: ", f"steps {pair.steps[0]} and {pair.steps[1]}: {pair.why}", width)
    if report.divergences:
        if carried := report.relaxations.get(Relaxed.CARRIED):
            differ = "1 later request differs" if carried == 1 else f"{carried} later requests differ"
            text = f"{differ} only in that result, and got the recorded answer"
            yield from _wrapped("  note: ", text, width)
        for name, place in report.changed_code.items():
            yield from _wrapped(
                "  note: ", printable(f"{name} ({place}) changed since the recording; its new code was not run"), width
            )
    for warning in report.warnings:
        yield from _wrapped("  warning: ", printable(warning), width)
    yield from _next(report, width, again, locked_in)


def _divergence(divergence: Divergence, width: int, whole: bool) -> Iterable[str]:
    if divergence.recorded or divergence.live not in (None, "null"):  # a call without a body is named in the headline
        yield short(f"  {divergence.path}", width)
        sides = ("-", divergence.recorded, divergence.whole_recorded), ("+", divergence.live, divergence.whole_live)
        for mark, text, all_of_it in sides:
            if text == "":
                continue
            if whole:
                lines = unquoted(all_of_it or text or "").splitlines() or [""]
                yield from (f"  {mark} {printable(line)}" for line in lines)
            else:
                yield short(f"  {mark} {text or ''}", width)
        if not whole and (divergence.whole_recorded or divergence.whole_live):
            yield "  (shortened; `freezeframe replay --whole` and --json show more)"
    for label, names in (("differed", divergence.differed), ("agreed", divergence.agreed)):
        if names:
            yield from _wrapped(f"  {label}: ", printable(", ".join(names)), width)
    if divergence.would_have_returned:
        yield short(f"  would have returned: {unquoted(divergence.would_have_returned)}", width)
    if divergence.note:
        yield from _wrapped("  note: ", printable(divergence.note), width)


def unquoted(text: str) -> str:
    """Return a JSON string decoded, so that a body is not shown with its quotes escaped; other text unchanged."""
    value = json_or_text(text)
    return value if isinstance(value, str) else text


def _steps(report: Report, width: int) -> Iterable[str]:
    for item in report.served[:_STEPS_SHOWN]:
        name = report.names.get(str(item.step), "")
        moved = f"  ({', '.join(map(_relaxed, item.relaxed))})" if item.relaxed else ""
        yield short(f"  {item.step:>4}  {name}{moved}".rstrip(), width)
    if len(report.served) > _STEPS_SHOWN:
        yield f"  and {len(report.served) - _STEPS_SHOWN} more"


def _relaxed(name: str) -> str:
    return _RELAXED.get(name, f"{name} ignored")


def _live(report: Report, width: int) -> Iterable[str]:
    for call in report.live:
        place = "" if call.step is None else f" in place of step {call.step}"
        yield short(f"  live: {call.call_kind} {call.name}{place}", width)


def _outcome(report: Report, width: int) -> Iterable[str]:
    text = "" if report.outcome is None else outcome_text(report.outcome)
    # if our own exception ended the program, the divergence above has said so
    if text and not text.startswith("raised ReplayMiss"):
        yield short(f"  outcome: {text}", width)


def _answer(call_kind: str, name: str) -> str:
    """Return the way in which a new call gets an answer; databases and files are never live."""
    peculiar: dict[str, str] = {Kind.TOOL: f"--allow-tool {shlex.quote(name)}", Kind.DATABASE: "", Kind.FILE: ""}
    option = peculiar.get(call_kind, f"--live {call_kind}")
    make = f"make it for real and keep it with `freezeframe replay RUN {option} -o DIR`, or "
    return f"a new call has no recording: {make if option else ''}"


def _next(report: Report, width: int, again: str, locked_in: str) -> Iterable[str]:
    first, asked_nothing = report.first, not report.made and report.outcome is None
    if not report.entered or (first is not None and first.kind is DivergenceKind.MISSING_CALL and asked_nothing):
        advice = "see what the program prints: freezeframe replay RUN --show-output; or name the program to start: "
        advice += "freezeframe replay RUN -- CMD"
    elif first is not None:
        if report.live:
            return
        advice = _NEXT_BY_REDACTION if BY_REDACTION in first.note else _NEXT[first.kind]
        if verdict(report) is Verdict.INCOMPARABLE and first.kind in _BY_CODE:
            advice = "make the code run, then: freezeframe replay RUN"
        if first.kind is DivergenceKind.EXTRA_CALL:
            advice = _answer(first.call_kind, first.name) + advice
    elif report.changed_code:
        names = sorted({name.partition(" ")[2] for name in report.changed_code})
        advice = "run the new code on the recorded calls: freezeframe replay RUN " + " ".join(
            f"--run-tool {shlex.quote(name)}" for name in names
        )
    elif report.requires_values and report.uncompared:
        advice = "use --data to name the data directory that holds the recording's key"
    elif verdict(report) is Verdict.INCOMPARABLE and report.stopped is None:
        advice = "see what the run holds: freezeframe show RUN; record its calls with freezeframe.instrument()"
    else:
        return
    yield from _wrapped("  next: ", advice.replace(_LOCK_IN, locked_in).replace("RUN", again), width)
    if first is not None and first.kind is DivergenceKind.REQUEST_CHANGED and first.differed and not report.reconstructed:
        yield short(f"        if it varies by itself: --ignore {first.differed[0]}", width)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False)
