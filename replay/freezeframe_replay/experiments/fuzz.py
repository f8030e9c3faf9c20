"""Fuzz: find small perturbations of a run that make the code behave differently.

Offline, the model repeats its recorded answers: fields that carry the conversation are ignored, so only the
*code's* reaction to a perturbation shows. With a live model, the model's reaction shows, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from freezeframe_replay.engine.compare import json_or_text, shorten
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.experiments.perturb import Aim, Perturbation, perturbations
from freezeframe_replay.experiments.structure import Aspect, compare_structure
from freezeframe_replay.process.reenact import Trial
from freezeframe_schemas import values
from freezeframe_schemas.divergence import DivergenceKind, Report
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.verdict import headline, verdict, why_incomparable

CONVERSATION: Final = tuple(
    f"body.{field}" for field in ("messages", "input", "system", "instructions", "prompt", "contents", "system_instruction")
)
"""Key components that carry the conversation so far."""

UNKNOWN: Final = "unknown"
"""The recording cannot answer a request of the code, or has no outcome to compare."""
_STRUCTURAL: Final = frozenset({Aspect.PATH, Aspect.SHAPE, Aspect.TARGET})


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Result of one perturbation."""

    number: int
    """From 1, the same for the same seed."""
    aim: Aim
    text: str
    step: int | None
    flips: bool
    """True if the code took a different path or had a different outcome."""
    effect: str
    """``none``, ``outcome``, an `Aspect`, or `UNKNOWN`."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzing:
    """Settings for fuzzing a run."""

    seed: int = 1
    rounds: int = 20
    aims: tuple[Aim, ...] = tuple(Aim)
    trial: Trial = field(default_factory=Trial)


OnEffect = Callable[[Effect, Perturbation, int], None]
"""Called with each effect, its perturbation and the total number of perturbations."""


def fuzz(
    fixture: Fixture, fuzzing: Fuzzing, *, on_effect: OnEffect = lambda _effect, _perturbation, _total: None
) -> tuple[Effect, ...]:
    """Replay perturbed runs and return the effects. Short runs have fewer perturbations than rounds.

    Raises:
        ReplayError: the unperturbed run is not re-enacted, so a difference would mean nothing; or it is a reconstructed one.
    """
    if fixture.reconstructed:
        raise ReplayError(
            f"run {fixture.run_id}: another instrumentation recorded it, without bytes to perturb",
            do="keep a replay of it, `freezeframe replay RUN -o DIR -- CMD`, and fuzz that",
        )
    trial = replace(fuzzing.trial, policy=_held_to_its_words(fuzzing.trial.policy))
    if not trial.policy.goes_live:
        _check_baseline(fixture, trial)
    elif not fixture.askable and fixture.entry.output is None and fixture.entry.error is None:
        raise ReplayError(f"run {fixture.run_id}: it recorded no calls and no outcome, so nothing can be compared")
    effects: list[Effect] = []
    planned = tuple(islice(perturbations(fixture, seed=fuzzing.seed, aims=fuzzing.aims), fuzzing.rounds))
    for number, item in enumerate(planned, 1):
        effect = _try(number, item, fixture, trial)
        effects.append(effect)
        on_effect(effect, item, len(planned))
    return tuple(effects)


def _held_to_its_words(policy: ReplayPolicy) -> ReplayPolicy:
    return policy if Kind.MODEL in policy.live else replace(policy, ignore=(*policy.ignore, *CONVERSATION))


def _check_baseline(fixture: Fixture, trial: Trial) -> None:
    report = trial.replay(fixture)
    if not verdict(report).agrees:
        raise ReplayError(
            f"without any perturbation its replay is not identical: {headline(report)}",
            do="see `freezeframe replay`, and fuzz the code that the run was recorded on, or a newer recording",
        )


def _try(number: int, item: Perturbation, original: Fixture, trial: Trial) -> Effect:
    def effect(flips: bool, name: str, detail: str = "") -> Effect:
        return Effect(number=number, aim=item.aim, text=item.text, step=item.step, flips=flips, effect=name, detail=detail)

    try:
        report = trial.replay(item.fixture)
    except ReplayError as error:
        return effect(True, "no report", error.message)
    why = why_incomparable(report)
    if why is not None:
        return effect(True, "no report", why)
    structure = compare_structure(original, report)
    if structure.aspect in _STRUCTURAL:
        at = "" if structure.step is None else f"step {structure.step}: "
        return effect(True, structure.aspect.value, f"{at}{structure.recorded} > {structure.candidate}")
    if structure.aspect is Aspect.CUT:
        first = report.first
        return effect(False, UNKNOWN, "" if first is None else f"asks {first.live or first.name}, which is not recorded")
    return _outcome_effect(effect, original, report)


def _outcome_effect(effect: Callable[[bool, str, str], Effect], original: Fixture, report: Report) -> Effect:
    recorded, found = original.entry.outcome, report.outcome
    if recorded is None or found is None:
        return effect(False, UNKNOWN, "the same path, and no outcome to compare")
    raised = any(item.kind is DivergenceKind.OUTCOME_CHANGED for item in report.divergences)
    if not (raised or _answer_of_text(recorded) != _answer_of_text(found)):
        return effect(False, "none", "")
    return effect(True, "outcome", f"{shorten(_answer_of_text(recorded), 60)} > {shorten(_answer_of_text(found), 60)}")


def _answer_of_text(text: str) -> Any:
    """Return an outcome as a value; for an exception, its class and text."""
    value = json_or_text(text)
    if isinstance(value, dict) and value.get(values.TAG) == "exception":
        return f"{value.get('class')}: {value.get('text')}"
    return value


def unknown(effects: Sequence[Effect]) -> list[Effect]:
    """Return the perturbations for which it is unknown whether they flip the run."""
    return [effect for effect in effects if effect.effect == UNKNOWN]


def flips(effects: Sequence[Effect]) -> list[Effect]:
    """Return the perturbations that flipped the run."""
    return [effect for effect in effects if effect.flips]
