"""``docs/tables.md``, made from the columns and views: ``python tests/support/tables_page.py > docs/tables.md``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from freezeframe_schemas.tables.columns import (
    PAYLOAD_COLUMNS,
    PIECE_NAME,
    REJECTED_COLUMNS,
    SPAN_COLUMNS,
    Column,
)
from freezeframe_schemas.tables.ddl import described, migrations
from freezeframe_schemas.tables.views import VIEW_NAME, view_columns, views

_TABLES: Final = (
    ("spans", "Every span once; stored in `span_rows`.", SPAN_COLUMNS),
    ("payloads", "Pieces of large values, each once per run; `contents` has the values whole.", (*PAYLOAD_COLUMNS, PIECE_NAME)),
    ("rejected", "Spans that were set aside.", REJECTED_COLUMNS),
)
"""A view, and the columns of its table."""
_WHOLE: Final = re.compile(
    r"TABLE IF NOT EXISTS \{db\}\.(\w+) \{on_cluster\} \(\n(.*?)\n\) ENGINE.*?\nCOMMENT '([^']*)'", re.DOTALL
)
"""A table that is whole on each node of a cluster: its columns are only in its migration."""
_WHOLE_COLUMN: Final = re.compile(r"^    (\w+) (.+?)(?: DEFAULT \S+)? COMMENT '([^']*)',?$", re.MULTILINE)
_SHARED: Final = 4
"""A column of so many views is explained once."""
_LACKS: Final = "lacks_"
_OF_OTHERS: Final = "otel_traces"
"""Begins the views with another project's layout."""
_COMMENT: Final = re.compile(r"COMMENT '((?:[^']|'')*)'")
_LEAD: Final = re.compile(r"\A((?:-- [^\n]*\n)+)")
_EXAMPLE: Final = re.compile(r"SELECT .*?(?=$|\. [A-Z])")
_PLAIN: Final = re.compile(r"LowCardinality\((\w+)\)|, 'UTC'|'UTC'")
_HEAD: Final = """\
# Tables and views

Made by `python tests/support/tables_page.py`; `DESCRIBE spans` has the same descriptions. Ask the views; the
[cookbook](cookbook.md) has queries. A type is given if it is not text. *Also* names columns that are described under
[spans](#spans) or [columns that views share](#columns-that-views-share).
"""


def tables_page() -> str:
    """Return the page: the views and their columns, then `spans` and the tables."""
    tables = [name for name, *_ in _TABLES]
    listed = {name: (text, view_columns(sql)) for name, text, sql in map(_described_view, (sql for _, sql in views()))}
    listed = {name: row for name, row in listed.items() if name not in tables}
    known = {column.name: described(column) for column in SPAN_COLUMNS}
    counts = Counter(row for _, columns in listed.values() for row in columns.items() if known.get(row[0]) != row[1])
    shared = {column: what for (column, what), number in counts.items() if number >= _SHARED}
    lines = [_HEAD, " · ".join(f"[{name}](#{name})" for name in [*listed, *tables]), ""]
    for name, (text, columns) in listed.items():
        lines += [f"## {name}", "", f"{text}.", ""]
        if name.startswith(_OF_OTHERS):
            continue
        own = {column: what for column, what in columns.items() if (known | shared).get(column) != what}
        also = [f"`{column}`" for column in columns if column not in own]
        lines += [*_list(_folded(own)), *(["", f"Also: {', '.join(also)}."] if also else []), ""]
    lines += ["## Columns that views share", "", *_list(shared), ""]
    for name, text, columns in _TABLES:
        first = SPAN_COLUMNS if columns is not SPAN_COLUMNS else ()
        same = [f"`{column.name}`" for column in columns if column in first]
        own = [column for column in columns if column not in first]
        lines += [f"## {name}", "", text, "", *map(_column, (column for column in own if not column.alias))]
        lines += ["", f"Also: {', '.join(same)}."] if same else []
        computed = [column for column in own if column.alias]
        lines += ["", "Computed when queried, so slower over many runs:", "", *map(_column, computed)] if computed else []
        lines += [""]
    for _, sql in migrations():
        for name, columns, text in _WHOLE.findall(sql):
            lines += [f"## {name}", "", f"{text}.", ""]
            lines += [f"- `{column}`{_type(kind)}: {what}" for column, kind, what in _WHOLE_COLUMN.findall(columns)] + [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _list(columns: Mapping[str, str]) -> list[str]:
    named = [f"`{column}`" for column, what in columns.items() if what.lower() == column.replace("_", " ")]
    rows = [f"- `{column}`: {what}" for column, what in columns.items() if f"`{column}`" not in named]
    return [*rows, f"- {', '.join(named)}"] if named else rows


def _folded(columns: Mapping[str, str]) -> Mapping[str, str]:
    """Return columns in which those that say of each field of the replay kit how many spans lack it are one row."""
    lacking = [column.removeprefix(_LACKS) for column in columns if column.startswith(_LACKS)]
    kept = {column: what for column, what in columns.items() if not column.startswith(_LACKS)}
    fields = ", ".join(f"`{field}`" for field in lacking)
    return kept | ({f"{_LACKS}FIELD": f"Spans that should carry the field and do not, for each of {fields}"} if lacking else {})


def _described_view(sql: str) -> tuple[str, str, str]:
    name, comment, lead = VIEW_NAME.search(sql), _COMMENT.search(sql), _LEAD.match(sql)
    assert name is not None
    text = comment[1].replace("''", "'") if comment else lead[1].replace("-- ", "").strip() if lead else ""
    return name[1], _EXAMPLE.sub(r"`\g<0>`", text.replace("\n", " ")).rstrip("."), sql


def _column(column: Column) -> str:
    origin = f", from `{column.attribute}`" if column.attribute else ""
    return f"- `{column.name}`{_type(column.type)}{origin}: {column.comment}"


def _type(kind: str) -> str:
    """Return a column's type as a suffix of its name; nothing for text."""
    plain = _PLAIN.sub(r"\1", kind).replace("()", "")
    return "" if plain == "String" else f" ({plain})"


if __name__ == "__main__":
    print(tables_page(), end="")
