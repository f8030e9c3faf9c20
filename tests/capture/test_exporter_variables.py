"""`OTEL_EXPORTER_OTLP_*`: with each variable, in each form, spans arrive as OpenTelemetry's own exporters send them."""

from __future__ import annotations

import functools
import gzip
import http.server
import importlib
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from bare_spans import bare_span
from certificates import Certificates, issue_certificates
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk import environment_variables
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from freezeframe._config import OPTIONS, load_settings
from freezeframe._instrument import make_collector_exporter
from freezeframe.export.delivery import DeliveryError
from freezeframe.export.export_queue import BatchDeadline
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.span import Scope

pytestmark = pytest.mark.long  # imports requests and OpenTelemetry's exporters, and waits for time limits

PREFIX = "OTEL_EXPORTER_OTLP_"
_TRANSPORT = ("host", "user-agent", "accept", "accept-encoding", "connection", "content-length")
_CODINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.decompress, "deflate": zlib.decompress}


@dataclass(frozen=True)
class Arrival:
    """What a server sees of a batch, apart from the name of the program that sent it."""

    server: str
    path: str
    headers: dict[str, str]
    encoding: str
    certificate: str
    """The name in the client's certificate."""
    spans: tuple[str, ...]


@dataclass
class Servers:
    """Receivers with and without TLS, over both protocols; those with TLS ask for a client's certificate."""

    certificates: Certificates
    ports: dict[str, int]
    arrived: list[Arrival] = field(default_factory=list[Arrival])
    is_silent: bool = False
    """Whether they answer only after the sender has hung up."""

    def environment(self, variables: str) -> dict[str, str]:
        """Return the variables of a row of the table; names in braces stand for ports and files."""
        files = self.certificates
        names: dict[str, object] = {**self.ports, "authority": files.authority, "pem": files.client[0], "key": files.client[1]}
        both = files.client[0].with_name("both.pem")
        both.write_bytes(files.client[0].read_bytes() + files.client[1].read_bytes())
        rows = [row.strip().partition(" ") for row in variables.format(**names, both=both).splitlines()]
        return {PREFIX + name: value for name, _, value in rows}

    def take(self, server: str, path: str, headers: dict[str, str], certificate: str, body: bytes, encoding: str) -> None:
        request = ExportTraceServiceRequest.FromString(_CODINGS[encoding](body))
        spans = [span.name for r in request.resource_spans for s in r.scope_spans for span in s.spans]
        self.arrived.append(Arrival(server, path, headers, encoding, certificate, tuple(spans)))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(issue_certificates(tmp_path_factory.mktemp("certificates")), {})
    running = [_serve_http(found, "http"), _serve_http(found, "https"), _serve_grpc(found)]
    yield found
    for stop in running:
        stop()


def _serve_http(servers: Servers, name: str) -> Callable[[], None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if servers.is_silent:
                self.connection.settimeout(_PATIENCE_S)
                self.connection.recv(1)
            headers = {key.lower(): value for key, value in self.headers.items() if key.lower() not in _TRANSPORT}
            encoding = headers.pop("content-encoding", "")
            certificate = "" if name == "http" else _name_of(self.connection.getpeercert())
            servers.take(name, self.path, headers, certificate, body, encoding)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if name == "https":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(servers.certificates.authority))
        context.load_cert_chain(*servers.certificates.server)
        context.verify_mode = ssl.CERT_OPTIONAL
        server.socket = context.wrap_socket(server.socket, server_side=True)
    servers.ports[name] = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop


def _name_of(certificate: Any) -> str:
    return certificate["subject"][0][0][1] if certificate else ""


