"""pytest plugin: a recorded run as a test. The fixture is `freezeframe_fixture`, the marker is `freezeframe`.

Loaded in every project that has freezeframe installed, so the top level imports only pytest and the standard library. A test
that fails here fails with the report of the replay, never with freezeframe's own stack.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from freezeframe_replay.cassette import Cassette
    from freezeframe_schemas.divergence import Report
    from freezeframe_schemas.fixture import Fixture

MARKER = "freezeframe"
_DEFAULT_TIMEOUT_S = 120.0
_MAX_NAME_LENGTH = 100
"""Characters of a folder's name: some file systems allow 143."""
_OPTIONS = frozenset(
    {"path", "command", "cwd", "ignore", "timeout_s", "hermetic", "require_values", "folder", "redact", "run_tools"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of one replay. `report` contains every step and divergence."""

    report: Report
    fixture: Fixture

    def assert_path(self, path: Sequence[str]) -> None:
        """Fail unless the program made exactly these calls, in order: ``model``, or the name of a tool or retriever.

        Also fails if the replay ended before the program did, as `assert_never_called` and `assert_at_most` do.
        """
        from freezeframe_replay import assertions

        _fail_with(assertions.path(self.report, path), self.report)

    def assert_tool_called(self, name: str, *, with_: Mapping[str, Any] | None = None) -> None:
        """Fail unless the program called the tool, with at least these arguments. A call without a recording counts."""
        from freezeframe_replay import assertions

        _fail_with(assertions.tool_called(self.report, name, with_ or {}), self.report)

    def assert_never_called(self, name: str) -> None:
        """Fail if the program called the tool, or made any call of the kind (``model``)."""
        self.assert_at_most(name, 0)

    def assert_at_most(self, name: str, times: int) -> None:
        """Fail if the program called the tool, or made calls of the kind (``model``), more than `times` times."""
        from freezeframe_replay import assertions

        _fail_with(assertions.at_most(self.report, name, times), self.report)

    def assert_grounded(self, text: str) -> None:
        """Fail unless `text` is in the outcome, and in a tool's result or a retrieved chunk that the program received."""
        from freezeframe_replay import assertions

        _fail_with(assertions.grounded(self.report, self.fixture, text), self.report)

    def assert_took_at_most(self, seconds: float) -> None:
        """Fail if the calls that the program made took longer, as they were recorded."""
        from freezeframe_replay import assertions

        _fail_with(assertions.took_at_most(self.report, self.fixture, seconds), self.report)

    def assert_cost_at_most(self, usd: float) -> None:
        """Fail if the calls that the program made cost more at list price, or if that is not known."""
        from freezeframe_replay import assertions

        _fail_with(assertions.cost_at_most(self.report, self.fixture, usd), self.report)

    def assert_identical(self) -> None:
        """Fail unless the code re-enacts the recording exactly; a replay that compared nothing also fails.

        A run of another instrumentation, whose bytes are not known, is re-enacted if it is the same in meaning.
        """
        from freezeframe_replay.report.report_text import report_text
        from freezeframe_schemas.verdict import verdict

        if not verdict(self.report).agrees:
            _fail(f"the recording is no longer re-enacted\n\n{report_text(self.report)}")

    def assert_not_reenacted(self) -> None:
        """Fail while the code re-enacts the recorded failure, or if the replay gives no verdict on the code.

        Passes when the first divergence is a change of behaviour (REPLAY-101 to REPLAY-104), or another result of a tool whose
        code changed (REPLAY-110).
        """
        from freezeframe_replay.report.report_text import report_text
        from freezeframe_schemas.gaps import KEPT_ANSWER
        from freezeframe_schemas.verdict import verdict, why_incomparable

        if verdict(self.report).agrees:
            still = f"the recorded failure is re-enacted exactly: the code still does the same\n\n{report_text(self.report)}"
            _fail(still + _if_a_setting_was_fixed(self.report.did_not_run))
        kept = (f"{gap}; unchanged code differs, too" for gap in self.fixture.gaps if KEPT_ANSWER in gap)
        reason = why_incomparable(self.report) or next(kept, None)
        if reason is not None:
            _fail(f"the replay cannot be compared: {reason}\n\n{report_text(self.report)}")


def _if_a_setting_was_fixed(names: Sequence[str]) -> str:
    """Return how to run what the recording answered for; its code is unchanged, but it may read something that is not."""
    if not names:
        return ""
    tools = [name.partition(" ")[2] for name in names]
    return (
        f"\n  {', '.join(names)}: the recorded results, the code did not run. If the fix is in what it reads (a setting, a"
        f" file, a table):\n  @pytest.mark.freezeframe(run_tools={tools!r}) on this test, which then compares what it returns"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenRun:
    """A fixture directory and how its program is started."""

    directory: Path
    command: tuple[str, ...] | None = None
    """Program to start instead of the recorded entry point."""
    cwd: Path
    ignore: tuple[str, ...] = ()
    """Components of the request key to ignore, for example ``body.temperature``."""
    timeout_s: float = _DEFAULT_TIMEOUT_S
    hermetic: bool = False
    """Also block starting processes and changing files."""
    require_values: bool = False
    """A replay in which a private value was not compared is not identical."""
    run_tools: tuple[str, ...] | None = None
    """The tools whose own code runs, answered from the recording; None: those whose code changed since."""

    def replay(self) -> Result:
        """Run the program again, offline, answered from the recording. A replay that cannot run fails the test."""
        from freezeframe_replay.engine.policy import HERMETIC, ReplayPolicy
        from freezeframe_replay.process.reenact import reenact
        from freezeframe_schemas.errors import FreezeframeError
        from freezeframe_schemas.fixture import load_fixture

        policy = ReplayPolicy(
            ignore=self.ignore,
            fences=HERMETIC if self.hermetic else frozenset(),
            require_values=self.require_values,
            run_tools=frozenset(self.run_tools or ()),
            run_changed=self.run_tools is None,
        )
        try:
            report = reenact(self.directory, self.command, cwd=self.cwd, policy=policy, timeout_s=self.timeout_s)
            return Result(report=report, fixture=load_fixture(self.directory))
        except FreezeframeError as error:
            message = f"the replay could not run\n\n{error}"
        _fail(message)  # outside the handler, or pytest shows our error again, as the cause


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --freezeframe (when `freezeframe_cassette` records), --freezeframe-hermetic and --freezeframe-require-values."""
    group = parser.getgroup(MARKER)
    group.addoption(
        "--freezeframe-hermetic",
        action="store_true",
        help="every replay of freezeframe_fixture also fences off starting processes and changing files, besides sockets",
    )
    group.addoption(
        "--freezeframe-require-values",
        action="store_true",
        help="no replay of freezeframe_fixture is identical unless every private value is compared, which requires the "
        "recording's key",
    )
    group.addoption(
        "--freezeframe",
        choices=("none", "once", "auto", "live"),
        default="none",
        help="what freezeframe_cassette does: none, play only (default); once, record what has no recording yet; auto, also "
        "record what asks something new; live, neither record nor play",
    )


@pytest.fixture
def freezeframe_cassette(request: pytest.FixtureRequest) -> Cassette:
    """A recording that the test makes itself: ``cassettes/<test's file>/<test>`` next to it, or the marker's path."""
    from freezeframe_replay.cassette import Cassette, Mode

    options = _marker_options(request)
    node: Any = request.node
    own = Path("cassettes") / request.path.stem / _folder_of(str(node.nodeid).partition("::")[2])
    return Cassette(
        directory=request.path.parent / str(options.get("path", own)),
        mode=Mode(str(request.config.getoption("--freezeframe"))),
        ignore=_texts(options.get("ignore", ())),
        redact=options.get("redact"),
    )


def _folder_of(test: str) -> str:
    """Return a folder's name for ``Class::test[parameters]``: unique, even on a case-insensitive file system."""
    name = test.replace("::", ".")
    safe = re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)[:_MAX_NAME_LENGTH]
    if safe == re.sub(r"\[(.*)\]$", r"-\1-", name, flags=re.DOTALL).lower():
        return safe
    return f"{safe}-{hashlib.sha256(test.encode(errors='surrogatepass')).hexdigest()[:8]}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate a test for each fixture below the marker's `folder`."""
    folder = next(
        (marker.kwargs["folder"] for marker in metafunc.definition.iter_markers(MARKER) if "folder" in marker.kwargs), None
    )
    if folder is None or "freezeframe_fixture" not in metafunc.fixturenames:
        return
    root = metafunc.definition.path.parent / str(folder)
    found = sorted(path.parent for path in root.rglob("manifest.json"))
    if not found:
        _fail(f"marker {MARKER}: folder={str(folder)!r}: found no fixture below {root}")
    ids = [path.relative_to(root).as_posix() for path in found]
    metafunc.parametrize("freezeframe_fixture", found, indirect=True, ids=ids)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, so that --strict-markers accepts it."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(path, command, cwd, ignore, timeout_s, hermetic, require_values, run_tools, folder, redact): what "
        "`freezeframe_fixture` replays. Paths are relative to the test's file; command is a list of arguments; ignore names "
        "request components to leave out of the comparison; hermetic=True also fences off starting processes and changing "
        "files; require_values=True "
        "fails if a private value was not compared; run_tools names the tools whose own code runs (default: those whose code "
        "changed since the recording; () for none); folder makes a test of each fixture below it; redact names the policy "
        "under which a cassette is redacted before it is written.",
    )


@pytest.fixture
def freezeframe_fixture(request: pytest.FixtureRequest) -> FrozenRun:
    """A recorded run: by default the fixture next to the test's file (or in a folder named after it)."""
    options = _marker_options(request)
    folder = request.path.parent
    directory = getattr(request, "param", None) or (
        folder / str(options["path"]) if "path" in options else _directory_for(request.path)
    )
    fixture = _load(directory)
    command = options.get("command")
    if isinstance(command, str):
        _fail(f'marker {MARKER}: command={command!r} is text, expected a list of arguments, ["python", "agent.py"]')
    if "cwd" in options:
        cwd = (folder / str(options["cwd"])).resolve()
    else:
        cwd = _working_directory(fixture.entry.file, directory, request.config)
    return FrozenRun(
        directory=directory,
        command=None if command is None else _program(command),
        cwd=cwd,
        ignore=_texts(options.get("ignore", ())),
        timeout_s=float(options.get("timeout_s", _DEFAULT_TIMEOUT_S)),
        hermetic=bool(options.get("hermetic", request.config.getoption("--freezeframe-hermetic"))),
        run_tools=None if options.get("run_tools") is None else _texts(options["run_tools"]),
        require_values=bool(options.get("require_values", request.config.getoption("--freezeframe-require-values"))),
    )


def _marker_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    node: Any = request.node
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):  # the closest marker comes last and wins
        unknown = sorted(set(marker.kwargs) - _OPTIONS)
        if unknown or len(marker.args) > 1:
            _fail(f"marker {MARKER}: found {', '.join(unknown) or marker.args}, expected {', '.join(sorted(_OPTIONS))}")
        if marker.args:
            options["path"] = marker.args[0]
        options.update(marker.kwargs)
    return options


