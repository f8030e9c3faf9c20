"""ReplayPolicy: what a replay may do besides answering from the recording. By default nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from freezeframe_replay.engine.request_edit import RequestEdit
from freezeframe_schemas.exchange import Kind
from freezeframe_schemas.records import from_json


class Fence(StrEnum):
    """The things that can be fenced off."""

    PROCESSES = "processes"
    """Starting a program, and forking."""
    WRITES = "writes"
    """Creating, changing, moving or removing a file or directory."""
    READS = "reads"
    """Opening a file that does not belong to the program, Python or the operating system."""


HERMETIC: Final = frozenset({Fence.PROCESSES, Fence.WRITES})
"""Fences of a hermetic replay besides sockets. Reads are a separate option: most programs read some file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    """Rules by which a session answers. Frozen: nothing changes them while a replay runs."""

    ignore: tuple[str, ...] = ()
    """Ignored key components, for example ``body.temperature``."""
    live: frozenset[Kind] = frozenset()
    """Kinds of calls that are made for real if the recording holds no answer. Tools are named one by one, below."""
    live_from: int | None = None
    """Step from which on calls of the kinds in `live` are made for real, recorded or not."""
    allow_tools: frozenset[str] = frozenset()
    """Names of the tools that may run for real if the recording holds no answer."""
    run_tools: frozenset[str] = frozenset()
    """Names of tools and retrievers whose own code runs although the recording has their results. Calls inside are answered."""
    run_changed: bool = False
    """Likewise for those whose code changed since the recording."""
    fixed_tools: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name of a tool or retriever -> the JSON of its only result, whatever it is called with, recorded or not."""
    skip_tools: frozenset[str] = frozenset()
    """Names of tools that are never run."""
    stop_before: int | None = None
    """Step before which the replay ends."""
    keep_frames: bool = False
    """The report contains, for each call, the place in the program's own code, and its variables."""
    real_time: bool = False
    """Answers take as long as recorded, and chunks of streams arrive at their recorded times."""
    fences: frozenset[Fence] = frozenset()
    """Fences besides that of the network, which is always up."""
    allow_paths: tuple[str, ...] = ()
    """Files and directories that the fences let through; relative ones to the program's working directory."""
    allow_programs: frozenset[str] = frozenset()
    """Programs, by the name of their file, that may be started anyway."""
    require_values: bool = False
    """The replay is incomparable unless every private value is compared."""
    edits: tuple[RequestEdit, ...] = ()
    """The changes to each model request before it is looked up or sent."""

    @property
    def runs_tools(self) -> bool:
        """Return whether the code of a tool may run."""
        return self.run_changed or bool(self.run_tools)

    @property
    def goes_live(self) -> bool:
        """Return whether any call may be made for real."""
        return bool(self.live or self.allow_tools)

    def may_go_live(self, kind: Kind, name: str) -> bool:
        """Return whether a call that the recording does not hold may be made for real."""
        return name in self.allow_tools if kind is Kind.TOOL else kind in self.live

    def starts_live(self, step: int) -> bool:
        """Return whether this recorded step must be requested again."""
        return self.live_from is not None and step >= self.live_from


def policy_to_json(policy: ReplayPolicy) -> str:
    """Return the policy as JSON text, for the replaying process."""
    return json.dumps(asdict(policy), default=sorted)


def policy_from_json(text: str) -> ReplayPolicy:
    """Return the policy of JSON text that `policy_to_json` wrote."""
    return from_json(ReplayPolicy, json.loads(text), "policy")
