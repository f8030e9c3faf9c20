"""Checks beyond a configuration's values: the state of its files and directory, and entrances that are too wide open.

The start finds the same faults, one after the other; ``--check`` names all of them at once. Nothing is opened but these files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from freezeframe_collector.files import directory_fault
from freezeframe_collector.settings.auth import Authenticator
from freezeframe_collector.settings.config import CollectorConfig
from freezeframe_collector.settings.policies import load_policies
from freezeframe_collector.settings.tls import http_context
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.local_tokens import ADMIN, READER, SENDER
from freezeframe_schemas.same_origin import is_loopback


def file_faults(config: CollectorConfig) -> Iterator[str]:
    """Yield at least one line for each faulty item of these: the data directory, the policy, the tokens, the certificates.

    A missing file is left out: the configuration's own check has named it.
    """
    if fault := directory_fault(config.data_directory):
        yield f"service.data: {config.data_directory}: {fault}"
    looks: tuple[Callable[[], object], ...] = (
        lambda: load_policies(config.redaction),
        lambda: Authenticator(config.tokens_path if config.tokens_path and config.tokens_path.exists() else None),
        lambda: http_context(config.tls),
    )
    for look in looks:
        try:
            look()
        except FileNotFoundError:
            continue
        except (ConfigError, OSError) as error:
            yield str(error)


def warnings(config: CollectorConfig) -> Iterator[str]:
    """Yield a line for each entrance that may be too wide open: not a fault, since the network may be closed elsewhere."""
    receivers = [("http", config.http.host)] + ([("grpc", config.grpc.host)] if config.grpc.enabled else [])
    for name, host in receivers:
        if is_loopback(host):
            continue
        if config.auth.open_senders and not config.tls.client_ca_file:
            yield f"{name}.host: {host}, and auth.open_senders without tls.client_ca_file: anyone who reaches it may send"
        if not config.tls.cert_file:
            yield f"{name}.host: {host}, and no tls.cert_file: unredacted spans and tokens cross the network in clear text"
    if config.clickhouse.enabled and not is_loopback(config.clickhouse.host):
        yield f"clickhouse.host: {config.clickhouse.host}: passwords and answers cross the network in clear text"
    for name in (SENDER, READER, ADMIN):
        file = config.data_directory / name
        if file.exists() and file.stat().st_mode & 0o077:
            yield f"{file}: other users can read this token: chmod 600, and delete it to get a new one at the next start"
