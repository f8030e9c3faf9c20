"""The store's migrations: SQL files, with names filled in from their definitions.

The first file is the schema of 0.1; a later version adds a file and leaves the others alone. `columns` defines the result, and
a test checks that a migrated database has exactly those columns, types and comments (``tests/store/test_views.py``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Final

from freezeframe_schemas import genai
from freezeframe_schemas.coding_agents import CODING_AGENT_EVENTS
from freezeframe_schemas.lifecycle import RunStatus, status_sql
from freezeframe_schemas.tables.columns import (
    CALL_COLUMNS,
    PAYLOAD_COLUMNS,
    PIECE_NAME,
    REJECTED_COLUMNS,
    REPORTED_COLUMNS,
    RESOURCE_REFS,
    RUN_COLUMNS,
    SPAN_COLUMNS,
    STORED_SPAN_COLUMNS,
    Column,
)
from freezeframe_schemas.tables.streams import unfolded_sql

_NAME: Final = re.compile(r"\{([A-Z_]+)\}")
UNFINISHED: Final = "NOT hasAll(mapKeys(r.marks), r.begun)"
"""Condition on a row `r` of `run_rows`: an entry span began, and did not end."""
RUNS_WITHOUT_EXCHANGES: Final = (
    "(SELECT tenant, trace_id FROM {db}.run_rows GROUP BY tenant, trace_id HAVING max(has_exchanges) = 0)"
)
"""To join, because the engine passes a condition on `trace_id` to both sides of a join, and not to the set of an IN."""
_PRICES: Final = (
    "(SELECT concat('(?s)^(', arrayStringConcat(arrayMap(prefix -> regexpQuoteMeta(prefix),"
    " arraySort(prefix -> -length(prefix), groupUniqArray(prefix))), '|'), '|).*') FROM {db}.prices)"
)
_PRICED: Final = f"replaceRegexpOne(%s, {_PRICES}, '\\\\1')"
PRICED_AS: Final = f"if(response_model != '', {_PRICED % 'response_model'}, {_PRICED % 'request_model'})"
"""The longest `prefix` in `prices` that the name of the model begins with; empty without one.

The engine compiles the prices into one pattern, so that a call's price is found without the other calls. The
two columns are searched separately, because each has a
dictionary. With thousands of prices, ``extract`` would take seconds to prepare the pattern."""
_WORDS: Final = "{words:String}"
_LONGEST_WORD: Final = f"arraySort(word -> -length(word), extractAll({_WORDS}, '%s'))[1]"
_MESSAGE: Final = "JSONExtractString(s.rest, 'status_message')"
RECOMPRESSED: Final = "toDate(run_hour) + toIntervalDay(2) RECOMPRESS CODEC(ZSTD(9))"
"""TTL rule of the large tables: hardly a span comes later, so a day is compressed well once, by a merge in the background."""
_QUOTED_TWICE: Final = ((r"\\\\u", r"\u"), (r"\\u", r"\u"))
"""Escapes of JSON in JSON, up to two levels, with their replacements."""
_ESCAPED: Final = r"\\u([0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
"""A character of JSON; not half of one, as emoji are written."""
_AS_XML: Final = r"&#x\1;"
_BETWEEN_WORDS: Final = (
    (r"\\(?:ud[89a-f][0-9a-f]{2}|([nrtbf])([0-9a-z\x{80}-\x{10ffff}]+))", r" \1\2 \2"),
    (
        r"[\x{80}-\x{a9}\x{ab}-\x{b4}\x{b6}-\x{b9}\x{bb}-\x{bf}\x{d7}\x{f7}\x{2000}-\x{2bff}\x{3000}-\x{3004}\x{3008}-\x{3020}"
        r"\x{e000}-\x{f8ff}\x{fe10}-\x{fe6f}\x{ff00}-\x{ff0f}\x{ff1a}-\x{ff20}\x{fff0}-\x{ffff}\x{1f000}-\x{1faff}]+"
        r"|([\x{3040}-\x{30ff}\x{3400}-\x{9fff}\x{f900}-\x{faff}\x{ff66}-\x{ff9f}\x{20000}-\x{3ffff}])",
        r" \1 ",
    ),
)
r"""Replacements, in lower case, for an index that ends words at ASCII only. First what JSON escapes: ``\nrefused`` is
`refused` after a line break, or in a path ``nrefused``, so it becomes both. Then signs beyond ASCII, and each character of a
script without spaces is a word. Ranges, because the engine takes a hundredth of a second to compile ``\p{L}``."""
_FOR_RUNS: Final = frozenset(
    {"agent_name", "commit", "commit_dirty", "status_message", "entry_target", "flag_values", "resource"}
)
"""All columns that the feed of `run_rows` reads: whenever its text changes, the rows of all runs are rebuilt."""
DATABASE: Final = "freezeframe"
"""Default database of readers. Never chDB's ``default``: that one gives access to files of the host."""

