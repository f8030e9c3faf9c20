"""A JSON body as a tree: it folds, reads as texts do, stays small, and is the same JSON when it is copied."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.web.step_pages import json_tree, read_json

TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from('\n\t\\ "n'))
"""Without what would steer a page: that is shown as escapes."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
)


def text_of(tree: str) -> str:
    """Return what a browser has as the text of it."""
    return html.unescape(re.sub(r"<[^>]*>", "", tree))


def seen(tree: str) -> str:
    """Return what a reader sees of it, if all is unfolded."""
    return text_of(re.sub(r"<s>[^<]*</s>", "", tree).replace("<br>", "\n"))


@given(st.lists(VALUES, min_size=1) | st.dictionaries(TEXTS, VALUES, min_size=1))
def test_what_is_copied_is_the_value(value: Any) -> None:
    tree = json_tree(value, "?request=1")
    assert tree is not None
    assert json.loads(text_of(tree)) == value


def test_texts_are_unescaped_and_longer_values_folded_from_the_second_level_on() -> None:
    said = 'say "yes"\nor \\\\n <b>'
    value = {"messages": [{"role": "user", "content": said}, {"role": "user", "content": "word " * 300}], "seed": 7}
    tree = json_tree(value, "?request=1")
    assert tree is not None
    assert f'"content": "{said}"' in seen(tree)
    assert [*re.findall(r"<details( open)?>", tree)] == [" open", " open", "", ""][: tree.count("<details")]
    assert json.loads(text_of(tree)) == value


def test_what_is_too_long_for_the_page_is_a_link_to_it() -> None:
    """A hundred messages of 5 kB: a line for each, which leads to a page of it; short fields stay."""
    value = {"model": "gpt", "messages": [{"role": "user", "content": f"{number} " + "word " * 1000} for number in range(100)]}
    tree = json_tree(value, "?request=1")
    assert tree is not None and len(tree) < 64_000
    links = re.findall(r'href="\?request=1([^"]*)"', tree)
    assert len(links) == 100 and '"model": "gpt"' in seen(tree)
    for number, path in enumerate(links):
        assert str(number) in str(read_json(json.dumps(value), path))


def test_what_lies_deep_is_a_link_to_it() -> None:
    """Each level is written once: nine hundred around a long text would take seconds, and megabytes of spaces."""
    text = "[" * 900 + '"end"' + "]" * 900
    path, levels = "", 0
    while (value := read_json(text, path)) != "end":
        tree = json_tree(value, "?request=1", path)
        assert tree is not None and len(tree) < 64_000
        links = re.findall(r'href="\?request=1([^"]*)"', tree)
        if not links:
            break
        assert len(links[0]) > len(path)
        path, levels = links[0], levels + 1
    assert 20 < levels < 60 and '"end"' in seen(json_tree(value, "") or "")


@pytest.mark.parametrize("text", ["", "x", "[", "[" * 5000, '{"a": 1'])
def test_what_is_no_json_has_no_tree(text: str) -> None:
    assert read_json(text) is None


@pytest.mark.parametrize("path", ["/b", "/a/0", "/a/b", "/l/7", "/l/x", "a", "/a~1"])
def test_a_path_that_leads_nowhere_leads_to_nothing(path: str) -> None:
    assert read_json('{"a": 1, "l": [1]}', path) in (None, {"a": 1, "l": [1]})
