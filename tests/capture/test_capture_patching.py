"""Patches of libraries that others have patched, too; and what is in progress when a process ends."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import importlib.abc
import importlib.util
import inspect
import itertools
import linecache
import pkgutil
import sys
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import wrapt
from capture_provider import Provider

import freezeframe
from freezeframe.seams.order.lanes import current_place
from freezeframe.seams.recorder.patching import ImportHook, Patches
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Completion


def test_a_method_that_another_library_has_wrapped_goes_on_working(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's instrumentations wrap methods with wrapt, whose wrappers find ``self`` through the class only."""
    seen: list[object] = []

    def note(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        seen.append(instance)
        return wrapped(*args, **kwargs)

    for owner, name in ((threading.Thread, "start"), (ThreadPoolExecutor, "submit")):
        monkeypatch.setattr(owner, name, wrapt.FunctionWrapper(vars(owner)[name], note))
    with capture():
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        with ThreadPoolExecutor() as executor:
            assert executor.submit(lambda: 7).result() == 7
    assert thread in seen
    assert executor in seen


def test_a_patch_of_every_subclass_reaches_those_made_later_and_is_undone() -> None:
    class Base:
        pass

    class Before(Base):
        pass

    patches = Patches()
    found: list[type] = []
    patches.in_subclasses(Base, found.append)

    class After(Before):
        pass

    assert found == [Before, After]
    patches.undo()

    type("AfterUndo", (Base,), {})
    assert found == [Before, After]


class Raises:
    """An object that stands for a module, and whose every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class RaisingModule(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Sealed(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("read-only")


def module(kind: type[ModuleType] = ModuleType, **content: Any) -> ModuleType:
    made = kind("odd")
    object.__getattribute__(made, "__dict__").update(content)
    return made


def nameless() -> ModuleType:
    made = module()
    del made.__name__
    return made


ENTRIES: dict[str, Callable[[], object]] = {
    "None, which blocks an import": lambda: None,
    "an object": object,
    "a class": lambda: Raises,
    "a namespace": lambda: SimpleNamespace(wait=concurrent.futures.wait),
    "an object that raises": Raises,
    "a proxy": lambda: wrapt.ObjectProxy(module()),
    "a module without a name": nameless,
    "a module whose file is no text": lambda: module(__file__=Path("odd.py")),
    "a module whose file is None": lambda: module(__file__=None),
    "a module that raises": lambda: module(RaisingModule),
    "a module that cannot be written": lambda: module(Sealed, __file__="odd.py"),
}


_NUMBERS = itertools.count(1)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_no_entry_of_sys_modules_keeps_capture_from_starting(
    entry: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = concurrent.futures.wait
    program = module(__file__="program.py", wait_for=bare)
    odd = {f"odd{number}": entry() for number in range(next(_NUMBERS))}  # programs are read again if they have more modules
    for name, value in {**odd, "httpx": entry(), "program": program}.items():
        monkeypatch.setitem(sys.modules, name, value)
    monkeypatch.setenv("FREEZEFRAME_RAISE", "0")
    with capture() as captured:
        assert concurrent.futures.wait is program.wait_for
        assert concurrent.futures.wait is not bare
        freezeframe.run(lambda: None)()
    assert "kept it from finding" not in str([span.attributes for span in captured.spans])
    assert concurrent.futures.wait is program.wait_for is bare


def test_a_module_that_refuses_assignments_gets_our_function_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = concurrent.futures.wait
    sealed = module(Sealed, __file__="program.py", wait_for=bare)
    monkeypatch.setitem(sys.modules, "sealed", sealed)
    with capture():
        assert sealed.wait_for is concurrent.futures.wait
    assert sealed.wait_for is bare


# -- import hooks -------------------------------------------------------------------------------------------------------


class Finder(importlib.abc.MetaPathFinder):
    """Another tool's finder, which changes what the others find."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._finding: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._finding.discard(fullname)
        if spec is not None:
            spec.loader = self._change(spec.loader)
        return spec


class Chained:
    """A loader as ddtrace makes them: its methods are attributes of the instance."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.exec_module = self._execute

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def _execute(self, module: ModuleType) -> None:
        self.loader.exec_module(module)


class Rewriting(Chained):
    """A loader that replaces how the one inside gets its code, as ddtrace's does."""

    def _execute(self, module: ModuleType) -> None:
        get_code = self.loader.get_code
        self.loader.get_code = functools.partial(get_code)
        super()._execute(module)


class Replacing(Chained):
    """A loader that sets `exec_module` on the one inside."""

    def _execute(self, module: ModuleType) -> None:
        execute = self.loader.exec_module
        self.loader.exec_module = functools.partial(execute)
        super()._execute(module)


class Slotted:
    __slots__ = ("loader",)

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)


