"""Where the pages of a run lead, and what a step is called in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from freezeframe_replay.report.outline import Node
from freezeframe_schemas.run import Run


@dataclass(frozen=True, slots=True)
class Links:
    """The addresses that a page of a run leads to."""

    run: Run
    alone: bool = False
    """True if all is on one page."""

    def tab(self, name: str) -> str:
        """Return the address of a view of the run."""
        return f"#{name}" if self.alone else f"?tab={name}"

    def step(self, node: Node) -> str:
        """Return the address of a step's own page, or of its place in a page that holds all."""
        if self.alone:
            return f"#raw-{anchor_of(node)}"
        return f"/runs/{quote(self.run.trace_id)}/steps/{node.span_id if node.step is None else node.step}"

    def near(self, node: Node, parts: Mapping[str, int], part: int) -> str:
        """Return where the transcript shows a step, with `part` open; the step's own page if the transcript lacks it."""
        at = parts.get(node.span_id)
        if at is None:
            return self.step(node)
        return f"#{anchor_of(node)}" if at == part else f"?from={at}#{anchor_of(node)}"


def place_of(node: Node) -> str:
    """Return a step in words: ``step 7, tool track``."""
    return f"{node.kind} {node.name}" if node.step is None else f"step {node.step}, {node.kind} {node.name}"


def anchor_of(node: Node) -> str:
    """Return the id of a step's element."""
    return f"x{node.span_id}" if node.step is None else f"s{node.step}"
