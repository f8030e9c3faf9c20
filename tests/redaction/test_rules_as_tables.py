"""What code and tables of rules say of one another."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

from freezeframe_redaction import detectors, load_policy
from freezeframe_redaction.scanner import Scanner

_NAMED = re.compile(r"\b(?:_FORMS|(_[A-Z]+)\.forms)\.([a-z][a-z0-9_]*)\b")


def test_each_pattern_that_code_names_is_in_its_table() -> None:
    """Patterns are compiled when they are first used; a wrong name would show only then."""
    named: list[str] = []
    for found in pkgutil.walk_packages(detectors.__path__, "freezeframe_redaction.detectors."):
        module = importlib.import_module(found.name)
        source = Path(module.__file__ or "").read_text("utf-8")
        for rules, name in _NAMED.findall(source):
            held = getattr(module, rules).forms if rules else vars(module)["_FORMS"]
            assert isinstance(getattr(held, name), re.Pattern), f"{found.name}: {name}"
            named.append(name)
    assert len(named) > 100


def test_an_example_is_found_alike_alone_and_behind_other_texts() -> None:
    """All texts of a span are scanned as one: a pattern must not take the beginning of a text for that of the scan."""
    scanner = Scanner(load_policy(), {})
    leaves = [(example.text, "") for detector in detectors.ALL for example in detector.examples]
    together = scanner.scan([("", ""), *leaves])
    for index, leaf in enumerate(leaves, 1):
        alone = scanner.scan([leaf]).get(0)
        assert (alone and alone[1]) == (together[index][1] if index in together else None), leaf
