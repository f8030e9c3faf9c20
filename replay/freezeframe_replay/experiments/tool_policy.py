"""Tool policy: the rules for tools that a dataset holds, and the account of their calls in an experiment.

::

    tools.json    format, version, and for each tool: recorded, run, live, or a fixed value

A tool that no one names answers from the recording. A dataset may be a stranger's, so `live` in it needs consent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_schemas.divergence import Report
from freezeframe_schemas.errors import ConfigError, FixtureError
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.whole_file import replace_file

FORMAT: Final = "freezeframe-tools"
VERSION: Final = 1
_FILE: Final = "tools.json"
_FUNCTIONS: Final = frozenset({Kind.TOOL, Kind.RETRIEVAL})


class ToolMode(StrEnum):
    """The ways in which a tool can answer."""

    RECORDED = "recorded"
    """With its recorded results, to the recorded arguments only."""
    FIXED = "fixed"
    """With one value, whatever the arguments."""
    RUN = "run"
    """By its own code, whose calls are answered from the recording."""
    LIVE = "live"
    """For real, if the recording holds no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    mode: ToolMode
    value: Any = None
    """The fixed value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The calls of one tool, in one replay or in several."""

    name: str
    mode: ToolMode
    served: int = 0
    """Recorded calls that answered, or whose code ran."""
    unused: int = 0
    """Recorded calls that the program did not make."""
    mismatched: int = 0
    """Calls of the program that no recorded call matches: refused, or answered by a fixed value or for real."""


def rules_of(policy: ReplayPolicy) -> dict[str, ToolRule]:
    """Return the rules that a replay's policy has."""
    return {
        **{name: ToolRule(mode=ToolMode.RECORDED) for name in policy.skip_tools},
        **{name: ToolRule(mode=ToolMode.LIVE) for name in policy.allow_tools},
        **{name: ToolRule(mode=ToolMode.RUN) for name in policy.run_tools},
        **{name: ToolRule(mode=ToolMode.FIXED, value=json.loads(text)) for name, text in policy.fixed_tools.items()},
    }


def save_rules(directory: Path, rules: Mapping[str, ToolRule]) -> Path:
    """Save the rules in a dataset, in place of those that it has; return the file.

    Raises:
        FixtureError: it cannot be written.
    """
    tools = {
        name: {"mode": rule.mode.value, **({"value": rule.value} if rule.mode is ToolMode.FIXED else {})}
        for name, rule in sorted(rules.items())
    }
    path = directory / _FILE
    try:
        document = {"format": FORMAT, "version": VERSION, "tools": tools}
        replace_file(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        raise FixtureError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def load_rules(directory: Path) -> dict[str, ToolRule]:
    """Return the rules that a dataset has; none without a file of them.

    Raises:
        FixtureError: the file is not readable.
    """
    path = directory / _FILE
    try:
        data: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FixtureError(f"{path}: not readable, {type(error).__name__}: {error}") from error
    try:
        if (data["format"], data["version"]) != (FORMAT, VERSION):
            raise FixtureError(f"{path}: found {data['format']!r} {data['version']}, expected {FORMAT!r} {VERSION}")
        rules = {str(name): ToolRule(mode=ToolMode(one["mode"]), value=one.get("value")) for name, one in data["tools"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        modes = ", ".join(mode.value for mode in ToolMode)
        raise FixtureError(f"{path}: not readable: {error}; a tool's mode is one of {modes}") from error
    return rules


def with_rules(policy: ReplayPolicy, saved: Mapping[str, ToolRule]) -> ReplayPolicy:
    """Return the policy with the saved rules of the tools that it does not name itself.

    Raises:
        ConfigError: a tool is saved as live, and the policy does not allow it.
    """
    own = rules_of(policy)
    added = {name: rule for name, rule in saved.items() if name not in own}
    live = [name for name, rule in added.items() if rule.mode is ToolMode.LIVE]
    if live:
        raise ConfigError(
            f"{_FILE} of the dataset lets {', '.join(live)} run for real, which needs your consent",
            do=f"add {' '.join(f'--allow-tool {name}' for name in live)}, or --fix-tool NAME=JSON",
        )
    fixed = {name: json.dumps(rule.value, ensure_ascii=False) for name, rule in added.items() if rule.mode is ToolMode.FIXED}
    run = {name for name, rule in added.items() if rule.mode is ToolMode.RUN}
    kept = {name for name, rule in added.items() if rule.mode is ToolMode.RECORDED}
    return replace(
        policy,
        fixed_tools={**policy.fixed_tools, **fixed},
        run_tools=policy.run_tools | run,
        skip_tools=policy.skip_tools | kept,
    )


def tool_uses(fixture: Fixture, report: Report, policy: ReplayPolicy) -> tuple[ToolUse, ...]:
    """Return what each tool of a run, and of the policy, did in its replay."""
    rules = rules_of(policy)
    ran = {name.partition(" ")[2] for name in report.ran}
    recorded = {step.number: step.exchange.name for step in fixture.askable if step.exchange.kind in _FUNCTIONS}
    answered = {item.step for item in report.served}
    served = Counter(name for number, name in recorded.items() if number in answered)
    unused = Counter(name for number, name in recorded.items() if number not in answered)
    others = Counter(
        made.name for made in report.made if Kind(made.call_kind) in _FUNCTIONS and made.how in ("missed", "live", "fixed")
    )
    names = dict.fromkeys((*recorded.values(), *others, *rules))
    usual = ToolRule(mode=ToolMode.RECORDED)
    return tuple(
        ToolUse(
            name=name,
            mode=ToolMode.RUN if name in ran else rules.get(name, usual).mode,
            served=served[name],
            unused=unused[name],
            mismatched=others[name],
        )
        for name in names
    )


def sum_of(uses: Iterable[Sequence[ToolUse]]) -> tuple[ToolUse, ...]:
    """Return the sums over replays, tool by tool."""
    found: dict[str, ToolUse] = {}
    for use in (one for each in uses for one in each):
        known = found.get(use.name, ToolUse(name=use.name, mode=use.mode))
        found[use.name] = ToolUse(
            name=use.name,
            mode=max(known.mode, use.mode, key=list(ToolMode).index),
            served=known.served + use.served,
            unused=known.unused + use.unused,
            mismatched=known.mismatched + use.mismatched,
        )
    return tuple(found.values())
