"""TLS for both receivers, from the same three files."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from freezeframe_collector.config import TlsConfig
from freezeframe_schemas.errors import ConfigError


def grpc_credentials(config: TlsConfig) -> grpc.ServerCredentials | None:
    """Return the gRPC server's credentials, or None for plain text. With an authority set, clients must show a certificate."""
    if not config.cert_file:
        return None
    authority = Path(config.client_ca_file).read_bytes() if config.client_ca_file else None
    pair = (Path(config.key_file).read_bytes(), Path(config.cert_file).read_bytes())
    return grpc.ssl_server_credentials([pair], root_certificates=authority, require_client_auth=authority is not None)


def http_context(config: TlsConfig) -> ssl.SSLContext | None:
    """Return the HTTP server's context, or None for plain text.

    Raises:
        ConfigError: the files are no certificate and its key.
    """
    if not config.cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.cert_file, config.key_file)
        if config.client_ca_file:
            context.load_verify_locations(config.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise ConfigError(f"tls: {config.cert_file}, {config.key_file}: {error.reason}") from None
    return context
