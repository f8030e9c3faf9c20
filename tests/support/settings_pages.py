"""The reference pages of the settings, written from their fields: ``python tests/support/settings_pages.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from freezeframe._config import OPTIONS, variables
from freezeframe_collector.settings.config import SETTINGS, CollectorConfig, is_reloaded
from freezeframe_schemas.settings import Setting

DOCS = Path(__file__).parents[2] / "docs"

_AGENT = """\
# Configuration

Every option of `freezeframe.instrument()`. An option in code wins over the environment, and the first variable that is set
wins over the next. Generated from `freezeframe/_config.py` by `python tests/support/settings_pages.py`; a test compares them.

"""

_COLLECTOR = """\
# The collector's configuration

Generated from `freezeframe_collector/settings/config.py` by `python tests/support/settings_pages.py`; a test compares them.

One TOML file, given as `freezeframe-collector --config FILE`. Every key is optional. `--check` reports every fault
and exits. An environment variable overrides the file: `FREEZEFRAME_COLLECTOR__GRPC__PORT=0`.

SIGHUP reads the file again: settings marked ↻ change at once; other changes are named in the log and need a
restart; a file with faults changes nothing.
"""


def pages() -> Mapping[Path, str]:
    """Return the text of each page by its file."""
    return {
        DOCS / "configuration.md": _AGENT + "\n".join(_table("option", _options())) + "\n",
        DOCS / "operate" / "collector-config.md": _COLLECTOR + "\n".join(_sections()) + "\n",
    }


def _options() -> Iterator[tuple[str, Setting, str]]:
    for name, option in OPTIONS.items():
        yield f"`{name}`<br>{'<br>'.join(f'`{variable}`' for variable in variables(name))}", option, repr(option.default)


def _sections() -> Iterator[str]:
    default = CollectorConfig()
    for section in dict.fromkeys(path.partition(".")[0] for path in SETTINGS):
        yield from ("", f"## [{section}]", "", (getattr(default, section).__doc__ or "").strip(), "")
        yield from _table("key", (row for path, row in _keys() if path.startswith(f"{section}.")))


def _keys() -> Iterator[tuple[str, tuple[str, Setting, str]]]:
    for path, setting in SETTINGS.items():
        mark = " ↻" if is_reloaded(path) else ""
        default = str(setting.default).lower() if isinstance(setting.default, bool) else repr(setting.default)
        yield path, (f"`{path.partition('.')[2]}`{mark}", setting, default.replace("'", '"'))


def _table(head: str, rows: Iterator[tuple[str, Setting, str]]) -> Iterator[str]:
    yield from (f"| {head} | value | default | meaning |", "|---|---|---|---|")
    for name, setting, default in rows:
        yield f"| {name} | {setting.kind.expected} | `{default}` | {setting.help} |"


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text)
