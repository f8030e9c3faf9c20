"""Strangers on this machine read nothing from any port that `freezeframe up` opens: other people's pages, and other users."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from agent_folder import EPHEMERAL, Project
from browser import CHROMIUM, Chromium, Site

from freezeframe_replay.local.daemon import page_link
from freezeframe_replay.local.home import Home
from freezeframe_schemas.local_tokens import READER, SENDER

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]

PATHS: Mapping[str, tuple[str, ...]] = {
    "grpc": ("/",),
    "http": ("/status", "/metrics", "/healthz", "/v1/traces"),
    "clickhouse": ("/?query=SELECT+name+FROM+spans", "/ping"),
    "replay": ("/", "/api/v1/runs", "/diff?before=a&after=b"),
}
READS = """<script>
const read = [], waits = [];
const note = (how, url, what) => read.push([how, url, String(what).slice(0, 200)]);
const tag = (name, url, set) => waits.push(new Promise((done) => {
  const made = document.createElement(name);
  made.onload = () => { try { set(made); } catch (e) {} done(); };
  made.onerror = done;
  if (name === "link") { made.rel = "stylesheet"; made.href = url; } else { made.src = url; }
  document.body.append(made);
}));
const quiet = (promise) => waits.push(promise.catch(() => {}));
const text = (how, url, options) => quiet(fetch(url, options).then(async (answer) => {
  if (answer.type !== "opaque") note(how, url, await answer.text());
}));
const framed = (frame, how, url) => {
  const shown = frame.contentDocument.body.innerText;  // raises if the frame is of another origin
  if (shown) note(how, url, shown);
};
const attack = (url) => {
  tag("script", url, () => note("script", url, "ran"));
  tag("img", url, () => note("img", url, "shown"));
  tag("link", url, (made) => note("link", url, made.sheet.cssRules.length));
  tag("iframe", url, (made) => framed(made, "iframe", url));
  for (const credentials of ["include", "omit"]) {
    text("fetch", url, {credentials});
    text("no-cors", url, {credentials, mode: "no-cors"});
    text("post", url, {credentials, method: "POST", mode: "no-cors", body: "SELECT name FROM spans"});
  }
  quiet(import(url).then(() => note("module", url, "ran")));
  waits.push(new Promise((done) => {
    const form = document.createElement("form"), frame = document.createElement("iframe");
    frame.name = "f" + Math.random();
    Object.assign(form, {method: "post", action: url, target: frame.name});
    form.innerHTML = "<input name=query value='SELECT name FROM spans'>";
    document.body.append(frame, form);
    frame.onload = () => { try { framed(frame, "form", url); } catch (e) {} done(); };
    form.submit();
  }));
  waits.push(new Promise((done) => {
    const events = new EventSource(url, {withCredentials: true});
    events.onopen = events.onmessage = () => { note("events", url, "open"); events.close(); done(); };
    events.onerror = () => { events.close(); done(); };
  }));
  waits.push(new Promise((done) => {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onopen = () => { note("socket", url, "open"); done(); };
    socket.onerror = socket.onclose = done;
  }));
};
onload = async () => {
  URLS.forEach(attack);
  const late = new Promise((done) => setTimeout(() => { note("unfinished", "", ""); done(); }, 60000));
  await Promise.race([Promise.all(waits), late]);
  tell(JSON.stringify(read));
};
</script>"""
ASK_AS_ANOTHER = """
import encodings.idna, http.client, json, os, sys  # all before the user changes, who may not read these files
import grpc
asked = json.loads(sys.argv[1])
channel = grpc.insecure_channel(f"127.0.0.1:{asked['grpc']}")
export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
answers = {}
for port, method, path in asked["http"]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=400)
    connection.request(method, path, body=b"SELECT 1" if method == "POST" else None)
    answer = connection.getresponse()
    answers[f"{port} {method} {path}"] = [answer.status, answer.read().decode(errors="replace")]
try:
    export(b"", timeout=400)
    answers["grpc"] = "OK"
except grpc.RpcError as error:
    answers["grpc"] = error.code().name
