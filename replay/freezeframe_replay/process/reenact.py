"""Run a fixture: start the program in a child process that answers every seam from the recording, and return the report."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import freezeframe
from freezeframe.context.environment import DATABASES_VARIABLE, FILES_VARIABLE, HASH_SEED_VARIABLE, is_hash_seed
from freezeframe_replay.engine.policy import Fence, ReplayPolicy, policy_to_json
from freezeframe_replay.process.child_task import ChildTask, is_called, key_of
from freezeframe_replay.process.keeper import ended_with_us
from freezeframe_replay.process.own_code import own_code
from freezeframe_replay.process.peers import Peers, peers_file
from freezeframe_replay.process.recorded_command import recorded_command
from freezeframe_replay.process.surroundings import Interpreter, at_recorded_commit, surroundings_warnings
from freezeframe_schemas import genai, values
from freezeframe_schemas.data_directory import KEYS, find_data_directory
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Report, Served, report_from_json
from freezeframe_schemas.errors import ReplayError
from freezeframe_schemas.exchange import SECRET_REMOVED
from freezeframe_schemas.fixture import Fixture, load_fixture, write_fixture
from freezeframe_schemas.gaps import OF_A_WORKER
from freezeframe_schemas.run import EntryKind
from freezeframe_schemas.verdict import shows_nothing, title

_PLACEHOLDER: Final = "replay"
"""Replaces a recorded key: clients cannot be created without one, and a replay never sends any."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUNTIMES: Final = re.compile(
    r"_?(LD_|DYLD_|MALLOC|GLIBC|GCONV|NLSPATH"  # loaders and the C library
    r"|PY(THON|ENV|TEST)|NODE_|NPM_|DENO_|BUN_|RUBY|GEM_|PERL|PHP|LUA_|JAVA|JDK|JVM|JULIA_|CARGO|RUST|DOTNET|COMPLUS|GO(FLAGS|DEBUG)|R_"
    r"|BASH|ZSH|ENV$|PS4$|IFS$|TERM|GIT_|SSH_|GPG|SUDO|LESS|DOCKER_|KUBE"  # shells, and programs that start others
    r"|PIP_|UV_|CONDA|VIRTUAL|XDG_|DJANGO_|FLASK_|CELERY|GUNICORN|UVICORN|FREEZEFRAME)"  # what is installed; us
)
_PARTS: Final = re.compile(
    r"PATH|PRELOAD|LIBRAR|PLUGIN|MODULE|LOADER|CONFIG|FILE|SHELL|EDITOR|PAGER|BROWSER|ASKPASS|COMMAND|CREDENTIALS"
    r"|PROXY|CERT|BUNDLE|SSL|TLS"
    r"|(^|_)(HOME|DIRS?|ROOT|PREFIX|TMP|TMPDIR|TEMP|TEMPDIR|LIBS?|CONF|RC|CMD|EXEC|ARGS|OPTS|OPTIONS|HOOKS?|INIT|STARTUP|CA"
    r"|VISUAL|IMPORTS?|PACKAGES?)($|_)"
)
"""Parts of names of variables that control what is loaded, started, or trusted."""
_PATH: Final = re.compile(r"(?:^|[:;,=\s])(?:~|\.{0,2}/(?!/)|file:)")
"""A value that names a file of this machine."""
_ADDRESS: Final = re.compile(r"(^|_)(URL|URI|BASE|ENDPOINT|HOST|HOSTS|ADDR|ADDRESS|SERVER|DOMAIN|ORIGIN|PORT)($|_)")
_VALUES: Final = {
    DATABASES_VARIABLE: re.compile("true"),
    FILES_VARIABLE: re.compile("true"),
    "TZ": re.compile(r"(?!:?/)[A-Za-z0-9_+\-,.<>:/]+"),
}
"""Variables that are set to a value of this form."""
_LOCALE: Final = re.compile(r"[\w.@-]*")


