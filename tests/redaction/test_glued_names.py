"""A known name that runs into other words is replaced; what programs call a thing by it stays."""

from __future__ import annotations

import pytest
from bare_spans import bare_span

from freezeframe_redaction import Cast, Redactor, TenantKey, load_policy
from freezeframe_schemas.span import SpanRecord

REDACTOR = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
TELLS = "Her name is Maria Keller, and his name is Jürgen Müller. My name is Rosa O'Brien."


def _span(text: str, at: int = 1) -> SpanRecord:
    return bare_span({"app.text": text}, span_id=f"{at:016x}", start_time_unix_nano=at, end_time_unix_nano=at)


def _in_run(text: str) -> tuple[str, str]:
    """Return what becomes of a text after the names were told, and of one that was stored before."""
    early = REDACTOR.redact_span(_span(text, 2))
    _, cast = REDACTOR.redact_in_run(_span(TELLS), Cast())
    later, grown = REDACTOR.redact_in_run(_span(text, 3), cast)
    return str(later.attributes["app.text"]), str(REDACTOR.rewrite(early, grown).attributes["app.text"])


GLUED = (
    ("{Keller}Traceback (most recent call last):", ["Keller"]),
    ("closed by {Keller}2024-01-03 12:00 INFO", ["Keller"]),
    ("DOCTOR: {Keller}PATIENT: none", ["Keller"]),
    ("{Keller}I will look at it", ["Keller"]),
    ("last modified by{Keller} on Friday", ["Keller"]),
    ("Reporter{Maria} {Keller}Assignee: nobody", ["Maria", "Keller"]),
    ("The reviewer was Dear{Maria}{Keller}Thanks a lot", ["Maria", "Keller"]),
    ("{Jürgen} {Müller}Gesendet: Montag", ["Müller"]),
    ("{O'Brien}Reply above this line", ["Brien"]),
    ("Hello\\n{Keller}\\tagain", ["Keller"]),
)


@pytest.mark.parametrize(("text", "names"), GLUED)
def test_a_known_name_that_runs_into_other_words_is_replaced_and_they_stay(text: str, names: list[str]) -> None:
    around = [part for piece in text.split("{") for part in [piece.rpartition("}")[2]] if part.strip()]
    for made in _in_run(text.replace("{", "").replace("}", "")):
        assert not [name for name in names if name in made]
        assert [part for part in around if part not in made] == []


@pytest.mark.parametrize(
    "text",
    [
        "fmt = KellerFormatter(width=80)\nKellerFormatter is slow",
        "class KellerFormatter:\n    pass",
        "import { KellerGraph } from './KellerGraph'",
        "see `KellerGraph` and acme.KellerService",
        "KellerRate = 3",
        "pages/KellerGuide.html",
        "KellerService",
        "Kellerman and Kellerwood",
        "iVBORw0KGgoAAAANSUhEUgAAKellerAAAQCYAAAB49eSPAAAA",
        "sha512-AbKellerXy09zQ+Kellerzz/KellerQQ==",
    ],
)
def test_a_word_of_code_or_of_data_that_holds_a_known_name_stays(text: str) -> None:
    assert _in_run(text) == (text, text)