def _program(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command with ``python`` as the interpreter that runs the tests, whatever is first on the PATH."""
    first, *rest = [str(item) for item in command]
    return (sys.executable if first in ("python", "python3") else first, *rest)


def _texts(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _directory_for(test_file: Path) -> Path:
    """Return the folder of the test's file if it is a fixture, else the one next to it that is named after the test."""
    if (test_file.parent / "manifest.json").is_file():
        return test_file.parent
    return test_file.parent / test_file.stem.removeprefix("test_")


def _load(directory: Path) -> Fixture:
    from freezeframe_schemas.errors import FreezeframeError
    from freezeframe_schemas.fixture import load_fixture

    try:
        return load_fixture(directory)
    except FreezeframeError as error:
        message = f"no recorded run to replay\n\n{error}"
    _fail(message)


def _working_directory(entry_file: str | None, directory: Path, config: pytest.Config) -> Path:
    """Return the folder to start the program in: the nearest one above the fixture from which the recorded file can be found.

    Recordings name the file relative to the working directory at that time; a checkout may be anywhere. A
    folder outside of the project is never used: a recording could name any file of the machine with it.
    """
    if entry_file and not Path(entry_file).is_absolute() and ".." not in Path(entry_file).parts:
        above, project = directory.resolve(), config.rootpath.resolve()
        inside = (folder for folder in (above, *above.parents) if folder.is_relative_to(project))
        for candidate in (*inside, config.rootpath, config.invocation_params.dir):
            if (candidate / entry_file).is_file():
                return candidate
    return config.rootpath


def _fail_with(fault: str | None, report: Report) -> None:
    from freezeframe_replay.report.report_text import report_text

    if fault is not None:
        _fail(f"{fault}\n\n{report_text(report)}")


def _fail(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)