def recorded_variables(fixture: Fixture, *, goes_live: bool) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables that reproduce the run's environment, and the names of those that are left out.

    `goes_live`: the program asks a model for real, with the user's own key; then no address is taken from the recording.
    """
    recorded: Any = json.loads(fixture.entry.environment or "{}")
    if not isinstance(recorded, dict):
        recorded = {}
    zone = fixture.environment.get(genai.TIMEZONE)
    variables: Mapping[str, Any] = {**recorded, "TZ": zone} if zone else recorded
    safe = {name: value for name, value in variables.items() if _is_safe(name, value, goes_live=goes_live)}
    left_out = tuple(
        name
        for name in recorded
        if name not in safe and not name.startswith("FREEZEFRAME_") and recorded[name] != os.environ.get(name)
    )
    return {name: _PLACEHOLDER if value == SECRET_REMOVED else value for name, value in safe.items()}, left_out


def _is_safe(name: str, value: object, *, goes_live: bool) -> bool:
    if not isinstance(value, str) or "\0" in value or not _NAME.fullmatch(name):
        return False
    upper = name.upper()
    if name == HASH_SEED_VARIABLE:
        return is_hash_seed(value)
    if name in _VALUES:
        return _VALUES[name].fullmatch(value) is not None and ".." not in value
    if upper in ("LANG", "LANGUAGE") or upper.startswith("LC_"):
        return _LOCALE.fullmatch(value) is not None
    if goes_live and ("://" in value or _ADDRESS.search(upper)):
        return False
    return not (_PATH.search(value) or _RUNTIMES.match(upper) or _PARTS.search(upper))


DEFAULT_TIMEOUT_S: Final = 600.0
_LOOK_EVERY_S: Final = 1.0
_NAMED: Final = 5
_PATIENCE_S: Final = 5.0
"""Time that a program may continue after one of its processes diverged."""


OnLook = Callable[[Mapping[int, Served]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Options with which runs are re-enacted, see `reenact`."""

    policy: ReplayPolicy = field(default_factory=ReplayPolicy)
    command: tuple[str, ...] = ()
    """The program to start in place of the recorded entry point."""
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = DEFAULT_TIMEOUT_S
    keys: Path | None = None
    at_commit: bool = False
    quiet: bool = True
    interpreter: Interpreter | None = None
    on_look: OnLook | None = None
    spans: Path | None = None

    @property
    def python(self) -> Interpreter:
        return self.interpreter or Interpreter()

    @property
    def key_folder(self) -> Path:
        return self.keys or find_data_directory(start=self.cwd) / KEYS

    def replay(self, fixture: Fixture | Path, *, cwd: Path | None = None, spans: Path | None = None) -> Report:
        """Re-enact one of them; the errors are those of `reenact`."""
        how = replace(self, cwd=cwd or self.cwd, spans=spans)
        with contextlib.ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="freezeframe-")))
            directory, loaded = _in_files(fixture, scratch)
            _check(loaded, is_own=not self.command)
            warnings = list[str]()
            if self.at_commit:
                place, warnings = stack.enter_context(at_recorded_commit(loaded, how.cwd or Path.cwd()))
                how = replace(how, cwd=place)
            report = _with_changed_tools(loaded, directory, how)
            return replace(report, warnings=(*report.warnings, *warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Until:
    """Time limit of a program, and its observers."""

    timeout_s: float
    peers: Peers
    on_look: OnLook | None


def reenact(
    fixture: Fixture | Path,
    command: Sequence[str] | None = None,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    policy: ReplayPolicy | None = None,
    at_commit: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    quiet: bool = True,
    spans: Path | None = None,
    keys: Path | None = None,
    on_look: OnLook | None = None,
    interpreter: Interpreter | None = None,
) -> Report:
    """Re-enact a run offline and report where it leaves the recording.

    Args:
        fixture: the fixture, or the directory that holds one.
        command: the command to start (default: the recorded function or command, with the recorded input).
        cwd: working directory of the program (default: this one).
        env: variables added to this process's own, which they override.
        policy: what the replay may do besides answering from the recording (default: nothing).
        at_commit: run the code of the recorded commit, checked out into a worktree for the time of the replay.
        timeout_s: seconds after which the program is ended.
        quiet: keep the program's standard output out of freezeframe.
        keys: directory of the keys for comparing private values (default: that of the data directory, as found from
            `cwd`). Without the recording's key, the program's own values are only paired with surrogates.
        spans: file to which the replay is recorded as a run; `kept.kept_run` makes a fixture of it.
        on_look: called about once a second, with the steps answered so far; an exception from it ends the program.
        interpreter: the Python that runs a recorded function or script (default: this one).

    Raises:
        FixtureError: the fixture cannot be read.
        ReplayError: the program could not be started, ran out of time, or ended without leaving a report.
    """
    trial = Trial(
        policy=policy or ReplayPolicy(),
        command=tuple(command or ()),
        env=env or {},
        timeout_s=timeout_s,
        keys=keys,
        at_commit=at_commit,
        quiet=quiet,
        interpreter=interpreter,
        on_look=on_look,
    )
    return trial.replay(fixture, cwd=cwd, spans=spans)


def _with_changed_tools(fixture: Fixture, directory: Path, how: Trial) -> Report:
    """Re-enact once, and again without the changed tools that reach what a replay stops."""
    report = _once(fixture, directory, how)
    stuck = _stuck(report, how.policy)
    if not stuck:
        return report
    if how.spans is not None:
        how.spans.unlink(missing_ok=True)
    left = {item.inside.partition(" ")[2] for item in stuck}
    policy = replace(how.policy, skip_tools=how.policy.skip_tools | left)
    again = _once(fixture, directory, replace(how, policy=policy))
    why = dict.fromkeys(
        f"the new code of {item.inside} cannot run on the recorded calls: {title(item, report.lanes)}" for item in stuck
    )
    return replace(again, warnings=(*again.warnings, *why))


def _once(fixture: Fixture, directory: Path, how: Trial) -> Report:
    with tempfile.TemporaryDirectory(prefix="freezeframe-") as name:
        scratch = Path(name)
        policy, of_the_fence = _fenced(how.policy, scratch, how.spans)
        variables, left_out = _variables(fixture, policy, of_the_fence | {**how.python.variables, **how.env})
        report = _enact(fixture, directory, scratch / "report.json", replace(how, policy=policy), variables)
    warnings = _left_out("variable", left_out, "set them yourself")
    warnings += surroundings_warnings(fixture, how.cwd or Path.cwd(), how.python)
    return replace(report, warnings=(*report.warnings, *warnings))


def _stuck(report: Report, policy: ReplayPolicy) -> list[Divergence]:
    """Return what stopped changed tools that were not named: the replay is made without them."""
    if not policy.run_changed:
        return []
    found = [item for item in report.divergences if item.inside and shows_nothing(item)]
    return [item for item in found if item.inside.partition(" ")[2] not in policy.run_tools]


def _variables(fixture: Fixture, policy: ReplayPolicy, added: Mapping[str, str]) -> tuple[dict[str, str], Sequence[str]]:
    """Return this process's variables with the recorded and added ones, and which recorded ones are left out."""
    recorded, left_out = recorded_variables(fixture, goes_live=policy.goes_live)
    # A replay that goes live needs this process's keys and addresses.
    ours = (recorded.keys() - {HASH_SEED_VARIABLE}) & os.environ.keys() if policy.goes_live else ()
    return {**os.environ, **recorded, **{name: os.environ[name] for name in ours}, **added}, left_out


def _check(fixture: Fixture, *, is_own: bool) -> None:
    """Refuse a recording whose texts are not JSON, and a worker's as its own entry point."""
    for name in ("input", "output", "error", "environment", "flags", "clock_readings", "random_state"):
        try:
            json.loads(getattr(fixture.entry, name) or "null")
        except (ValueError, RecursionError) as error:
            raise ReplayError(f"run {fixture.run_id}: its {name} is not readable: {error}", do="record it again") from None
    if is_own and (OF_A_WORKER in fixture.gaps or any(gap.startswith(f"{OF_A_WORKER}: ") for gap in fixture.gaps)):
        raise ReplayError(
            f"run {fixture.run_id}: {OF_A_WORKER}",
            do="mark the function that the worker calls with @freezeframe.run, and replay its runs",
        )


def _left_out(what: str, names: Sequence[str], do: str) -> list[str]:
    """Return the warning about recorded settings that a replay does not adopt."""
    shown = ", ".join(f"{name:.60}" for name in names[:_NAMED]) + (
        f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    )
    return [f"recorded with the {what}{'s' if len(names) > 1 else ''} {shown}, which no recording sets: {do}"] if names else []


def _enact(fixture: Fixture, directory: Path, report_path: Path, how: Trial, variables: dict[str, str]) -> Report:
    """Start the program of a fixture, which `directory` holds, and return its report."""
    on_look = how.on_look
    if fixture.entry.kind is EntryKind.PROGRAM:
        from freezeframe_replay.process.programs import enact_program

        argv = how.command or _entry_command(fixture, how)[0]
        return enact_program(
            fixture,
            argv,
            environment=variables,
            policy=how.policy,
            key=key_of(fixture, how.key_folder),
            timeout_s=how.timeout_s,
            quiet=how.quiet,
            cwd=how.cwd,
            is_given=not how.command,
            on_look=None if on_look is None else lambda: on_look({}),
        )
    variables |= ChildTask(
        fixture=str(directory.resolve()),
        report=str(report_path),
        policy=policy_to_json(how.policy),
        spans="" if how.spans is None else str(how.spans.resolve()),
        keys=str(how.key_folder.resolve()) if key_of(fixture, how.key_folder) is not None else "",
        layer="" if Fence.WRITES in how.policy.fences else str(report_path.with_name("layer")),
    ).variables()
    if how.command or fixture.entry.kind is EntryKind.COMMAND:
        variables = freezeframe.injected_environment("freezeframe_replay.process.child:activate", variables)
    with contextlib.closing(Peers(peers_file(report_path))) as peers:
        until = _Until(timeout_s=how.timeout_s, peers=peers, on_look=on_look)
        argv, options = (list(how.command), ()) if how.command else _entry_command(fixture, how)
        outcome = _run(argv, variables, how.cwd, how.quiet, _stdin(fixture), until)
        if outcome is None:
            return _stopped(peers, fixture)
        report = _read_report(report_path, outcome)
        return replace(
            report,
            warnings=(*report.warnings, *_left_out("option", options, "name the command: freezeframe replay RUN -- CMD")),
            input_check=_input_check(report, fixture, is_own=not how.command),
            exit_status=_uncompared_status(report, fixture, outcome.returncode),
        )


def _in_files(fixture: Fixture | Path, scratch: Path) -> tuple[Path, Fixture]:
    """Return the directory that holds a fixture, and the fixture."""
    if isinstance(fixture, Path):
        return fixture, load_fixture(fixture)
    directory = scratch / "fixture"
    write_fixture(fixture, directory)
    return directory, fixture


def _stopped(peers: Peers, fixture: Fixture) -> Report:
    """Return the report of a program that was stopped, as its other processes left it."""
    reported = peers.without_the_first(fixture.run_id, len(fixture.askable))
    assert reported is not None
    return replace(
        reported, warnings=("the program was stopped: it was still waiting for a process that had left the recording",)
    )


def _fenced(policy: ReplayPolicy, scratch: Path, spans: Path | None) -> tuple[ReplayPolicy, dict[str, str]]:
    """Return the policy and the variables that give a program that must not write a place for temporary files."""
    if Fence.WRITES not in policy.fences:
        layer = scratch / "layer"
        read = replace(policy, allow_paths=(*policy.allow_paths, str(layer))) if Fence.READS in policy.fences else policy
        return read, {}
    # Temporary files disappear with the replay, so writing them has no effect.
    temporary = scratch / "tmp"
    temporary.mkdir()
    kept = () if spans is None else (str(spans.resolve()),)
    allowed = replace(policy, allow_paths=(*policy.allow_paths, str(temporary), *kept))
    # A late import would write byte code and be stopped.
    return allowed, {"TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}


def _read_report(path: Path, ended: subprocess.CompletedProcess[str]) -> Report:
    if not path.exists():
        raise ReplayError(
            f"{' '.join(ended.args)}: exited with status {ended.returncode} without a report",
            do=f"see what it printed: {_tail(ended.stderr)}",
        )
    return _with_exit(report_from_json(path.read_text(encoding="utf-8")), ended)


def _with_exit(report: Report, ended: subprocess.CompletedProcess[str]) -> Report:
    """Return the report completed by the program's exit."""
    unasked = all(item.kind is DivergenceKind.MISSING_CALL for item in report.divergences)
    if ended.returncode and report.steps and not report.served and unasked:
        # It ended in an error before its first call: that says nothing about the recorded steps.
        report = replace(report, entered=False, divergences=())
    if not report.entered:
        warning = f"the program exited with status {ended.returncode} before its entry point: {_tail(ended.stderr)}"
    elif ended.returncode and report.outcome is None:
        warning = f"the program exited with status {ended.returncode}: {_tail(ended.stderr)}"
    else:
        return report
    return replace(report, warnings=(*report.warnings, warning))


def _uncompared_status(report: Report, fixture: Fixture, ended: int) -> int:
    """Return the exit status that the outcome does not show: 0 if it does, or if the recorded one is unknown."""
    if "exit" in report.unheard or (report.outcome is not None and values.is_exception(report.outcome)):
        return 0
    came_to = values.decode(report.outcome) if report.outcome and fixture.entry.kind is EntryKind.COMMAND else None
    reported = came_to.get("exit", 0) if isinstance(came_to, dict) else 0
    return 0 if reported == ended else ended


def _input_check(report: Report, fixture: Fixture, *, is_own: bool) -> Check:
    """Return the extent of the input's comparison. The replay gives a command all of its input, unless it starts another."""
    return Check.GIVEN if is_own and fixture.entry.kind is EntryKind.COMMAND else report.input_check


def _entry_command(fixture: Fixture, how: Trial) -> tuple[list[str], tuple[str, ...]]:
    """Return the command that starts the recorded entry point, and the omitted recorded options of Python."""
    if is_called(fixture):
        return [how.python.executable, "-m", "freezeframe_replay.process.child"], ()
    own = own_code(how.cwd or Path.cwd())
    return recorded_command(fixture, own, how.python.executable, how.python.path)


def _stdin(fixture: Fixture) -> bytes:
    """Return the recorded command's standard input, empty if it read none."""
    payload: Any = values.decode(fixture.entry.input) if fixture.entry.input else None
    read = payload.get("stdin") if fixture.entry.kind is EntryKind.COMMAND and isinstance(payload, dict) else None
    return read.encode() if isinstance(read, str) else read or b""


def _run(
    command: Sequence[str],
    variables: Mapping[str, str],
    cwd: Path | None,
    quiet: bool,
    stdin: bytes,
    until: _Until,
) -> subprocess.CompletedProcess[str] | None:
    """Return the end of the program; None if it had to be ended because it waits for a process that is gone."""
    try:
        # A file, not a pipe: the program may read as much of it as it likes, and no one has to write meanwhile.
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            process = subprocess.Popen(
                command,
                env=dict(variables),
                cwd=cwd,
                stdin=given,
                stdout=subprocess.DEVNULL if quiet else None,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # its own group: processes that the program starts end with it
            )
    except OSError as error:
        raise ReplayError(f"{command[0]}: cannot be started: {error.strerror}") from error
    with process:
        try:
            with ended_with_us(process.pid, is_group=True):
                ended = _wait(process, until)
        except subprocess.TimeoutExpired as error:
            raise ReplayError(
                f"{' '.join(command)}: did not finish within {until.timeout_s:.0f} s",
                do="the program may be waiting for something that a replay does not serve; raise --timeout if it is only slow",
            ) from error
        finally:
            _end_group(process.pid)
    return None if ended is None else subprocess.CompletedProcess(command, process.returncode, stderr=ended)


def _wait(process: subprocess.Popen[str], until: _Until) -> str | None:
    """Return the program's standard error. A pool may wait forever for a worker that a miss ended: then None."""
    deadline_s = time.monotonic() + until.timeout_s
    left_at_s = None
    while True:
        try:
            return process.communicate(timeout=max(0.0, min(_LOOK_EVERY_S, deadline_s - time.monotonic())))[1]
        except subprocess.TimeoutExpired as waiting:
            if process.poll() is not None:  # a process that it started holds the pipe open
                return (waiting.stderr or b"").decode(errors="replace")
            now_s = time.monotonic()
            if until.on_look is not None:
                until.on_look(until.peers.served())
            if left_at_s is None and until.peers.any_diverged():
                left_at_s = now_s
            if left_at_s is not None and now_s - left_at_s > _PATIENCE_S:
                return None
            if now_s >= deadline_s:
                raise


def _end_group(leader: int) -> None:
    """End the remaining processes of the program's group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _tail(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").strip().splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "nothing"
