"""One table of every setting: option of `instrument()`, environment variable, default, type, help.

`docs/configuration.md` is generated from `OPTIONS` (``python -m freezeframe._config``), and a test holds the two equal. An
option given in code wins over the environment. All faults are named at once, in one `ConfigError`. It is as long as
the table is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from freezeframe_schemas.errors import ConfigError

Protocol = Literal["http/protobuf", "grpc"]
Root = Literal["auto", "always", "never"]

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `instrument()` works with; the fields are the rows of `OPTIONS`."""

    endpoint: str
    protocol: Protocol
    headers: tuple[tuple[str, str], ...]
    certificate: str | None
    client_certificate: str | None
    client_key: str | None
    service_name: str
    file: str | None
    root: Root
    sample: float
    sample_errors: bool
    record_hosts: tuple[str, ...]
    record_env: tuple[str, ...]
    framework_state: bool
    compression: Literal["none", "gzip", "zstd"]
    spool: str | bool | None
    spool_protection: Literal["encrypt", "redact"]
    spool_key: str | None
    spool_bytes: int
    spool_days: float
    max_body_bytes: int
    max_queue_bytes: int
    batch_bytes: int
    batch_interval_s: float
    export_timeout_s: float
    exit_timeout_s: float
    terminate_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a value of an option may be, and how it is written in a variable."""

    expected: str
    accepts: Callable[[object], bool]
    parse: Callable[[str], object] = str
    """From the text of an environment variable; raises ValueError or LookupError if it is not one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row: how a setting is given, and what it does."""

    name: str
    form: Form
    otel: tuple[str, ...] = ()
    """The standard's variables for the same."""
    default: object
    help: str

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the environment variables, the first that is set wins."""
        return (f"FREEZEFRAME_{self.name.upper()}", *self.otel)


def load_settings(given: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings from options in code (None means not given), then the environment, then defaults.

    Raises:
        ConfigError: one error that names every fault.
    """
    faults: list[str] = []
    chosen: dict[str, Any] = {}
    unknown = sorted(set(given) - {option.name for option in OPTIONS})
    faults += [f"instrument({name}=...): no such option" for name in unknown]
    for option in OPTIONS:
        chosen[option.name] = _choose(option, given, environ, faults)
    if faults:
        raise ConfigError("\n".join(faults), do="see docs/configuration.md for every option")
    return Settings(**chosen)


def _choose(option: Option, given: Mapping[str, object], environ: Mapping[str, str], faults: list[str]) -> object:
    if given.get(option.name) is not None:
        value = _plain(given[option.name])
        if not option.form.accepts(value):
            faults.append(f"instrument({option.name}=...): found {value!r}, expected {option.form.expected}")
        return value
    for variable in option.variables:
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            value = option.form.parse(text)
        except (ValueError, LookupError):
            value = text
        if option.form.accepts(value):
            return value
        faults.append(f"{variable}: found {text!r}, expected {option.form.expected}")
    return option.default


def _plain(value: Any) -> object:
    """Return lists as tuples and header dicts as pairs, so that settings stay values."""
    if isinstance(value, Mapping):
        return tuple((str(key), str(item)) for key, item in value.items())
    if isinstance(value, list | set | frozenset):
        return tuple(value)
    return value


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """Read the form of the OTLP specification: ``key=value,key2=value2``, values URL-encoded."""
    from urllib.parse import unquote

    pairs = [part.partition("=") for part in _parse_list(text)]
    if any(not separator for _, separator, _ in pairs):
        raise ValueError(text)
    return tuple((unquote(name).strip(), unquote(value).strip()) for name, _, value in pairs)


def _parse_bytes(text: str) -> int:
    factor = {"k": 1024, "m": _MIB, "g": 1024 * _MIB}.get(text[-1].lower(), 1)
    return int(text[:-1] if factor > 1 else text) * factor


def _parse_switch(text: str) -> bool:
    return {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}[
        text.lower()
    ]


def _parse_spool(text: str) -> str | bool:
    """Read a switch, or else a directory."""
    try:
        return _parse_switch(text)
    except LookupError:
        return text


def _is_days(value: object) -> bool:
    return _is_seconds(value) and value != 0


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_url(value: object) -> bool:
    return isinstance(value, str) and value.partition("://")[0] in ("http", "https")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _is_pairs(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, tuple) and len(item) == 2 for item in value)


