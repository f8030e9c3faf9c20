"""Who may send: bearer tokens by tenant, TLS and client certificates."""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from freezeframe_collector.auth import read_tokens
from freezeframe_collector.config import TlsConfig
from freezeframe_collector.otlp import encode_traces
from freezeframe_collector.tls import grpc_credentials, http_context
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError

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
    """401 and UNAUTHENTICATED, both of which senders do not repeat; who watches the collector sees that somebody tries."""
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
    """The file holds hashes only; the message does not quote what stands there instead."""
    file = tmp_path / "tokens.toml"
    file.write_text(f'[tokens]\nacme = "hunter2"\n"no tenant" = "{_hash("x")}"\nglobex = "{_hash("x")}"\n')
    with pytest.raises(ConfigError) as caught:
        read_tokens(file)
    assert "hunter2" not in caught.value.message
    assert len(caught.value.message.splitlines()) == 4


@dataclass(frozen=True)
class Certificates:
    """PEM files of an authority, a server and a client."""

    authority: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return fresh certificates for 127.0.0.1."""
    return _issue_all(tmp_path_factory.mktemp("certificates"))


def _issue_all(directory: Path) -> Certificates:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def issue(name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(authority_name if authority else subject)
            .issuer_name(authority_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(address, critical=False)
            .sign(authority_key, hashes.SHA256())
        )

    def write(name: str, key: ec.EllipticCurvePrivateKey, *, authority: bool = False) -> tuple[Path, Path]:
        certificate_file, key_file = directory / f"{name}.pem", directory / f"{name}.key"
        certificate_file.write_bytes(issue(name, key, authority=authority).public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return certificate_file, key_file

    authority_file, _ = write("authority", authority_key, authority=True)
    server, client = (write(name, ec.generate_private_key(ec.SECP256R1())) for name in ("server", "client"))
    return Certificates(authority=authority_file, server=server, client=client)


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
        channel.unary_unary(EXPORT)(body, timeout=10)


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

    Clients of the former authority are refused then, and files that do not fit together leave all as it is.
    """
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    former, renewed = _issue_all(tmp_path / "old"), _issue_all(tmp_path / "new")
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
