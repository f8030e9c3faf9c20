"""``docs/collector-config.md``, written from the settings; a test checks that the two agree."""

from __future__ import annotations

from typing import get_type_hints

from freezeframe_collector.config import CollectorConfig, Setting, settings


def render_page() -> str:
    """Return the text of ``docs/collector-config.md``."""
    lines = [
        "# The collector's configuration",
        "",
        "Generated from `freezeframe_collector/config.py`; a test checks that the two agree.",
        "",
        "One TOML file, given as `freezeframe-collector --config FILE`. Every key is optional. `--check` reports every fault",
        "and exits. An environment variable overrides the file: `FREEZEFRAME_COLLECTOR__GRPC__PORT=0`.",
        "",
        "SIGHUP reads the file again: settings marked ↻ change at once; other changes are named in the log and need a",
        "restart; a file with faults changes nothing.",
    ]
    section = ""
    for setting in settings():
        if setting.section != section:
            section = setting.section
            doc = get_type_hints(CollectorConfig)[section].__doc__ or ""
            lines += ["", f"## [{section}]", "", doc.strip(), "", "| key | default | meaning |", "|---|---|---|"]
        default = str(setting.default).lower() if setting.type is bool else repr(setting.default).replace("'", '"')
        span = _range_words(setting)
        mark = " ↻" if setting.is_reloaded else ""
        lines.append(f"| `{setting.name}`{mark} | `{default}` | {setting.help}{span} |")
    return "\n".join(lines) + "\n"


def _range_words(setting: Setting) -> str:
    if setting.least is None and setting.most is None:
        return ""
    least = "" if setting.least is None else f"{setting.least:.10g}"
    most = "" if setting.most is None else f"{setting.most:.10g}"
    return f" Range {least} to {most}." if least and most else f" At least {least}." if least else f" At most {most}."
