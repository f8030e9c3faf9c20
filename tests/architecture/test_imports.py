"""Who may import whom, and what an import must not cost."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
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


@pytest.mark.proof
@pytest.mark.long
def test_importing_freezeframe_loads_nothing_heavy() -> None:
    """An agent's start pays for what it uses: neither an SDK, nor a store, nor a web framework, nor the OTel SDK."""
    assert named(modules_loaded_by("import freezeframe"), HEAVY) == set()


@pytest.mark.proof
@pytest.mark.long
def test_importing_freezeframe_loads_no_other_module() -> None:
    """A program pays for a name when it uses it. Counted in modules: `docs/costs.md` has the milliseconds."""
    bare = modules_loaded_by("import __future__, importlib, typing")
    assert modules_loaded_by("import freezeframe") - bare == {"freezeframe"}


@pytest.mark.proof
@pytest.mark.long
def test_instrument_loads_neither_the_dialects_nor_what_only_an_agent_needs() -> None:
    """An event loop, HTTP, TLS and the providers' dialects come with the first library that makes calls."""
    start = "import os, freezeframe; freezeframe.instrument(endpoint='http://127.0.0.1:9', spool=False, root='never')"
    loaded = modules_loaded_by(start)
    late = ("asyncio", "ssl", "http", "email", "importlib.metadata", "tempfile", "zipfile", "freezeframe_schemas.wire")
    assert "freezeframe.export.tracing" in loaded
    assert named(loaded, late) == set()


@pytest.mark.parametrize("package", ["freezeframe", "freezeframe_redaction"])
def test_each_public_name_is_found_where_the_types_say(package: str) -> None:
    """What is imported late is what a type checker reads: the same names, from the same modules."""
    late = importlib.import_module(package)
    tree = ast.parse(Path(late.__file__ or "").read_text())
    typed = {alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    homes = {name: f"{package}.{home}" for name, home in late._HOMES.items()}
    assert homes == {name: module for name, module in typed.items() if str(module).startswith(f"{package}.")}
    assert sorted(homes) == sorted(late.__all__)
    assert all(getattr(late, name) is getattr(importlib.import_module(home), name) for name, home in homes.items())


_CLIENT = ("clickhouse_connect", "urllib3")
LOADED_BY = {
    "runs": (260, (*_CLIENT, "asyncio", "freezeframe_schemas.vendors", "freezeframe_redaction")),
    "show": (280, (*_CLIENT, "asyncio", "freezeframe_schemas.vendors", "freezeframe_redaction.detectors")),
    "replay": (400, (*_CLIENT, "freezeframe_redaction.detectors")),
}
"""Command -> modules that it may load, beyond those of the interpreter, and libraries that it does without."""


@pytest.mark.long
@pytest.mark.parametrize("command", LOADED_BY)
def test_a_command_loads_what_it_uses(command: str) -> None:
    """Importing is most of the time of a command: `docs/costs.md` has it. Counted in modules."""
    most, without = LOADED_BY[command]
    loaded = modules_loaded_by(f"import freezeframe_replay.cli.{command}") - modules_loaded_by("")
    assert named(loaded, without) == set()
    assert len(loaded) <= most


@pytest.mark.long
def test_a_replay_moves_the_clock_without_loading_pytest() -> None:
    """time-machine imports it for a fixture of its own, which takes longer than a replay."""
    statement = "from freezeframe_replay.process.isolate import _time_machine; _time_machine()"
    loaded = modules_loaded_by(statement)
    assert "time_machine" in loaded
    assert named(loaded, ("pytest", "_pytest")) == set()


@pytest.mark.long
def test_a_key_is_found_without_the_detectors() -> None:
    loaded = modules_loaded_by("from freezeframe_redaction import find_key; import freezeframe_redaction.keyring.keys")
    assert named(loaded, ("freezeframe_redaction.detectors", "hyperscan", "phonenumbers")) == set()


@pytest.mark.proof
@pytest.mark.long
def test_importing_the_schemas_loads_nothing_heavy() -> None:
    """The vocabulary is light enough for everyone to import."""
    import freezeframe_schemas

    base = Path(freezeframe_schemas.__file__).parent
    names = [path.relative_to(base).with_suffix("").as_posix().replace("/", ".") for path in base.rglob("*.py")]
    statements = "\n".join(f"import freezeframe_schemas.{item}" for item in sorted(names) if "__init__" not in item)
    assert named(modules_loaded_by(statements), HEAVY) == set()


@pytest.mark.proof
@pytest.mark.long  # `make check` has asked import-linter itself
def test_the_import_contracts_hold() -> None:
    """`lint-imports` keeps the contracts in pyproject.toml."""
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_of_the_architecture_says_what_the_contracts_allow() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    packages = set(settings["root_packages"])
    forbidden = {package: {package} for package in packages}
    for contract in settings["contracts"]:
        for package in contract.get("source_modules", ()):
            forbidden[package].update(contract["forbidden_modules"])
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    rows = re.findall(r"^\| `\w+` \| `(\w+)` \|.*\|([^|]*)\|$", page, re.MULTILINE)
    told = {package: set(re.findall(r"`(\w+)`", allowed)) for package, allowed in rows}
    assert told == {package: packages - refused for package, refused in forbidden.items()}


def top_level_imports(tree: ast.Module) -> set[str]:
    """Return the modules that loading the module imports: all but those inside functions and ``if TYPE_CHECKING``."""
    found: set[str] = set()
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else node.module or "")
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return found


