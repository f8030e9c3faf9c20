"""Hold what each path costs to a table: ``budgets.toml``, of counts that depend on no machine and no load.

    python tests/costs/budgets.py                                count all paths; print what differs from the table
    python tests/costs/budgets.py replay --because "REASON"      write the new counts of these paths into the table

A path is a row, named whole or by its beginning. The counts are those of one minor version of Python. What they do not show:
time inside a single call of C, beyond that a call over a whole text counts as a pass.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
TABLE: Final = HERE / "budgets.toml"
SLACK: Final = 0.03
"""By what share a count may differ from the table. Of a small count, nothing is left: it is exact."""
PROGRAMS: Final = {
    "capture": "capture_costs",
    "request": "capture_costs",
    "collector": "collector_costs",
    "store": "collector_costs",
    "command": "command_costs",
    "start": "start_costs",
    "host": "host_costs",
}
"""First word of a path -> the program that counts it."""
_LIBRARIES: Final = ("opentelemetry-sdk", "opentelemetry-api", "openai", "anthropic", "chdb", "starlette", "flask")
_HEAD: Final = """\
# What each path costs, in counts that no load of the machine changes (tests/costs/budgets.py says how they are counted).
# A test fails if one grows or shrinks by over 3 %. To change rows on purpose:
#     python tests/costs/budgets.py ROW... --because "REASON"
"""

Counts = Mapping[str, int]


def read_table() -> dict[str, Any]:
    """Return the table: what it was counted with, and its rows."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def rows(table: Mapping[str, Any]) -> dict[str, Counts]:
    """Return path -> figure -> count."""
    return {
        path: {name: number for name, number in row.items() if isinstance(number, int)}
        for path, row in table.get("paths", {}).items()
    }


def count(program: str) -> dict[str, Counts]:
    """Run a program that counts, in an environment without freezeframe's settings.

    Raises:
        RuntimeError: it failed.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_", "PYTHON"))}
    with tempfile.TemporaryDirectory() as state:  # what this user's collectors left there is read, too
        environ |= {"XDG_STATE_HOME": state, "XDG_CONFIG_HOME": state, "FREEZEFRAME_SPOOL": "off", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, HERE / f"{program}.py"],
            env=environ,
            cwd=HERE.parents[1],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def differences(path: str, budget: Counts, found: Counts) -> list[str]:
    """Return a line for each figure that differs by more than `SLACK`."""
    lines: list[str] = []
    for name in dict.fromkeys([*budget, *found]):
        was, now = budget.get(name, 0), found.get(name, 0)
        if abs(now - was) > was * SLACK:
            share = f" ({(now - was) / was:+.1%})" if was else ""
            lines.append(f"{path}: {name} {'grew' if now > was else 'shrank'} from {was:,} to {now:,}{share}")
    return lines


def advice(path: str, table: Mapping[str, Any]) -> str:
    """Return what to do about a difference, and which libraries are not those that the table was counted with."""
    with_what = table["counted_with"]
    others = [f"{name} {version(name)}, not {number}" for name, number in with_what.items() if _installed(name) != number]
    by_them = f"; it was counted with other libraries: here is {', '.join(others)}" if others else ""
    return (
        f"if it grew, take out what was added; if that is what you want, or it shrank: "
        f'python tests/costs/budgets.py {path} --because "REASON"{by_them}'
    )


def minor_version() -> str:
    """Return the version of Python that counts are compared for."""
    return ".".join(map(str, sys.version_info[:2]))


def _installed(name: str) -> str:
    return minor_version() if name == "python" else version(name)


def write(table: Mapping[str, Any]) -> None:
    """Write the table."""
    with_what = {"python": minor_version(), **{name: version(name) for name in _LIBRARIES}}
    lines = [_HEAD, "[counted_with]", *(f'{name} = "{number}"' for name, number in with_what.items())]
    for path, row in table["paths"].items():
        lines += ["", f'[paths."{path}"]']
        lines += [
            f"{name} = {value:_}" if isinstance(value, int) else f"{name} = {json.dumps(value)}" for name, value in row.items()
        ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, then compare or write; return 1 if something differs and is not written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="paths, or their beginnings (default: all)")
    parser.add_argument("--because", metavar="REASON", help="write the new counts, with this reason")
    options = parser.parse_args(arguments)
    table: dict[str, Any] = read_table() if TABLE.exists() else {"paths": {}}
    known = rows(table)
    wanted = tuple(options.rows) or tuple(PROGRAMS)
    programs = {
        program: None for word, program in PROGRAMS.items() if any(word.startswith(w) or w.startswith(word) for w in wanted)
    }
    code = 0
    for program in programs:
        for path, found in count(program).items():
            lines = differences(path, known.get(path, {}), found) if path.startswith(wanted) else []
            print(*lines, sep="\n", end="\n" if lines else "")
            if options.because and (lines or path not in known) and path.startswith(wanted):
                table["paths"][path] = {**found, "because": options.because}
            elif lines:
                code = 1
    if options.because:
        write(table)
    return code


if __name__ == "__main__":
    sys.exit(main())