for file in asked["files"]:
    try:
        open(file).close()
        answers[file] = "opened"
    except OSError as error:
        answers[file] = type(error).__name__
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with everything up and a run in the store, named ``secretive``."""
    root = tmp_path_factory.mktemp("strangers")
    (root / ".freezeframe").mkdir()  # so that no folder above is used
    made = Project(root=root)
    try:
        done = made.freezeframe("up", *EPHEMERAL)
        assert done.returncode == 0, done.stderr
        program = "import freezeframe\nfreezeframe.instrument()\n@freezeframe.run\ndef secretive(): return 1\nsecretive()"
        endpoint = {"FREEZEFRAME_ENDPOINT": f"http://127.0.0.1:{ports_of(made)['http']}"}
        done = made.python("-c", program, environ=endpoint)
        assert done.returncode == 0, done.stderr
        assert "secretive" in made.freezeframe("runs").stdout  # it asks the collector to flush first
        yield made
    finally:
        made.freezeframe("down")


def ports_of(project: Project) -> dict[str, int]:
    folder = project.root / ".freezeframe"
    replay = json.loads((folder / "processes" / "replay-ports.json").read_text())["http"]
    ports: dict[str, int] = json.loads((folder / "ports.json").read_text())
    return {**{name: ports[name] for name in ("grpc", "http", "clickhouse")}, "replay": replay}


def urls_of(project: Project, host: str = "127.0.0.1") -> list[str]:
    return [f"http://{host}:{port}{path}" for name, port in ports_of(project).items() for path in PATHS[name]]


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()
    yield served
    served.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    opened = Chromium(tmp_path)
    yield opened
    opened.close()


def read_by(browser: Chromium, site: Site, origin: str, urls: list[str]) -> list[list[str]]:
    """Return what a page of this origin could read."""
    site.serve(READS.replace("URLS", json.dumps(urls)))
    browser.visit(origin)
    return json.loads(site.said.get())


@pytest.mark.timeout(400)
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
def test_a_page_of_somebody_elses_reads_nothing_from_any_port(project: Project, site: Site, browser: Chromium) -> None:
    """Neither before nor after the link was used in that browser, on another port of the same host or on another host.

    To a browser all ports of 127.0.0.1 are one site, so it sends the cookie of the service's pages with the first page's
    requests.
    """
    origins = (site.origin, site.origin.replace("127.0.0.1", "localhost"))
    for origin in origins:
        assert read_by(browser, site, origin, urls_of(project)) == []
    link = page_link(Home(directory=project.root / ".freezeframe"))
    assert link is not None
    assert "secretive" in browser.visit(link)
    for origin in origins:
        assert read_by(browser, site, origin, urls_of(project)) == []
    assert "secretive" in browser.visit(link.partition("/enter")[0])  # the cookie was there all the time


@pytest.mark.timeout(400)
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
def test_a_link_opens_the_pages_once(project: Project, browser: Chromium, tmp_path: Path) -> None:
    link = page_link(Home(directory=project.root / ".freezeframe"))
    assert link is not None
    assert browser.visit(link).startswith("/\n")  # the code is not left in the address
    other = Chromium(tmp_path / "other")
    try:
        for address in (link, link.partition("/enter")[0]):
            assert "secretive" not in other.visit(address)
    finally:
        other.close()
    assert "secretive" in browser.visit(link.partition("/enter")[0])


@pytest.mark.timeout(400)
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian: apt install chromium)")
def test_such_a_page_reads_what_is_open(site: Site, browser: Chromium) -> None:
    """What the other test looks for can be found."""

    class Open(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"data: 1\n\n" if "events" in self.path else b"1;"
            kind = "text/event-stream" if "events" in self.path else "text/javascript"
            self.send_response(200)
            for name, value in {
                "content-type": kind,
                "access-control-allow-origin": self.headers.get("origin", "*"),
                "access-control-allow-credentials": "true",
                "content-length": str(len(body)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            del code, size

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Open)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        found = read_by(browser, site, site.origin, [f"{address}/script", f"{address}/events"])
    finally:
        server.shutdown()
        server.server_close()
    assert {how for how, _, _ in found} >= {"script", "fetch", "module", "events"}


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root can ask as another user")
def test_another_user_of_the_machine_gets_401_on_every_port(project: Project) -> None:
    """Except for what a probe asks: whether it is alive and ready. The tokens' files are closed to them."""
    ports = ports_of(project)
    home = project.root / ".freezeframe"
    open_to_all = {
        "http": ["/healthz", "/readyz"],
        "clickhouse": ["/ping", "/replicas_status", "/"],
        "replay": ["/healthz"],
    }
    closed = {
        "http": ["/status", "/metrics"],
        "clickhouse": ["/?query=SELECT+1", "/?query=SELECT+1&user=admin", "/?query=SELECT+1&password="],
        "replay": ["/", "/api/v1/runs", "/runs/1", "/diff", "/enter?code=x"],
    }
    posted = {
        "http": ["/v1/traces", "/v1/logs", "/v1/metrics", "/v1/flush"],
        "clickhouse": ["/", "/?query=SELECT+1", "/query", "/store"],
        "replay": ["/links", "/runs/1/replay"],
    }
    files = [str(home / name) for name in (READER, SENDER)]
    asked = {
        "http": [
            *([ports[name], "GET", path] for paths in (open_to_all, closed) for name in paths for path in paths[name]),
            *([ports[name], "POST", path] for name, paths in posted.items() for path in paths),
        ],
        "grpc": ports["grpc"],
        "files": files,
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK_AS_ANOTHER, json.dumps(asked)], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for name, paths in open_to_all.items():
        for path in paths:
            status, text = answers.pop(f"{ports[name]} GET {path}")
            assert status in {200, 503}, path
            assert len(text) < 200, path
    assert answers.pop("grpc") == "UNAUTHENTICATED"
    assert [answers.pop(file) for file in files] == ["PermissionError"] * 2
    assert {place: answer for place, answer in answers.items() if answer[0] != 401} == {}
