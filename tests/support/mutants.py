"""Mutation testing: break one expression of a core at a time, and list the breaks that its fast tests do not notice.

``make mutants PART=schemas`` runs the cores below a folder, ``PART=schemas/freezeframe_schemas/verdict.py`` one of them. Prints
each survivor as ``file:line: before -> after``. The tests run once without a mutant; each mutant lives in a process forked
after that, where its function gets other byte code, and no file is changed. What runs at import is not broken, and no text is:
golden files hold texts. A survivor is a line that no test needs, or a gap: ``mutants.md`` has the known ones.
"""

from __future__ import annotations

import ast
import copy
import gc
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT: Final = Path(__file__).parents[2]
CORES: Final[dict[str, Sequence[str]]] = {
    "schemas/freezeframe_schemas/keys.py": ["tests/schemas/test_keys.py"],
    "schemas/freezeframe_schemas/lifecycle.py": ["tests/schemas/test_lifecycle.py"],
    "schemas/freezeframe_schemas/run.py": ["tests/schemas/test_run.py"],
    "schemas/freezeframe_schemas/verdict.py": ["tests/schemas/test_verdict.py"],
    "collector/freezeframe_redaction/triggers/engine.py:_rank resolve_overlaps _settled": ["tests/redaction/test_overlaps.py"],
    "collector/freezeframe_collector/wal/format.py": [
        "tests/collector/test_segment_bytes.py",
        "tests/collector/test_damage.py",
    ],
    "instrumentation/freezeframe/export/sampling.py": ["tests/capture/test_sampling.py"],
    "instrumentation/freezeframe/export/spool.py": ["tests/capture/test_spool.py"],
    "replay/freezeframe_replay/engine/session.py": ["tests/replay/test_order.py"],
    "replay/freezeframe_replay/engine/moments.py": ["tests/replay/test_moments.py"],
    "replay/freezeframe_replay/engine/compare.py": ["tests/replay/test_compare.py"],
    # What follows needs the redactor's engine, which takes two seconds to compile: some of those tests are long.
    "replay/freezeframe_replay/engine/private_values.py": [
        *("tests/replay/test_pairing.py", "tests/replay/test_lookup.py"),
        *("-m", "not soak"),
    ],
    "replay/freezeframe_replay/engine/lookup.py": [
        *("tests/replay/test_lookup.py", "tests/replay/test_not_decided.py", "tests/replay/test_session.py"),
        *("-m", "not soak"),
    ],
}
"""A module, with the names of its functions if only some are meant -> the fast tests that hold it, as pytest's arguments."""

_SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Continue: ast.Break, ast.Break: ast.Continue},
}
_CPU_S: Final = 60
"""A mutant that loops is ended by the system, and counts as killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A node of a tree in another's place."""

    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST

    def put(self, node: ast.AST) -> None:
        """Put the old or the new node in its place."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    def __str__(self) -> str:
        """Return ``line: before -> after``."""
        shown = self.old if isinstance(self.old, ast.expr | ast.stmt) else self.parent  # an operator: all of its expression
        before = ast.unparse(shown)
        self.put(self.new)
        after = ast.unparse(self.new if shown is self.old else shown)
        self.put(self.old)
        return f"{getattr(shown, 'lineno', 0)}: {' '.join(f'{before} -> {after}'.split())}"


def mutants(tree: ast.AST, *, inside: bool = False) -> Iterator[Mutant]:
    """Yield the mutants of the functions in a tree."""
    inside = inside or isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "decorator_list", "args"} and not isinstance(tree, ast.Call):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST):
                if inside:
                    yield from (Mutant(parent=tree, field=field, index=index, old=node, new=new) for new in _instead(node))
                yield from mutants(node, inside=inside)


def _instead(node: ast.AST) -> Iterator[ast.AST]:
    if type(node) in _SWAPPED:
        yield _SWAPPED[type(node)]()
    match node:
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.If() | ast.While() | ast.IfExp() if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            turned = copy.copy(node)
            turned.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
            yield turned
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(value=ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case _:
            return


class _Runner:
    """Runs the collected tests once for each mutant, in place of once."""

    def __init__(self, core: str) -> None:
        path, _, names = core.partition(":")
        self._path = ROOT / path
        self._tree = ast.parse(self._path.read_text("utf-8"))
        parts = [node for node in self._tree.body if isinstance(node, ast.FunctionDef) and node.name in names.split()]
        self.mutants = [mutant for part in parts or [self._tree] for mutant in mutants(part)]
        self.survivors: list[Mutant] = []
        self._functions: list[FunctionType] = []
        self._pid = os.getpid()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        _run_all(session)  # also warms what all share: modules imported on first use, compiled patterns
        gc.unfreeze()  # see tests/conftest.py
        functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
        self._functions = [one for one in functions if one.__code__.co_filename == str(self._path)]
        gc.freeze()
        if not self._functions or not session.items:
            pytest.exit("the tests do not import the core", returncode=1)
        self.survivors = [mutant for mutant in self.mutants if self._survives(session, mutant)]
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if os.getpid() != self._pid:
                os._exit(1)
            pytest.exit(f"{report.nodeid} fails without a mutant", returncode=1)

    def _survives(self, session: pytest.Session, mutant: Mutant) -> bool:
        child = os.fork()
        if child:
            return os.waitpid(child, 0)[1] == 0
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            mutant.put(mutant.new)
            self._load()
            _run_all(session)
            os._exit(0)
        finally:
            os._exit(1)

    def _load(self) -> None:
        """Give each function of the module the byte code of the tree."""
        codes: dict[str, CodeType] = {}
        todo = [compile(ast.fix_missing_locations(self._tree), self._path, "exec")]
        for code in todo:
            todo += [one for one in code.co_consts if isinstance(one, CodeType)]
            codes[code.co_qualname] = code
        for function in self._functions:
            function.__code__ = codes[function.__code__.co_qualname]


def _run_all(session: pytest.Session) -> None:
    for item, after in zip(session.items, [*session.items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)


def run(core: str, tests: Sequence[str]) -> tuple[int, int]:
    """Print the mutants of a core that survive; return how many there are, of how many."""
    runner = _Runner(core)
    options = (
        "-q -s --no-header --no-summary -p no:cacheprovider -p no:xdist --tb=no -o timeout=300 --hypothesis-seed=0".split()
    )
    arguments: list[Any] = [*options, "--hypothesis-profile=mutants", "-m", "not long and not soak", *tests]
    if code := pytest.main(arguments, plugins=[runner]):
        sys.exit(int(code))
    path = core.partition(":")[0]
    print("", *(f"{path}:{mutant}" for mutant in runner.survivors), sep="\n")
    print(f"{core}: {len(runner.survivors)} of {len(runner.mutants)} mutants survive", flush=True)
    return len(runner.survivors), len(runner.mutants)


if __name__ == "__main__":
    os.chdir(ROOT)
    unshrunk = [Phase.explicit, Phase.generate]
    patient = list(HealthCheck)  # on a busy machine, a slow test would count as one that noticed the break
    settings.register_profile(
        "mutants", deadline=None, max_examples=15, database=None, phases=unshrunk, suppress_health_check=patient
    )
    chosen = {core: tests for core, tests in CORES.items() if any(core.startswith(part) for part in sys.argv[1:] or [""])}
    if not chosen:
        sys.exit(f"mutants: found {' '.join(sys.argv[1:])}, expected the beginning of one of: {', '.join(CORES)}")
    for one_core, its_tests in chosen.items():
        run(one_core, its_tests)
