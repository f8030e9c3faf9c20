"""The reference pages of the settings, written from their fields: ``python tests/support/settings_pages.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from freezeframe._config import OPTIONS, variables
from freezeframe_collector.settings.config import SETTINGS, CollectorConfig, is_reloaded
from freezeframe_schemas.settings import Setting

DOCS = Path(__file__).parents[2] / "docs"

_AGENT = """\
# Configuration

Every option of `freezeframe.instrument()`. In the environment, an option is `FREEZEFRAME_` and its name in capitals; after it,
the variable of OpenTelemetry in brackets is read, its form for traces (`OTEL_EXPORTER_OTLP_TRACES_...`) first. Code wins over
both. A size is in bytes; in a variable, `64K`, `64M` and `64G` count, too. Lists are joined by commas.

Made by `python tests/support/settings_pages.py`; a test keeps it current.

"""

_COLLECTOR = """\
# The collector's configuration

One TOML file, given as `freezeframe-collector --config FILE`. Every key is optional; its default is in brackets. `--check`
reports every fault, such as a number out of range, and exits. An environment variable overrides the file:
`FREEZEFRAME_COLLECTOR__GRPC__PORT=0`.

SIGHUP reads the file again: settings marked ↻ change at once; other changes are named in the log and need a
restart; a file with faults changes nothing.

Made by `python tests/support/settings_pages.py`; a test keeps it current.
"""


def pages() -> Mapping[Path, str]:
    """Return the text of each page by its file."""
    return {
        DOCS / "configuration.md": _AGENT + "\n".join(_list(_options())) + "\n",
        DOCS / "operate" / "collector-config.md": _COLLECTOR + "\n".join(_sections()) + "\n",
    }


def _options() -> Iterator[tuple[str, Setting, str]]:
    for name, option in OPTIONS.items():
        others = [f"`{other}`" for other in variables(name)[1:] if not other.startswith("OTEL_EXPORTER_OTLP_TRACES_")]
        yield f"`{name}`", option, "; ".join([*others, *(f"default {text}" for text in _default(repr(option.default)))])


def _default(text: str) -> list[str]:
    """Return a default as code; an empty one is left out."""
    return [] if text in ("None", "()", "''", '""') else [f"`{text}`"]


def _sections() -> Iterator[str]:
    default = CollectorConfig()
    for section in dict.fromkeys(path.partition(".")[0] for path in SETTINGS):
        yield from ("", f"## [{section}]", "", (getattr(default, section).__doc__ or "").strip(), "")
        yield from _list(row for path, row in _keys() if path.startswith(f"{section}."))


def _keys() -> Iterator[tuple[str, tuple[str, Setting, str]]]:
    for path, setting in SETTINGS.items():
        mark = " ↻" if is_reloaded(path) else ""
        default = str(setting.default).lower() if isinstance(setting.default, bool) else repr(setting.default)
        yield path, (f"`{path.partition('.')[2]}`{mark}", setting, ", ".join(_default(default.replace("'", '"'))))


_PLAIN = re.compile(r"(a whole number|a number|a directory$|a path$|text$|true or false$|names joined|host names)")
"""Values that name and default show."""


def _list(rows: Iterator[tuple[str, Setting, str]]) -> Iterator[str]:
    for name, setting, default in rows:
        expected = setting.kind.expected
        brackets = "; ".join(text for text in ("" if _PLAIN.match(expected) else expected, default) if text)
        yield f"- {name}{f' ({brackets})' if brackets else ''}: {setting.help}"


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text)
