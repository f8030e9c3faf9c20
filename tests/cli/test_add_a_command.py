"""docs/extending/command.md, followed literally."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from followed_page import ROOT, copy_package, follow, run_with
from handmade_runs import make_run, tool_call

import freezeframe_replay
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json

pytestmark = pytest.mark.long

_LAWS = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from cli_page import reference_text
from freezeframe_replay.cli import help_text, main
from test_commands import *

FIXTURE, WITHOUT_A_MODEL, NOT_THERE = sys.argv[1:]

def typed(*line):
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        return main(["models", *line]), out.getvalue(), err.getvalue()

code, out, err = typed(FIXTURE, "--json")
assert (code, err) == (0, "")
calls = json.loads(out)
assert calls and all(count > 0 for count in calls.values())
code, out, err = typed(FIXTURE)
assert (code, out.split()) == (0, ["model", "calls", *(word for pair in calls.items() for word in map(str, pair))])
code, out, err = typed(NOT_THERE)
assert (code, out) == (1, "") and "freezeframe models: " in err and "Traceback" not in err
assert typed(WITHOUT_A_MODEL) == (3, "", "")
assert typed("--nonsense")[0] == 2
code, shown, err = typed("--help")
assert code == 0 and "freezeframe models last" in shown and "3    the run called no model" in shown
assert "- [`freezeframe models`]" in reference_text() and "## freezeframe models" in reference_text()
test_the_list_fits_a_terminal()
test_examples_are_lines_that_the_commands_accept()
print("held", len(calls))
"""


def test_the_page_on_adding_a_command_adds_one_that_keeps_every_commands_promises(tmp_path: Path) -> None:
    """Its code blocks, put into the two files that it names and into no other, make a command that runs and is documented."""
    copy_package(freezeframe_replay, tmp_path)
    assert len(follow("command.md", tmp_path)) == 2
    fixture = ROOT / "tests" / "golden" / "fixtures" / "v1" / "every-form"
    spans = tmp_path / "spans.jsonl"
    spans.write_text(json.dumps(spans_to_otlp_json(make_run(tool_call("lookup", "shipped", "A-1057")))))
    targets = map(str, (fixture, spans, tmp_path / "no" / "fixture"))
    done = run_with([tmp_path / "replay", ROOT / "tests" / "cli"], _LAWS, *targets)
    assert done.stdout == "held 1\n", done.stdout + done.stderr