class Proxied(wrapt.ObjectProxy):  # pyright: ignore[reportMissingTypeArgument]
    """A loader as wrapt makes them: an attribute set on it is set on the loader behind it."""

    def _self_exec_module(self, module: ModuleType) -> None:
        self.__wrapped__.exec_module(module)

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self.__self_setattr__("exec_module", self._self_exec_module)


class Static:
    """A loader that is a class, as that of frozen modules is."""

    loader: Any

    @classmethod
    def create_module(cls, spec: Any) -> Any:
        return cls.loader.create_module(spec)

    @classmethod
    def exec_module(cls, module: ModuleType) -> None:
        cls.loader.exec_module(module)


LOADERS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda loader: loader,
    "chained": Chained,
    "chained twice": lambda loader: Chained(Chained(loader)),
    "rewriting": Rewriting,
    "replacing": Replacing,
    "slots": Slotted,
    "a proxy": Proxied,
    "a proxy of a proxy": lambda loader: Proxied(Proxied(loader)),
    "a class": lambda loader: type("Static", (Static,), {"loader": loader}),
    "lazy": importlib.util.LazyLoader,
}


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules, `imported_a` in a folder, `imported_b` in a zip file; the import system is restored."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in ("imported_a", "imported_b"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    source = "import pkgutil\nLOADER, DATA = __loader__, pkgutil.get_data(__name__, 'data')\ndef answer(): return 42\n"
    (tmp_path / "imported_a.py").write_text(source)
    (tmp_path / "data").write_bytes(b"data")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as file:
        file.writestr("imported_b.py", source)
        file.writestr("data", "data")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("name", ["imported_a", "imported_b"])
