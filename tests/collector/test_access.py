"""Who may send: bearer tokens by tenant, TLS and client certificates; of the agent's side, what it trusts and shows."""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from certificates import Certificates, issue_certificates

from freezeframe._config import load_settings
from freezeframe._instrument import make_collector_exporter
from freezeframe.export.delivery import CollectorExporter, Unreachable
from freezeframe.export.export_queue import BatchDeadline
from freezeframe_collector.settings.auth import read_tokens
from freezeframe_collector.settings.config import TlsConfig
from freezeframe_collector.settings.tls import grpc_credentials, http_context
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.otlp.encode import encode_traces

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}


def _hash(token: str) -> str:
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def test_a_token_names_its_tenant(start_collector: Callable[..., Any], make_span: Callable[..., Any], tmp_path: Path) -> None:
    """Spans carry the tenant of the token that they came with, whatever they say themselves, on both receivers."""
    file = tmp_path / "tokens.toml"
    file.write_text(f'[tokens]\nacme = "{_hash("secret-a")}"\nglobex = ["{_hash("secret-b")}", "{_hash("secret-c")}"]\n')
    collector = start_collector(tokens_file=file)
    url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
    lying = make_span(1, attributes={genai.TENANT: "globex"})
    headers = {**PROTOBUF, "authorization": "Bearer secret-a"}
    assert httpx.post(url, content=encode_traces([lying]), headers=headers).status_code == 200
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        channel.unary_unary(EXPORT)(encode_traces([make_span(2)]), metadata=(("authorization", "Bearer secret-c"),))
    collector.flush()
    assert [(span.name, span.text(genai.TENANT)) for span in collector.store.spans] == [
        ("span-000001", "acme"),
        ("span-000002", "globex"),
    ]


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic secret-a", "Bearer"])
def test_without_a_known_token_nothing_is_taken(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], tmp_path: Path, header: str | None
) -> None:
    """401 and UNAUTHENTICATED, both of which senders do not repeat; whoever watches the collector sees that someone tries."""
    file = tmp_path / "tokens.toml"
    file.write_text(f'[tokens]\nacme = "{_hash("secret-a")}"\n')
    collector = start_collector(tokens_file=file)
    body = encode_traces([make_span(1)])
    headers = PROTOBUF if header is None else {**PROTOBUF, "authorization": header}
    response = httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", content=body, headers=headers)
    assert response.status_code == 401
    metadata = () if header is None else (("authorization", header),)
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(body, metadata=metadata)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED  # pyright: ignore[reportAttributeAccessIssue]
    assert collector.log.audit().counts.received == 0
    assert "freezeframe_collector_requests_unauthenticated_total 2\n" in collector.reporter.metrics()


@pytest.mark.proof
@pytest.mark.long
def test_tokens_are_read_again_when_the_file_changes(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], tmp_path: Path
) -> None:
    """A new token works without a restart, an old one stops; a broken file changes nothing."""
    file = tmp_path / "tokens.toml"

    def write(text: str, version: int) -> None:
        file.write_text(text)
        os.utime(file, ns=(version, version))

    write(f'[tokens]\nacme = "{_hash("old")}"\n', 1)
    collector = start_collector(tokens_file=file)

    def status(token: str) -> int:
        url = f"http://127.0.0.1:{collector.http_port}/v1/traces"
        headers = {**PROTOBUF, "authorization": f"Bearer {token}"}
        return httpx.post(url, content=encode_traces([make_span(1)]), headers=headers).status_code

    assert (status("old"), status("new")) == (200, 401)
    write(f'[tokens]\nacme = "{_hash("new")}"\n', 2)
    assert (status("old"), status("new")) == (401, 200)
    write("[tokens", 3)
    assert (status("old"), status("new")) == (401, 200)


