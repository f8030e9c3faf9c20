"""Patches: replace a library's function with ours, once, and restore the library's on `undo`.

A patch of a library that is not imported yet waits for the import; we never import it ourselves.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, Final

from freezeframe._guard import guard
from freezeframe.context.program import LAZY, is_loaded, loaded_modules, namespace

_INHERITED: Final = object()
"""Marks an attribute that a class inherited from a base."""

_INSTALLED: Final = (sys.prefix, sys.base_prefix, "<")
_AS_THEY_ARE: Final = (FunctionType, classmethod, staticmethod)
"""Types that are wrapped as they are in the class, by exact type. The wrapper objects of other instrumentations (wrapt) claim
to be functions, and find ``self`` only when accessed through the class; see
`test_a_method_that_another_library_has_wrapped_goes_on_working`.
"""

_Replaced = tuple[str, Any, Any]
"""Name in its module, original, ours."""


class Patches:
    """The replaced attributes of one seam, in order."""

    __slots__ = ("_originals", "_waiting")

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any, Any]] = []
        self._waiting: list[_Replaced] | None = None

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Set ``owner.name`` to ``make(original)``."""
        own = vars(owner).get(name, _INHERITED)
        ours = make(own if type(own) in _AS_THEY_ARE else getattr(owner, name))
        setattr(owner, name, ours)
        self._originals.append((owner, name, own, ours))

    def everywhere(self, module: ModuleType, ours: Mapping[str, Any]) -> None:
        """Replace functions of a module in every module that holds them; `together` puts it off. `ours`: name -> function."""
        functions = [(name, getattr(module, name), function) for name, function in ours.items()]
        if self._waiting is None:
            self._replace_everywhere(functions)
        else:
            self._waiting += functions

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Put all replacements of `everywhere` off to the end, for one search: a program may have thousands of modules."""
        self._waiting = []
        try:
            yield
        finally:
            functions, self._waiting = self._waiting, None
            self._replace_everywhere(functions)

    def _replace_everywhere(self, functions: Sequence[_Replaced]) -> None:
        """Replace functions in a module's namespace directly, for the module's class may refuse an assignment."""
        with guard("everywhere"):
            for held, name, original, ours in _holders(functions):
                held[name] = ours
                self._originals.append((held, name, original, ours))

    def around(self, owner: Any, name: str, hook: Callable[..., Any]) -> None:
        """Make ``owner.name(...)`` call ``hook(original, ...)``; it is a coroutine function if `hook` is one."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            if inspect.iscoroutinefunction(hook):

                @functools.wraps(original)
                async def awaited(*args: Any, **kwargs: Any) -> Any:
                    return await hook(original, *args, **kwargs)

                return awaited

            @functools.wraps(original)
            def called(*args: Any, **kwargs: Any) -> Any:
                return hook(original, *args, **kwargs)

            return called

        self.replace(owner, name, make)

    def in_subclasses(self, base: Any, patch: Callable[[Any], None]) -> None:
        """Call ``patch(cls)`` for each existing subclass of `base`, and for each later one."""

        def init_subclass(original: Any) -> Any:
            inherited = getattr(original, "__func__", original)

            def hook(cls: Any, **options: Any) -> None:
                if inspect.isbuiltin(inherited):
                    super(base, cls).__init_subclass__(**options)
                else:
                    inherited(cls, **options)
                with guard(f"subclass of {base.__name__}"):
                    patch(cls)

            return classmethod(hook)

        pending = list(base.__subclasses__())
        while pending:
            cls = pending.pop()
            patch(cls)
            pending += cls.__subclasses__()
        self.replace(base, "__init_subclass__", init_subclass)

    def undo(self) -> None:
        """Put the originals back, unless another library has patched over ours since."""
        while self._originals:
            owner, name, own, ours = self._originals.pop()
            held: Any = owner if isinstance(owner, dict) else vars(owner)
            if held.get(name) is not ours:
                continue
            if held is owner:
                held[name] = own
            elif own is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


def _holders(functions: Sequence[_Replaced]) -> list[tuple[dict[str, Any], str, Any, Any]]:
    """Return the namespace of each module that holds one of the functions, its name there, the function, and ours.

    Installed modules are searched for the function's own name only. Values are distinguished by type first:
    hashing one would call the program's code, and each call of `id` is an audit event.
    """
    by_type: dict[type, list[tuple[Any, Any]]] = {}
    for _, original, ours in functions:
        by_type.setdefault(type(original), []).append((original, ours))
    names = {name for name, _, _ in functions}
    found: list[tuple[dict[str, Any], str, Any, Any]] = []
    for imported_as, module in loaded_modules().items():
        held = namespace(module)
        file = held.get("__file__")
        is_program = imported_as == "__main__" or (isinstance(file, str) and not file.startswith(_INSTALLED))
        for name, value in list(held.items()) if is_program else [(name, held.get(name)) for name in names & held.keys()]:
            found += [(held, name, value, ours) for original, ours in by_type.get(type(value), ()) if value is original]
    return found


class ImportHook:
    """Calls back after each import of a module. It finds nothing itself: it puts a loader around the finder's.

    A program may import a module again, as another object: ddtrace does that with `threading` and many others.
    """

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callable[[ModuleType], None]]] = {}
        self._finding = threading.local()

    def when_imported(self, name: str, callback: Callable[[ModuleType], None]) -> None:
        """Call `callback` with the module: now if it is loaded, and right after each import of it."""
        module: Any = sys.modules.get(name)
        self._callbacks.setdefault(name, []).append(callback)
        if type(module) is LAZY:
            self._watch(namespace(module)["__spec__"])
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        if is_loaded(module) and not getattr(namespace(module).get("__spec__"), "_initializing", False):
            with guard(f"import of {name}"):
                callback(module)

    def forget(self) -> None:
        """Stop waiting for imports."""
        self._callbacks.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the other finders, with a loader that calls back."""
        finding: set[str] = vars(self._finding).setdefault("names", set())
        if fullname not in self._callbacks or fullname in finding or fullname in sys.modules:
            return None
        finding.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            finding.discard(fullname)
        if spec is not None:
            self._watch(spec)
        return spec

    def _watch(self, spec: Any) -> None:
        if hasattr(spec.loader, "exec_module") and type(spec.loader) is not _Loader:
            spec.loader = _Loader(spec.loader, functools.partial(self._imported, spec.name))

    def _imported(self, name: str, module: ModuleType) -> None:
        for callback in tuple(self._callbacks.get(name, ())):
            with guard(f"import of {name}"):
                callback(module)


class _Loader:
    """Loads one module as another loader does, and then calls back.

    Everything else is delegated to the other loader, such as its type, data and source code. As soon as the
    module runs, that loader is the module's again. Never an attribute set on the other loader: it may load
    other modules,
    too (a zip file), be a class (frozen modules), have slots, or be a proxy that hands the attribute on (wrapt).
    """

    def __init__(self, loader: Any, callback: Callable[[ModuleType], None]) -> None:
        vars(self).update(_loader=loader, _callback=callback)

    def __setattr__(self, name: str, value: Any) -> None:
        """Pass on attributes that another tool sets (ddtrace: ``get_code``, which the other loader then calls)."""
        if name == "exec_module":
            vars(self)[name] = value
        else:
            setattr(self._loader, name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_loader"), name)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._loader.__class__

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = module.__spec__
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._callback(module)


IMPORT_HOOK: Final = ImportHook()
