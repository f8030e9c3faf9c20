"""Each part of the product has a proof by name: a test with `@pytest.mark.proof("KIND NAME")`, which `make test` runs.

The parts are read from the tables of the code, so a new seam, dialect, code, view, command or page asks for its proof.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from freezeframe.seams import _OTHERS, SEAMS  # pyright: ignore[reportPrivateUsage]  # the table has no other name
from freezeframe_replay.cli.commands import SUMMARIES
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.verdict import Verdict

ROOT: Final = Path(__file__).parents[2]
LAWS: Final = {
    "a killed collector costs no span",
    "a reader cannot write",
    "a settled run does not depend on order",
    "acked spans survive a full disk",
    "acked spans survive a killed worker",
    "acked spans survive a stop",
    "acked spans survive a torn log",
    "an upgrade keeps what is stored",
    "every port asks for its token",
    "no private value reaches the disk",
    "redaction is idempotent",
    "replay",
    "stored spans survive kill -9",
    "the store returns each span as it was",
    "what is deleted is gone",
}
"""What the product promises of data, each with one proof or more."""


def proved_in_other_environments() -> Set[str]:
    """Return the seams of libraries that exclude those of this environment: `make test-clients` proves them."""
    rows = json.loads((ROOT / "tests/data/clients/results.json").read_text()).values()
    return {seam for row in rows if row["environment"] != "core" for seam in row["seams"]}


INSTALLERS: Final = {seam.installer for seam in SEAMS} | {installer for _, installer in _OTHERS}


def seams() -> Set[str]:
    """Return the seams that a proof can be about here."""
    return {installer for installer in INSTALLERS if installer.partition(".")[2] not in proved_in_other_environments()}


def pages() -> Set[str]:
    """Return the addresses that a browser gets."""
    text = "".join(path.read_text() for path in sorted((ROOT / "replay/freezeframe_replay/service").glob("*.py")))
    return set(re.findall(r'@ROUTES\.get\("([^"]+)"', text))


PARTS: Final = {
    "seam": seams(),
    "dialect": {"each"},
    "code": {kind.value for kind in DivergenceKind},
    "verdict": {verdict.value for verdict in Verdict},
    "view": {"each"},
    "command": set(SUMMARIES),
    "page": pages(),
    "law": LAWS,
}
"""A kind, and its names. *each*: its proof runs once for every row of the table."""


@cache
def claims() -> Set[str]:
    """Return what the proofs claim."""
    return {claim for path in sorted((ROOT / "tests").glob("*/**/test_*.py")) for claim in _claims_in(path)}


def _claims_in(path: Path) -> Iterator[str]:
    text = path.read_text()
    if "mark.proof(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.proof":
            yield from (ast.literal_eval(argument) for argument in node.args)


@pytest.mark.parametrize("kind", PARTS)
def test_each_part_has_a_proof(kind: str) -> None:
    assert sorted(PARTS[kind] - {claim.removeprefix(f"{kind} ") for claim in claims()}) == []


def test_each_proof_names_a_part() -> None:
    """A claim that names nothing would outlive what it was about."""
    known = {f"{kind} {name}" for kind, names in PARTS.items() for name in names} | {f"seam {name}" for name in INSTALLERS}
    assert sorted(claims() - known) == []
