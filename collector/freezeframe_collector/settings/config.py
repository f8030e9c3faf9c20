"""The collector's settings: every key optional, with a default that works on one machine.

The fields below are the whole definition: type, default, kind and help of a setting are read by
`config_file.load_config` and by the generated page.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

from freezeframe_schemas.content_references import make_reader
from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.settings import TEXT, ValueKind, declared, number, one_of, setting, whole

Scalar = str | int | float | bool

_MIB: Final = 1 << 20
_MESSAGE: Final = whole(1024, (1 << 31) - 1)
_PORT: Final = whole(0, 65535)
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")
_ORIGINS: Final = ValueKind(
    expected="SCHEME://HOST or SCHEME://HOST:PORT without a path, joined by commas",
    accepts=lambda value: TEXT.accepts(value) and all(map(_ORIGIN.fullmatch, _parts(value))),
)


def _are_places(value: object) -> bool:
    try:
        make_reader(_parts(str(value)))
    except ConfigError:
        return False
    return isinstance(value, str)


_PLACES: Final = ValueKind(expected="folders and http(s)://HOST/PATH, joined by commas", accepts=_are_places)
_DATA: Final = ValueKind(expected="a directory", accepts=lambda value: TEXT.accepts(value) and bool(value.strip()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """The process as a whole."""

    data: str = setting(".freezeframe", "Directory of the log, the embedded store and `ports.json`.", _DATA)
    workers: int = setting(
        1,
        "Processes that receive and redact; if more than 1, they run in addition to the process that stores.",
        whole(1, 64),
    )
    shutdown_s: float = setting(20.0, "Seconds that a graceful stop may take; the rest stays in the log.", number(0))
    log_level: str = setting("info", "How much is logged.", one_of("debug", "info", "warning", "error"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """The OTLP/gRPC receiver."""

    enabled: bool = setting(True, "Listen for OTLP over gRPC.")
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(4317, "Port; 0 chooses a free one and writes it to `ports.json`.", _PORT)
    max_message_bytes: int = setting(64 * _MIB, "Largest message, before and after decompression.", _MESSAGE)
    workers: int = setting(16, "Requests served at once.", whole(1, 256))
    read_timeout_s: float = setting(30.0, "Seconds in which a request's message must have arrived.", number(0.1))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """The OTLP/HTTP receiver, which also serves `/healthz`, `/readyz`, `/metrics`, `/status` and `POST /v1/flush`."""

    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(4318, "Port; 0 chooses a free one and writes it to `ports.json`.", _PORT)
    max_body_bytes: int = setting(64 * _MIB, "Largest body, before and after decompression.", _MESSAGE)
    workers: int = setting(16, "Requests served at once.", whole(1, 256))
    read_timeout_s: float = setting(
        30.0, "Seconds in which a request's body must have arrived; after 5 s it also needs 4 KiB/s.", number(0.1)
    )
    allowed_origins: str = setting(
        "",
        "Origins whose web pages may send (CORS): `https://app.example.com, http://localhost:3000`. Empty allows none.",
        _ORIGINS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickhouseConfig:
    """The ClickHouse HTTP protocol over the store, for SQL clients."""

    enabled: bool = setting(True, "Serve SQL over the embedded store; a server has its own port.")
    host: str = setting("127.0.0.1", "Address to listen on.")
    port: int = setting(8123, "Port; 0 chooses a free one and writes it to `ports.json`.", _PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesConfig:
    """A plain listener of `/healthz`, `/readyz`, `/metrics`, `/status` and `POST /v1/flush` only, for use along with TLS."""

    host: str = setting("127.0.0.1", "Address to listen on. Anyone who reaches it can read figures, but no payload.")
    port: int = setting(0, "Port; 0 chooses a free one if `[tls]` is set, and opens none otherwise.", _PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS of both receivers. Empty paths mean plain text."""

    cert_file: str = setting("", "PEM file with the server's certificate chain.")
    key_file: str = setting("", "PEM file with the server's private key.")
    client_ca_file: str = setting("", "PEM file with the authorities whose client certificates are required (mTLS).")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Tokens of senders."""

    tokens_file: str = setting(
        "",
        'TOML file of bearer tokens: `[tokens]`, tenant = "sha256:<hex>". If empty, senders use the token in the file'
        " `sender-token` of the data directory.",
    )
    open_senders: bool = setting(
        False, "Accept spans from senders without a token. Reading always requires the token in the file `reader-token`."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """Limits on work in progress, beyond which senders have to wait."""

    in_flight_bytes: int = setting(
        256 * _MIB, "Maximum bytes of requests being received, and again of decompressed requests being processed.", whole(1024)
    )
    wait_s: float = setting(1.0, "Seconds a request may wait for its turn before it is refused.", number(0, 10))
    retry_after_s: float = setting(1.0, "Delay that a refused sender is given (RetryInfo, Retry-After).", number(0.05, 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """Limits of one request and one span. A span over a limit is set aside with the reason; the rest of its batch is stored."""

    spans_per_request: int = setting(100_000, "Spans in one request; a request with more is refused.", whole(1))
    values_per_request: int = setting(
        1_000_000,
        "Attributes, events, links and items of lists of one request, in JSON every object, list and item; a request with"
        " more is refused unread.",
        whole(1),
    )
    span_bytes: int = setting(48 * _MIB, "Bytes of one span on the wire.", whole(1024))
    attributes: int = setting(4_096, "Attributes of one span.", whole(1))
    events: int = setting(10_000, "Events of one span.", whole(0))
    links: int = setting(10_000, "Links of one span.", whole(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentConfig:
    """Content that spans point to instead of holding it, as an upload hook makes them. By default none is read."""

    places: str = setting(
        "",
        "Where spans may point to: folders and `http(s)://HOST/PATH`, joined by commas; `s3://BUCKET/PATH=BASE` for objects "
        "that are at BASE. Name no place whose objects senders may not read. One request reads up to 64 MiB, for 20 s.",
        _PLACES,
    )

    @property
    def named(self) -> list[str]:
        """Return the places one by one."""
        return _parts(self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionConfig:
    """Redaction, which happens before anything reaches the disk."""

    policy: str = setting("strict", "Name of a built-in policy, or the path of a TOML file.")
    tenants: str = setting("", "Policies for single tenants: `acme=/etc/freezeframe/acme.toml, beta=minimal`.")
    keys: str = setting(
        "",
        "Directory of the surrogate keys. Empty means one in the user's state directory. `keys` in the data directory links to "
        "it.",
    )
    span_cpu_s: float = setting(
        5.0,
        "CPU seconds for one span. If redaction takes longer, the span's longest texts become keyed hashes, and the span "
        "records that.",
        number(0.1),
    )
    request_cpu_s: float = setting(
        20.0,
        "CPU seconds for one request. If redaction takes longer, all texts of its other spans become keyed hashes; after twice"
        " that time, its spans are rejected.",
        number(0.1),
    )
    vault: bool = setting(
        False,
        "Also keep the originals, sealed, in `vault.db` in the data directory, "
        "for `freezeframe store vault` to reveal or forget.",
    )
    vault_keys: str = setting(
        "",
        "Directory of the vault's keys, ideally readable by few. Empty means one in the user's state directory. `vault-keys` "
        "in the data directory links to it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CastConfig:
    """The cast of a run: the private values found in it, whose forms are replaced wherever they occur in the run."""

    enabled: bool = setting(
        True, "Replace the forms of a value in the whole run, and not only where it was found; needs a policy that redacts."
    )
    runs: int = setting(
        10_000,
        "Open runs whose values are remembered. With more, unsettled ones are settled at once, settled ones forgotten early.",
        whole(20),
    )
    settle_after_s: float = setting(
        5.0,
        "Seconds without spans after which a run that has ended is settled: its stored spans are rewritten if need be.",
        number(0),
    )
    pause_s: float = setting(60.0, "Seconds without spans after which a run without an end is settled.", number(0))
    grace_s: float = setting(3600.0, "Seconds without spans after which a settled run's values are destroyed.", number(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class WalConfig:
    """The write-ahead log. A request is acked when the log is on the disk."""

    flush_interval_s: float = setting(
        5.0,
        "Age at which a segment goes to the store, as one insert; spans are in SQL soon after. `POST /v1/flush` does not wait.",
        number(0.01, 60),
    )
    segment_bytes: int = setting(64 * _MIB, "Size at which a segment goes to the store at once.", whole(4096))
    max_bytes: int = setting(8 * 1024 * _MIB, "Size of the log on disk beyond which senders are asked to wait.", whole(4096))
    memory_bytes: int = setting(
        128 * _MIB, "Bytes of logged spans kept in memory; beyond this, the writer reads from disk.", whole(0)
    )
    remembered_spans: int = setting(
        200_000, "Spans remembered, also across restarts, to recognise one that is sent again.", whole(0)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Place of the store."""

    dsn: str = setting("", "`clickhouse://user:password@host:8123/db`; empty means the embedded store in the data directory.")
    retry_initial_s: float = setting(0.2, "First delay after a temporary failure.", number(0.001))
    retry_max_s: float = setting(30.0, "Longest delay between two tries; tries never stop.", number(0.001))
    permanent_attempts: int = setting(
        5, "Tries of a segment before it is set aside, if the store refuses every span of it.", whole(1)
    )
    cold_after_days: int = setting(0, "Days after which a day's runs move to `cold_volume`; 0 moves none.", whole(0))
    cold_volume: str = setting(
        "", "A directory on a slower, cheaper disk; for a server, `POLICY/VOLUME` as named in its configuration."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """For how many days the embedded store keeps runs, by the day on which they started. Pinned runs stay."""

    days: int = setting(14, "Days to keep every run; 0 keeps all forever.", whole(0))
    failed_days: int = setting(90, "Days to keep failed runs.", whole(1))
    tenants: str = setting("", "Days for single tenants: `acme=30, beta=7`.")


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
    content: ContentConfig = ContentConfig()
    redaction: RedactionConfig = RedactionConfig()
    cast: CastConfig = CastConfig()
    wal: WalConfig = WalConfig()
    store: StoreConfig = StoreConfig()
    retention: RetentionConfig = RetentionConfig()

    @property
    def data_directory(self) -> Path:
        """Return the data directory as an absolute path."""
        return Path(self.service.data).expanduser().absolute()

    @property
    def tokens_path(self) -> Path | None:
        """Return the file of the tenants' bearer tokens, or None."""
        return Path(self.auth.tokens_file) if self.auth.tokens_file else None

    @property
    def store_dsn(self) -> str:
        """Return the DSN of the store, the embedded one if none is set."""
        return self.store.dsn or f"chdb://{self.data_directory / 'store'}"


RELOADED: Final = ("admission", "limits", "redaction.policy", "redaction.tenants", "service.log_level")
"""Sections and settings that SIGHUP applies.

Other sections and settings need a restart. (Tokens and certificates are reread when they change.)
"""


SETTINGS: Final = declared(CollectorConfig)
"""Every setting by its path (`grpc.port`), in file order."""


def is_reloaded(path: str) -> bool:
    """Return whether SIGHUP applies a change of the setting."""
    return path in RELOADED or path.partition(".")[0] in RELOADED


def config_values(config: CollectorConfig) -> dict[str, Scalar]:
    """Return every value by its path."""
    return {path: attrgetter(path)(config) for path in SETTINGS}


def config_from_values(values: Mapping[str, Scalar]) -> CollectorConfig:
    """Return the configuration with these values, by path, and defaults for the rest. Checks nothing."""
    sections: dict[str, dict[str, Scalar]] = {}
    for path, value in values.items():
        section, _, key = path.partition(".")
        sections.setdefault(section, {})[key] = value
    default = CollectorConfig()
    return dataclasses.replace(default, **{name: type(getattr(default, name))(**own) for name, own in sections.items()})


def parse_tenant_days(text: str) -> dict[str, int]:
    """Return the days of each tenant of ``"acme=30, beta=7"``.

    Raises:
        ConfigError: a part does not have this form.
    """
    days: dict[str, int] = {}
    for part, tenant, count in _by_tenant(text):
        if not tenant or not count.isdecimal() or int(count) < 1:
            raise ConfigError(f"retention.tenants: found {part!r}, expected TENANT=DAYS, for example acme=30")
        days[tenant] = int(count)
    return days


def parse_tenant_policies(text: str) -> dict[str, str]:
    """Return the policy of each tenant of ``"acme=/etc/acme.toml, beta=minimal"``, by name or path.

    Raises:
        ConfigError: a part does not have this form, or a tenant is named twice.
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
    """Yield each part of ``"acme=30, beta=7"``, whole and as tenant and value, which is empty if none is given."""
    for part in _parts(text):
        tenant, _, value = part.partition("=")
        yield part, tenant.strip(), value.strip()


def _parts(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(",")) if part]
