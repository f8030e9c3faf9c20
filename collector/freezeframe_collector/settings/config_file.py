"""Reading the collector's configuration: one TOML file, the environment over it, the command line over both.

Every fault is named at once, each with its place: the file and key, the variable, or the setting's path.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final, cast

from freezeframe_collector.settings.config import (
    SETTINGS,
    CollectorConfig,
    Scalar,
    config_from_values,
    parse_tenant_days,
    parse_tenant_policies,
)
from freezeframe_schemas.address import split_address, store_options
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.settings import no_such

ENVIRONMENT_PREFIX: Final = "FREEZEFRAME_COLLECTOR__"
"""Then the setting's path: ``FREEZEFRAME_COLLECTOR__WAL__SEGMENT_BYTES=1048576``."""
_VOLUME: Final = re.compile(r"[^/]+/[^/]+")


def load_config(
    file: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Scalar] | None = None
) -> CollectorConfig:
    """Return the configuration: the file, then the environment over it, then `overrides` (``{"grpc.port": 0}``).

    Raises:
        ConfigError: with one line for each fault found.
    """
    config, faults = read_config(file, environment, overrides)
    refuse(faults)
    return config


def refuse(faults: Sequence[str]) -> None:
    """Raise a ConfigError of these faults, if there are any."""
    if faults:
        raise ConfigError("the configuration has faults:\n  " + "\n  ".join(faults), do="see docs/operate/collector-config.md")


def read_config(
    file: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Scalar] | None = None
) -> tuple[CollectorConfig, list[str]]:
    """Do what `load_config` does, and return the faults; a setting with a fault has its default."""
    faults: list[str] = []
    values: dict[str, Scalar] = {}
    for path, value in _file_values(file, faults):
        if path in SETTINGS:
            values[path] = SETTINGS[path].check(value, f"{file}: {path}", faults)
        else:
            faults.append(no_such(f"{file}: {path}", path, SETTINGS))
    for variable, text in sorted(environment.items()):
        if variable.startswith(ENVIRONMENT_PREFIX):
            path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".", 1)
            if path in SETTINGS:
                values[path] = SETTINGS[path].read(text, variable, faults)
            else:
                faults.append(no_such(variable, path, SETTINGS))
    for path, value in (overrides or {}).items():
        values[path] = SETTINGS[path].check(value, path, faults)
    config = config_from_values(values)
    faults.extend(_contradictions(config))
    return config, faults


def _file_values(file: Path | None, faults: list[str]) -> Iterator[tuple[str, object]]:
    if file is None:
        return
    try:
        document = tomllib.loads(file.read_text())
    except OSError as error:
        faults.append(f"{file}: cannot be read: {error.strerror}")
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(f"{file}: not valid TOML: {error}")
        return
    for section, content in document.items():
        if not isinstance(content, dict):
            faults.append(f"{file}: {section}: found a value, expected a section like [{section}]")
            continue
        for key, value in cast("dict[str, object]", content).items():
            yield f"{section}.{key}", value


def _contradictions(config: CollectorConfig) -> Iterator[str]:
    """Yield the faults that concern several values."""
    store, tls, auth = config.store, config.tls, config.auth
    for parse, text in ((parse_tenant_days, config.retention.tenants), (parse_tenant_policies, config.redaction.tenants)):
        try:
            parse(text)
        except ConfigError as error:
            yield error.message
    if store.cold_after_days and not store.cold_volume:
        yield "store.cold_after_days: requires store.cold_volume, the target of the moved days"
    if store.cold_volume and config.store_dsn.startswith("chdb:"):
        if not Path(store.cold_volume).is_absolute():
            yield f"store.cold_volume: found {store.cold_volume!r}, expected an absolute path"
    elif store.cold_volume and not _VOLUME.fullmatch(store.cold_volume):
        yield f"store.cold_volume: found {store.cold_volume!r}, expected POLICY/VOLUME"
    if bool(tls.cert_file) != bool(tls.key_file):
        yield "tls: cert_file and key_file go together; one of them is empty"
    if tls.client_ca_file and not tls.cert_file:
        yield "tls.client_ca_file: requires tls.cert_file and tls.key_file"
    for path in ("tls.cert_file", "tls.key_file", "tls.client_ca_file", "auth.tokens_file"):
        if (file := attrgetter(path)(config)) and not Path(file).is_file():
            yield f"{path}: {file}: no such file"
    if auth.tokens_file and auth.open_senders:
        yield "auth.open_senders: expected false if auth.tokens_file is set, because its tokens identify tenants"
    yield from _shared_ports(config)
    if store.dsn:
        yield from _dsn_faults(store.dsn)
    if store.retry_initial_s > store.retry_max_s:
        yield "store.retry_initial_s: is more than store.retry_max_s"
    if config.limits.span_bytes > config.admission.in_flight_bytes:
        yield "limits.span_bytes: is more than admission.in_flight_bytes, so such a span would never be accepted"


def _shared_ports(config: CollectorConfig) -> Iterator[str]:
    owners: dict[int, str] = {}
    for name in ("grpc", "http", "clickhouse", "pages"):
        listener = getattr(config, name)
        if not listener.port or not getattr(listener, "enabled", True):
            continue
        if listener.port in owners:
            yield f"{name}.port: port {listener.port} is also {owners[listener.port]}"
        owners[listener.port] = f"{name}.port"


def _dsn_faults(dsn: str) -> Iterator[str]:
    scheme, _, rest = dsn.partition("://")
    if scheme not in ("chdb", "clickhouse", "clickhouses"):
        yield f"store.dsn: found scheme {scheme.partition(':')[0]!r}, expected chdb, clickhouse or clickhouses"
    elif scheme == "chdb" and not rest.startswith("/"):
        yield "store.dsn: not an absolute directory, expected chdb:///DIRECTORY (three slashes)"
    else:
        try:
            parts = split_address(dsn)
            if scheme != "chdb" and not parts.hostname:
                yield f"store.dsn: found no host, expected {scheme}://USER:PASSWORD@HOST:PORT/DATABASE"
            store_options(parts)
        except ConfigError as error:
            yield str(error).replace("store: ", "store.dsn: ", 1)
