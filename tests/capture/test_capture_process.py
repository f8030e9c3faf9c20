"""Whole processes: scripts, `freezeframe run`, forks, exits, and what an import costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capture_provider import Provider

from freezeframe_schemas import genai, values
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import EntryKind, Run, build_run, readiness
from freezeframe_schemas.span import SpanRecord, StatusCode

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts a process

FREEZEFRAME = str(Path(sys.executable).parent / "freezeframe")
"""The command, as it is installed."""

ASK = """
import os, sys, httpx
def ask(text):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(os.environ["PROVIDER_BASE_URL"] + "/v1/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]
"""


class Project:
    """A folder with a script, run in a separate process."""

    def __init__(self, path: Path, provider: Provider) -> None:
        self.path = path
        self.spans_file = path / "spans.jsonl"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("FREEZEFRAME_", "OTEL_"))},
            "PROVIDER_BASE_URL": provider.url,
            "FREEZEFRAME_RAISE": "1",
            "FREEZEFRAME_FILE": str(self.spans_file),
        }

    def write(self, text: str, name: str = "agent.py") -> None:
        (self.path / name).write_text(ASK + text)

    def start(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.path, env={**self._environ, **environ}, capture_output=True, text=True, timeout=400, check=False
        )

    def python(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.start(sys.executable, *arguments, **environ)

    @property
    def spans(self) -> list[SpanRecord]:
        lines = self.spans_file.read_text().splitlines() if self.spans_file.exists() else []
        return [span for line in lines for span in spans_from_otlp_json(json.loads(line))]

    @property
    def runs(self) -> list[Run]:
        by_trace: dict[str, list[SpanRecord]] = {}
        for span in self.spans:
            by_trace.setdefault(span.trace_id, []).append(span)
        return [build_run(spans) for spans in by_trace.values()]


@pytest.fixture
def project(tmp_path: Path, provider: Provider) -> Project:
    return Project(tmp_path, provider)


@pytest.mark.proof
@pytest.mark.usefixtures("fresh_python")
def test_a_plain_script_is_one_run(project: Project) -> None:
    project.write("import freezeframe; freezeframe.instrument()\nprint(ask('one'), ask('two'))\n")
    done = project.python("agent.py", "--fast")
    assert done.returncode == 0, done.stderr
    [run] = project.runs
    assert run.entry.kind is EntryKind.COMMAND
    assert run.entry.file == "agent.py"
    assert values.decode(run.entry.input or "")["argv"] == ["python", "agent.py", "--fast"]
    assert len(run.exchanges) == 2
    assert run.gaps == ()


@pytest.mark.usefixtures("fresh_python")
def test_what_the_script_prints_is_its_own(project: Project) -> None:
    """It holds no warning from freezeframe, with every warning shown; Python 3.13 once warned of a coroutine not awaited."""
    project.write("import freezeframe; freezeframe.instrument(); print(ask('hi'))")
    done = project.python("-X", "dev", "-W", "ignore::DeprecationWarning", "agent.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_whose_runs_are_marked_has_no_other_run(project: Project) -> None:
    project.write(
        "import freezeframe; freezeframe.instrument()\n"
        "@freezeframe.run\ndef handle(text): return ask(text)\n"
        "print(handle('one'), handle('two'))\n"
    )
    done = project.python("agent.py")
    assert done.returncode == 0, done.stderr
    assert [(run.entry.kind, run.entry.target, len(run.exchanges)) for run in project.runs] == [
        (EntryKind.FUNCTION, "__main__:handle", 1),
        (EntryKind.FUNCTION, "__main__:handle", 1),
    ]


def test_what_a_script_with_marked_runs_calls_outside_of_them_says_that_little_was_watched(project: Project) -> None:
    project.write(
        "import freezeframe, random; freezeframe.instrument()\n"
        "@freezeframe.run\ndef handle(text): return ask(text)\n"
        "if __name__ == '__main__':\n    random.random(); ask('one'); handle('two'); ask('three'); random.random()\n"
    )
    done = project.python("agent.py")
    assert done.returncode == 0, done.stderr
    runs = {run.entry.kind: run for run in project.runs}
    assert {kind: len(run.exchanges) for kind, run in runs.items()} == {EntryKind.COMMAND: 2, EntryKind.FUNCTION: 1}
    assert "outside of them before this call was not watched" in " ".join(gap.text for gap in runs[EntryKind.COMMAND].gaps)
    assert runs[EntryKind.FUNCTION].gaps == ()


@pytest.mark.proof("command run")
@pytest.mark.usefixtures("fresh_python")
def test_the_run_command_captures_a_program_that_knows_nothing_of_us(project: Project) -> None:
    project.write("print(ask('one'))\n")
    done = project.start(FREEZEFRAME, "run", "--", sys.executable, "agent.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Answer 1")
    [run] = project.runs
    assert (run.entry.kind, run.entry.file, len(run.exchanges)) == (EntryKind.COMMAND, "agent.py", 1)
    assert run.gaps == ()


def test_the_run_command_leaves_marked_runs_as_they_are(project: Project) -> None:
    project.write("import freezeframe\n@freezeframe.run\ndef handle(text): return ask(text)\nprint(handle('one'))\n")
    done = project.start(FREEZEFRAME, "run", "--", sys.executable, "agent.py")
    assert done.returncode == 0, done.stderr
    assert [(run.entry.kind, run.entry.target, len(run.exchanges)) for run in project.runs] == [
        (EntryKind.FUNCTION, "__main__:handle", 1)
    ]


def test_the_run_command_gives_the_programs_exit_code(project: Project) -> None:
    assert project.start(FREEZEFRAME, "run", "--", sys.executable, "-c", "raise SystemExit(7)").returncode == 7
    assert project.start(FREEZEFRAME, "run", "--", "no-such-command").returncode == 127
    assert project.start(FREEZEFRAME, "run").returncode == 2


def test_another_sitecustomize_still_runs(project: Project) -> None:
    (project.path / "site").mkdir()
    (project.path / "site" / "sitecustomize.py").write_text("print('the other ran')\n")
    done = project.start(FREEZEFRAME, "run", "--", sys.executable, "-c", "print('main')", PYTHONPATH=str(project.path / "site"))
    assert done.stdout.splitlines()[-2:] == ["the other ran", "main"]


def test_a_forked_child_delivers_its_own_spans_and_none_of_its_parents(project: Project) -> None:
    project.write(
        "import freezeframe; freezeframe.instrument()\n"
        "@freezeframe.run\ndef handle(text): return ask(text)\n"
        "handle('parent')\n"
        "pid = os.fork()\n"
        "handle('child' if pid == 0 else 'after')\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    done = project.python("agent.py")
    assert done.returncode == 0, done.stderr
    inputs = sorted(values.decode(run.entry.input or "")["kwargs"]["text"] for run in project.runs)
    assert inputs == ["after", "child", "parent"]
    assert len(project.spans) == len({span.span_id for span in project.spans})


def test_os_exit_delivers_what_is_queued_in_a_forked_child_and_in_its_parent(project: Project) -> None:
    project.write(
        "import freezeframe; freezeframe.instrument()\n"
        "@freezeframe.run\ndef handle(text):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n        ask('child'); os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "    ask('parent')\n"
        "handle('go')\n"
        "os._exit(3)\n"
    )
    done = project.python("agent.py", FREEZEFRAME_BATCH_INTERVAL_S="600")
    assert done.returncode == 3, done.stderr
    [run] = project.runs
    asked = [json.loads(exchange.request.body)["messages"][0]["content"] for exchange in run.exchanges]
    assert (sorted(asked), run.entry.error) == (["child", "parent"], None)


@pytest.mark.usefixtures("fresh_python")
def test_a_child_forked_while_the_export_thread_imports_delivers_its_spans(project: Project) -> None:
    """Half a module, which no thread of the child finishes, cannot be imported there."""
    (project.path / "slow.py").write_text(
        "import importlib.machinery, sys, threading, time\n"
        "reached = threading.Event()\n"
        "class Slow(importlib.machinery.SourceFileLoader):\n"
        "    def exec_module(self, module):\n"
        "        reached.set()\n"
        "        time.sleep(0.3)  # the parent forks now, or waits\n"
        "        super().exec_module(module)\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'freezeframe.export.records':\n"
        "            spec = importlib.machinery.PathFinder.find_spec(name, path)\n"
        "            spec.loader = Slow(name, spec.origin)\n"
        "            return spec\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    project.write(
        "import slow, freezeframe; freezeframe.instrument()\n"
        "@freezeframe.run\ndef handle(text): return ask(text)\n"
        "handle('parent')\n"
        "slow.reached.wait(300)\n"
        "pid = os.fork()\n"
        "if pid == 0: handle('child')\n"
        "else: os.waitpid(pid, 0)\n"
    )
    done = project.python("agent.py")
    assert done.returncode == 0, done.stderr
    inputs = sorted(values.decode(run.entry.input or "")["kwargs"]["text"] for run in project.runs)
    assert inputs == ["child", "parent"]


@pytest.mark.proof
def test_sigterm_delivers_what_is_queued_and_ends_the_process_as_before(project: Project) -> None:
    project.write(
        "import freezeframe, signal; freezeframe.instrument(batch_interval_s=600)\n"
        "@freezeframe.run\ndef handle():\n"
        "    ask('one'), ask('two'), os.kill(os.getpid(), signal.SIGTERM)\n"
        "handle()\n"
    )
    done = project.python("agent.py", FREEZEFRAME_TERMINATE_TIMEOUT_S="100")
    assert done.returncode == -signal.SIGTERM, done.stderr
    [run] = project.runs
    assert (run.entry.unfinished, len(run.exchanges)) == (True, 2)


@pytest.mark.proof
def test_workers_of_multiprocessing_deliver_before_they_end(project: Project) -> None:
    project.write(
        "import freezeframe, multiprocessing; freezeframe.instrument()\n"
        "@freezeframe.run\ndef handle(text): return ask(text)\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        print(len(pool.map(handle, ['a', 'b', 'c'])))\n"
        "        pool.close(); pool.join()\n"
    )
    done = project.python("agent.py")
    assert done.stdout == "3\n", done.stderr
    inputs = sorted(values.decode(run.entry.input or "")["kwargs"]["text"] for run in project.runs)
    assert inputs == ["a", "b", "c"]


def test_workers_of_a_pool_that_is_torn_down_deliver_and_have_lanes_of_their_own(project: Project) -> None:
    """``with Pool()`` ends its workers by SIGTERM as soon as the results are there.

    It sends one signal, which a handler in Python misses if it comes right before a wait for a lock: here, more follow.
    """
    project.write(
        "import freezeframe, multiprocessing, signal, threading, time; freezeframe.instrument()\n"
        "def end(pool, workers):\n"
        "    while workers:\n"
        "        time.sleep(0.1)\n"
        "        if pool._state == 'TERMINATE':\n"
        "            workers = [one for one in workers if one.exitcode is None]\n"
        "            for one in workers: os.kill(one.pid, signal.SIGTERM)\n"
        "@freezeframe.run\ndef handle(texts):\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        said = len(pool.map(ask, texts, chunksize=1))\n"
        "        threading.Thread(target=end, args=(pool, list(pool._pool)), daemon=True).start()\n"
        "        return said\n"
        "if __name__ == '__main__': print(handle(['a', 'b', 'c']))\n"
    )
    done = project.python("agent.py")
    assert done.stdout == "3\n", done.stderr
    [run] = project.runs
    assert len(run.exchanges) == 3
    assert {exchange.lane for exchange in run.exchanges} <= {(0,), (1,)}


def test_an_exception_that_ends_the_script_is_in_its_run(project: Project) -> None:
    project.write("import freezeframe; freezeframe.instrument()\nask('one')\nraise ValueError('out')\n")
    done = project.python("agent.py")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: out")
    [run] = project.runs
    assert str(values.decode_exception(run.entry.error or "")) == "out"
    [root] = [span for span in run.spans if span.span_id == run.entry.span_id]
    assert (root.status_code, root.status_message) == (StatusCode.ERROR, "out")
    assert "raise ValueError('out')" in str(root.events[-1].attributes[genai.EXCEPTION_STACKTRACE])


def test_the_environment_of_the_process_is_on_every_span(project: Project) -> None:
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *identity, *command], cwd=project.path, check=True, capture_output=True)
    project.write("import freezeframe; freezeframe.instrument()\nask('one')\n")
    project.python("agent.py", TZ="Europe/Berlin")
    [run] = project.runs
    assert readiness(run).missing == ()
    resource = run.spans[0].resource.attributes
    assert resource[genai.TIMEZONE] == "Europe/Berlin"
    assert resource[genai.VCS_DIRTY] is False
    packages: dict[str, Any] = json.loads(str(resource[genai.PACKAGES]))
    assert {"openai", "httpx", "freezeframe"} <= set(packages)


@pytest.mark.usefixtures("fresh_python")
def test_importing_freezeframe_loads_nothing_heavy(project: Project) -> None:
    heavy = [
        "opentelemetry.sdk",
        "opentelemetry.trace",
        "openai",
        "anthropic",
        "httpx",
        "httpx2",
        "requests",
        "aiohttp",
        "chdb",
    ]
    done = project.python("-c", f"import freezeframe, sys; print([m for m in {heavy!r} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.usefixtures("fresh_python")
def test_instrument_imports_no_library_that_the_program_did_not(project: Project) -> None:
    heavy = ["openai", "anthropic", "httpx", "httpx2", "requests", "aiohttp", "langchain_core", "agents", "chdb"]
    code = f"import freezeframe, sys; freezeframe.instrument(); print([m for m in {heavy!r} if m in sys.modules])"
    done = project.python("-c", code)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_collector_that_is_down_delays_the_exit_by_its_limit_and_is_said(project: Project) -> None:
    project.write(
        "import freezeframe; freezeframe.instrument(endpoint='http://127.0.0.1:9', exit_timeout_s=0.3)\nprint(ask('one'))\n"
    )
    done = project.python("agent.py", FREEZEFRAME_FILE="", FREEZEFRAME_SPOOL="off")
    assert done.returncode == 0
    assert done.stdout.startswith("Answer 1")
    assert "could not be" in done.stderr
