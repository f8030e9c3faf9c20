"""Known surrogates: the list that a redacted span carries, and the search for them in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import orjson

from freezeframe_schemas import genai
from freezeframe_schemas.errors import WireError
from freezeframe_schemas.span import SpanRecord

_RUN: Final = re.compile(r"[^\W_]+")


class Known:
    """Finds texts that are whole words: no letter or digit before or after them.

    In time linear in the text, regardless of the number and starts of known ones.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Texts without a letter or digit are never found."""
        self._texts = frozenset(texts)
        by_run: dict[str, set[tuple[int, int]]] = {}
        for text in self._texts:
            run = _RUN.search(text)
            if run is not None:
                by_run.setdefault(run.group(), set()).add((run.start(), len(text)))
        self._by_run = {run: tuple(sorted(places, reverse=True)) for run, places in by_run.items()}
        """First run of letters and digits -> the text before it and the whole length: leftmost, longest first."""

    def spans(self, text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield where known texts are in ``text[low:high]``, in order, without overlap."""
        past = low
        for run in _RUN.finditer(text, low, high) if self._by_run else ():
            for before, length in self._by_run.get(run.group(), ()):
                start = run.start() - before
                end = start + length
                if start < past or end > high or text[start:end] not in self._texts:
                    continue
                if not text[start - 1 : start].isalnum() and (end == high or not text[end].isalnum()):
                    yield start, end
                    past = end
                    break


def surrogates_of(spans: Iterable[SpanRecord]) -> dict[str, str]:
    """Return every surrogate that the spans list, with its class.

    Raises:
        WireError: a span's list is not a JSON object.
    """
    found: dict[str, str] = {}
    for span in spans:
        listed = span.text(genai.REDACTION_SURROGATES)
        if not listed:
            continue
        try:
            held: object = orjson.loads(listed)
        except orjson.JSONDecodeError:
            held = None
        if not isinstance(held, dict):
            raise WireError(f"span {span.span_id}: {genai.REDACTION_SURROGATES}: expected a JSON object")
        found.update({str(name): str(class_) for name, class_ in cast("Mapping[object, object]", held).items()})
    return found