def _serve_grpc(servers: Servers) -> Callable[[], None]:
    class Method(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(functools.partial(take, handler_call_details.method))

    def take(method: str, body: bytes, context: grpc.ServicerContext) -> bytes:
        if servers.is_silent:
            gone = threading.Event()
            context.add_callback(gone.set)
            gone.wait(_PATIENCE_S)
        metadata = {key: str(value) for key, value in context.invocation_metadata() if not key.startswith(("grpc-", "user-"))}
        seen: Any = context.auth_context()
        names: list[bytes] = seen.get("x509_common_name", [b""])
        name = "grpcs" if "transport_security_type" in seen else "grpc"
        encoding = {0x1F: "gzip", 0x78: "deflate"}.get(body[0], "")  # a request in protobuf begins with neither
        servers.take(name, method, metadata, b"".join(names).decode(), body, encoding)
        return b""

    files = servers.certificates
    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.per_message_decompression", 0)])
    server.add_generic_rpc_handlers((Method(),))
    pair = (files.server[1].read_bytes(), files.server[0].read_bytes())
    credentials = grpc.ssl_server_credentials([pair], files.authority.read_bytes(), require_client_auth=True)
    servers.ports["grpc"] = server.add_insecure_port("127.0.0.1:0")
    servers.ports["grpcs"] = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()

    def stop() -> None:
        server.stop(0).wait()

    return stop


_PATIENCE_S = 5.0
"""How long a silent server waits for a sender that does not hang up."""


class Once(BatchDeadline):
    """A deadline with time for one attempt, however long it takes."""

    def __init__(self) -> None:
        super().__init__(1000)

    def wait(self, seconds: float) -> None:
        self.bring_forward(-1)


def send_ours(environment: dict[str, str]) -> bool:
    """Send a span with our exporter; return whether it was accepted."""
    exporter = make_collector_exporter(load_settings({}, environment))
    try:
        return exporter.export([bare_span({}, name="a span", scope=Scope(name="test"))], Once()).delivered == 1
    except DeliveryError:
        return False
    finally:
        exporter.close()


def send_theirs() -> bool:
    """Send a span with the exporter that OpenTelemetry's SDK makes for this environment; return whether it was accepted."""
    configuration: Any = importlib.import_module("opentelemetry.sdk._configuration")
    found = configuration._import_exporters(configuration._get_exporter_names("traces"), [], [])
    make: type[SpanExporter] = next(iter(found[0].values()))
    span = TracerProvider().get_tracer("test").start_span("a span")
    span.end()
    assert isinstance(span, ReadableSpan)
    exporter = make()
    try:
        return exporter.export([span]) is SpanExportResult.SUCCESS
    finally:
        exporter.shutdown()


HTTP = {
    "the base of the address": "ENDPOINT http://127.0.0.1:{http}",
    "a slash": "ENDPOINT http://127.0.0.1:{http}/",
    "a prefix": "ENDPOINT http://127.0.0.1:{http}/to/otlp",
    "a prefix and a slash": "ENDPOINT http://127.0.0.1:{http}/to/otlp/",
    "the whole address": "TRACES_ENDPOINT http://127.0.0.1:{http}/v1/traces",
    "another path and a query": "TRACES_ENDPOINT http://127.0.0.1:{http}/ingest/spans?part=1",
    "no path": "TRACES_ENDPOINT http://127.0.0.1:{http}",
    "traces first": "TRACES_ENDPOINT http://127.0.0.1:{http}/spans\nENDPOINT http://127.0.0.1:9",
    "an empty one": "TRACES_ENDPOINT \nENDPOINT http://127.0.0.1:{http}",
}
GRPC = {
    "the address": "ENDPOINT http://127.0.0.1:{grpc}",
    "a path, which gRPC has not": "ENDPOINT http://127.0.0.1:{grpc}/v1/traces",
    "of traces": "TRACES_ENDPOINT http://127.0.0.1:{grpc}\nENDPOINT http://127.0.0.1:9",
    "no scheme, insecure": "ENDPOINT 127.0.0.1:{grpc}\nINSECURE true",
    "no scheme, traces insecure": "TRACES_ENDPOINT 127.0.0.1:{grpc}\nTRACES_INSECURE TRUE\nINSECURE false",
}
_TLS = "CERTIFICATE {authority}\nCLIENT_CERTIFICATE {pem}\nCLIENT_KEY {key}"
_TRACES_TLS = "TRACES_CERTIFICATE {authority}\nTRACES_CLIENT_CERTIFICATE {pem}\nTRACES_CLIENT_KEY {key}"
GRPC_TLS = {
    "https": f"ENDPOINT https://127.0.0.1:{{grpcs}}\n{_TLS}",
    "https of traces": f"TRACES_ENDPOINT https://127.0.0.1:{{grpcs}}\n{_TRACES_TLS}",
    "no scheme": f"ENDPOINT 127.0.0.1:{{grpcs}}\n{_TLS}",
    "https though insecure": f"ENDPOINT https://127.0.0.1:{{grpcs}}\nINSECURE true\n{_TLS}",
    "http though not insecure": f"ENDPOINT http://127.0.0.1:{{grpcs}}\nINSECURE false\n{_TLS}",
}
HTTP_TLS = {
    "an authority": "ENDPOINT https://127.0.0.1:{https}\nCERTIFICATE {authority}",
    "an authority for traces": "ENDPOINT https://127.0.0.1:{https}\nTRACES_CERTIFICATE {authority}\nCERTIFICATE {pem}",
    "no authority": "ENDPOINT https://127.0.0.1:{https}\nTIMEOUT 0.3",
    "a client": f"ENDPOINT https://127.0.0.1:{{https}}\n{_TLS}",
    "a client for traces": f"ENDPOINT https://127.0.0.1:{{https}}\n{_TRACES_TLS}",
    "certificate and key in one file": "ENDPOINT https://127.0.0.1:{https}\nCERTIFICATE {authority}\nCLIENT_CERTIFICATE {both}",
}
HEADERS = {
    "encoded": "HEADERS authorization=Bearer%20x,tenant=acme",
    "not encoded": "HEADERS authorization=Bearer x,tenant=acme",
    "half encoded": "HEADERS authorization=Basic dXNlcg%3D%3D",
    "spaces around": "HEADERS  a = 1 , b=c%2Cd ",
    "an equals sign": "HEADERS authorization=Basic%20dXNlcg==",
    "upper case": "HEADERS Authorization=x,Tenant=y",
    "twice and empty ones": "HEADERS ,a=1,,a=2,b=,",
    "those of traces alone": "TRACES_HEADERS a=1\nHEADERS b=2,c=3",
}
COMPRESSION = {
    "gzip": "COMPRESSION gzip",
    "upper case and space": "COMPRESSION  GZIP ",
    "of traces": "TRACES_COMPRESSION gzip\nCOMPRESSION none",
}
HTTP_COMPRESSION = {
    "deflate": "COMPRESSION deflate",
    "none": "COMPRESSION none",
    "none of traces": "TRACES_COMPRESSION none\nCOMPRESSION gzip",
}
TIMEOUT = {"of all": "TIMEOUT 0.3", "of traces": "TRACES_TIMEOUT 0.3\nTIMEOUT 1000"}

TABLE = {
    **{f"HTTP, {name}": f"PROTOCOL http/protobuf\n{row}" for name, row in (HTTP | HTTP_TLS).items()},
    **{f"gRPC, {name}": f"PROTOCOL grpc\n{row}" for name, row in (GRPC | GRPC_TLS).items()},
    **{
        f"{protocol}, {group}, {name}": f"PROTOCOL {protocol}\nENDPOINT http://127.0.0.1:{{{server}}}\n{row}"
        for protocol, server in {"http/protobuf": "http", "grpc": "grpc"}.items()
        for group, rows in {"headers": HEADERS, "compression": COMPRESSION}.items()
        for name, row in rows.items()
    },
    **{
        f"HTTP, compression, {name}": f"PROTOCOL http/protobuf\nENDPOINT http://127.0.0.1:{{http}}\n{row}"
        for name, row in HTTP_COMPRESSION.items()
    },
    "the protocol of traces": "TRACES_PROTOCOL grpc\nPROTOCOL http/protobuf\nENDPOINT http://127.0.0.1:{grpc}",
    "a protocol with spaces": "PROTOCOL  http/protobuf \nENDPOINT http://127.0.0.1:{http}",
}
SILENT = {
    f"{protocol}, {name}": f"PROTOCOL {protocol}\nENDPOINT http://127.0.0.1:{{{server}}}\n{row}"
    for protocol, server in {"http/protobuf": "http", "grpc": "grpc"}.items()
    for name, row in TIMEOUT.items()
}


@pytest.fixture
def send(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[list[Any], list[Any]]]:
    def both(variables: str) -> tuple[list[Any], list[Any]]:
        """Return what became of a span of ours and of one of theirs: whether it was accepted, and how it arrived."""
        environment = servers.environment(variables)
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # to requests they matter more than the exporter's variable
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        outcomes: list[list[Any]] = []
        for sender in (lambda: send_ours(environment), send_theirs):
            servers.arrived.clear()
            outcomes.append([sender(), *servers.arrived])
        return outcomes[0], outcomes[1]

    return both


@pytest.mark.parametrize("name", TABLE)
def test_a_batch_arrives_as_opentelemetrys_exporter_sends_it(name: str, send: Callable[[str], Any]) -> None:
    ours, theirs = send(TABLE[name])
    assert ours == theirs
    assert ours[0] is ("no authority" not in name)


@pytest.mark.parametrize("name", SILENT)
def test_a_request_is_given_up_when_opentelemetrys_exporter_gives_up(
    name: str, servers: Servers, send: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In seconds, as the Python SDK has it; the specification says milliseconds."""
    monkeypatch.setattr(servers, "is_silent", True)
    ours, theirs = send(SILENT[name])
    assert (ours[0], theirs[0]) == (False, False)


def test_both_refuse_http_json(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"OTEL_TRACES_EXPORTER": "otlp", f"{PREFIX}PROTOCOL": "http/json"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="PROTOCOL: found 'http/json', expected http/protobuf or grpc"):
        send_ours(environment)
    with pytest.raises(RuntimeError, match="http/json"):
        send_theirs()


def test_every_variable_of_the_specification_is_in_the_table() -> None:
    """Their names are OpenTelemetry's own; those for metrics and logs are not for us."""
    others = (f"{PREFIX}METRICS_", f"{PREFIX}LOGS_")
    named = {name for name in vars(environment_variables) if name.startswith(PREFIX) and not name.startswith(others)}
    rows = "\n".join((*TABLE.values(), *SILENT.values())).splitlines()
    assert named == {PREFIX + row.split()[0] for row in rows}
    assert named == {name for option in OPTIONS.values() for name in option.variables if name.startswith(PREFIX)}
