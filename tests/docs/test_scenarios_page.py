"""The page of thirty scenarios names tests that exist, for each scenario and for its change."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHORT = {
    "S": "tests/replay/test_scenarios.py",
    "T": "tests/replay/test_scenarios_of_time_and_processes.py",
    "exact": "test_the_scenario_is_re_enacted_exactly_every_time",
    "change": "test_one_change_in_the_code_is_named_by_its_kind_at_its_step",
}
NAMED = re.compile(r"`([\w/.]+)::(\w+)(?:\[(\w+)\])?`")


def rows() -> list[list[str]]:
    lines = (ROOT / "tests" / "replay" / "scenarios.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d+ \|", line)]


def test_every_scenario_has_a_test_and_one_for_its_change() -> None:
    assert [row[0] for row in rows()] == [str(number) for number in range(1, 31)]
    assert all(NAMED.search(cell) for row in rows() for cell in row[2:])


def test_every_named_test_is_there() -> None:
    missing: list[str] = []
    for row in rows():
        for file, test, case in NAMED.findall(" ".join(row[2:])):
            path = SHORT[file] if file in SHORT else str(file)
            name = SHORT[test] if test in SHORT else str(test)
            source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).is_file() else ""
            in_table = not case or re.search(rf"^    {case}: Case\(", source, re.MULTILINE)
            if not re.search(rf"^(async )?def {name}\(", source, re.MULTILINE) or not in_table:
                missing.append(f"{path}::{name}[{case}]")
    assert missing == []


def test_every_case_of_the_scenarios_is_on_the_page() -> None:
    """Except two that are not among the thirty: generators, and a tool that uses requests."""
    source = (ROOT / SHORT["S"]).read_text(encoding="utf-8")
    cases = set(re.findall(r"^    (\w+): Case\(", source, re.MULTILINE))
    told = {case for row in rows() for _, _, case in NAMED.findall(" ".join(row[2:])) if case}
    assert cases - told == {"generator_tools", "tool_that_uses_requests"}
