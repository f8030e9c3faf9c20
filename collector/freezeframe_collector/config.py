"""The collector's configuration: one TOML file, every key optional, every fault named at once.

The dataclasses below are the whole definition: a field's default, type, range and help line are read by the parser, by the
environment overrides (``FREEZEFRAME_COLLECTOR__WAL__SEGMENT_BYTES=1048576``) and by the generated page
(`config_page`). A setting exists where it stands here and nowhere else, which makes this module as long as the list of them.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast, get_type_hints

from freezeframe_schemas.address import split_address, store_options
from freezeframe_schemas.errors import ConfigError

ENVIRONMENT_PREFIX: Final = "FREEZEFRAME_COLLECTOR__"
Scalar = str | int | float | bool
_VOLUME: Final = re.compile(r"[^/]+/[^/]+")
_ENDPOINT: Final = re.compile(r"https?://[^/]")
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")


def _setting(default: Any, help_text: str, *, least: float | None = None, most: float | None = None) -> Any:
    """Declare a setting; the return type is Any so that the field keeps its own."""
    return field(default=default, metadata={"help": help_text, "least": least, "most": most})


_PORT_RANGE: Final[dict[str, float]] = {"least": 0, "most": 65535}
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """The process as a whole."""

    data: str = _setting(".freezeframe", "Directory of the log, the embedded store, the keys and `ports.json`.")
    workers: int = _setting(
        1,
        "Processes that receive and redact; if more than 1, they run in addition to the process that stores.",
        least=1,
        most=64,
    )
    shutdown_s: float = _setting(20.0, "Seconds that a graceful stop may take; the rest stays in the log.", least=0)
    log_level: str = _setting("info", "`debug`, `info`, `warning` or `error`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """The OTLP/gRPC receiver."""

    enabled: bool = _setting(True, "Listen for OTLP over gRPC.")
    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(4317, "Port; 0 chooses a free one and writes it to `ports.json`.", **_PORT_RANGE)
    max_message_bytes: int = _setting(
        64 * _MIB, "Largest message, before and after decompression.", least=1024, most=(1 << 31) - 1
    )
    workers: int = _setting(16, "Requests served at once.", least=1, most=256)
    read_timeout_s: float = _setting(30.0, "Seconds in which a request's message must have arrived.", least=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The OTLP/HTTP receiver, which also serves `/healthz`, `/readyz`, `/metrics`, `/status` and `POST /v1/flush`."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(4318, "Port; 0 chooses a free one and writes it to `ports.json`.", **_PORT_RANGE)
    max_body_bytes: int = _setting(64 * _MIB, "Largest body, before and after decompression.", least=1024, most=(1 << 31) - 1)
    workers: int = _setting(16, "Requests served at once.", least=1, most=256)
    read_timeout_s: float = _setting(
        30.0, "Seconds in which a request's body must have arrived; after 5 s it also needs 4 KiB/s.", least=0.1
    )
    allowed_origins: str = _setting(
        "", "Origins whose web pages may send (CORS): `https://app.example.com, http://localhost:3000`. Empty allows none."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickhouseConfig:
    """The ClickHouse HTTP protocol over the store, for SQL clients."""

    enabled: bool = _setting(True, "Serve SQL over the embedded store; a server has its own port.")
    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(8123, "Port; 0 chooses a free one and writes it to `ports.json`.", **_PORT_RANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesConfig:
    """A plain listener of `/healthz`, `/readyz`, `/metrics`, `/status` and `POST /v1/flush` alone, beside TLS."""

    host: str = _setting("127.0.0.1", "Address to listen on. Anyone who reaches it can read figures, but no payload.")
    port: int = _setting(0, "Port; 0 chooses a free one if `[tls]` is set, and opens none otherwise.", **_PORT_RANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS of both receivers. Empty paths mean plain text."""

    cert_file: str = _setting("", "PEM file with the server's certificate chain.")
    key_file: str = _setting("", "PEM file with the server's private key.")
    client_ca_file: str = _setting("", "PEM file with the authorities whose client certificates are required (mTLS).")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Who may send."""

    tokens_file: str = _setting(
        "",
        'TOML file of bearer tokens: `[tokens]`, tenant = "sha256:<hex>". If empty, senders use the token in the file'
        " `sender-token` of the data directory.",
    )
    open_senders: bool = _setting(
        False, "Accept spans from senders without a token. Reading always requires the token in the file `reader-token`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """How much may be in progress at once before senders are asked to wait."""

    in_flight_bytes: int = _setting(
        256 * _MIB, "Maximum bytes of requests being received, and again of decompressed requests being processed.", least=1024
    )
    wait_s: float = _setting(1.0, "Seconds a request may wait for its turn before it is refused.", least=0, most=10)
    retry_after_s: float = _setting(1.0, "Delay that a refused sender is given (RetryInfo, Retry-After).", least=0.05, most=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """What one request or span may hold. A span over a limit is set aside with the reason; the others of its batch land."""

    spans_per_request: int = _setting(100_000, "Spans in one request; a request with more is refused.", least=1)
    values_per_request: int = _setting(
        1_000_000,
        "Attributes, events, links and items of lists of one request, in JSON every object, list and item; a request with"
        " more is refused unread.",
        least=1,
    )
    span_bytes: int = _setting(48 * _MIB, "Bytes of one span on the wire.", least=1024)
    attributes: int = _setting(4_096, "Attributes of one span.", least=1)
    events: int = _setting(10_000, "Events of one span.", least=0)
    links: int = _setting(10_000, "Links of one span.", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionConfig:
    """What is replaced before anything touches the disk."""

    policy: str = _setting("strict", "Name of a built-in policy, or the path of a TOML file.")
    tenants: str = _setting("", "Policies for single tenants: `acme=/etc/freezeframe/acme.toml, beta=minimal`.")
    keys: str = _setting("", "Directory of the surrogate keys; empty means `keys` in the data directory.")
    span_cpu_s: float = _setting(
        5.0,
        "CPU seconds for one span. If redaction takes longer, the span's longest texts become keyed hashes, and the span "
        "says so.",
        least=0.1,
    )
    vault: bool = _setting(
        False,
        "Also keep the originals, sealed, in `vault.db` in the data directory, for `freezeframe vault` to reveal or forget.",
    )
    vault_keys: str = _setting(
        "", "Directory of the vault's keys, ideally readable by few; empty means `vault-keys` in the data directory."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WalConfig:
    """The write-ahead log. A request is acked when the log is on the disk."""

    flush_interval_s: float = _setting(
        5.0,
        "Age at which a segment goes to the store, as one insert; spans are in SQL soon after. `POST /v1/flush` does not wait.",
        least=0.01,
        most=60,
    )
    segment_bytes: int = _setting(64 * _MIB, "Size at which a segment goes to the store at once.", least=4096)
    max_bytes: int = _setting(8 * 1024 * _MIB, "Size of the log on disk beyond which senders are asked to wait.", least=4096)
    memory_bytes: int = _setting(
        128 * _MIB, "Bytes of logged spans kept in memory; beyond this, the writer reads from disk.", least=0
    )
    remembered_spans: int = _setting(
        200_000, "Spans remembered, also across restarts, to recognise one that is sent again.", least=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where spans are kept."""

    dsn: str = _setting("", "`clickhouse://user:password@host:8123/db`; empty means the embedded store in the data directory.")
    retry_initial_s: float = _setting(0.2, "First delay after a temporary failure.", least=0.001)
    retry_max_s: float = _setting(30.0, "Longest delay between two tries; tries never stop.", least=0.001)
    permanent_attempts: int = _setting(
        5, "Tries of a segment before it is set aside, if the store refuses every span of it.", least=1
    )
    cold_after_days: int = _setting(0, "Days after which a day's runs move to `cold_volume`; 0 moves none.", least=0)
    cold_volume: str = _setting(
        "", "A directory on a slower, cheaper disk; for a server, `POLICY/VOLUME` as named in its configuration."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """For how many days the embedded store keeps runs, by the day on which they started. Pinned runs stay."""

    days: int = _setting(14, "Days to keep every run; 0 keeps all forever.", least=0)
    failed_days: int = _setting(90, "Days to keep failed runs.", least=1)
    tenants: str = _setting("", "Days for single tenants: `acme=30, beta=7`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """Spans about the collector itself. Metrics and status need no setting: `/metrics`, `/status`."""

    spans: str = _setting(
        "off", "`off`, `self` (into the collector's own store), or an OTLP/HTTP URL that ends in `/v1/traces`."
    )
    sample: float = _setting(0.01, "Share of requests that get a span; every stored segment gets one.", least=0, most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorConfig:
    """All sections."""

    service: ServiceConfig = ServiceConfig()
    grpc: GrpcConfig = GrpcConfig()
    http: HttpConfig = HttpConfig()
    clickhouse: ClickhouseConfig = ClickhouseConfig()
    pages: PagesConfig = PagesConfig()
    tls: TlsConfig = TlsConfig()
    auth: AuthConfig = AuthConfig()
    admission: AdmissionConfig = AdmissionConfig()
    limits: LimitsConfig = LimitsConfig()
    redaction: RedactionConfig = RedactionConfig()
    wal: WalConfig = WalConfig()
    store: StoreConfig = StoreConfig()
    retention: RetentionConfig = RetentionConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @property
    def data_directory(self) -> Path:
        """Return the data directory as an absolute path."""
        return Path(self.service.data).expanduser().absolute()

    @property
    def keys_directory(self) -> Path:
        """Return where the surrogate keys lie."""
        return Path(self.redaction.keys).expanduser().absolute() if self.redaction.keys else self.data_directory / "keys"

    @property
    def tokens_path(self) -> Path | None:
        """Return the file of the tenants' bearer tokens, None if there are none."""
        return Path(self.auth.tokens_file) if self.auth.tokens_file else None

    @property
    def store_dsn(self) -> str:
        """Return the DSN of the store, the embedded one where none is set."""
        return self.store.dsn or f"chdb://{self.data_directory / 'store'}"


RELOADED: Final = ("admission", "limits", "redaction.policy", "redaction.tenants", "service.log_level")
"""Sections and settings that SIGHUP applies; the others need a restart. (Tokens and certificates are watched by themselves.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of the file, as the parser and the page see it."""

    section: str
    name: str
    type: type
    default: Scalar
    help: str
    least: float | None
    most: float | None

    @property
    def path(self) -> str:
        """Return ``section.key``."""
        return f"{self.section}.{self.name}"

    @property
    def is_reloaded(self) -> bool:
        """Return whether SIGHUP applies a change of it."""
        return self.section in RELOADED or self.path in RELOADED


def settings() -> Iterator[Setting]:
    """Yield every setting in file order."""
    for section, section_type in get_type_hints(CollectorConfig).items():
        hints = get_type_hints(section_type)
        for declared in dataclasses.fields(section_type):
            yield Setting(
                section=section,
                name=declared.name,
                type=hints[declared.name],
                default=cast("Scalar", declared.default),
                help=declared.metadata["help"],
                least=declared.metadata["least"],
                most=declared.metadata["most"],
            )


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
    """Raise a ConfigError of these faults, where there are any."""
    if faults:
        raise ConfigError("the configuration has faults:\n  " + "\n  ".join(faults), do="see docs/collector-config.md")


def read_config(
    file: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Scalar] | None = None
) -> tuple[CollectorConfig, list[str]]:
    """Do as `load_config`, and return the faults: what is wrong has its default, as far as it has no form at all."""
    faults: list[str] = []
    known = {setting.path: setting for setting in settings()}
    values: dict[str, Scalar] = {}
    for path, value in _file_values(file, faults):
        _take(values, known, f"{file}: {path}", path, value, faults)
    for variable, text in sorted(environment.items()):
        if variable.startswith(ENVIRONMENT_PREFIX):
            path = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".", 1)
            setting = known.get(path)
            value = _parse_text(text, setting.type) if setting else text
            _take(values, known, variable, path, value, faults)
    values.update(overrides or {})
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