def _is_bytes(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _exporter(name: str) -> tuple[str, str]:
    """Return the two variables of the OTLP exporter's specification, the one of traces first."""
    return f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"


def _one_of(*choices: str) -> Form:
    *but_last, last = choices
    return Form(expected=f"{', '.join(but_last)} or {last}", accepts=lambda value: value in choices)


def _bytes(example: str) -> Form:
    return Form(expected=f"a number of bytes above zero, {example}", accepts=_is_bytes, parse=_parse_bytes)


def _texts(what: str) -> Form:
    return Form(expected=f"{what} joined by commas", accepts=_is_texts, parse=_parse_list)


_TEXT: Final = Form(expected="text", accepts=_is_text)
_PATH: Final = Form(expected="a path", accepts=_is_text)
_SPOOL: Final = Form(
    expected="a directory, true or false", accepts=lambda value: isinstance(value, str | bool), parse=_parse_spool
)
_DAYS: Final = Form(expected="a number of days above zero", accepts=_is_days, parse=float)
_URL: Final = Form(expected="a URL, http://host:port", accepts=_is_url)
_HEADERS: Final = Form(expected="key=value pairs joined by commas (a dict in code)", accepts=_is_pairs, parse=_parse_headers)
_SWITCH: Final = Form(expected="true or false", accepts=_is_switch, parse=_parse_switch)
_SHARE: Final = Form(expected="a share from 0 to 1", accepts=_is_share, parse=float)
_SECONDS: Final = Form(expected="seconds", accepts=_is_seconds, parse=float)

OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        name="endpoint",
        form=_URL,
        otel=_exporter("ENDPOINT"),
        default="http://127.0.0.1:4318",
        help="The collector. For HTTP, `/v1/traces` is added if the URL has no path.",
    ),
    Option(
        name="protocol",
        form=_one_of("http/protobuf", "grpc"),
        otel=_exporter("PROTOCOL"),
        default="http/protobuf",
        help="Transport of spans. `grpc` needs `pip install 'freezeframe[grpc]'`.",
    ),
    Option(
        name="headers",
        form=_HEADERS,
        otel=_exporter("HEADERS"),
        default=(),
        help="Headers sent with every batch, for example the collector's token.",
    ),
    Option(
        name="certificate",
        form=_PATH,
        otel=_exporter("CERTIFICATE"),
        default=None,
        help="A PEM file of the authorities trusted to sign the collector's certificate (`https://`); default: those that "
        "the system trusts. Read again for each connection.",
    ),
    Option(
        name="client_certificate",
        form=_PATH,
        otel=_exporter("CLIENT_CERTIFICATE"),
        default=None,
        help="A PEM file of the client certificate, for a collector that asks for one (mTLS).",
    ),
    Option(
        name="client_key",
        form=_PATH,
        otel=_exporter("CLIENT_KEY"),
        default=None,
        help="The PEM file of its private key, if that is a separate file.",
    ),
    Option(
        name="service_name",
        form=_TEXT,
        otel=("OTEL_SERVICE_NAME",),
        default="",
        help="`service.name`; default: the name of the program.",
    ),
    Option(
        name="file",
        form=_PATH,
        default=None,
        help="Write spans to this file as OTLP/JSON lines instead of sending them. They are not redacted: keep the file "
        "safe, or use `freezeframe redact`.",
    ),
    Option(
        name="root",
        form=_one_of("auto", "always", "never"),
        default="auto",
        help="Whether one span of the whole process holds the calls outside any `freezeframe.run`. `auto`: in a script, but "
        "not in a server. `freezeframe run -- CMD` sets `always`.",
    ),
    Option(
        name="sample",
        form=_SHARE,
        default=1.0,
        help="The share of runs to keep, each whole or not at all. Decided by the run's id (or the trace id if it has none), "
        "so all processes of a run agree; below a remote parent, the parent decides.",
    ),
    Option(
        name="sample_errors",
        form=_SWITCH,
        default=False,
        help="Keep a run in which a span ended in an error even if `sample` leaves it out. Its spans wait in memory until "
        "the run ends.",
    ),
    Option(
        name="framework_state",
        form=_SWITCH,
        default=False,
        help="Record the state of a LangGraph graph or a LlamaIndex workflow at each node border, so that a replay can begin "
        "in the middle (`freezeframe replay RUN --from N`). Off by default, because states repeat the history.",
    ),
    Option(
        name="record_hosts",
        form=_texts("host names"),
        default=(),
        help="Hosts whose plain HTTP calls are recorded even outside tools. `*` records all.",
    ),
    Option(
        name="record_env",
        form=_texts("names"),
        default=(
            *("LANG", "LC_ALL", "TZ", "PYTHONHASHSEED"),
            *("*_BASE_URL", "*_API_BASE", "*_API_URL", "*_API_VERSION", "*_API_TYPE", "*_ENDPOINT", "OLLAMA_HOST"),
            *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL*", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_*"),
            *("*_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ),
        help="Environment variables recorded with a run's entry point; `*` matches any characters. For keys and secrets, "
        "only the fact that they were set is recorded. Other variables are never recorded.",
    ),
    Option(
        name="compression",
        form=_one_of("none", "gzip", "zstd"),
        otel=_exporter("COMPRESSION"),
        default="none",
        help="Compress batches; worthwhile if the collector is on another host. `zstd` needs `pip install 'freezeframe[zstd]'`"
        " and HTTP; without them, `gzip` is used, and `freezeframe doctor` says so.",
    ),
    Option(
        name="spool",
        form=_SPOOL,
        default=None,
        help="Keep spans on disk, sealed, while the collector is down; this process, a later one, or `freezeframe drain` "
        "delivers them. A directory; `True`: one below `~/.local/state/freezeframe/spool` (`XDG_STATE_HOME`); `False`: "
        "off. Default: `True` if the content can be sealed, else `False` with a warning. See "
        "[delivery](delivery.md).",
    ),
    Option(
        name="spool_protection",
        form=_one_of("encrypt", "redact"),
        default="encrypt",
        help="How the spool is protected: `encrypt` (`pip install 'freezeframe[spool]'`) or `redact`"
        " (`pip install 'freezeframe[redaction]'`).",
    ),
    Option(
        name="spool_key",
        form=_PATH,
        default=None,
        help="A path, never the key itself. To encrypt: a file of 32 random bytes, by default "
        "`~/.config/freezeframe/spool.key`, created if it does not exist. To redact: the directory of the collector's "
        "tenant keys.",
    ),
    Option(
        name="spool_bytes",
        form=_bytes("256M"),
        default=256 * _MIB,
        help="Maximum size of the spool, shared by all processes that use it; beyond it, spans wait in memory as if there "
        "were no spool.",
    ),
    Option(
        name="spool_days",
        form=_DAYS,
        default=7.0,
        help="Maximum time that a batch stays in the spool; after that it is deleted undelivered, with a warning.",
    ),
    Option(
        name="max_body_bytes",
        form=_bytes("32M"),
        default=32 * _MIB,
        help="Only the size and SHA-256 of a larger body are kept, with the reason; such a run cannot be replayed.",
    ),
    Option(
        name="max_queue_bytes",
        form=_bytes("128M"),
        default=128 * _MIB,
        help="Memory for spans that wait to be sent; beyond it, new spans are dropped and counted, with a warning.",
    ),
    Option(
        name="batch_bytes",
        form=_bytes("1M"),
        default=_MIB,
        help="Approximate size of one request to the collector.",
    ),
    Option(
        name="batch_interval_s",
        form=_SECONDS,
        default=0.5,
        help="Maximum time that a finished span waits to be sent in a batch.",
    ),
    Option(
        name="export_timeout_s",
        form=_SECONDS,
        default=60.0,
        help="How long a batch is retried while the collector is down, before it is dropped and counted.",
    ),
    Option(
        name="exit_timeout_s",
        form=_SECONDS,
        default=5.0,
        help="Maximum time that the end of the process waits for spans to be sent.",
    ),
    Option(
        name="terminate_timeout_s",
        form=_SECONDS,
        default=2.0,
        help="Maximum time that SIGTERM waits for spans to be sent before it ends the process, if the application has no "
        "handler for it. 0 leaves SIGTERM alone.",
    ),
)


def to_markdown() -> str:
    """Return `docs/configuration.md`."""
    lines = [
        "# Configuration",
        "",
        "Every option of `freezeframe.instrument()`, from the one table in `freezeframe/_config.py`",
        "(`python -m freezeframe._config > docs/configuration.md`). An option in code wins over the environment, and the first",
        "variable that is set wins over the next.",
        "",
        "| option | environment | default | what it does |",
        "|---|---|---|---|",
    ]
    for option in OPTIONS:
        variables = ", ".join(f"`{variable}`" for variable in option.variables)
        lines.append(f"| `{option.name}` | {variables} | `{option.default!r}` | {option.help} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
