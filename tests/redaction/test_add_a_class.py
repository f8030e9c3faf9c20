"""docs/extending/pii-class.md, followed literally."""

from __future__ import annotations

from pathlib import Path

import pytest
from followed_page import ROOT, copy_package, follow, run_with

import freezeframe_redaction
from freezeframe_redaction.policies.classes import CLASSES

pytestmark = pytest.mark.long

_LAWS = """
import json, sys
from test_redaction_laws import _hold
from freezeframe_redaction import load_policy
from freezeframe_redaction.policies.classes import CLASSES
from freezeframe_redaction.detectors import ALL
from freezeframe_redaction.policies.policy import parse_policy

(name,) = set(CLASSES) - set(sys.argv[1:])
assert name in load_policy("strict").classes and name not in load_policy("minimal").classes
assert name in parse_policy(f'name = "one"\\nversion = 1\\nclasses = ["{name}"]').classes
from freezeframe_redaction import Redactor, TenantKey
redactor = Redactor(load_policy(), TenantKey(id="test/1", secret=b"k" * 32))
(detector,) = [one for one in ALL if one.class_ == name]
for example in detector.examples:
    found = redactor.redact(example.text)
    assert [(one.class_, example.text[one.start : one.end]) for one in found.findings] == [(name, example.value)]
    assert redactor.redact(example.near_miss).value == example.near_miss
    _hold((example.text, [example.value]))
    for key in CLASSES[name].keys:
        keyed = redactor.redact({key: example.value, "n": 1}).value
        assert keyed[key] != example.value and len(keyed[key]) == len(example.value)
        assert redactor.redact(json.dumps({key: example.value})).surrogates == {keyed[key]: name}
        _hold((json.dumps([{key: example.value}, example.text]), [example.value]))
    assert redactor.redact(example.value).value == example.value, "nothing says what it is"
print("held", name, len(detector.examples))
"""


def test_the_page_on_adding_a_class_adds_one_that_keeps_the_laws(tmp_path: Path) -> None:
    """Its code blocks, put into the two files that it names and no other, make a class that is found, replaced and known."""
    copy_package(freezeframe_redaction, tmp_path)
    assert len(follow("pii-class.md", tmp_path)) == 2
    done = run_with([tmp_path / "collector", ROOT / "tests" / "redaction"], _LAWS, *sorted(CLASSES))
    assert done.stdout == "held VIN 2\n", done.stderr
