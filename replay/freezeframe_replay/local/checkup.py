"""The checks of `freezeframe doctor`: each covers one thing, and returns ok, warn or fail and a remedy."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata, util
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from freezeframe._config import USUAL_ENDPOINT
from freezeframe._delivery_report import delivery_reports
from freezeframe_redaction.keyring.keys import read_key_file
from freezeframe_replay.local import daemon
from freezeframe_replay.local.collector import status, store_url
from freezeframe_replay.local.home import Home
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.address import shown_address
from freezeframe_schemas.data_directory import KEYS, VAULT_KEYS, collector_url, find_data_directory, is_chosen
from freezeframe_schemas.errors import ConfigError, FreezeframeError
from freezeframe_schemas.installing import install_command
from freezeframe_schemas.listeners import port_is_free, who_listens
from freezeframe_schemas.local_tokens import ALL, whose_port

_GIB: Final = 1 << 30
_MIN_FREE_BYTES: Final = _GIB // 10
_FEW_FREE_BYTES: Final = 2 * _GIB
_MIN_PYTHON: Final = (3, 11)

_DOORS: Final[Mapping[str, tuple[str, ...]]] = {
    "collector": ("grpc", "aiohttp", "clickhouse_connect", "hyperscan", "zstandard"),
    "embedded": ("chdb",),
    "replay": ("time_machine", "clickhouse_connect", "hyperscan"),
    "ui": ("aiohttp", "jinja2"),
    "mcp": ("mcp",),
}
"""Extra -> modules that it installs."""

_SPOILERS: Final = (
    ("OTEL_SDK_DISABLED", "true", "the OpenTelemetry SDK is disabled, so nothing is recorded"),
    ("OTEL_TRACES_EXPORTER", "none", "no spans are sent"),
    ("OTEL_TRACES_SAMPLER", "always_off", "no spans are recorded"),
)
_CUTTERS: Final = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
_ENDPOINTS: Final = ("FREEZEFRAME_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables in which `instrument()` looks for the collector's address; the first that is set wins."""
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Grade(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one check; `do` is the remedy if it failed."""

    check: str
    grade: Grade
    found: str
    do: str = ""


def checkup(home: Home, *, environ: Mapping[str, str] = os.environ) -> Iterable[CheckResult]:
    """Yield the findings of every check, ordered so that the first failed one is the one to fix first."""
    checks: tuple[Callable[[], Iterable[CheckResult]], ...] = (
        _python,
        _packages,
        _libraries,
        _delivery,
        lambda: _directory(home),
        lambda: _secret_files(home),
        lambda: _disk(home),
        lambda: _ports(home),
        lambda: _collector(home),
        lambda: _store(home),
        lambda: _environment(environ),
        _clock,
    )
    for check in checks:
        yield from check()


def _ok(check: str, found: str) -> CheckResult:
    return CheckResult(check=check, grade=Grade.OK, found=found)


def _warn(check: str, found: str, do: str) -> CheckResult:
    return CheckResult(check=check, grade=Grade.WARN, found=found, do=do)


def _fail(check: str, found: str, do: str) -> CheckResult:
    return CheckResult(check=check, grade=Grade.FAIL, found=found, do=do)


def _python() -> Iterable[CheckResult]:
    found = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    if sys.version_info[:2] < _MIN_PYTHON:
        yield _fail("python", found, "use Python 3.11 or later")
    else:
        yield _ok("python", found)


def _packages() -> Iterable[CheckResult]:
    yield _ok("package freezeframe", metadata.version("freezeframe"))
    for door, modules in _DOORS.items():
        absent = [module for module in modules if not _is_there(module)]
        if absent:
            yield _warn(f"extra {door}", f"not installed: {', '.join(absent)}", install_command(door))
        else:
            yield _ok(f"extra {door}", "installed")


def _is_there(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):  # an import hook refuses it; an entry of sys.modules has no spec
        return False


def _libraries() -> Iterable[CheckResult]:
    """Report which libraries of this environment `instrument()` captures, and which it cannot."""
    import freezeframe

    captured: list[str] = []
    for row in freezeframe.doctor():
        if row.state.value == "not captured":
            yield _warn(f"library {row.library}", f"{row.version} is not captured", row.what)
        else:
            captured.append(f"{row.library} {row.version}")
    if captured:
        yield _ok("libraries captured", ", ".join(captured))
    else:
        do = "functions marked with @freezeframe.tool are captured without one"
        yield _warn("libraries captured", "no supported library is installed here", do)


def _delivery() -> Iterable[CheckResult]:
    """Report the effect of the environment's delivery settings, and the batches waiting on the disk."""
    try:
        reports = delivery_reports()
    except ConfigError as error:
        yield _fail("settings", error.message, error.do or "")
        return
    for report in reports:
        grade = Grade.OK if report.ok else Grade.WARN
        yield CheckResult(check=report.subject, grade=grade, found=report.found, do=report.do)


def _directory(home: Home) -> Iterable[CheckResult]:
    folder = home.directory
    if not folder.exists():
        yield _warn("data directory", f"{folder} does not exist yet", "run `freezeframe up` to create it")
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        do = f"chown it to the user who runs freezeframe, or name another with --data: {folder}"
        yield _fail("data directory", f"{folder} cannot be written to", do)
        return
    if folder.stat().st_mode & 0o077:
        yield _warn("data directory", f"other users can enter {folder}", f"chmod 700 {folder}")
        return
    yield _ok("data directory", str(folder))


def _secret_files(home: Home) -> Iterable[CheckResult]:
    """Check who may read the surrogate keys and the tokens."""
    keys = [path for path in (home.directory / KEYS).rglob("*") if path.is_file()]
    tokens = [path for path in (home.directory / name for name in ALL) if path.is_file()]
    for check, files, do in (
        ("redaction key", keys, "and consider a new key"),
        ("token", tokens, "and delete it: the collector creates a new one at its next start"),
    ):
        open_to_others = [path for path in files if path.stat().st_mode & 0o077]
        for path in open_to_others:
            yield _fail(check, f"other users can read {path}", f"chmod 600 {path}, {do}")
        if files and not open_to_others:
            yield _ok(check, f"{len(files)} found, readable by their owner only")
    for folder in (home.directory / name for name in (KEYS, VAULT_KEYS)):
        if not folder.is_dir() and not folder.is_symlink():
            continue
        place = folder.resolve()
        if not place.is_dir():
            do = f"restore them from a backup, or if they are lost for good, remove the link {folder} and start with new ones"
            yield _fail("keys and data", f"the {folder.name} are missing: {place}", do)
            continue
        if place.is_relative_to(home.directory.resolve()):
            do = f"stop the collector, move {place} elsewhere, and link to it: ln -s ELSEWHERE {folder}"
            found = f"the {folder.name} are in the data directory: a copy of the data is also a copy of the keys"
            yield _warn("keys and data", found, do)
        else:
            yield _ok("keys and data", f"{folder.name} are apart from the data, in {place}")
        if (place / "root.toml").is_file():
            yield _root_key(place)


def _root_key(folder: Path) -> CheckResult:
    """Check that the keys of the folder can be derived; this fetches the root key from its source in ``root.toml``."""
    files = sorted(folder.glob("*.key.json"))
    try:
        for path in files:
            read_key_file(path)
    except ConfigError as error:
        return _fail("root key", str(error), error.do or "restore the root key")
    return _ok("root key", f"{len(files)} keys are there or derived, as {folder / 'root.toml'} says")


def _disk(home: Home) -> Iterable[CheckResult]:
    place = next(folder for folder in (home.directory, *home.directory.parents) if folder.exists())
    free_bytes = shutil.disk_usage(place).free
    found = f"{free_bytes / _GIB:.1f} GiB free at {place}"
    if free_bytes < _FEW_FREE_BYTES:
        grade = Grade.FAIL if free_bytes < _MIN_FREE_BYTES else Grade.WARN
        yield CheckResult(check="disk", grade=grade, found=found, do="free some space, or move the data directory (--data)")
    else:
        yield _ok("disk", found)


def _ports(home: Home) -> Iterable[CheckResult]:
    ours = {service.name: service.ports for service in daemon.services(home) if service.note}
    usual = daemon.Ports()
    wanted = (
        ("OTLP/gRPC", daemon.COLLECTOR, "grpc", usual.grpc),
        ("OTLP/HTTP", daemon.COLLECTOR, "http", usual.http),
        ("ClickHouse HTTP", daemon.COLLECTOR, "clickhouse", usual.clickhouse),
        ("replay service", daemon.REPLAY, "http", usual.replay),
    )
    for what, service, name, port in wanted:
        if own := ours.get(service, {}).get(name):
            yield _ok(f"port {own}", f"{what}: used by freezeframe")
        elif port_is_free(port):
            yield _ok(f"port {port}", f"{what}: free")
        else:
            owner = who_listens(port) or "another process"
            yield _ok(f"port {port}", f"{what}: taken by {owner}; `freezeframe up` takes any free one")


def _collector(home: Home) -> Iterable[CheckResult]:
    for service in daemon.services(home):
        if service.note is None:
            yield _warn(service.name, "does not run", "freezeframe up")
        elif (why_not := daemon.not_ready_because(home, service.name)) == "":
            yield _ok(service.name, f"is running and ready, pid {service.note.pid}")
            if service.name == daemon.COLLECTOR:
                yield from _readers(home)
        else:
            log = daemon.log_file(home, service.name)
            found = f"is running (pid {service.note.pid}) but is not ready: {why_not or 'it does not answer'}"
            yield _fail(service.name, found, f"fix the reported problem; the log is {log}")


def _readers(home: Home) -> Iterable[CheckResult]:
    """Check whether the kernel sandboxes the processes that run SQL."""
    # it was ready a moment ago: reporting a stopped collector is not this check's job
    readers: Any = (status(home) or {}).get("readers")
    if readers is None:  # a ClickHouse server answers SQL
        return
    if readers["sandboxed"]:
        yield _ok("readers", "sandboxed by the kernel (Landlock, seccomp)")
    else:
        yield _warn("readers", f"not sandboxed: {readers['why_not']}", readers["not_protected"])


def _store(home: Home) -> Iterable[CheckResult]:
    try:
        url = store_url(home)
    except FreezeframeError:
        yield _warn("store", "no collector is running, so nothing answers", "freezeframe up")
        return
    try:
        runs = open_runs(url).list_runs(1)
    except FreezeframeError as error:
        yield _fail("store", error.message, error.do or "see the collector's log")
        return
    if not runs:
        do = "freezeframe run -- python your_agent.py, or freezeframe.instrument() at its start"
        yield _warn("store", "readable, but has no runs yet", do)
        return
    started = runs[0].start_time
    ahead_s = (started if started.tzinfo else started.replace(tzinfo=dt.UTC)).timestamp() - time.time()
    if ahead_s > 60:
        yield _warn(
            "store",
            f"readable; the newest run starts {ahead_s:.0f} s from now",
            "correct the clocks of this machine and of the agent's machine (NTP)",
        )
        return
    yield _ok("store", f"readable, the newest run is {runs[0].trace_id}")


def _environment(environ: Mapping[str, str]) -> Iterable[CheckResult]:
    """Check how the environment would affect `instrument()` in a program started from here."""
    found = False
    for name, value, means in _SPOILERS:
        if environ.get(name, "").strip().lower() == value:
            found = True
            yield _fail("instrument()", f"{name}={value}: {means}", f"unset {name}")
    for name in _CUTTERS:
        if environ.get(name, "").strip():
            found = True
            means = "bodies are cut, and a run with cut bodies cannot be re-enacted"
            yield _fail("instrument()", f"{name}={environ[name]}: {means}", f"unset {name}")
    variable = next((name for name in _ENDPOINTS if environ.get(name, "").strip()), None)
    address = environ[variable].strip() if variable else ""
    if variable and urlsplit(address if "//" in address else f"//{address}").hostname not in _LOCAL:
        found = True
        do = f"unset {variable} to send to the collector of `freezeframe up`"
        yield _warn("instrument()", f"{variable}={shown_address(environ[variable])}: spans are sent there", do)
    if not found:
        own = find_data_directory(environ=environ).resolve()
        url = environ[variable] if variable else collector_url(own) or USUAL_ENDPOINT
        owner = whose_port(urlsplit(url).hostname or "", urlsplit(url).port or 0)
        if owner in (None, own) or variable or not is_chosen(own, environ=environ):
            whose = f", the collector of {owner}" if owner else ""
            yield _ok("instrument()", f"nothing in the environment interferes; spans go to {shown_address(url)}{whose}")
        else:
            means = f"{url} is the collector of {owner}: spans of this project ({own}) are not sent there"
            yield _warn("instrument()", means, f"freezeframe up on other ports, or FREEZEFRAME_ENDPOINT={url} to send there")


def _clock() -> Iterable[CheckResult]:
    """Check the clock: one earlier than this package's files was never set, and spans would fall outside every time window."""
    now_s, installed_s = time.time(), Path(__file__).stat().st_mtime
    found = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now_s))
    if now_s + 60 < installed_s:
        yield _fail("clock", f"{found} is earlier than the installation of freezeframe", "correct the clock (NTP)")
    else:
        yield _ok("clock", found)
