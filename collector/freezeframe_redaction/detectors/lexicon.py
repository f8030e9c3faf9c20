"""Word lists of the name detector, loaded once (`lexicon/README.md` says where they come from)."""

from __future__ import annotations

from importlib.resources import files


def _load(name: str) -> frozenset[str]:
    return frozenset((files("freezeframe_redaction") / "lexicon" / f"{name}.txt").read_text("utf-8").split())


GIVEN = _load("given_names")
SURNAMES = _load("surnames")
COMMON = _load("common_words")
"""Words of ordinary prose and of documentation; as a name they need context."""
NAMED_AFTER = frozenset((files("freezeframe_redaction") / "lexicon" / "named_after.txt").read_text("utf-8").splitlines())
"""Companies, products, places and methods of two words that are named after people."""
FAMOUS = frozenset((files("freezeframe_redaction") / "lexicon" / "famous.txt").read_text("utf-8").splitlines())
"""Full names of famous dead people, and of characters of fiction and myth."""
COUNTRIES = frozenset((files("freezeframe_redaction") / "lexicon" / "countries.txt").read_text("utf-8").splitlines())
"""Countries and territories, except those that are more often given names (Chad, Georgia, Jordan)."""


def _load_phrases() -> dict[str, tuple[str, ...]]:
    _, *blocks = (files("freezeframe_redaction") / "lexicon" / "phrases.txt").read_text("utf-8").strip().split("\n\n")
    named = (block.partition(":\n") for block in blocks)
    return {name: tuple(" ".join(one.split()) for one in listed.split("|")) for name, _, listed in named}


_PHRASES = _load_phrases()


def phrases(name: str) -> tuple[str, ...]:
    """Return a list of `lexicon/phrases.txt` by its name."""
    return _PHRASES[name]
