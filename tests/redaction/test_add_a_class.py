"""docs/extending/pii-class.md, followed literally."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import freezeframe_redaction
from freezeframe_redaction.classes import CLASSES

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending" / "pii-class.md"
_BLOCK = re.compile(
    r"^`(?P<file>\w+\.py)` in `(?P<folder>[^`\n]+)`:\n|^```(?P<kind>python|diff)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_LAWS = """
import json, sys
from test_redaction_laws import _hold
from freezeframe_redaction import load_policy
from freezeframe_redaction.classes import CLASSES
from freezeframe_redaction.detectors import ALL
from freezeframe_redaction.policy import parse_policy

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
    """Its code blocks, put into the two files that it names and into no other, make a class that is found, replaced and known."""
    source = Path(freezeframe_redaction.__file__).parent
    before = sorted(CLASSES)
    shutil.copytree(source, tmp_path / "collector" / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    touched = set[str]()
    path = ""
    for block in _BLOCK.finditer(PAGE.read_text("utf-8")):
        if block["file"]:
            path = f"{block['folder']}/{block['file']}"
            continue
        target = tmp_path / path
        touched.add(path)
        if block["kind"] == "python":
            assert not target.exists()
            target.write_text(block["code"], "utf-8")
        else:
            lines = block["code"].splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] == " ")
            text = target.read_text("utf-8")
            assert text.count(old) == 1, f"{path}: expected the lines of the page once:\n{old}"
            target.write_text(text.replace(old, "".join(line[1:] for line in lines)), "utf-8")
    assert len(touched) == 2
    paths = [tmp_path / "collector", ROOT / "tests" / "redaction", ROOT / "tests" / "support"]
    environment = {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-c", _LAWS, *before], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "held VIN 2\n", done.stderr
