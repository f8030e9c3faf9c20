"""What every test runs under: loopback only, its processes end with it, and no deadline in property tests."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import re
import shutil
import socketserver
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
import pytest_timeout
from hypothesis import settings
from started_processes import StartedProcesses
from warm_python import WarmPython
from xdist.scheduler import LoadFileScheduling

settings.register_profile("full", deadline=None, max_examples=30, derandomize=True)
"""The same examples each time: a change is red for what it changes. `--hypothesis-profile soak` draws new ones."""
settings.register_profile("soak", deadline=None)
settings.register_profile("check", deadline=None, max_examples=15, derandomize=True)
"""`make check` runs this one: enough to see that a law is broken outright."""
settings.load_profile("full")

_PYTHON = sys.executable


def pytest_configure(config: pytest.Config) -> None:
    """Refuse every connection that would leave this machine, whatever library and thread it comes from.

    An audit hook sees connections that no patch of `socket` would. It cannot be removed again, so it stays for the session.
    """
    sys.addaudithook(_loopback_only)
    config.pluginmanager.register(StartedProcesses())
    _keep_out_of_the_home_directory(config)
    _expect_clients_that_leave()
    print_tasks_and_threads()


def _expect_clients_that_leave() -> None:
    """Keep the servers of tests quiet when a client goes away: half of the tests are about that."""
    loud = socketserver.BaseServer.handle_error

    def handle_error(self: socketserver.BaseServer, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            loud(self, request, client_address)

    socketserver.BaseServer.handle_error = handle_error


def _keep_out_of_the_home_directory(config: pytest.Config) -> None:
    """Make whatever a test starts keep its state and its keys outside the user's home, and spool only if it asks to.

    The sessions of pytest that a test starts do without the plugins that `addopts` in pyproject.toml leaves out here.
    """
    state = tempfile.mkdtemp(prefix="freezeframe-tests-")
    config.add_cleanup(lambda: shutil.rmtree(state, ignore_errors=True))
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = state
    os.environ["FREEZEFRAME_SPOOL"] = "off"
    os.environ["FREEZEFRAME_TERMINATE_TIMEOUT_S"] = "100"  # after two seconds, the default, a busy machine has not delivered
    os.environ["PYTHONHASHSEED"] = "0"  # a program of a test that makes a set would have the gap `hash_seed`
    os.environ["SSL_CERT_FILE"] = _one_authority(Path(state))
    os.environ["PYTEST_ADDOPTS"] = "-p no:langsmith_plugin -p no:faker"


def _one_authority(folder: Path) -> str:
    """Write a bundle of one authority: each new client of httpx loads all that it trusts, 20 ms and more for certifi's bundle.

    No test reaches a server that needs one of those.
    """
    bundle = folder / "authorities.pem"
    first, footer, _ = Path(certifi.where()).read_text("utf-8").partition(ssl.PEM_FOOTER)
    bundle.write_text(f"{first}{footer}\n", "utf-8")
    return str(bundle)


class _ByFixture(LoadFileScheduling):
    """Give each worker whole files, and those that read the theatre to one worker, which sets it up once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "theatre" if file.endswith(_OF_THE_THEATRE) else file


_OF_THE_THEATRE = ("e2e/test_replay_law.py", "e2e/test_no_trace_of_the_customer.py", "e2e/test_skill.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _ByFixture(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files without a long test last. Workers that share the files then end together (`--no-loadscope-reorder`)."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """Leave the thousands of collected tests out of every later garbage collection, and collect less often: 7 % less CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_setup() -> None:
    """Let HTTP requests take as long as they need: httpx gives up after 5 s, which a busy machine may take."""
    httpx: Any = sys.modules.get("httpx")
    if httpx is not None:
        patient = httpx.Timeout(400)
        for name in ("connect", "read", "write", "pool"):
            setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, name, getattr(patient, name))


@pytest.fixture(scope="session")
def warm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The executable that stands in for Python, of a server that has imported the SDKs."""
    with WarmPython(tmp_path_factory.mktemp("warm")) as warm:
        yield warm.executable


@pytest.fixture(scope="module")
def warm_python(warm_server: str) -> Iterator[None]:
    """Start Python programs and replays from a process that has imported the SDKs: a tenth of the CPU time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", warm_server)
        yield


@pytest.fixture
def fresh_python(warm_python: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start Python itself in a test of a module that starts `warm_python`: the test is about what Python imports or starts."""
    monkeypatch.setattr(sys, "executable", _PYTHON)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a module none of whose tests is wanted: it may import a whole SDK."""
    wanted = str(config.getoption("markexpr"))
    if "long" not in wanted or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    if "not long" not in wanted:
        return "mark.long" not in text or None
    if "or proof" in wanted and "mark.proof" in text:
        return None
    return bool(_MODULE_IS_LONG.search(text)) or len(_LONG_TESTS.findall(text)) >= len(_TESTS.findall(text)) > 0 or None


_MODULE_IS_LONG = re.compile(r"^pytestmark = .*\bpytest\.mark\.(?:long|soak)\b", re.MULTILINE)
_LONG_TESTS = re.compile(r"^@pytest\.mark\.(?:long|soak)$", re.MULTILINE)
_TESTS = re.compile(r"^(?:async )?def test_", re.MULTILINE)


def _loopback_only(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        address = args[1]
        host = address[0] if isinstance(address, tuple) else None  # a path is a socket of this machine
    elif event == "socket.getaddrinfo":
        host = args[0]
    else:
        return
    if isinstance(host, str) and not _is_local(host):
        pytest.fail(f"{event}: {host}: tests reach loopback only")


def _is_local(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        # names under .invalid exist nowhere (RFC 2606): the way to ask for a failed look-up
        return host in ("", "localhost") or host.endswith((".localhost", ".invalid"))
    return address.is_loopback or address.is_unspecified


def print_tasks_and_threads() -> None:
    """Print event loops, pending tasks and parked answers too when a test times out."""
    plain: Callable[..., None] = pytest_timeout.dump_stacks

    def dump_stacks(terminal: Any) -> None:
        plain(terminal)
        for found in gc.get_objects():
            try:
                _describe(found)
            except Exception as error:  # whatever is half made or half gone
                print(f"{type(found)}: {error!r}", file=sys.stderr)

    pytest_timeout.dump_stacks = dump_stacks


def _describe(found: Any) -> None:
    kinds = tuple(kind.__name__ for kind in type(found).__mro__)
    if "BaseEventLoop" in kinds and not found.is_closed():
        files = sorted(found._selector.get_map())
        polled = os.readlink(f"/proc/self/fd/{found._selector.fileno()}") if sys.platform == "linux" else ""
        print(f"{found}: ready {found._ready}, timers {found._scheduled}, files {files}, {polled}", file=sys.stderr)
        print(f"  wakes by {found._csock} to {found._ssock}", file=sys.stderr)
    elif "Pace" in kinds:
        print(f"pace: answers {found._answers}, unanswered {found._unanswered}, pumps {found._pumps}", file=sys.stderr)
        print(f"  now {found._now()}, passes since {found._passes_since_ns}, loops {list(found._loops)}", file=sys.stderr)
    elif isinstance(found, asyncio.Task) and not found.done():
        print(repr(found), file=sys.stderr)  # pyright: ignore[reportUnknownArgumentType]
        waits: Any = found.get_coro()
        while waits is not None:
            print(f"  {waits}", file=sys.stderr)
            waits = getattr(waits, "cr_await", None) or getattr(waits, "gi_yieldfrom", None)
