"""Notebooks: a cell that makes a call is a run, and the kernel replays it in a copy of itself.

IPython's own shell runs the cells, in a process of its own; the real SDK asks a provider on loopback.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from races import Provider

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_replay.sources.span_file import load_runs_of_file
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.run import Run

pytestmark = pytest.mark.long

_NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()

def cell(text):
    result = shell.run_cell(text, store_history=True)
    assert result.success, (result.error_before_exec, result.error_in_exec)

def replay(run):
    print("REPLAY", flush=True)
    shell.run_line_magic("freezeframe_replay", f"spans.jsonl:{run}")

def runs():
    from freezeframe_replay.sources.span_file import load_runs_of_file
    from pathlib import Path
    import freezeframe
    freezeframe._instrument.active_handle().flush(10)
    return {run.entry.name: run.trace_id for run in load_runs_of_file(Path("spans.jsonl"))}

cell("%load_ext freezeframe")
cell('''
import freezeframe, openai
client = openai.OpenAI(max_retries=0)
asked = []

def ask(text):
    asked.append(text)
    message = {"role": "user", "content": text}
    return client.chat.completions.create(model="m", messages=[message]).choices[0].message.content
''')
cell("answer = ask('one')\\nanswer += ask('two')\\nanswer")
cell("len(asked)")
cell("@freezeframe.run\\ndef marked(text):\\n    return ask(text)\\n\\nmarked('three')")
cell('''
async def ask_in_task(text):
    async with openai.AsyncOpenAI(max_retries=0) as client:
        message = {"role": "user", "content": text}
        return (await client.chat.completions.create(model="m", messages=[message])).choices[0].message.content

await ask_in_task('four')
''')
try:
    shell.run_cell("ask('five')\\n1 / 0", store_history=True)
except ZeroDivisionError:
    pass
cell("'no call'")
found = runs()
print("RUNS", sorted(found), flush=True)
for name in ("In [3]", "marked", "In [6]", "In [7]"):
    replay(found[name])
assert shell.user_ns["asked"] == ["one", "two", "three", "five"], shell.user_ns["asked"]
shell.user_ns["kept"] = shell.user_ns["answer"]
cell("def ask(text):\\n    message = {'role': 'user', 'content': text + '!'}\\n"
     "    return client.chat.completions.create(model='m', messages=[message]).choices[0].message.content")
replay(found["In [3]"])
assert shell.user_ns["answer"] is shell.user_ns["kept"]
assert sorted(runs()) == sorted(found)
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder in which a notebook ran, and what it printed."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch, Provider({}) as provider:
        for name, value in {
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "OPENAI_API_KEY": "sk-test",
            "FREEZEFRAME_FILE": "spans.jsonl",
            "IPYTHONDIR": str(folder / "ipython"),
            "FREEZEFRAME_DATA": str(folder / "data"),
        }.items():
            patch.setenv(name, value)
        done = subprocess.run([sys.executable, "-c", _NOTEBOOK], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def _runs(folder: Path) -> dict[str, Run]:
    return {run.entry.name: run for run in load_runs_of_file(folder / "spans.jsonl")}


def test_a_cell_that_makes_a_call_is_a_run_and_a_marked_function_in_one_is_its_own(notebook: tuple[Path, str]) -> None:
    runs = _runs(notebook[0])
    assert {name: len(run.exchanges) for name, run in runs.items()} == {"In [3]": 2, "marked": 1, "In [6]": 1, "In [7]": 1}
    assert values.decode(runs["In [3]"].entry.input or "")["args"] == ["answer = ask('one')\nanswer += ask('two')\nanswer"]
    assert not any(run.entry.unfinished for run in runs.values())
    assert "ZeroDivisionError" in (runs["In [7]"].entry.error or "")


def test_the_kernel_replays_a_cell_in_a_copy_of_itself(notebook: tuple[Path, str]) -> None:
    _, *replays = notebook[1].split("REPLAY\n")
    heads = [said.splitlines()[0] for said in replays]
    assert [("identical" in head.lower(), "diverged" in head.lower()) for head in heads] == [(True, False)] * 4 + [
        (False, True)
    ], notebook[1]


def test_another_process_says_that_only_the_kernel_can_replay_it(notebook: tuple[Path, str]) -> None:
    for name in ("In [3]", "marked"):
        run = _runs(notebook[0])[name]
        assert any("%freezeframe_replay" in gap.do for gap in run.gaps), run.gaps
        with pytest.raises(ReplayError, match="%freezeframe_replay"):
            raise ReplayError(str(reenact(freeze(run), cwd=notebook[0])))