@pytest.mark.parametrize("first", [True, False], ids=["before us", "after us"])
@pytest.mark.parametrize("change", LOADERS.values(), ids=LOADERS)
def test_an_import_works_with_any_other_hook_and_calls_back_each_time(
    change: Callable[[Any], Any], first: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imported() -> Any:
        monkeypatch.delitem(sys.modules, name, raising=False)
        found: Any = importlib.util.find_spec(name)
        text = found.loader.get_source(name) if hasattr(found.loader, "get_source") else None
        made: Any = importlib.import_module(name)
        linecache.clearcache()
        source = linecache.getlines(made.__file__, vars(made))
        loaders = type(made.LOADER), type(made.__spec__.loader), made.__loader__ is made.__spec__.loader
        return made.answer(), made.DATA, pkgutil.get_data(name, "data"), text, source, loaders, isinstance(made, ModuleType)

    finder = Finder(change)
    sys.meta_path.insert(0, finder)
    bare = imported()
    sys.meta_path.remove(finder)
    del sys.modules[name]

    called: list[str] = []
    hook = ImportHook()
    if first:
        sys.meta_path.insert(0, finder)
    hook.when_imported(name, lambda module: called.append(module.answer()))
    if not first:
        sys.meta_path.insert(0, finder)
    assert imported() == bare
    assert imported() == bare
    assert called == [42, 42], "a module that is imported again is another one, which nobody patched"


@pytest.mark.usefixtures("packed")
@pytest.mark.parametrize("begun", [True, False], ids=["lazy already", "lazy later"])
def test_a_lazy_module_stays_unloaded_until_the_program_uses_it(begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    hook = ImportHook()

    def import_lazily() -> ModuleType:
        spec: Any = importlib.util.find_spec("imported_a")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        lazy = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "imported_a", lazy)
        spec.loader.exec_module(lazy)
        return lazy

    lazy: Any = import_lazily() if begun else None
    hook.when_imported("imported_a", lambda module: called.append(module.answer()))
    lazy = lazy or import_lazily()
    with capture():
        assert called == []
        assert lazy.answer() == 42
    assert called == [42]
    hook.forget()


# -- threads ------------------------------------------------------------------------------------------------------------


def by_function(start: Callable[..., Any]) -> Callable[..., Any]:
    """Patch `Thread.start` as Sentry does: the function of ``run``, called with the thread."""

    def patched(thread: Any) -> Any:
        function = getattr(thread.run, "__func__", thread.run)

        @functools.wraps(function)
        def run(*args: Any) -> Any:
            return function(threading.current_thread(), *args[1:])

        thread.run = run
        return start(thread)

    return patched


def by_method(start: Callable[..., Any]) -> Callable[..., Any]:
    """Patch it with a function around ``run`` as the thread has it."""

    def patched(thread: Any) -> Any:
        run = thread.run
        thread.run = lambda: run()
        return start(thread)

    return patched


def with_wrapt(start: Callable[..., Any]) -> Any:
    def call(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    return wrapt.FunctionWrapper(start, call)


def by_wrapped(start: Callable[..., Any]) -> Callable[..., Any]:
    """Patch it, and look at the signature and the module of ``run``."""

    def patched(thread: Any) -> Any:
        assert inspect.signature(thread.run).parameters == {}
        assert thread.run.__self__ is thread
        assert thread.run.__name__ == "run"
        return start(thread)

    return patched


class Overriding(threading.Thread):
    """A thread that overrides `run`."""

    def run(self) -> None:
        super().run()


def timer(target: Callable[[], None]) -> threading.Thread:
    return threading.Timer(0, target)


def on_instance(target: Callable[[], None]) -> threading.Thread:
    thread: Any = threading.Thread()
    thread.run = target
    return thread


THREADS: list[Callable[[Callable[[], None]], threading.Thread]] = [
    lambda target: threading.Thread(target=target),
    lambda target: Overriding(target=target),
    timer,
]
PATCHES: list[Callable[[Any], Any]] = [by_function, by_method, with_wrapt, by_wrapped]


@pytest.mark.parametrize("first", [True, False], ids=["before us", "after us"])
@pytest.mark.parametrize(
    ("patch", "make"), [*itertools.product(PATCHES, THREADS), (by_method, on_instance), (with_wrapt, on_instance)]
)
def test_a_thread_runs_in_its_lane_whoever_else_patches_its_start(
    patch: Callable[[Any], Any],
    make: Callable[[Callable[[], None]], threading.Thread],
    first: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places: list[tuple[int, ...]] = []

    def work() -> None:
        places.append(current_place().lane.path)

    @freezeframe.run
    def agent() -> None:
        for _ in range(2):
            thread = make(work)
            thread.start()
            thread.join()

    if first:
        monkeypatch.setattr(threading.Thread, "start", patch(threading.Thread.start))
    with capture(), monkeypatch.context() as patched:
        if not first:
            patched.setattr(threading.Thread, "start", patch(threading.Thread.start))
        agent()
    assert [place[-1] for place in places] == [0, 1]


@pytest.mark.long
def test_a_stream_that_nobody_closed_is_recorded_when_the_process_ends(provider: Provider) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="x", max_retries=0)
    gc.disable()  # else the collector of cycles may close it first
    try:
        with capture() as captured:
            stream = client.chat.completions.create(model="gpt-4o", messages=[], stream=True)
            next(iter(stream))
        (exchange,) = captured.exchanges
    finally:
        gc.enable()
    assert exchange.response.completion is Completion.CLOSED_EARLY
    assert exchange.response.body.startswith(b"data: ")
