"""The surrogates in the texts of a run, marked with their class. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from markupsafe import Markup

from freezeframe_replay.web.markup import block
from freezeframe_schemas import genai
from freezeframe_schemas.span import SpanRecord

_RUN: Final = re.compile(r"[^\W_]+")
"""Letters and digits. A surrogate is looked for where its first ones are a word, so each text is read once for all of them."""


class Tint:
    """Marks what the spans of a run list as their surrogates, where it is not part of a longer word."""

    def __init__(self, spans: Iterable[SpanRecord]) -> None:
        self._classes: dict[str, str] = {}
        """What is left of a surrogate from its first letter or digit on, which is what is marked -> its class."""
        self._by_run: dict[str, list[str]] = defaultdict(list)
        found: dict[str, Any] = {}
        for listed in {span.text(genai.REDACTION_SURROGATES) or "" for span in spans}:
            found |= _read(listed)
        for text, class_ in found.items():
            if (run := _RUN.search(text)) and text[run.start() :] not in self._classes:
                self._classes[text[run.start() :]] = str(class_)
                self._by_run[run[0]].append(text[run.start() :])
        for texts in self._by_run.values():
            texts.sort(key=len, reverse=True)

    @property
    def facts(self) -> dict[str, str]:
        """Return how many different surrogates of each class there are, as a row of the run's environment."""
        counts = sorted(Counter(self._classes.values()).items())
        return {"surrogates": ", ".join(f"{number:,} {class_}" for class_, number in counts)} if counts else {}

    def __call__(self, text: str, limit: int | None = None) -> str:
        """Return what `block` does, with surrogates marked."""
        shown = block(text, limit)
        pieces: list[str] = []
        past = 0
        for run in _RUN.finditer(shown) if self._by_run else ():
            start = run.start()
            for known in self._by_run.get(run[0], ()) if start >= past else ():
                end = start + len(known)
                if shown.startswith(known, start) and not shown[end : end + 1].isalnum():
                    class_ = self._classes[known]
                    pieces += shown[past:start], Markup('<i title="surrogate: {}">{}</i>').format(class_, known)
                    past = end
                    break
        return Markup("").join([*pieces, shown[past:]]) if pieces else shown


def _read(listed: str) -> Mapping[str, Any]:
    """Return a span's list; an empty one if another sender wrote something else there."""
    try:
        found: Any = json.loads(listed)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