def test_a_token_written_in_plain_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """The file holds hashes only; the message does not quote what it holds instead."""
    file = tmp_path / "tokens.toml"
    file.write_text(f'[tokens]\nacme = "hunter2"\n"no tenant" = "{_hash("x")}"\nglobex = "{_hash("x")}"\n')
    with pytest.raises(ConfigError) as caught:
        read_tokens(file)
    assert "hunter2" not in caught.value.message
    assert len(caught.value.message.splitlines()) == 4


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return fresh certificates for 127.0.0.1."""
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


def _tls(certificates: Certificates, *, mutual: bool) -> dict[str, Any]:
    config = TlsConfig(
        cert_file=str(certificates.server[0]),
        key_file=str(certificates.server[1]),
        client_ca_file=str(certificates.authority) if mutual else "",
    )
    return {"grpc_credentials": grpc_credentials(config), "http_tls": http_context(config)}


def _grpc_export(port: int, body: bytes, certificates: Certificates, *, with_client: bool) -> None:
    certificate_file, key_file = certificates.client
    credentials = grpc.ssl_channel_credentials(
        certificates.authority.read_bytes(),
        key_file.read_bytes() if with_client else None,
        certificate_file.read_bytes() if with_client else None,
    )
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        channel.unary_unary(EXPORT)(body, timeout=300)


def _http_export(port: int, body: bytes, certificates: Certificates, *, with_client: bool) -> httpx.Response:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if with_client:
        context.load_cert_chain(*certificates.client)
    with httpx.Client(verify=context) as client:
        return client.post(f"https://127.0.0.1:{port}/v1/traces", content=body, headers=PROTOBUF)


def test_tls_senders_are_served_and_plain_ones_are_not(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], certificates: Certificates
) -> None:
    """Both receivers speak TLS with the same certificate; plain text is not understood."""
    collector = start_collector(**_tls(certificates, mutual=False))
    _grpc_export(collector.grpc_port, encode_traces([make_span(1)]), certificates, with_client=False)
    body = encode_traces([make_span(2)])
    assert _http_export(collector.http_port, body, certificates, with_client=False).status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"http://127.0.0.1:{collector.http_port}/v1/traces", content=body, headers=PROTOBUF)
    collector.flush()
    assert collector.store.names() == ["span-000001", "span-000002"]


def test_with_mtls_only_known_clients_are_served(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], certificates: Certificates
) -> None:
    """A client without a certificate of the authority does not get as far as sending."""
    collector = start_collector(**_tls(certificates, mutual=True))
    body = encode_traces([make_span(1)])
    _grpc_export(collector.grpc_port, body, certificates, with_client=True)
    assert _http_export(collector.http_port, body, certificates, with_client=True).status_code == 200
    with pytest.raises(grpc.RpcError):
        _grpc_export(collector.grpc_port, body, certificates, with_client=False)
    with pytest.raises((httpx.HTTPError, ssl.SSLError)):
        _http_export(collector.http_port, body, certificates, with_client=False)
    assert collector.log.audit().counts.received == 2


def test_renewed_certificates_are_served_without_a_restart(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], certificates: Certificates, tmp_path: Path
) -> None:
    """Another authority's certificates in place of the files: both receivers use them at the next handshake.

    Clients of the former authority are refused then, and files that do not match change nothing.
    """
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    former, renewed = issue_certificates(tmp_path / "old"), issue_certificates(tmp_path / "new")
    collector = start_collector(**_tls(former, mutual=True))
    body = encode_traces([make_span(1)])

    def served(with_them: Certificates) -> tuple[bool, bool]:
        try:
            http = _http_export(collector.http_port, body, with_them, with_client=True).status_code == 200
        except (httpx.HTTPError, ssl.SSLError):
            http = False
        try:
            _grpc_export(collector.grpc_port, body, with_them, with_client=True)
        except grpc.RpcError:
            return http, False
        return http, True

    assert (served(former), served(renewed)) == ((True, True), (False, False))
    former_authority, client = former.authority.read_bytes(), former.client
    kept = tmp_path / "kept.pem"
    kept.write_bytes(former_authority)
    old = Certificates(authority=kept, server=former.server, client=client)
    for place, source in ((former.authority, renewed.authority), (former.server[0], renewed.server[0])):
        place.write_bytes(source.read_bytes())
    assert served(old) == (True, True)  # the key is still the former one's
    former.server[1].write_bytes(renewed.server[1].read_bytes())
    assert (served(old), served(renewed)) == ((False, False), (True, True))


def _exporter(collector: Any, protocol: str, options: Mapping[str, str]) -> CollectorExporter:
    port = collector.http_port if protocol == "http/protobuf" else collector.grpc_port
    given = {"endpoint": f"https://127.0.0.1:{port}", "protocol": protocol, **options}
    return make_collector_exporter(load_settings(given, environ={}))


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_an_agent_trusts_the_authority_that_is_named_and_shows_its_own_certificate(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], certificates: Certificates, protocol: str
) -> None:
    """`certificate`, `client_certificate` and `client_key`; without the latter a collector with mTLS takes nothing."""
    collector = start_collector(**_tls(certificates, mutual=True))
    trusting = {"certificate": str(certificates.authority)}
    showing = {"client_certificate": str(certificates.client[0]), "client_key": str(certificates.client[1])}
    known = _exporter(collector, protocol, {**trusting, **showing})
    assert known.export([make_span(1)], BatchDeadline(20)).delivered == 1
    known.close()
    for options in (trusting, showing):
        stranger = _exporter(collector, protocol, options)
        with pytest.raises(Unreachable):
            stranger.export([make_span(2)], BatchDeadline(0.3))
        stranger.close()
    collector.flush()
    assert collector.store.names() == ["span-000001"]


def test_a_renewed_certificate_is_shown_at_the_next_connection(
    start_collector: Callable[..., Any], make_span: Callable[..., Any], certificates: Certificates, tmp_path: Path
) -> None:
    """Certificate and key may be in one file, which is replaced while the agent runs."""
    collector = start_collector(**_tls(certificates, mutual=True))
    mine = tmp_path / "mine.pem"
    (tmp_path / "other").mkdir()
    foreign = issue_certificates(tmp_path / "other").client
    mine.write_bytes(b"".join(part.read_bytes() for part in foreign))
    options = {"certificate": str(certificates.authority), "client_certificate": str(mine)}
    exporter = _exporter(collector, "http/protobuf", options)
    with pytest.raises(Unreachable):
        exporter.export([make_span(1)], BatchDeadline(0.3))
    mine.write_bytes(b"".join(part.read_bytes() for part in certificates.client))
    assert exporter.export([make_span(1)], BatchDeadline(20)).delivered == 1
    exporter.close()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"certificate": "nowhere.pem"}, "nowhere.pem: No such file"),
        ({"client_key": "mine.key"}, "requires client_certificate"),
        ({"certificate": __file__}, "test_access.py"),
    ],
)
def test_files_that_cannot_be_used_are_named_at_the_start(options: dict[str, str], found: str) -> None:
    """An agent that would never deliver says so when it is set up; without TLS the files are not read."""
    with pytest.raises(ConfigError) as caught:
        make_collector_exporter(load_settings({"endpoint": "https://127.0.0.1:1", **options}, environ={}))
    assert found in caught.value.message
    make_collector_exporter(load_settings({"endpoint": "http://127.0.0.1:1", **options}, environ={})).close()
