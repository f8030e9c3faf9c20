"""A recording names, and never decides what runs. Hundreds of a stranger's recordings, over all fields: none runs a byte."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from handmade_runs import make_run, model_call
from hostile_recordings import EVIL_VALUE, EVIL_WORD, MODULE, RUN, Hostile, World, hostile_recordings, make_world

from freezeframe.seams.rpc.grpc_messages import message_from_json
from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process import reenact as reenacting
from freezeframe_replay.process.child_task import is_called
from freezeframe_replay.process.entry_point import find_entry_point
from freezeframe_replay.process.reenact import recorded_variables, reenact
from freezeframe_replay.pytest_plugin import FrozenRun
from freezeframe_replay.service.history import History
from freezeframe_replay.service.jobs import Jobs
from freezeframe_replay.sources.fixture_archive import archive_bytes, fixture_files
from freezeframe_schemas import values
from freezeframe_schemas.errors import FreezeframeError, ReplayError
from freezeframe_schemas.fixture import Fixture, Step, write_fixture
from freezeframe_schemas.run import Entry, EntryKind, build_run


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def inside(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The user stands in the folder of the agent, and the folder of the agent is first on the path, as in a replay."""
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(sys, "path", [str(world.folder), *sys.path])
    before = dict(sys.modules)
    yield world
    for name in set(sys.modules) - set(before):
        if name.partition(".")[0] in (MODULE, "kinds_of_entries", "evil", "bug", "linked", "link", "env"):
            del sys.modules[name]
    sys.modules.update(before)
    world.mark.unlink(missing_ok=True)


class Started(Exception):
    """In place of a process that a replay starts."""

    def __init__(self, argv: list[str], env: Mapping[str, str]) -> None:
        super().__init__(argv)
        self.argv, self.env = argv, env


class NoProcess:
    """Stands in for `subprocess.Popen`."""

    def __init__(self, argv: list[str], *, env: Mapping[str, str], **_: Any) -> None:
        raise Started(list(argv), env)


def started(fixture: Fixture, world: World, monkeypatch: pytest.MonkeyPatch) -> Started:
    """Return the first process that a replay would start."""
    write_fixture(fixture, world.recording)
    with monkeypatch.context() as patch, pytest.raises(Started) as caught:
        patch.setattr(subprocess, "Popen", NoProcess)
        reenact(world.recording, cwd=world.folder)
    return caught.value


CHILD = [sys.executable, "-m", "freezeframe_replay.process.child"]