def test_the_pytest_plugin_imports_only_pytest_and_the_standard_library() -> None:
    """Everyone who has freezeframe installed loads it in every pytest run."""
    path = ROOT / "replay/freezeframe_replay/pytest_plugin.py"
    if not path.is_file():
        pytest.skip("the plugin is not written yet")
    package = ROOT / "replay/freezeframe_replay/__init__.py"
    loaded = top_level_imports(ast.parse(path.read_text())) | top_level_imports(ast.parse(package.read_text()))
    assert {module for module in loaded if not is_standard(module) and module != "pytest"} == set()


def test_the_packages_are_found_by_their_own_names_only() -> None:
    """`import replay.freezeframe_replay` would load a second copy of each module: no folder in the path is a package."""
    assert [
        name for name in ("schemas", "instrumentation", "collector", "replay") if (ROOT / name / "__init__.py").exists()
    ] == []


DISTRIBUTIONS = {
    "phonenumbers": "phonenumberslite",
    "google.rpc": "googleapis-common-protos",
    "grpc": "grpcio",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.exporter": "opentelemetry-exporter",
}
"""Distributions that are not named after their module. Of several modules below one name, the longest counts."""
BROUGHT_ALONG = {"google.protobuf": "opentelemetry-proto", "opentelemetry": "opentelemetry-sdk"}
"""Parts of a declared distribution, which always come with it."""
EXTRAS = {
    "schemas/freezeframe_schemas": (),
    "instrumentation/freezeframe": (),
    "collector/freezeframe_redaction": ("redaction",),
    "collector/freezeframe_collector": ("collector",),
    "replay/freezeframe_replay": ("replay", "ui", "mcp"),
}
"""Package -> what is installed wherever it is used. Other libraries are imported in the function that needs them."""


def distribution_of(module: str) -> str:
    table = {**DISTRIBUTIONS, **BROUGHT_ALONG}
    parts = module.split(".")
    prefixes = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((table[prefix] for prefix in prefixes if prefix in table), parts[0].replace("_", "-"))


def declared(*extras: str) -> set[str]:
    """Return the distributions that the base install and the extras name, extras of extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    pending: list[str] = [
        *project["dependencies"],
        *(item for extra in extras for item in project["optional-dependencies"][extra]),
    ]
    while pending:
        requirement = pending.pop()
        if inner := re.match(r"freezeframe\[([^]]+)\]", requirement):
            pending += [item for extra in inner[1].split(",") for item in project["optional-dependencies"][extra]]
        else:
            found.add(re.split(r"[<>=\[;~! ]", requirement)[0])
    return found


@pytest.mark.parametrize("package", EXTRAS)
def test_what_a_package_imports_is_installed_with_it(package: str) -> None:
    """At its top level: the standard library, this project, or what its extra names. Indirect dependencies may go away."""
    installed = declared(*EXTRAS[package])
    missing = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / package).rglob("*.py")
        for module in top_level_imports(ast.parse(path.read_text()))
        if not is_standard(module)
        and not is_ours(module)
        and distribution_of(module) not in installed
        # pytest loads the plugin, so it is there
        and not (path.name == "pytest_plugin.py" and module == "pytest")
    }
    assert missing == set()


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def is_ours(module: str) -> bool:
    return module == "." or module.partition(".")[0].startswith("freezeframe")
