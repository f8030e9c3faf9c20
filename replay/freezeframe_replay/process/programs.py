"""Programs in any language: started under the recording proxy, or against a server that answers from their run."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from freezeframe._config import Settings, load_settings
from freezeframe._instrument import make_exporter
from freezeframe._version import __version__
from freezeframe.context.environment import git_attributes, lock_file, recorded_environment, time_zone
from freezeframe.export.export_queue import BatchResult
from freezeframe_replay.engine.policy import ReplayPolicy
from freezeframe_replay.process.keeper import ended_with_us
from freezeframe_replay.process.loopback_http import proxy_variables
from freezeframe_replay.process.program_recorder import PROXIED, Program, ProgramRecorder
from freezeframe_replay.process.record_proxy import Known, recording_proxy
from freezeframe_replay.process.served_run import ServedRun
from freezeframe_replay.process.session_authority import session_authority
from freezeframe_replay.process.wire_server import serve_wire
from freezeframe_schemas import genai, values
from freezeframe_schemas.data_directory import collector_url, find_data_directory
from freezeframe_schemas.divergence import Check, Divergence, DivergenceKind, Report
from freezeframe_schemas.errors import ConfigError, ReplayError
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.span import AttributeValue

if TYPE_CHECKING:
    from freezeframe_redaction.keyring.keys import TenantKey

_GRACE_S: Final = 5.0
_LOOK_EVERY_S: Final = 1.0


def record_program(
    argv: Sequence[str],
    *,
    settings: Settings,
    timeout_s: float | None = None,
    known: Known | None = None,
    stdout: Any = None,
    is_proxy: bool = False,
) -> tuple[ProgramRecorder, int, BatchResult]:
    """Run a program under the recording proxy; return the recorder, the exit status, and the counts of spans.

    Args:
        argv: the program and its arguments.
        settings: destination of spans, and limits.
        timeout_s: seconds after which the program is ended.
        known: answers a request without its server.
        stdout: destination of its output; None: ours.
        is_proxy: whether the program also uses us as its proxy for http and https.

    Raises:
        ConfigError: cryptography, which a proxy for https requires, is not installed.
        ReplayError: the program cannot be started.
    """
    program = Program(
        argv=tuple(argv), environment=recorded_environment(settings.record_env), resource=_resource(settings, argv[0])
    )
    recorder = ProgramRecorder(program, make_exporter(settings))
    status = 1
    try:
        with ExitStack() as stack:
            authority = stack.enter_context(session_authority(os.environ)) if is_proxy else None
            limit = settings.max_body_bytes
            proxy = recording_proxy(recorder, os.environ, limit_bytes=limit, known=known, authority=authority)
            variables = stack.enter_context(proxy)
            status = run_program(argv, {**os.environ, **variables}, timeout_s=timeout_s, stdout=stdout)
    finally:
        result = recorder.finish(status)
    return recorder, status, result


def _resource(settings: Settings, program: str) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        genai.SERVICE_NAME: settings.service_name or Path(program).name,
        genai.LIBRARY_VERSION: __version__,
        genai.TIMEZONE: time_zone(),
        **git_attributes(Path.cwd()),
    }
    locked = lock_file(Path.cwd())
    return {**found, genai.LOCK_FILE: locked} if locked else found


def run_program(
    argv: Sequence[str],
    variables: Mapping[str, str],
    *,
    timeout_s: float | None,
    cwd: Path | None = None,
    stdout: Any = None,
    stderr: Any = None,
    stdin: int | None = None,
    on_look: Callable[[], object] | None = None,
) -> int:
    """Run a program to its end and return its exit status, as a shell reports it. Ctrl-C reaches it; it ends with us.

    `on_look` is called about once a second; if it raises, the program is killed.

    Raises:
        ReplayError: it cannot be started, or does not finish in time.
    """
    try:
        process = subprocess.Popen(argv, env=dict(variables), cwd=cwd, stdout=stdout, stderr=stderr, stdin=stdin)
    except OSError as error:
        raise ReplayError(f"{argv[0]}: cannot be started: {error.strerror}") from error
    until_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    with process, ended_with_us(process.pid):
        while True:
            try:
                status = process.wait(min(_LOOK_EVERY_S, max(until_s - time.monotonic(), 0)))
                break
            except KeyboardInterrupt:
                until_s = time.monotonic() + _GRACE_S  # the terminal has interrupted the program, too
            except SystemExit:
                process.terminate()
                raise
            except subprocess.TimeoutExpired:
                try:
                    _look(argv, until_s, timeout_s, on_look)
                except BaseException:
                    process.kill()
                    raise
    return 128 - status if status < 0 else status


def _look(argv: Sequence[str], until_s: float, timeout_s: float | None, on_look: Callable[[], object] | None) -> None:
    if time.monotonic() >= until_s:
        limit_s = _GRACE_S if timeout_s is None else timeout_s
        raise ReplayError(f"{' '.join(argv)}: did not finish within {limit_s:.0f} s", do="raise --timeout if it is only slow")
    if on_look is not None:
        on_look()


def enact_program(
    fixture: Fixture,
    argv: Sequence[str],
    *,
    is_given: bool,
    environment: Mapping[str, str],
    policy: ReplayPolicy,
    key: TenantKey | None,
    timeout_s: float,
    quiet: bool,
    cwd: Path | None = None,
    on_look: Callable[[], object] | None = None,
) -> Report:
    """Start a program against a server that answers from its run, and return the report; `is_given`: it is the recorded one.

    Raises:
        ReplayError: it cannot be started.
    """
    if policy.fences or policy.goes_live or policy.stop_before is not None:
        raise ReplayError(
            f"run {fixture.run_id}: a program that is not Python is replayed without fences, live calls and stops",
            do="leave these options out",
        )
    run = ServedRun(fixture, policy=policy, key=key)
    is_proxy = any(step.exchange.seam == PROXIED for step in fixture.steps)
    with serving([run], is_proxy=is_proxy) as (url, through_us), tempfile.TemporaryFile() as said:
        status = run_program(
            list(argv),
            {**environment, **run.environment(url), **through_us},
            timeout_s=timeout_s,
            cwd=cwd,
            stdout=subprocess.DEVNULL if quiet else sys.stderr,
            stderr=said if quiet else None,
            stdin=subprocess.DEVNULL,
            on_look=on_look,
        )
        said.seek(0)
        last = said.read().decode(errors="replace").strip().splitlines()[-1:]
    report = judged(run.report(status), fixture, status, given=is_given)
    if not (status and last):
        return report
    return replace(report, warnings=(*report.warnings, f"the program exited with status {status}: {last[0].strip()[:300]}"))


@contextmanager
def serving(
    runs: Sequence[ServedRun], port: int = 0, *, is_open: bool = False, is_proxy: bool = False
) -> Generator[tuple[str, dict[str, str]]]:
    """Serve runs while the block runs; yields the server's URL, and the variables that make it a program's proxy.

    Args:
        runs: the runs that answer.
        port: the port; 0 for any free one.
        is_open: answer anyone on this machine, without a token.
        is_proxy: be the proxy of programs for http and https, too, without forwarding.

    Raises:
        ConfigError: cryptography, which a proxy for https requires, is not installed.
        OSError: the port is taken.
    """
    with ExitStack() as stack:
        authority = stack.enter_context(session_authority()) if is_proxy else None
        url = stack.enter_context(serve_wire(runs, port, is_open=is_open, authority=authority))
        yield url, {} if authority is None else proxy_variables(url, authority)


def judged(report: Report, fixture: Fixture, status: int, *, given: bool) -> Report:
    """Return the report completed by the program's exit status, and by whether it got the recorded arguments."""
    report = replace(report, input_check=Check.GIVEN if given else report.input_check)
    came_to: Any = values.decode(fixture.entry.output) if fixture.entry.output else None
    recorded = came_to.get("exit") if isinstance(came_to, dict) else None
    if recorded is None or report.divergences:
        return report
    if recorded == status:
        return replace(report, exit_status=0)
    changed = Divergence(
        kind=DivergenceKind.OUTCOME_CHANGED,
        name=fixture.entry.name,
        path="$.exit",
        recorded=str(recorded),
        live=str(status),
    )
    return replace(report, divergences=(changed,))


def collector_settings(given: Mapping[str, object], data: Path | None) -> Settings:
    """Return the settings of a recording; its spans go to the collector of `data` unless something else is set.

    Args:
        given: options of `instrument()`.
        data: the data directory, None for this project's.

    Raises:
        ConfigError: a setting is wrong, or no collector runs for `data`.
    """
    settings = load_settings(given)
    if data is None or settings.endpoint is not None or settings.file is not None:
        return settings
    directory = find_data_directory(data)
    url = collector_url(directory)
    if url is None:
        raise ConfigError(f"no collector is running for {directory}", do=f"freezeframe up --data {directory}")
    return replace(settings, endpoint=url)