@pytest.mark.long
def test_no_hostile_recording_runs_a_byte(inside: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a process started for it, except for our own, nor does that one find something to call."""
    recordings = list(hostile_recordings(inside))
    assert len(recordings) >= 200
    for hostile in recordings:
        for name in [name for name in sys.modules if name in ("__mp_main__", MODULE)]:
            del sys.modules[name]
        assert begins(hostile, inside, monkeypatch) is hostile.may_begin, hostile.name
        assert not inside.mark.exists(), hostile.name
    assert sum(hostile.may_begin for hostile in recordings) > 50


def begins(hostile: Hostile, world: World, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a replay begins; what it starts is the child or the agent, without anything of the recording's."""
    fixture = hostile.fixture()
    try:
        found = started(fixture, world, monkeypatch)
        assert found.argv in (CHILD, [sys.executable, f"{MODULE}.py"]), hostile.name
        assert not {EVIL_VALUE, EVIL_WORD} & set(found.env.values()), hostile.name
        if is_called(fixture):
            find_entry_point(fixture)
    except FreezeframeError as error:
        return not error.do
    return True


@pytest.mark.parametrize(
    ("kind", "given", "target"),
    [
        (EntryKind.FUNCTION, {"args": ["hi"], "kwargs": {}}, f"{MODULE}:answer"),
        (EntryKind.COMMAND, {"argv": ["python", f"{MODULE}.py", "--fast", "-c", "x"]}, ""),
        (EntryKind.COMMAND, {"argv": ["python", "-X", "dev", "-u", "-m", MODULE, "a"]}, ""),
        (EntryKind.PROGRAM, {"argv": ["/elsewhere/python3", f"{MODULE}.py"]}, ""),
    ],
)
def test_the_programs_own_entry_point_is_started(
    kind: EntryKind, given: dict[str, Any], target: str, inside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = Fixture(run_id=RUN, entry=Entry(kind=kind, target=target, input=values.encode(given)), steps=())
    if kind is EntryKind.PROGRAM:
        monkeypatch.setattr("freezeframe_replay.process.programs.ServedRun", NoServer)
    found = started(fixture, inside, monkeypatch)
    if kind is EntryKind.FUNCTION:
        assert find_entry_point(fixture)("hi") == "hi"
    else:
        options = {"-X", "dev", "-u"}
        words = given["argv"][1:]
        assert found.argv[1:] == (words if words[0] != "-X" else [word for word in words if word not in options])


KINDS = """
import functools
from starlette.applications import Starlette
import freezeframe

def wrapped(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner

@wrapped
@freezeframe.run
def decorated(): pass

class Agent:
    @staticmethod
    @freezeframe.run
    def static(): pass
    @classmethod
    @freezeframe.run
    def of_class(cls): pass

class Own(Starlette): pass
app, own = Starlette(), Own()
def make(): return Starlette(routes=[])
def make_own(): return Own()
def other(): raise SystemExit("called")

def queued(text): pass
def named(text): pass
def listed(ctx, text): pass
def unnamed(text): pass
def send(queue):
    queue.enqueue(queued, "x")
    queue.enqueue_in(5, "KINDS.named", "x")
class Settings:
    functions = [listed]
class Shop:
    def sell(self, request, context): pass
    def count(self, request): raise SystemExit("called")
    def _private(self, request, context): pass
class NeedsWords:
    def __init__(self, words): pass
    def sell(self, request, context): pass
shop = Shop()
def handler(event, context): pass
def run_shell(command, timeout): raise SystemExit("called")
"""


def named_kind(kind: EntryKind, target: str, *, by: str = "", path: str = "") -> Entry:
    given = {"by": by} if kind is EntryKind.TASK else {"method": "GRPC" if path else "POST", "path": path or "/chat"}
    return Entry(kind=kind, target=f"kinds_of_entries:{target}", input=values.encode(given))


FUNCTION, REQUEST, TASK = EntryKind.FUNCTION, EntryKind.REQUEST, EntryKind.TASK
FOUND = [
    *(named_kind(FUNCTION, name) for name in ("decorated", "Agent.static", "Agent.of_class")),
    *(named_kind(REQUEST, name) for name in ("app", "own", "make()", "make_own()")),
    *(named_kind(REQUEST, name, path="/a.Shop/sell") for name in ("shop", "Shop()", "shop.sell")),
    *(named_kind(TASK, name, by="rq") for name in ("queued", "named")),
    *(named_kind(TASK, "listed", by="arq"), named_kind(TASK, "handler", by="lambda")),
]
DISGUISED = {"method": "GRPC", "path": "/a.Shop/sell", "by": "lambda"}  # beside what the call reads
REFUSED = [
    named_kind(REQUEST, "app", path="/a.Shop/add_route"),
    *(
        Entry(kind=kind, target=f"kinds_of_entries:{name}", input=json.dumps({**DISGUISED, "$type": "dict", "value": read}))
        for kind, name, read in (
            (REQUEST, "shop", [["method", "GRPC"], ["path", "/a.Shop/count"]]),
            (REQUEST, "shop", [["method", "POST"], ["path", "/"]]),
            (TASK, "handler", [["by", "rq"]]),
        )
    ),
    *(
        named_kind(FUNCTION, name)
        for name in ("other", "app", "make", "queued", "handler", "Agent", "shop.sell", "freezeframe.run")
    ),
    *(
        named_kind(REQUEST, name)
        for name in ("other()", "make", "shop", "Starlette()", "Own()", "Agent()", "decorated", "app.router")
    ),
    *(named_kind(REQUEST, name, path="/a.Shop/count") for name in ("shop", "Shop()", "run_shell", "freezeframe")),
    *(named_kind(REQUEST, name, path="/a.Shop/_private") for name in ("shop", "Shop()")),
    *(named_kind(REQUEST, name, path="/a.Shop/sell") for name in ("NeedsWords()", "other()", "Shop(1)", "functools")),
    *(named_kind(TASK, name, by="rq") for name in ("unnamed", "run_shell", "other", "handler", "functools.partial")),
    *(
        named_kind(TASK, name, by=by)
        for name in ("run_shell", "other")
        for by in ("lambda", "celery", "dramatiq", "temporal", "x")
    ),
]


@pytest.mark.parametrize(
    ("entry", "is_found"),
    [*((entry, True) for entry in FOUND), *((entry, False) for entry in REFUSED)],
    ids=lambda given: f"{given.kind} {given.target.partition(':')[2]}" if isinstance(given, Entry) else "",
)
def test_an_entry_point_is_what_the_program_marks_as_one(entry: Entry, is_found: bool, inside: World) -> None:
    """By a decorator, a framework's registry, a class, or the code that queues it: not because it is there."""
    (inside.folder / "kinds_of_entries.py").write_text(KINDS.replace("KINDS", "kinds_of_entries"))
    fixture = Fixture(run_id=RUN, entry=entry, steps=())
    if is_found:
        assert find_entry_point(fixture) is not None
    else:
        with pytest.raises(ReplayError):
            find_entry_point(fixture)


class NoServer:
    """A program's server that answers nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.session: Any = None

    def environment(self, _: str) -> dict[str, str]:
        return {}


def test_the_files_of_a_recording_are_its_senders_wherever_it_is_replayed(
    inside: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a pack's folder that the user unpacked and stands in."""
    entry = Entry(kind=EntryKind.COMMAND, input=values.encode({"argv": ["python", "evil.py"]}))
    (inside.recording / "pack.json").touch()
    try:
        with pytest.raises(ReplayError, match="does not decide what runs"):
            write_fixture(Fixture(run_id=RUN, entry=entry, steps=()), inside.recording)
            reenact(inside.recording, cwd=inside.recording)
    finally:
        (inside.recording / "pack.json").unlink()
    assert not inside.mark.exists()


def test_a_live_replay_takes_no_address_from_a_recording() -> None:
    """It sends the user's own key."""
    recorded = {"OPENAI_BASE_URL": "http://evil.example", "OLLAMA_HOST": "evil:1", "SHOP_MODE": "fast", "LINK": "x://y"}
    fixture = Fixture(run_id=RUN, entry=Entry(environment=json.dumps(recorded)), steps=())
    assert recorded_variables(fixture, goes_live=True) == ({"SHOP_MODE": "fast"}, ("OPENAI_BASE_URL", "OLLAMA_HOST", "LINK"))
    assert recorded_variables(fixture, goes_live=False) == (recorded, ())


def test_what_is_left_out_of_a_recording_is_named_in_the_report(inside: World) -> None:
    recorded = json.dumps({"LD_PRELOAD": "/evil.so", "PYTHONHASHSEED": "7", "OPENAI_API_KEY": "x", "APP_ENV": "test"})
    fixture = Fixture(run_id=RUN, entry=Entry(environment=recorded), steps=())
    taken, left_out = recorded_variables(fixture, goes_live=False)
    assert taken.keys() == {"PYTHONHASHSEED", "OPENAI_API_KEY", "APP_ENV"}
    assert left_out == ("LD_PRELOAD",)
    assert "LD_PRELOAD, which no recording sets" in reenacting._left_out("variable", left_out, "set it")[0]


@pytest.mark.parametrize("field", ["input", "output", "error", "environment", "flags", "clock_readings"])
@pytest.mark.parametrize("text", ["{", "[" * 100_000, "nothing"], ids=["cut", "deep", "word"])
def test_a_recording_whose_texts_are_no_json_is_refused_in_words(field: str, text: str, inside: World) -> None:
    entry = dataclasses.replace(Entry(kind=EntryKind.FUNCTION, target=f"{MODULE}:answer"), **{field: text})
    with pytest.raises(ReplayError, match=f"its {field} is not readable"):
        reenact(Fixture(run_id=RUN, entry=entry, steps=()), cwd=inside.folder)


@pytest.mark.parametrize("recorded", ['{"A": ["x"], "B": 5, "C": null}', "[]", "5"])
def test_variables_that_are_no_texts_are_left_out(recorded: str) -> None:
    taken, _ = recorded_variables(Fixture(run_id=RUN, entry=Entry(environment=recorded), steps=()), goes_live=False)
    assert taken == {}


# -- input is data --------------------------------------------------------------------------------------------------------


class Deletes:
    """A class with an effect when it is thrown away, like those of `tempfile`."""

    def __del__(self) -> None:
        Path(self.path).unlink()  # type: ignore[attr-defined]


class Failure(Exception):
    """An exception whose class does something with what is set."""

    seen: ClassVar[list[object]] = []

    def __del__(self) -> None:
        Failure.seen.append(vars(self))


def node(tag: str, path: str, value: object, **more: object) -> dict[str, object]:
    return {"$type": tag, "class": path, "value": value, **more}


HARMFUL = (
    *(f"{__name__}:Deletes", f"{__name__}:Failure", "tempfile:_TemporaryFileCloser", "subprocess:Popen", "os:system"),
    *("functools:partial", "antigravity:x", "this:s", "types:CodeType", "builtins:type", "json:JSONEncoder", "a.b.c:d"),
)


@pytest.mark.parametrize("tag", ["dataclass", "model", "namedtuple", "enum", "exception", "opaque", "object"])
def test_a_tagged_value_of_another_class_than_one_of_data_is_not_rebuilt(tag: str, tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.touch()
    modules = set(sys.modules)
    fields = {
        "path": str(target),
        "name": str(target),
        "delete": True,
        "close_called": False,
        "unlink": "x",
        "func": "os.system",
    }
    for path in HARMFUL:
        given = node(tag, path, list(fields.items()) if tag == "exception" else fields, state=fields)
        rebuilt = values.decode(json.dumps({"args": [given]}))["args"][0]
        assert isinstance(rebuilt, values.Opaque | values.RecordedError), path
        del rebuilt
    gc.collect()
    assert target.exists()
    assert Failure.seen == []
    assert set(sys.modules) == modules


def test_a_message_of_grpc_is_of_a_class_that_the_program_imported() -> None:
    pytest.importorskip("google.protobuf")
    for named in (
        "antigravity:x",
        "subprocess:Popen",
        "os:system",
        "evil:Message",
        "google.protobuf.message:Message.x",
        "",
        ":",
        "\0",
    ):
        with pytest.raises(ReplayError, match="is not a message class"):
            message_from_json({"type": named, "json": {}})
    assert "antigravity" not in sys.modules


def test_a_state_of_llama_index_names_classes_of_data_only() -> None:
    from freezeframe.seams.frameworks.llama_workflows import _classes_named_in

    inner = '{"\\u0071ualified_name": "os.system"}'
    for text in (inner, json.dumps({"a": [inner]}), json.dumps([json.dumps({"x": json.dumps(inner)})])):
        assert list(_classes_named_in(json.loads(text))) == ["os.system"]


# -- the doors ------------------------------------------------------------------------------------------------------------


def test_every_door_leads_through_the_one_that_decides() -> None:
    """Nothing else starts a recorded program or calls a recorded function."""
    package = Path(reenacting.__file__).parents[1]
    decides = {"find_entry_point", "recorded_command", "enact_program", "answer_request", "call_task", "call_servicer"}
    users = {
        (path.relative_to(package).as_posix(), word)
        for path in package.rglob("*.py")
        for word in decides
        if f"{word}(" in path.read_text() and f"def {word}(" not in path.read_text()
    }
    assert users == {
        ("process/child.py", "find_entry_point"),
        ("process/in_kernel.py", "find_entry_point"),
        ("process/reenact.py", "recorded_command"),
        ("process/reenact.py", "enact_program"),
        ("process/child.py", "answer_request"),
        ("process/child.py", "call_task"),
        ("process/requests.py", "call_servicer"),
    }


def by_the_command(fixture: Fixture, world: World, scratch: Path) -> str:
    """Replay a folder."""
    write_fixture(fixture, scratch / "sent")
    return str(main(["replay", str(scratch / "sent")]))


def by_an_archive(fixture: Fixture, world: World, scratch: Path) -> str:
    write_fixture(fixture, scratch / "sent")
    (scratch / "sent.tar.gz").write_bytes(archive_bytes("sent", fixture_files(scratch / "sent")))
    return str(main(["replay", str(scratch / "sent.tar.gz")]))


def by_the_service(fixture: Fixture, world: World, scratch: Path) -> str:
    """Replay as the API and the button of a page do."""

    async def replayed() -> str:
        jobs = Jobs(History(scratch))
        job = jobs.start(fixture, world.folder)
        while not job.has_ended:
            await job.moved.wait()
        await jobs.close()
        return str(job.error or job.report)

    return asyncio.run(replayed())


def by_pytest(fixture: Fixture, world: World, scratch: Path) -> str:
    write_fixture(fixture, scratch / "sent")
    with pytest.raises(pytest.fail.Exception) as failed:
        FrozenRun(directory=scratch / "sent", cwd=world.folder).replay().assert_identical()
    return str(failed.value)


@pytest.mark.long
@pytest.mark.parametrize("door", [by_the_command, by_an_archive, by_the_service, by_pytest])
def test_no_door_lets_a_hostile_recording_in(
    door: Callable[[Fixture, World, Path], str], inside: World, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In real processes. The MCP tool starts the command."""
    inputs = {"args": [inside.command], "kwargs": {}}
    entries = [
        Entry(kind=EntryKind.FUNCTION, target=f"os:system({inside.command!r})", input=values.encode(inputs)),
        Entry(kind=EntryKind.FUNCTION, target=f"{MODULE}:helper", input=values.encode(inputs)),
        Entry(kind=EntryKind.COMMAND, input=values.encode({"argv": ["python", "-c", inside.code]})),
    ]
    for entry in entries:
        fixture = Fixture(run_id=RUN, entry=entry, steps=(model_step(),))
        said = door(fixture, inside, tmp_path) + "".join(capfd.readouterr())
        assert "does not decide what runs" in " ".join(said.split())
        assert not inside.mark.exists()


def model_step() -> Step:
    return freeze(build_run(make_run(model_call("where?", "Lyon")))).steps[0]


READERS = (
    ["show"],
    ["fixture", "verify"],
    ["show", "--json"],
    ["export", "--format", "openai"],
    ["fixture", "-o", "OUT"],
    ["pack", "-o", "OUT.ffz", "--code", "none", "--unredacted"],
)


@pytest.mark.long
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_what_reads_a_recording_runs_and_imports_nothing_of_it(
    words: list[str], inside: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("freezeframe_replay.process.entry_point.find_entry_point", pytest.fail)
    typed = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    options = typed[2:] if typed[1:2] == ["verify"] else typed[1:]
    name = typed[: len(typed) - len(options)]
    folder = tmp_path / "bug"
    recordings = [hostile for number, hostile in enumerate(hostile_recordings(inside)) if number % 40 == 0]
    for hostile in recordings:
        write_fixture(hostile.fixture(), folder)
        main([*name, str(folder), *options])
        assert not {MODULE, "evil", "antigravity"} & sys.modules.keys()
        assert not inside.mark.exists()
        for left in tmp_path.glob("out*"):
            left.unlink() if left.is_file() else None
    assert "Traceback" not in capsys.readouterr().err
