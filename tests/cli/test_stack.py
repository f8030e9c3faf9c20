"""Where a run failed: the program's own innermost frame, libraries folded, and what failed and was handled apart."""

from __future__ import annotations

import contextlib
import traceback
from typing import Any

import pytest

import freezeframe
from freezeframe.testing import capture
from freezeframe_replay.report.failure import failure_lines, find_failure, folded, own_frame
from freezeframe_replay.report.outline import outline_run
from freezeframe_schemas.run import build_run

STACK = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/freezeframe/seams/functions/calls.py", line 88, in run
    result = invoke()
  File "/srv/shop/server.py", line 31, in boom
    total(order)
  File "/srv/shop/lib/prices.py", line 7, in total
    return parse(order)
           ^^^^^^^^^^^^
  File "/opt/venv/lib/python3.11/site-packages/starlette/routing.py", line 1, in app
    raise
  File "/opt/venv/lib/python3.11/site-packages/fastapi/routing.py", line 2, in inner
    raise
  File "/usr/lib/python3.11/json/decoder.py", line 355, in decode
    raise ValueError(s)
ValueError: no order"""


def test_the_frame_is_the_programs_innermost_with_its_line_of_code() -> None:
    found = own_frame(STACK, "server.py")
    assert found is not None
    assert found.text == "lib/prices.py:7 in total: return parse(order)"
    unknown = own_frame(STACK)
    assert unknown is not None
    assert unknown.file == "prices.py"


def test_of_a_chain_the_exception_at_the_end_decides() -> None:
    chained = f"{STACK}\n\nDuring handling of the above exception, another exception occurred:\n\n" + STACK.replace(
        "line 7, in total\n    return parse(order)", "line 9, in late\n    raise Late"
    )
    found = own_frame(chained)
    assert found is not None
    assert found.text == "prices.py:9 in late: raise Late"
    foreign = "\n".join(line for line in STACK.splitlines() if "/home/" not in line)
    fallback = own_frame(f"{STACK}\n\nThe above exception was the direct cause of the following exception:\n\n{foreign}")
    assert fallback is not None
    assert fallback.line == 7


def test_frames_of_libraries_are_one_line_and_ours_none() -> None:
    assert folded(STACK).splitlines() == [
        "Traceback (most recent call last):",
        '  File "/srv/shop/server.py", line 31, in boom',
        "    total(order)",
        '  File "/srv/shop/lib/prices.py", line 7, in total',
        "    return parse(order)",
        "           ^^^^^^^^^^^^",
        "  ... 3 frames of starlette, fastapi, Python",
        "ValueError: no order",
    ]


def test_a_traceback_of_python_is_read() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError) as raised:
        fails()
    found = own_frame("".join(traceback.format_exception(raised.value)))
    assert found is not None
    assert (found.function, found.source) == ("fails", 'raise KeyError("x")')


def explained(agent: Any) -> list[str]:
    """Run the agent, and return what is said of its failure."""
    with capture() as captured:
        try:
            freezeframe.run(name="agent")(agent)()
        except Exception as error:
            del error
        run = build_run(captured.spans)
    failure = find_failure(run, outline_run(run))
    assert failure is not None
    return list(failure_lines(failure))


@freezeframe.tool
def look(order: str) -> str:
    raise LookupError(f"no {order}")


def test_what_ended_the_run_comes_first_and_what_was_handled_apart() -> None:
    def agent() -> None:
        with contextlib.suppress(LookupError):
            look("A-77")
        look("B-78")

    first, where, *rest = explained(agent)
    assert first == "failed: LookupError: no B-78"
    assert where.endswith(' in look: raise LookupError(f"no {order}")')
    assert rest == ["ended by step 2 (tool look)", "step 1 (tool look) failed and was handled: LookupError: no A-77"]


def test_a_step_that_is_the_cause_of_the_last_exception_ended_the_run() -> None:
    def agent() -> None:
        try:
            look("A-77")
        except LookupError as error:
            raise RuntimeError("no answer") from error

    first, where, ended = explained(agent)
    assert first == "failed: RuntimeError: no answer"
    assert where.endswith('in agent: raise RuntimeError("no answer") from error')
    assert ended == "ended by step 1 (tool look)"


def test_a_run_that_is_ok_names_what_it_handled() -> None:
    def agent() -> None:
        with contextlib.suppress(LookupError):
            look("A-77")

    assert explained(agent) == ["step 1 (tool look) failed and was handled: LookupError: no A-77"]