def _take(
    values: dict[str, Scalar], known: Mapping[str, Setting], where: str, path: str, value: object, faults: list[str]
) -> None:
    setting = known.get(path)
    if setting is None:
        faults.append(f"{where}: no such setting{_nearest(path, known)}")
        return
    if setting.type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not setting.type:
        faults.append(f"{where}: found {value!r}, expected {_TYPE_WORDS[setting.type]}")
        return
    accepted = cast("Scalar", value)
    if isinstance(accepted, float) and not math.isfinite(accepted):
        faults.append(f"{where}: found {accepted}, expected a finite number")
        return
    if isinstance(accepted, int | float):
        if setting.least is not None and accepted < setting.least:
            faults.append(f"{where}: found {accepted}, expected at least {setting.least:g}")
        if setting.most is not None and accepted > setting.most:
            faults.append(f"{where}: found {accepted}, expected at most {setting.most:g}")
    values[path] = accepted


_TYPE_WORDS: Final = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _nearest(path: str, known: Mapping[str, Setting]) -> str:
    import difflib

    near = difflib.get_close_matches(path, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _parse_text(text: str, kind: type) -> object:
    """Return the environment's text as the setting's type, or the text itself where it is none (then `_take` says so)."""
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def config_values(config: CollectorConfig) -> dict[str, Scalar]:
    """Return every value by its path."""
    return {setting.path: getattr(getattr(config, setting.section), setting.name) for setting in settings()}


def config_from_values(values: Mapping[str, Scalar]) -> CollectorConfig:
    """Return the configuration with these values, by path, and defaults for the rest. Checks nothing."""
    sections: dict[str, Any] = {}
    for section, section_type in get_type_hints(CollectorConfig).items():
        own = {path.partition(".")[2]: value for path, value in values.items() if path.startswith(f"{section}.")}
        sections[section] = section_type(**own)
    return CollectorConfig(**sections)


def parse_tenant_days(text: str) -> dict[str, int]:
    """Return the days of each tenant of ``"acme=30, beta=7"``.

    Raises:
        ConfigError: a part is of no such form.
    """
    days: dict[str, int] = {}
    for part, tenant, number in _by_tenant(text):
        if not tenant or not number.isdecimal() or int(number) < 1:
            raise ConfigError(f"retention.tenants: found {part!r}, expected TENANT=DAYS, for example acme=30")
        days[tenant] = int(number)
    return days


def parse_tenant_policies(text: str) -> dict[str, str]:
    """Return the policy of each tenant of ``"acme=/etc/acme.toml, beta=minimal"``, by name or path.

    Raises:
        ConfigError: a part is of no such form, or a tenant stands there twice.
    """
    policies: dict[str, str] = {}
    for part, tenant, policy in _by_tenant(text):
        if not tenant or not policy:
            raise ConfigError(f"redaction.tenants: found {part!r}, expected TENANT=POLICY, for example acme=/etc/acme.toml")
        if tenant in policies:
            raise ConfigError(f"redaction.tenants: {tenant} has two policies, {policies[tenant]} and {policy}")
        policies[tenant] = policy
    return policies


def _by_tenant(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each part of ``"acme=30, beta=7"``, whole and as tenant and value, which is empty where none is given."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        tenant, _, value = part.partition("=")
        yield part, tenant.strip(), value.strip()


def _contradictions(config: CollectorConfig) -> Iterator[str]:
    """Yield what each value alone does not show."""
    if config.service.log_level not in ("debug", "info", "warning", "error"):
        yield f"service.log_level: found {config.service.log_level!r}, expected debug, info, warning or error"
    if config.telemetry.spans not in ("off", "self") and not _ENDPOINT.match(config.telemetry.spans):
        yield f"telemetry.spans: found {config.telemetry.spans!r}, expected off, self or an http:// or https:// URL"
    for parse, text in ((parse_tenant_days, config.retention.tenants), (parse_tenant_policies, config.redaction.tenants)):
        try:
            parse(text)
        except ConfigError as error:
            yield error.message
    for origin in filter(None, (part.strip() for part in config.http.allowed_origins.split(","))):
        if not _ORIGIN.fullmatch(origin):
            yield f"http.allowed_origins: found {origin!r}, expected SCHEME://HOST or SCHEME://HOST:PORT without a path"
    store = config.store
    if store.cold_after_days and not store.cold_volume:
        yield "store.cold_after_days: requires store.cold_volume, the target of the moved days"
    if store.cold_volume and config.store_dsn.startswith("chdb:"):
        if not Path(store.cold_volume).is_absolute():
            yield f"store.cold_volume: found {store.cold_volume!r}, expected an absolute path"
    elif store.cold_volume and not _VOLUME.fullmatch(store.cold_volume):
        yield f"store.cold_volume: found {store.cold_volume!r}, expected POLICY/VOLUME"
    tls = config.tls
    if bool(tls.cert_file) != bool(tls.key_file):
        yield "tls: cert_file and key_file go together; one of them is empty"
    if tls.client_ca_file and not tls.cert_file:
        yield "tls.client_ca_file: requires tls.cert_file and tls.key_file"
    for name in ("cert_file", "key_file", "client_ca_file"):
        path = getattr(tls, name)
        if path and not Path(path).is_file():
            yield f"tls.{name}: {path}: no such file"
    if config.auth.tokens_file and not Path(config.auth.tokens_file).is_file():
        yield f"auth.tokens_file: {config.auth.tokens_file}: no such file"
    if config.auth.tokens_file and config.auth.open_senders:
        yield "auth.open_senders: expected false if auth.tokens_file is set, because its tokens identify tenants"
    ports = [("grpc.port", config.grpc.port, config.grpc.enabled), ("http.port", config.http.port, True)]
    ports += [("clickhouse.port", config.clickhouse.port, config.clickhouse.enabled), ("pages.port", config.pages.port, True)]
    taken: dict[int, str] = {}
    for name, port, enabled in ports:
        if enabled and port and port in taken:
            yield f"{name}: port {port} is also {taken[port]}"
        taken[port] = name
    if not config.service.data.strip():
        yield "service.data: empty, expected a directory"
    if config.store.dsn:
        yield from _dsn_faults(config.store.dsn)
    if config.store.retry_initial_s > config.store.retry_max_s:
        yield "store.retry_initial_s: is more than store.retry_max_s"
    if config.limits.span_bytes > config.admission.in_flight_bytes:
        yield "limits.span_bytes: is more than admission.in_flight_bytes, so such a span would never be accepted"


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
