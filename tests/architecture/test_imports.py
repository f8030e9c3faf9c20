"""Who may import whom, and what an import must not cost."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    "openai",
    "anthropic",
    "httpx",
    "httpx2",
    "requests",
    "chdb",
    "aiohttp",
    "grpc",
    "langchain",
    "langchain_core",
    "langgraph",
    "clickhouse_connect",
    "opentelemetry.sdk",
    "opentelemetry.exporter",
    "google.protobuf",
    "hyperscan",
    "pydantic",
    "numpy",
)


def modules_loaded_by(statement: str) -> set[str]:
    """Return the names in `sys.modules` after `statement` ran in a new interpreter."""
    code = f"import json, sys\n{statement}\njson.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def named(loaded: set[str], names: tuple[str, ...]) -> set[str]:
    return {module for module in loaded if any(module == item or module.startswith(f"{item}.") for item in names)}


def test_importing_freezeframe_loads_nothing_heavy() -> None:
    """An agent's start pays for what it uses: neither an SDK, nor a store, nor a web framework, nor the OTel SDK."""
    assert named(modules_loaded_by("import freezeframe"), HEAVY) == set()


def test_importing_the_schemas_loads_nothing_heavy() -> None:
    """The vocabulary is light enough to be imported by everybody."""
    import freezeframe_schemas

    base = Path(freezeframe_schemas.__file__).parent
    names = [path.relative_to(base).with_suffix("").as_posix().replace("/", ".") for path in base.rglob("*.py")]
    statements = "\n".join(f"import freezeframe_schemas.{item}" for item in sorted(names) if "__init__" not in item)
    assert named(modules_loaded_by(statements), HEAVY) == set()


def test_the_import_contracts_hold() -> None:
    """`lint-imports` keeps the contracts in pyproject.toml."""
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def top_level_imports(tree: ast.Module) -> set[str]:
    """Return the modules that loading the module imports: all but those inside functions and ``if TYPE_CHECKING``."""
    found: set[str] = set()
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else (node.module or "").partition(".")[0])
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return found


def test_the_pytest_plugin_imports_only_pytest_and_the_standard_library() -> None:
    """Every pytest run of everybody who has freezeframe installed loads it."""
    path = ROOT / "replay/freezeframe_replay/pytest_plugin.py"
    if not path.is_file():
        pytest.skip("the plugin is not written yet")
    foreign = top_level_imports(ast.parse(path.read_text())) - sys.stdlib_module_names - {"pytest", "_pytest"}
    assert foreign == set()
    package = ROOT / "replay/freezeframe_replay/__init__.py"
    assert top_level_imports(ast.parse(package.read_text())) <= sys.stdlib_module_names


def test_the_packages_are_found_by_their_own_names_only() -> None:
    """`import replay.freezeframe_replay` would load a second copy of each module: no folder on the way is a package."""
    assert [
        name for name in ("schemas", "instrumentation", "collector", "replay") if (ROOT / name / "__init__.py").exists()
    ] == []


def test_every_import_is_of_a_declared_dependency() -> None:
    """What a package imports at its top level is the standard library, one of ours, or named in pyproject.toml."""
    declared = re.sub(r"[^a-z0-9]+", "_", (ROOT / "pyproject.toml").read_text().lower())
    ours = {"freezeframe", "freezeframe_schemas", "freezeframe_redaction", "freezeframe_collector", "freezeframe_replay", "."}
    modules = {"google": "opentelemetry_proto", "phonenumbers": "phonenumberslite", "lz4": "lz4", "_pytest": "pytest"}
    undeclared = {
        f"{path.relative_to(ROOT)}: {module}"
        for folder in ("schemas", "instrumentation", "collector", "replay")
        for path in (ROOT / folder).rglob("*.py")
        for module in top_level_imports(ast.parse(path.read_text())) - sys.stdlib_module_names - ours
        if modules.get(module, module).lower() not in declared
    }
    assert undeclared == set()
