"""Calibrate: what varies anyway between two recordings of the same input. Pure.

After the first answer that differs, a request may differ because of it. So from there on nothing new is learned: what had
varied before is counted, and the rest is named as what may follow from the answer. What the program says and asks (messages,
prompts, arguments) is never relaxed, however much it varies: ignoring it would make every run the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from freezeframe_replay.engine.freeze import exchange_key, make_alias
from freezeframe_replay.report.align import align, compare_runs
from freezeframe_schemas.fixture import Fixture

CONTENT: Final = frozenset(
    {"kind", "name", "method", "host", "path", "body", "args", "kwargs"}
    | {f"body.{field}" for field in ("messages", "system", "input", "instructions", "prompt", "contents", "tools", "model")}
)
"""Components that are the question itself; so is every argument of a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What two recordings of the same input show."""

    compared: int
    """Number of steps compared."""
    varying: Mapping[str, int]
    """Component -> steps in which it differed although nothing before them did: it can be ignored."""
    content: Mapping[str, int]
    """The same for components that are the question itself: these stay."""
    following: Mapping[str, int]
    """Those that differed only after an answer that differs, and may follow from it: these stay."""
    same_input: bool


def why_incomparable(found: Calibration) -> str | None:
    """Return why the two recordings say nothing about what varies anyway, or None if they do."""
    if not found.same_input:
        return "the two runs had different input, which may explain what varies"
    return None if found.compared else "the two runs have no step in common"


def calibrate(one: Fixture, other: Fixture) -> Calibration:
    """Return what varied between the two recordings anyway."""
    varying: Counter[str] = Counter()
    content: Counter[str] = Counter()
    following: Counter[str] = Counter()
    compared = 0
    has_differed = False
    aliases = make_alias(one.redaction), make_alias(other.redaction)
    comparison = compare_runs(one, other)
    for pair, (before, after) in zip(comparison.pairs, align(one, other), strict=True):
        if before is None or after is None:
            has_differed = True
            continue
        compared += 1
        keys = exchange_key(before.exchange, alias=aliases[0]), exchange_key(after.exchange, alias=aliases[1])
        for component in keys[0].differing(keys[1]):
            known = content if is_content(component) else varying
            (following if has_differed and component not in known else known)[component] += 1
        has_differed = has_differed or bool(pair.response)
    return Calibration(
        compared=compared,
        varying=dict(varying),
        content=dict(content),
        following=dict(following),
        same_input=not comparison.input,
    )


def is_content(component: str) -> bool:
    """Return whether a component of a request is the question itself."""
    return component in CONTENT or component.startswith(("args.", "kwargs."))
