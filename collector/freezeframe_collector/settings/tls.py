"""TLS for both receivers, from the same three files, which are read again when they change: certificates are renewed."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from freezeframe_collector.settings.config import TlsConfig
from freezeframe_collector.settings.watched import Watched
from freezeframe_schemas.errors import ConfigError


def grpc_credentials(config: TlsConfig) -> grpc.ServerCredentials | None:
    """Return the gRPC server's credentials, or None for plain text. With an authority set, clients must show a certificate.

    Raises:
        ConfigError: the files are not a certificate and its key.
    """
    if not config.cert_file:
        return None
    watched = Watched(_files(config), lambda: _grpc_certificates(config))
    # Asked at each handshake.
    return grpc.dynamic_ssl_server_credentials(watched.get(), watched.get, bool(config.client_ca_file))


def http_context(config: TlsConfig) -> ssl.SSLContext | None:
    """Return the HTTP server's context, or None for plain text.

    Raises:
        ConfigError: the files are not a certificate and its key.
    """
    if not config.cert_file:
        return None
    watched = Watched(_files(config), lambda: _context(config))
    listening = _context(config)

    def renew(connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> None:
        del server_name, context
        connection.context = watched.get()

    # Called at each handshake, whether or not the client names a server.
    listening.sni_callback = renew
    return listening


def _files(config: TlsConfig) -> list[Path]:
    return [Path(name) for name in (config.cert_file, config.key_file, config.client_ca_file) if name]


def _grpc_certificates(config: TlsConfig) -> grpc.ServerCertificateConfiguration:
    _context(config)  # gRPC itself would accept files that do not match, and fail at the handshakes
    authority = Path(config.client_ca_file).read_bytes() if config.client_ca_file else None
    pair = (Path(config.key_file).read_bytes(), Path(config.cert_file).read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], authority)


def _context(config: TlsConfig) -> ssl.SSLContext:
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
