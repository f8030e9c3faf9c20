"""Every setting of `instrument()`: option, environment variables, default, type and help are one field of `Settings`.

An option given in code wins over the environment. All faults are named at once, in one `ConfigError`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from freezeframe_schemas.errors import ConfigError
from freezeframe_schemas.settings import SWITCH, TEXT, ValueKind, declared, no_such, number, setting

Protocol = Literal["http/protobuf", "grpc"]
Root = Literal["auto", "always", "never"]
CompressionName = Literal["none", "gzip", "deflate", "zstd"]

_MIB: Final = 1024 * 1024


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """Read ``key=value,key2=value2`` as OpenTelemetry's exporters do: values may be URL-encoded.

    They drop a malformed pair and show it in a warning. Here it is a fault, whose message does not show it.
    """
    from opentelemetry.util.re import parse_env_headers

    if not all(_HEADER.fullmatch(part) for part in _parse_list(text)):
        raise ValueError(text)
    return tuple(parse_env_headers(text, liberal=True).items())


def _parse_bytes(text: str) -> int:
    factor = {"k": 1024, "m": _MIB, "g": 1024 * _MIB}.get(text[-1].lower(), 1)
    return int(text[:-1] if factor > 1 else text) * factor


def _parse_spool(text: str) -> object:
    """Read a switch, or else a directory."""
    try:
        return SWITCH.parse(text)
    except LookupError:
        return text


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _is_pairs(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, tuple) and len(item) == 2 for item in value)


def _exporter(name: str) -> tuple[str, str]:
    """Return the two variables of the OTLP exporter's specification, the one for traces first."""
    return f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"


_PATH: Final = ValueKind(expected="a path", accepts=TEXT.accepts)
_SPOOL: Final = ValueKind(
    expected="a directory, true or false", accepts=lambda value: isinstance(value, str | bool), parse=_parse_spool
)
_HEADER: Final = re.compile(r"[!#-'*+\-.0-9A-Z^-z|~]+\s*=[ !#-:<-\[\]-~]*")
"""A pair that `parse_env_headers` accepts."""
_URL: Final = ValueKind(
    expected="a URL, http://host:port (for grpc also host:port)",
    accepts=lambda value: isinstance(value, str) and re.match(r"https?://|[^/]+:\d+$", value) is not None,
)
_HEADERS: Final = ValueKind(
    expected="key=value pairs joined by commas (a dict in code)", accepts=_is_pairs, parse=_parse_headers, secret=True
)
_HOSTS: Final = ValueKind(expected="host names joined by commas", accepts=_is_texts, parse=_parse_list)
_NAMES: Final = ValueKind(expected="names joined by commas", accepts=_is_texts, parse=_parse_list)
_BYTES: Final = ValueKind(
    expected="a number of bytes above zero (in a variable also 64K, 64M or 64G)",
    accepts=lambda value: type(value) is int and value > 0,
    parse=_parse_bytes,
)
_SECONDS: Final = number(0, what="a number of seconds")
_DAYS: Final = ValueKind(
    expected="a number of days above zero", accepts=lambda value: isinstance(value, float) and value > 0, parse=float
)