TABLES: Final[tuple[tuple[str, tuple[Column, ...]], ...]] = (
    ("span_rows", STORED_SPAN_COLUMNS),
    ("piece_rows", (*PAYLOAD_COLUMNS, PIECE_NAME)),
    ("run_rows", RUN_COLUMNS),
    ("call_rows", CALL_COLUMNS),
    ("rejected_rows", REJECTED_COLUMNS),
)
"""The tables whose columns `columns` defines, in their state after all migrations."""


def described(column: Column) -> str:
    """Return the column's comment with its source attribute."""
    return f"{column.comment} [{column.attribute}]" if column.attribute else column.comment


def quoted(text: str) -> str:
    """Return `text` as a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def migrations() -> list[tuple[str, str]]:
    """Return the numbered migrations as (file name, SQL), in order."""
    folder = resources.files("freezeframe_schemas") / "sql"
    names = sorted(item.name for item in folder.iterdir() if item.name[:4].isdigit() and item.name.endswith(".sql"))
    return [(name, with_names((folder / name).read_text(encoding="utf-8"))) for name in names]


def with_names(sql: str) -> str:
    """Fill in attribute names and operations, ``{ERROR_CHAIN}``, from `genai`, so that no SQL file spells one out."""
    return _NAME.sub(lambda match: _made_names().get(match[1]) or str(getattr(genai, match[1])), sql)


@cache
def _made_names() -> Mapping[str, str]:
    """Return the replacements for the names that are not in `genai`."""
    return {
        "MODEL_OPERATIONS": ", ".join(quoted(name) for name in sorted(genai.MODEL_OPERATIONS)),
        "REPORTS_MODEL_CALL": _reports_model_call(),
        "CALL_COLUMNS": ", ".join(column.name for column in REPORTED_COLUMNS),
        "RUNS_WITHOUT_EXCHANGES": RUNS_WITHOUT_EXCHANGES,
        "PRICED_AS": PRICED_AS,
        "IS_EVENT": _is_event(),
        "RUN_STATUS": status_sql(unfinished=UNFINISHED, failed="r.entry.failed", output="r.entry.output"),
        "RECOMPRESSED": RECOMPRESSED,
        "UNFINISHED": RunStatus.UNFINISHED.value,
        "BODY_HAS_WORDS": _has_words("p.body"),
        "BODY_SNIPPET": _snippet("p.body"),
        "TEMPLATES_HAVE_WORDS": _has_words("s.templates"),
        "TEMPLATES_SNIPPET": _snippet("s.templates"),
        "TEXT_HAS_WORDS": _has_words("text"),
        "MESSAGE_HAS_WORDS": _has_words(_MESSAGE),
        "MESSAGE_SNIPPET": _snippet(_MESSAGE),
        "UNFOLDED_STREAM": unfolded_sql("filled"),
        "COMPUTED_COLUMNS": _computed(SPAN_COLUMNS),
        "COMPUTED_FOR_RUNS": _computed(column for column in SPAN_COLUMNS if column.name in _FOR_RUNS),
        "COMPUTED_BUT_REFS": _computed(column for column in SPAN_COLUMNS if column.name != "resource_refs"),
        "CHUNK_BORDERS": f"'{genai.RESPONSE_CHUNK_SIZES}', toString(s.chunk_sizes),"
        f" '{genai.RESPONSE_CHUNK_OFFSETS_NS}', toString(s.chunk_offsets_ns)",
        "LARGE_ATTRIBUTES": _large_values("x.refs", "x.templates", "attribute_types"),
        "LARGE_RESOURCE_ATTRIBUTES": _large_values(RESOURCE_REFS.replace("origin", "x.origin"), "''", "resource_types"),
    }


def _computed(columns: Iterable[Column]) -> str:
    """Return the columns that are expressions, as a SELECT over ``span_rows`` has them.

    They are not `ALIAS` columns of the table, because each statement over it would pay for all of them, whatever it names.
    """
    return ",\n    ".join(
        f"{column.alias if column.type == 'String' else f'CAST({column.alias}, {quoted(column.type)})'} AS `{column.name}`"
        for column in columns
        if column.alias
    )


def _reports_model_call() -> str:
    """Return whether a row `s` of spans is one in which another instrumentation describes a model call.

    The log record next to a call describes it too, and not every sender writes the operation there.
    """
    operations = ", ".join(quoted(name) for name in sorted(genai.MODEL_OPERATIONS))
    return f"(s.exchange_kind = '' AND (s.operation IN ({operations}) OR s.name = {quoted(genai.OPERATION_DETAILS_EVENT)}))"


def _is_event() -> str:
    """Return whether a row `s` of the view ``spans`` comes from a log record about a call, or about a message of one.

    It has no duration, and the event's name. Of a coding agent's events, most are about neither; some of the others are calls
    themselves, with a duration.
    """
    of_agent = " OR ".join(f"startsWith(s.name, {quoted(prefix)})" for prefix in CODING_AGENT_EVENTS)
    of_call = "s.request_model != '' OR s.input_preview != '' OR s.output_preview != ''"
    return (
        f"((s.duration_ns = 0 AND startsWith(s.name, {quoted(genai.EVENT_PREFIX)}))"
        f" OR (s.operation = '' AND ({of_call}) AND ({of_agent})))"
    )


def _large_values(refs: str, templates: str, types: str) -> str:
    """Return a map of the large values of a row `s` of spans, whole, each as text, as `templates.fill` returns them.

    A correlated subquery, because the engine drops it from a query that does not read the column, and takes the condition on
    the trace into it. It has to read a node's own tables, because the engine allows none over Distributed ones. It groups a
    span's pieces by attribute; each group begins with an empty one, so that there is one piece for each text of the template.
    Pieces are found by run and hash, not by tenant: the spans of a run share them.
    """
    return f"""mapApply((name, value) -> (name, if(s.{types}[name] = 'bytes', base64Encode(value), value)), (
        SELECT mapFromArrays(mapKeys(w.refs), arrayMap(
            (template, filled) -> if(startsWith(template, '\\x02'), {unfolded_sql("filled")}, filled),
            arrayResize(splitByChar('\\x01', w.templates), length(w.refs), '') AS around, arrayMap(
            (template, pieces) -> arrayStringConcat(arrayMap((piece, text) -> concat(piece, text), pieces,
                if(template = '', arrayResize([''], length(pieces), ''), splitByChar('\\x00', template)))),
            around, w.pieces)))
        FROM (
            SELECT
                v.tenant AS tenant, v.trace_id AS trace_id, v.span_id AS span_id, any(v.refs) AS refs,
                any(v.templates) AS templates,
                throwIf(countIf(v.place > 0 AND p.trace_id = '') > 0,
                    'a piece of a value is not in the store, or damaged; run `freezeframe store check`') AS missing,
                arrayMap(group -> arrayMap(one -> one.3, group), arraySplit(one -> one.2 = missing,
                    arraySort(one -> (one.1, one.2), groupArray((v.number, v.place, p.body))))) AS pieces
            FROM (
                SELECT
                    x.tenant AS tenant, x.trace_id AS trace_id, x.span_id AS span_id, {refs} AS refs,
                    {templates} AS templates, number, digest, place
                FROM {{db}}.span_rows{{sfx}} AS x FINAL
                ARRAY JOIN mapValues({refs}) AS digests, arrayEnumerate(mapValues({refs})) AS number
                ARRAY JOIN arrayConcat([toFixedString('', 12)], digests) AS digest, range(length(digests) + 1) AS place
            ) AS v
            LEFT ANY JOIN (SELECT trace_id, hash AS digest, body FROM {{db}}.piece_rows{{sfx}} FINAL) AS p
                ON p.trace_id = v.trace_id AND p.digest = v.digest
            GROUP BY tenant, trace_id, span_id
        ) AS w
        WHERE w.tenant = s.tenant AND w.trace_id = s.trace_id AND w.span_id = s.span_id
    ))"""


def searched_sql(text: str) -> str:
    """Return SQL for a stored text in which `splitByNonAlpha` finds the words that a page shows."""
    made = f"lowerUTF8({_decoded(text)})"
    for pattern, by in _BETWEEN_WORDS:
        made = f"replaceRegexpAll({made}, {quoted(pattern)}, {quoted(by)})"
    return made


def _decoded(text: str) -> str:
    """Return a text in which ``\\u00e9`` is the character that a page shows."""
    # the engine decodes no escapes of JSON, but those of XML
    made = f"replaceAll({text}, '&', '&amp;')"
    for more, one in _QUOTED_TWICE:
        made = f"replaceAll({made}, {quoted(more)}, {quoted(one)})"
    return f"decodeXMLComponent(replaceRegexpAll({made}, {quoted(_ESCAPED)}, {quoted(_AS_XML)}))"


def _has_words(text: str) -> str:
    """Return whether a stored text has all words of a search.

    Few texts have the letters of one, and only those are decoded. An index of `searched_sql` finds the others' granules.
    """
    letters = _LONGEST_WORD % "[0-9A-Za-z]+"  # of a word that has others too: they may be escaped
    return (
        f"positionCaseInsensitive({text}, {letters}) > 0"
        f" AND hasAllTokens({searched_sql(text)}, splitByNonAlpha({searched_sql(_WORDS)}))"
    )


def _snippet(text: str) -> str:
    """Return what is around the words of a search in a text, or around the longest if they are apart: 200 characters."""
    shown = _decoded(text)
    longest = _LONGEST_WORD % r"[0-9A-Za-z\\x{80}-\\x{10ffff}]+"
    at = f"ifNull(nullIf(positionCaseInsensitiveUTF8(shown, {_WORDS}), 0), positionCaseInsensitiveUTF8(shown, {longest}))"
    return f"arrayMap(shown -> substringUTF8(shown, greatest(1, toInt64({at}) - 60), 200), [{shown}])[1]"


def checksum(sql: str) -> str:
    """Return the SHA-256 of a migration's text, hex."""
    return hashlib.sha256(sql.encode()).hexdigest()