TRACES_PATH: Final = "/v1/traces"
"""Path at which a collector accepts traces over HTTP. Source: OTLP specification, "OTLP/HTTP Request"."""
USUAL_ENDPOINT: Final = "http://127.0.0.1:4318"
"""The collector's address if nothing else is configured. Source: OpenTelemetry's default for OTLP over HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of `instrument()`."""

    endpoint: str | None = setting(
        None,
        "The collector. Default: the one that runs for this project's data directory, else `http://127.0.0.1:4318`. For HTTP, "
        "`/v1/traces` is added if the path does not end so; never to `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.",
        _URL,
        variables=_exporter("ENDPOINT"),
    )
    endpoint_from: str = ""
    """The option or variable that named the endpoint."""
    protocol: Protocol = setting(
        "http/protobuf", "Transport of spans. `grpc` needs the extra `grpc`.", variables=_exporter("PROTOCOL")
    )
    insecure: bool | None = setting(
        None,
        "For grpc: send without TLS. Default: true for `http://`, false for `host:port`; always false for `https://`.",
        SWITCH,
        variables=_exporter("INSECURE"),
    )
    headers: tuple[tuple[str, str], ...] = setting(
        (), "Headers sent with every batch, for example the collector's token.", _HEADERS, variables=_exporter("HEADERS")
    )
    certificate: str | None = setting(
        None,
        "A PEM file of the authorities trusted to sign the collector's certificate (`https://`); default: those that the "
        "system trusts. Read again for each connection.",
        _PATH,
        variables=_exporter("CERTIFICATE"),
    )
    client_certificate: str | None = setting(
        None,
        "A PEM file of the client certificate, for a collector that asks for one (mTLS).",
        _PATH,
        variables=_exporter("CLIENT_CERTIFICATE"),
    )
    client_key: str | None = setting(
        None, "The PEM file of its private key, if that is a separate file.", _PATH, variables=_exporter("CLIENT_KEY")
    )
    service_name: str = setting("", "`service.name`; default: the name of the program.", variables=("OTEL_SERVICE_NAME",))
    file: str | None = setting(
        None,
        "Write spans to this file as OTLP/JSON lines instead of sending them. They are not redacted: keep the file safe, "
        "or use `freezeframe store redact-file`.",
        _PATH,
    )
    root: Root = setting(
        "auto",
        "Whether one span of the whole process holds the calls outside any `freezeframe.run`. `auto`: in a script, but "
        "not in a server. `freezeframe run -- CMD` sets `always`.",
    )
    sample: float = setting(
        1.0,
        "The share of runs to keep, each whole or not at all. Decided by the run's id (or the trace id if it has none), "
        "so all processes of a run agree; below a remote parent, the parent decides.",
        number(0, 1),
    )
    sample_errors: bool = setting(
        False,
        "Keep a run in which a span ended in an error even if `sample` leaves it out. Its spans wait in memory until the "
        "run ends.",
    )
    framework_state: bool = setting(
        False,
        "Record the state of a LangGraph graph or a LlamaIndex workflow at each node border, so that a replay can begin "
        "in the middle (`freezeframe replay RUN --from N`). Off by default, because states repeat the history.",
    )
    structure: bool = setting(
        True,
        "Name the agents of a run, and nest its calls below its agents, chains and graph nodes, if OpenInference's "
        "instrumentor of the framework is installed. See [agents](capture.md#agents).",
    )
    record_hosts: tuple[str, ...] = setting(
        (), "Hosts whose plain HTTP calls are recorded even outside tools. `*` records all.", _HOSTS
    )
    record_databases: bool = setting(
        False,
        "Record what a run asks of its databases, statement, parameters and rows, and answer it in a replay: sqlite3, "
        "SQLAlchemy, psycopg, redis, pymongo. See [databases](guides/databases.md).",
    )
    record_files: bool = setting(
        False,
        "Record the files that unmarked code of a run reads with `open`, up to 1 MiB each and 200 in a run, and give a replay "
        "their content. See [what is captured](capture.md).",
    )
    session_headers: tuple[str, ...] = setting(
        ("x-conversation-id", "x-thread-id"),
        "Headers of a request to an application that name the conversation; the first one that is there. They are recorded, "
        "so name none that gives access, such as a session's key.",
        _NAMES,
    )
    request_headers: tuple[str, ...] = setting(
        (),
        "More headers of a request to an application to record with their values, besides those that "
        "[servers](guides/servers.md) lists. Name none that gives access.",
        _NAMES,
    )
    record_env: tuple[str, ...] = setting(
        (
            *("LANG", "LC_ALL", "TZ", "PYTHONHASHSEED"),
            *("*_BASE_URL", "*_API_BASE", "*_API_URL", "*_API_VERSION", "*_API_TYPE", "*_ENDPOINT", "OLLAMA_HOST"),
            *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL*", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_*"),
            *("*_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ),
        "Environment variables recorded with a run's entry point; `*` matches any characters. For keys and secrets, only "
        "the fact that they were set is recorded. Other variables are never recorded.",
        _NAMES,
    )
    compression: CompressionName = setting(
        "none",
        "Compress batches; worthwhile if the collector is on another host. `zstd` needs the extra `zstd`"
        " and HTTP; without them, `gzip` is used, and `freezeframe doctor` says so.",
        variables=_exporter("COMPRESSION"),
    )
    spool: str | bool | None = setting(
        None,
        "Keep spans on disk, sealed, while the collector is down; this process, a later one, or `freezeframe run drain` "
        "delivers them. A directory; `True`: one below `~/.local/state/freezeframe/spool` (`XDG_STATE_HOME`); `False`: "
        "off. Default: `True` if the content can be sealed, else `False` with a warning. See [delivery](operate/delivery.md).",
        _SPOOL,
    )
    spool_protection: Literal["encrypt", "redact"] = setting(
        "encrypt",
        "How the spool is protected: `encrypt` (the extra `spool`) or `redact` (the extra `redaction`).",
    )
    spool_key: str | None = setting(
        None,
        "A path, never the key itself. To encrypt: a file of 32 random bytes, by default "
        "`~/.config/freezeframe/spool.key`, created if it does not exist. To redact: the directory of the collector's "
        "tenant keys.",
        _PATH,
    )
    spool_bytes: int = setting(
        256 * _MIB,
        "Maximum size of the spool, shared by all processes that use it; beyond it, spans wait in memory as without a spool.",
        _BYTES,
    )
    spool_days: float = setting(
        7.0, "Maximum time that a batch stays in the spool; after that it is deleted undelivered, with a warning.", _DAYS
    )
    max_body_bytes: int = setting(
        32 * _MIB,
        "Only the size and SHA-256 of a larger body are kept, with the reason; such a run cannot be replayed.",
        _BYTES,
    )
    max_queue_bytes: int = setting(
        128 * _MIB,
        "Memory for spans that wait to be sent; beyond it, new spans are dropped and counted, with a warning.",
        _BYTES,
    )
    batch_bytes: int = setting(_MIB, "Approximate size of one request to the collector.", _BYTES)
    batch_interval_s: float = setting(0.5, "Maximum time that a finished span waits to be sent in a batch.", _SECONDS)
    request_timeout_s: float = setting(
        10.0, "How long one request to the collector may take.", _SECONDS, variables=_exporter("TIMEOUT")
    )
    export_timeout_s: float = setting(
        60.0, "How long a batch is retried while the collector is down, before it is dropped and counted.", _SECONDS
    )
    exit_timeout_s: float = setting(5.0, "Maximum time that the end of the process waits for spans to be sent.", _SECONDS)
    terminate_timeout_s: float = setting(
        2.0,
        "Maximum time that os._exit, and SIGTERM if the application has no handler for it, wait for spans to be sent before "
        "they end the process. 0 leaves both alone.",
        _SECONDS,
    )


OPTIONS: Final = declared(Settings)


def variables(name: str) -> tuple[str, ...]:
    """Return an option's environment variables; the first that is set wins."""
    return f"FREEZEFRAME_{name.upper()}", *OPTIONS[name].variables


def load_settings(given: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings from options in code (None means not given), then the environment, then defaults.

    Raises:
        ConfigError: one error that names every fault.
    """
    faults = [no_such(f"instrument({name}=...)", name, OPTIONS) for name in sorted(set(given) - set(OPTIONS))]
    chosen: dict[str, Any] = {}
    endpoint_is_from = ""
    for name, option in OPTIONS.items():
        found = next(((variable, text) for variable in variables(name) if (text := environ.get(variable, "").strip())), None)
        value, where = given.get(name), f"instrument({name}=...)"
        if isinstance(value, str) and isinstance(option.default, tuple):  # record_hosts="*", as the variable has it
            chosen[name] = option.read(value, where, faults)
        elif value is not None:
            chosen[name] = option.check(_plain(value), where, faults)
        elif found is not None:
            where = found[0]
            chosen[name] = option.read(found[1], where, faults)
        if name == "endpoint":
            endpoint_is_from = where
    if chosen.get("endpoint"):
        _complete_endpoint(chosen, endpoint_is_from, faults)
        chosen["endpoint_from"] = endpoint_is_from
    if faults:
        raise ConfigError("\n".join(faults), do="see docs/configuration.md for every option")
    return Settings(**chosen)


def _complete_endpoint(chosen: dict[str, Any], where: str, faults: list[str]) -> None:
    """Complete the endpoint to a full URL, as OpenTelemetry's exporters do."""
    endpoint: str = chosen["endpoint"]
    scheme, separator, rest = endpoint.rpartition("://")
    if chosen.get("protocol") == "grpc":
        insecure = chosen.get("insecure")
        is_plain = scheme != "https" and (scheme == "http" if insecure is None else insecure)
        chosen["endpoint"] = f"{'http' if is_plain else 'https'}://{rest}"
    elif not separator:
        faults.append(f"{where}: found {endpoint!r}, expected a URL, http://host:port")
    elif where == OPTIONS["endpoint"].variables[0]:
        chosen["endpoint"] = endpoint if urlsplit(endpoint).path else f"{endpoint}/"
    else:
        base = endpoint.rstrip("/")
        path = urlsplit(base).path  # without one, the address alone names the collector
        chosen["endpoint"] = base if not path or path.endswith(TRACES_PATH) else base + TRACES_PATH


def _plain(value: Any) -> object:
    """Return lists as tuples and header dicts as pairs, so that settings stay values."""
    if isinstance(value, Mapping):
        return tuple((str(key), str(item)) for key, item in value.items())
    return tuple(value) if isinstance(value, list | set | frozenset) else value
